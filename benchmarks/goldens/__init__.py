"""Goldens: what Plait answers today, recorded, so that a refactoring can be shown to change nothing.

    python -m benchmarks.goldens record DIR [--checkout PATH] [--only PART …] [--commit]
    python -m benchmarks.goldens compare [DIR] [--checkout PATH] [--only PART …] [--into DIR]
    python -m benchmarks.goldens speed [--checkout PATH] [--against PATH] [--rounds N]

`graphs` dumps the call graphs of ten repositories, `ranking` has the hits and the contexts of searches and
recalls over code, `memory` those over runs and memories, `session` the answers of every RPC and the output of
commands. Each part is asked of a server of its own in a fresh home, over gRPC by reflection and by the command
line: nothing here depends on how the code under test is arranged. `--checkout` names the checkout whose
`.venv/bin/plait` is asked; the default is the one beside the interpreter that runs this.

`digests.json` beside this file has a digest of each case, as `record --commit` wrote it; `compare` without DIR
says which cases differ from those, and with the DIR of an earlier `record` it shows the lines.
"""
