"""The port every extractor satisfies: source bytes in, `FileFacts` out."""

from __future__ import annotations

from typing import Protocol

from etl.facts import FileFacts


class Extractor(Protocol):
    """Finds the facts of one file of one language. One instance serves one process, file after file.

    Each module of this package that serves a language exports `extractor(language: str) -> Extractor`;
    `etl.languages.extractor` imports it on first use, so a grammar nobody needs is never loaded.
    """

    @property
    def language(self) -> str:
        """The language id of the facts it writes, see `etl.languages.language_of`."""
        ...

    def extract(self, source: bytes, path: str, module: str) -> FileFacts:
        """The facts of `source`, whatever its bytes: never raises, sets `has_error` instead.

        `path` is relative to the repository's root, `module` as `names.module_name` gives it. Lines and
        bytes are those of `source`. Nesting of any depth is walked without recursion.
        """
        ...
