"""Start a background process: `python -P boot.py MODULE:FUNCTION FOLDER FD`, its configuration on stdin.

It runs `function(folder, configuration, fd)`, and ends with what that returns. Run by path, with the
working folder and its own off `sys.path` (`-P`): a repository that holds a `plait/` or a `vector/` of its
own is never imported from.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path


def main() -> int:
    entry, folder, fd = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    config = json.load(sys.stdin)
    # The first process ends at once, so that the second is orphaned and leaves no zombie.
    if os.fork() > 0:
        os._exit(0)
    _use_same_plait(config["packages"])
    module, _, function = entry.partition(":")
    code: int = getattr(importlib.import_module(module), function)(folder, config, fd)
    return code


def _use_same_plait(packages: str) -> None:
    """Have `import plait` find the installation this file is part of, installed, editable or not, and
    its dependencies where our starter found them."""
    here = Path(__file__).resolve().parents[1]
    found = importlib.util.find_spec("plait")
    if found is None or found.origin is None or Path(found.origin).resolve().parent != here:
        sys.path.insert(0, str(here.parent))
    if packages and importlib.util.find_spec("psutil") is None:
        sys.path.append(packages)


if __name__ == "__main__":
    sys.exit(main())
