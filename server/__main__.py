"""`python -m server`, the same as `plait serve`."""

from __future__ import annotations

import sys

from server.commands.serve import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m server"))
