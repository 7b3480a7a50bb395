"""Which folders `plait install` made, so that `uninstall` removes those, when empty, and no others.

It is all that can't be seen in the clients' files themselves: without this record only empty folders stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from plait.supervisor.home import make_home
from server.install import files

NAME = "install.json"


def folders(home: Path) -> list[Path]:
    """The folders that are on record; none where there is no record, or one that can't be read."""
    try:
        found = json.loads((home / NAME).read_text(encoding="utf-8"))["folders"]
        return [Path(path) for path in found if isinstance(path, str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def keep(home: Path, made: Iterable[Path]) -> None:
    """Write the record anew, with the folders that it needs itself; without others it goes, and they too.

    Raises: OSError.
    """
    paths, file = set(made), home / NAME
    own = {folder for folder in paths if home.is_relative_to(folder)}
    if paths == own:
        file.unlink(missing_ok=True)
        files.remove_empty(list(own))
        return
    paths.update(folder for folder in (home, *home.parents) if not folder.exists())
    make_home(home)
    draft = file.with_suffix(".new")
    text = json.dumps({"folders": sorted(map(str, paths))}, indent=2) + "\n"
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)
