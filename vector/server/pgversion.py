"""Which pgvector a PostgreSQL installation has."""

from __future__ import annotations

import re
from pathlib import Path


def pgvector_version(root: Path) -> str:
    """The version of pgvector among the programs in `root`; "" when it has none."""
    try:
        control = (root / "share" / "extension" / "vector.control").read_text()
    except OSError:
        return ""
    found = re.search(r"default_version\s*=\s*'([^']+)'", control)
    return found.group(1) if found else ""
