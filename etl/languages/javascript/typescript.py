"""TypeScript and TSX: the extractor of `etl.languages.javascript.extract` with their grammars."""

from __future__ import annotations

import tree_sitter_typescript
from tree_sitter import Language

from etl.languages.javascript.extract import Script


def extractor(language: str) -> Script:
    """`language` is "typescript" or "tsx": only the latter has JSX, and no `<T>x` casts."""
    grammar = (
        tree_sitter_typescript.language_tsx()
        if language == "tsx"
        else tree_sitter_typescript.language_typescript()
    )
    return Script(language, Language(grammar))
