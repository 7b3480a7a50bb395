"""`plait version`."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence

import plait


def main(argv: Sequence[str], prog: str = "plait version") -> int:
    parser = argparse.ArgumentParser(prog=prog, description="Print the version.")
    parser.add_argument("--json", action="store_true", help="print it as one JSON object")
    if parser.parse_args(argv).json:
        print(json.dumps({"plait": plait.__version__, "python": platform.python_version()}))
    else:
        print(f"plait {plait.__version__}")
    return 0
