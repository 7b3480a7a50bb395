"""Make the static table that the wheel ships, or one of your own.

    pip install scipy
    python -m benchmarks.static_table FOLDER [--out plait/models/embedding/weights/static_code]

FOLDER takes the packages of `packages.txt` (500 MB) and what is made of them. Ten minutes on two cores. The seed is
fixed, so a second run on the same machine starts from the same numbers; other builds of numpy and onnxruntime round
differently. The shipped table is met approximately, not bit for bit: some of the vectors that it began with had been
kept as float16 in between.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.static_table import pairs, train
from plait.models.embedding import static


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="packages and pairs")
    parser.add_argument("--out", type=Path, default=static.FOLDER, help="where the table goes")
    args = parser.parse_args()
    mined = args.folder / "pairs.npz"
    if not mined.is_file():
        pairs.mine(args.folder, mined)
    train.main(mined, args.out)


if __name__ == "__main__":
    main()
