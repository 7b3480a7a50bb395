"""Generate plait/v1 from proto/plait/v1, or say whether what is committed is current.

    python proto/generate.py            # write plait/v1
    python proto/generate.py --check    # exit 1 and name the files that differ

Needs grpcio-tools and mypy-protobuf in the versions that pyproject.toml pins: other versions write
other code, and stubs of grpcio-tools ≥ 1.82 would not load on protobuf 6.
"""

from __future__ import annotations

import argparse
import filecmp
import shutil
import sys
import tempfile
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = Path("plait", "v1")
GENERATED = ("*_pb2.py", "*_pb2_grpc.py", "*_pb2.pyi", "*_pb2_grpc.pyi")


def generate(out: Path) -> None:
    """Run protoc for every .proto of the package; `out` becomes the root of the import path."""
    from grpc_tools import protoc

    sources = sorted(str(p.relative_to(HERE)) for p in (HERE / PACKAGE).glob("*.proto"))
    plugin = Path(sys.executable).with_name("protoc-gen-mypy")
    arguments = [
        "protoc",
        f"-I{HERE}",
        f"-I{files('grpc_tools') / '_proto'}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--plugin=protoc-gen-mypy={plugin}",
        f"--plugin=protoc-gen-mypy_grpc={plugin.with_name('protoc-gen-mypy_grpc')}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
        *sources,
    ]
    if protoc.main(arguments) != 0:
        sys.exit("protoc failed; its messages are above")


def names(folder: Path) -> set[str]:
    return {p.name for pattern in GENERATED for p in folder.glob(pattern)}


def differing(fresh: Path, committed: Path) -> list[str]:
    """Names of generated files that are missing, stale or left over in `committed`."""
    wanted, present = names(fresh), names(committed)
    changed = {
        name
        for name in wanted & present
        if not filecmp.cmp(fresh / name, committed / name, shallow=False)
    }
    return sorted(changed | (wanted ^ present))


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate plait/v1 from proto/.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 on a difference")
    options = parser.parse_args()
    committed = HERE.parent / PACKAGE
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / PACKAGE).mkdir(parents=True)
        generate(Path(folder))
        fresh = Path(folder) / PACKAGE
        stale = differing(fresh, committed)
        if options.check:
            tools = (
                f"grpcio-tools {version('grpcio-tools')}, mypy-protobuf {version('mypy-protobuf')}"
            )
            for name in stale:
                print(f"{PACKAGE / name} is not what {tools} make of proto/", file=sys.stderr)
            return 1 if stale else 0
        for name in names(committed) - names(fresh):
            (committed / name).unlink()
        for name in names(fresh):
            shutil.copyfile(fresh / name, committed / name)
        print(f"{PACKAGE}: {len(names(fresh))} files, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
