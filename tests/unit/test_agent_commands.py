"""Which commands run tests, what their output says, and what is kept of long output."""

from __future__ import annotations

import pytest

from etl.ingest.importers.test_runs.commands import read, runner
from etl.ingest.importers.trim import trim


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest -q", "pytest"),
        ("cd x && python -m pytest tests/a.py -k b", "pytest"),
        ("FOO=1 BAR='a b' uv run --frozen pytest", "pytest"),
        ("timeout -k 5 60 python3.12 -m pytest -x 2>&1 | tail -5", "pytest"),
        ("docker compose exec -T web pytest -q", "pytest"),
        ("bash -lc 'cd a && pytest'", "pytest"),
        (".venv/bin/python -m unittest -v", "unittest"),
        ("./manage.py test app", "unittest"),
        ("python tests/runtests.py defer", "unittest"),
        ("go test ./...", "go"),
        ("cargo test --all", "cargo"),
        ("mvn -q -Dtest=ATest test", "maven"),
        ("./gradlew :app:test --info", "gradle"),
        ("npx jest a", "jest"),
        ("npm run test:unit -- x", "jest"),
        ("pnpm vitest run && vitest", "vitest"),
        ("make check", "other"),
        ("pytest --version", ""),
        ("pytest --collect-only", ""),
        ("cat pytest.ini", ""),
        ("pip install pytest", ""),
        ("git commit -m 'run; pytest -q'", ""),
        ('grep -rn "a|pytest b" .', ""),
        ("cat > run.sh <<'EOF'\npytest -q\nEOF\nchmod +x run.sh", ""),
        ("", ""),
        ("a" * 100_000, ""),
        ("timeout " * 20_000, ""),
    ],
)
def test_a_command_that_runs_tests_is_known(command: str, expected: str) -> None:
    assert runner(command) == expected


JEST = """PASS src/a.test.js
  math
    ✓ adds (3 ms)
    nested
      ✕ subs (1 ms)
  ○ skipped later

Tests:       1 failed, 1 skipped, 1 passed, 3 total
"""
VITEST = """ ✓ src/a.test.ts (2 tests) 3ms
   ✓ math > adds 1ms
   × math > subs 2ms

 Tests  1 failed | 1 passed (2)
"""
MAVEN = """[INFO] Running com.a.BTest
[ERROR] com.a.BTest.testBad -- Time elapsed: 0.01 s <<< FAILURE!
[ERROR] Tests run: 5, Failures: 1, Errors: 1, Skipped: 1
"""
CARGO = """running 2 tests
test tests::adds ... ok
test tests::subs ... FAILED

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
UNITTEST = (
    "test_a (m.T) ... ok\ntest_b (m.T) ... FAIL\n\nRan 2 tests in 0.001s\n\nFAILED (failures=1)\n"
)


@pytest.mark.parametrize(
    ("name", "output", "names", "counts"),
    [
        (
            "jest",
            JEST,
            [
                "src/a.test.js > math > adds",
                "src/a.test.js > math > nested > subs",
                "src/a.test.js > skipped later",
            ],
            {"failed": 1, "skipped": 1, "passed": 1},
        ),
        (
            "vitest",
            VITEST,
            ["src/a.test.ts > math > adds", "src/a.test.ts > math > subs"],
            {"failed": 1, "passed": 1},
        ),
        (
            "maven",
            MAVEN,
            ["com.a.BTest.testBad"],
            {"passed": 2, "failed": 1, "error": 1, "skipped": 1},
        ),
        ("cargo", CARGO, ["tests::adds", "tests::subs"], {"passed": 1, "failed": 1}),
        ("unittest", UNITTEST, ["test_a (m.T)", "test_b (m.T)"], {"passed": 1, "failed": 1}),
        ("pytest", "....\n4 passed, 1 xfailed in 0.1s\n", [], {"passed": 4, "skipped": 1}),
        ("pytest", "= 1 failed, 2 errors in 3.2s (0:00:03) =", [], {"failed": 1, "error": 2}),
        (
            "go",
            "--- FAIL: TestA (0.01s)\n--- PASS: TestB (0.00s)\nFAIL\n",
            ["TestA", "TestB"],
            {"failed": 1, "passed": 1},
        ),
        ("pytest", "bash: pytest: command not found", [], {}),
        ("jest", "✓ " * 50_000, [], {}),
    ],
    ids=[
        "jest",
        "vitest",
        "maven",
        "cargo",
        "unittest",
        "quiet",
        "errors",
        "go",
        "none",
        "hostile",
    ],
)
def test_results_are_read_from_output(
    name: str, output: str, names: list[str], counts: dict[str, int]
) -> None:
    found = read(name, output)
    assert [run.reported for run in found.runs] == names
    assert found.counts == counts


def test_long_output_keeps_its_ends_and_its_errors() -> None:
    lines = [f"line {i}" for i in range(1_000)]
    lines[500] = "TypeError: it broke"
    short = trim("\n".join(lines))
    assert short.text.startswith("line 0\n")
    assert short.text.endswith("line 999")
    assert "TypeError: it broke" in short.text
    assert short.cut == 1_000 - len([x for x in short.text.split("\n") if "cut …" not in x])


def test_colours_rewritten_lines_and_control_characters_go() -> None:
    text = "\x1b[31mred\x1b[0m\n10%\r50%\r100%\nbell\x07 \x00nul \ud800half\r\n"
    assert trim(text).text == "red\n100%\nbell nul \ufffdhalf"
