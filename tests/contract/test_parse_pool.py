"""Parse workers: real processes, real hostile files. A bad file costs only itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest

from etl import facts as facts_codec
from etl.languages import is_code, language_of
from etl.languages.names import is_test_path, module_name
from etl.parsing.pool import Job, ParsedBatch, ParsePool, batches, hash_files
from etl.parsing.segment import SegmentBuilder
from etl.source.files import content_hash
from plait.domain.errors import ParseWorkerFailed
from plait.ports import Segment
from plait.secrets.rules import BUILT_IN
from plait.text.tokenize import tokens
from tests.processes import LIMIT_S, cpu_s, wait_until

RULES = BUILT_IN.digest()
# Takes an extractor seconds: 990 kB of callbacks on one line, with too many blanks for a minifier.
ENDLESS = b"x=>{y(z) };" * 90_000
# Takes it several hundred megabytes.
HUNGRY = b"x = [" + b"a, " * 330_000 + b"]\n"


def job(root: Path, path: str) -> Job:
    language = language_of(path)
    module = module_name(path, language) if is_code(language) else ""
    size = (root / path).stat().st_size if (root / path).is_file() else 0
    return Job(path, language, module, is_test_path(path, language), size)


def write(root: Path, files: dict[str, bytes]) -> list[Job]:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return [job(root, name) for name in files]


def run(
    root: Path, jobs: list[Job], *, timeout_s: float = 60.0, memory_bytes: int = 2 * 2**30
) -> list[ParsedBatch]:
    with ParsePool(root, workers=2, timeout_s=timeout_s, memory_bytes=memory_bytes) as pool:
        return list(pool.run(jobs))


def paths(done: list[ParsedBatch]) -> list[str]:
    return sorted(row.path for batch in done for row in batch.files)


def skips(done: list[ParsedBatch]) -> dict[str, str]:
    return {path: cause for batch in done for path, cause in batch.skipped}


MANY = {f"pkg/m{i}.py": f"def f{i}(a):\n    return g{i}(a)\n".encode() for i in range(450)}


def test_files_become_rows_chunks_facts_and_words(tmp_path: Path) -> None:
    source = b"import os\n\n\ndef getName(user):\n    return os.path.join(user)"
    jobs = write(tmp_path, {"pkg/a.py": source, "README.md": b"# Hi\n\nwords\n", "e.py": b""})
    (batch,) = run(tmp_path, jobs)
    rows = {row.path: row for row in batch.files}
    row = rows["pkg/a.py"]
    assert (row.size_bytes, row.lines, row.language, row.is_test) == (
        len(source),
        5,
        "python",
        False,
    )
    assert row.content_hash == content_hash(source, RULES).digest()
    facts = facts_codec.decode(row.facts)
    assert [d.qualname for d in facts.definitions] == ["", "getName"]
    assert rows["README.md"].facts == b""
    assert (rows["e.py"].lines, rows["e.py"].size_bytes) == (0, 0)
    assert [(c.path, c.symbol, c.kind) for c in batch.chunks] == [
        ("pkg/a.py", "pkg.a", "module"),
        ("pkg/a.py", "pkg.a.getName", "function"),
        ("README.md", "", "doc"),
    ]
    ids = [c.id for c in batch.chunks]
    assert ids == sorted(set(ids))
    assert (batch.symbols, batch.syntax_errors, batch.skipped, batch.unparsed) == (1, 0, [], [])


def postings(segment: Segment) -> dict[str, dict[int, int]]:
    """`{term: {document: frequency}}`, checked for order."""
    out = {}
    for term, docs, tfs in zip(segment.terms, segment.docs, segment.tfs, strict=True):
        numbers = np.frombuffer(docs, dtype="<i4").tolist()
        assert numbers == sorted(set(numbers))
        assert len(numbers) == len(tfs)
        out[term] = dict(zip(numbers, tfs, strict=True))
    assert list(segment.terms) == sorted(out)
    return out


def test_the_segment_counts_the_words_of_every_chunk(tmp_path: Path) -> None:
    files = {
        "src/my_pkg/userStore.py": b"class UserStore:\n    def get_user(self):\n        return user\n",
        "docs/caf\xc3\xa9.md".encode().decode("latin-1"): "Grüße, Grüße 日本語\n".encode(),
        "many.txt": b"at " * 300,
        **MANY,
    }
    jobs = write(tmp_path, files)
    done = run(tmp_path, jobs)
    builder = SegmentBuilder()
    for batch in done:
        builder.add([chunk.id for chunk in batch.chunks], batch.index)
    segment = builder.build()
    assert segment is not None
    chunks = {chunk.id: chunk for batch in done for chunk in batch.chunks}
    assert set(segment.ids) == set(chunks)
    modules = {j.path: j.module for j in jobs}
    found = postings(segment)
    for number, id_ in enumerate(segment.ids):
        chunk = chunks[id_]
        name = chunk.symbol[len(modules[chunk.path]) + 1 :]
        expected = tokens(chunk.path) + tokens(chunk.content) + 2 * tokens(name)
        assert segment.lengths[number] == len(expected)
        for term in set(expected):
            assert found[term][number] == min(255, expected.count(term)), term
    assert sum(map(len, found.values())) == sum(
        len({*tokens(c.path), *tokens(c.content), *tokens(c.symbol[len(modules[c.path]) + 1 :])})
        for c in chunks.values()
    )
    assert found["at"] == {next(iter(found["at"])): 255}


def test_two_runs_give_equal_chunks_and_facts(tmp_path: Path) -> None:
    jobs = write(tmp_path, MANY)
    one, two = run(tmp_path, jobs), run(tmp_path, jobs)
    assert sorted(c.content_hash for b in one for c in b.chunks) == sorted(
        c.content_hash for b in two for c in b.chunks
    )
    assert {r.path: r.facts for b in one for r in b.files} == {
        r.path: r.facts for b in two for r in b.files
    }


def test_a_file_that_takes_too_long_loses_only_itself(tmp_path: Path) -> None:
    jobs = write(tmp_path, {"a.py": b"def a(): pass\n", "endless.js": ENDLESS, **MANY})
    done = run(tmp_path, jobs, timeout_s=0.7)
    assert skips(done) == {"endless.js": "parse timeout"}
    assert paths(done) == sorted(["a.py", *MANY])


def test_a_file_that_takes_too_much_memory_loses_only_itself(tmp_path: Path) -> None:
    jobs = write(tmp_path, {"a.py": b"def a(): pass\n", "hungry.py": HUNGRY, **MANY})
    done = run(tmp_path, jobs, memory_bytes=200 * 2**20)
    assert skips(done).keys() == {"hungry.py"}
    assert skips(done)["hungry.py"].startswith("parser")
    assert paths(done) == sorted(["a.py", *MANY])


def test_a_file_that_only_its_grammar_takes_too_long_for_is_text(tmp_path: Path) -> None:
    files = {"a.cs": b"class A { void M() { } }\n", "slow.cs": b"a<b<c<" * 150_000}
    done = run(tmp_path, write(tmp_path, files), timeout_s=0.7)
    assert skips(done) == {}
    assert [lost for batch in done for lost in batch.unparsed] == [("slow.cs", "parse timeout")]
    assert paths(done) == ["a.cs", "slow.cs"]
    assert {c.symbol for batch in done for c in batch.chunks if c.path == "slow.cs"} == {""}


def test_a_killed_worker_is_told_and_replaced(tmp_path: Path) -> None:
    # Four times as long as it takes others: it must be at work still when we come to kill it.
    jobs = write(tmp_path, {"endless.js": ENDLESS * 4, "b.py": b"def b(): pass\n"})
    with ParsePool(tmp_path, workers=1, timeout_s=60, max_file_bytes=10**7) as pool:

        def kill_at_work() -> None:
            # Long after it was loaded, and long before it is through with the first file.
            wait_until(lambda: any(cpu_s(pid) > 0.5 for pid in workers()))
            os.kill(workers()[0], signal.SIGKILL)

        killer = threading.Thread(target=kill_at_work)
        killer.start()
        done = list(pool.run(jobs))
        killer.join()
    assert skips(done) == {"endless.js": "parser crashed (SIGKILL)"}
    assert paths(done) == ["b.py"]


def workers() -> list[int]:
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it ended between two looks
            if any("etl.parsing.worker" in word for word in child.cmdline()):
                found.append(child.pid)
    return found


def test_hostile_files_are_read_or_skipped_with_a_cause(tmp_path: Path) -> None:
    jobs = write(
        tmp_path,
        {
            "latin.py": b"# caf\xe9\ndef latin():\n    return 1\n",
            "deep.py": b"x = " + b"(" * 5000 + b"1" + b")" * 5000 + b"\n",
            "deep.js": b"f(" * 5000 + b")" * 5000,
            "broken.py": b"def ok():\n    return 1\n\ndef broken(:\n    pass\n",
            "blob.py": b"a\0b",
            "nul.py": b"x = 1\n" * 2000 + b"y = '\0'\n",
            "big.py": b"x = 1\n" * 200_000,
            "line.txt": b"word " * 190_000,
            "cr.py": b"def a():\r    pass\r",
        },
    )
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    (tmp_path / "folder.py").mkdir()
    jobs += [job(tmp_path, name) for name in ("pipe.py", "link.py", "folder.py", "gone.py")]
    done = run(tmp_path, jobs)
    assert skips(done) == {
        "big.py": "too large",
        "blob.py": "binary",
        "folder.py": "not a regular file",
        "gone.py": "removed while indexing",
        "link.py": "unreadable",
        "pipe.py": "not a regular file",
    }
    assert paths(done) == sorted(
        ["broken.py", "cr.py", "deep.js", "deep.py", "latin.py", "line.txt", "nul.py"]
    )
    assert [b for batch in done for b in batch.unparsed] == []
    assert sum(batch.syntax_errors for batch in done) >= 1
    contents = [chunk.content for batch in done for chunk in batch.chunks]
    assert not any("\0" in content for content in contents)


def test_leaving_the_pool_ends_its_workers_while_they_work(tmp_path: Path) -> None:
    jobs = write(tmp_path, {f"endless{i}.js": ENDLESS for i in range(4)})
    ended = threading.Event()
    with ParsePool(tmp_path, workers=2, timeout_s=60) as pool:
        batches_ = pool.run(jobs)

        def drain() -> None:
            for _ in batches_:
                pass
            ended.set()

        thread = threading.Thread(target=drain)
        thread.start()
        wait_until(lambda: len(workers()) == 2)
    assert ended.wait(LIMIT_S)
    thread.join()
    assert workers() == []
    pool.close()  # again is fine


def test_a_caller_that_stops_listening_leaves_nothing_behind(tmp_path: Path) -> None:
    jobs = write(tmp_path, {f"d{i}/{name}": data for i in range(12) for name, data in MANY.items()})
    with ParsePool(tmp_path, workers=2) as pool:
        next(pool.run(jobs))
    assert workers() == []


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_in_silence_when_the_indexer_does(tmp_path: Path, sign: signal.Signals) -> None:
    # Enough that both workers are at it whenever we look.
    write(tmp_path, {f"endless{i}.js": ENDLESS for i in range(12)})
    code = (
        "import sys; from pathlib import Path; from etl.parsing.pool import Job, ParsePool\n"
        "with ParsePool(Path(sys.argv[1]), workers=2, timeout_s=60) as pool:\n"
        "    run = pool.run([Job(f'endless{i}.js', 'javascript', 'm', False, 10**6) for i in range(12)])\n"
        "    print('go', flush=True)\n"
        "    try: list(run)\n"
        "    except KeyboardInterrupt: sys.exit(130)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    parent = psutil.Process(process.pid)
    wait_until(lambda: len(parent.children()) == 2)
    children = parent.children()
    process.send_signal(sign)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert errors == ""
    assert process.returncode == (130 if sign == signal.SIGINT else -signal.SIGKILL)
    _, alive = psutil.wait_procs(children, timeout=LIMIT_S)  # at most one batch longer
    assert alive == []


def test_a_worker_that_cannot_start_is_an_error_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = write(tmp_path, {"a.py": b"x = 1\n"})
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ParseWorkerFailed, match=r"did not start .*Error"):
        run(tmp_path, jobs)


def test_an_empty_run_starts_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, []) == []
    assert SegmentBuilder().build() is None


def test_batches_keep_the_order_and_are_bounded() -> None:
    jobs = [
        Job(str(i), "text", "", False, size) for i, size in enumerate([10**6, 1, *[5000] * 900])
    ]
    cut = list(batches(jobs))
    assert [job for batch in cut for job in batch] == jobs
    assert len(cut[0]) == 1
    assert max(map(len, cut)) <= 200


def test_hashes_tell_what_changed(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": b"one", "b.py": b"", "c.py": b"x" * 3_000_000})
    os.mkfifo(tmp_path / "pipe")
    hashes = hash_files(tmp_path, ["a.py", "b.py", "c.py", "pipe", "gone"], RULES)
    digest = {
        p: content_hash((tmp_path / p).read_bytes(), RULES).digest()
        for p in ("a.py", "b.py", "c.py")
    }
    assert hashes == digest
