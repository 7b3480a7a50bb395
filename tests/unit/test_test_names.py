"""Tests' names and results as tools write them, and which symbol of an index is meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.text.test_names import choose, parse_name
from plait.text.test_results import MAX_RESULTS, results

KNOWN = [
    ("tests.test_cart.test_total", "tests/test_cart.py"),
    ("tests.test_cart.TestMean.test_of_two", "tests/test_cart.py"),
    ("tests.unit.test_cart.test_total", "tests/unit/test_cart.py"),
    ("src.test.java.com.shop.CartTest.addsUp", "src/test/java/com/shop/CartTest.java"),
    ("shop.cart_test.TestParse", "shop/cart_test.go"),
    ("cart.tests.adds_up", "src/cart.rs"),
]
TOTAL, TWO, UNIT = KNOWN[0][0], KNOWN[1][0], KNOWN[2][0]

NAMES = [
    ("tests/test_cart.py::test_total", TOTAL),
    ("./tests/test_cart.py::test_total", TOTAL),
    ("tests/test_cart.py::test_total[1-a]", TOTAL),
    ("tests/test_cart.py::test_total[a::b/c.py]", TOTAL),
    ("tests/test_cart.py::TestMean::test_of_two", TWO),
    ("shop/tests/test_cart.py::TestMean::test_of_two", TWO),
    ("tests/unit/test_cart.py::test_total", UNIT),
    ("test_of_two (tests.test_cart.TestMean)", TWO),
    ("test_of_two (tests.test_cart.TestMean.test_of_two)", TWO),
    ("tests.test_cart.TestMean::test_of_two", TWO),
    ("tests.test_cart.TestMean.test_of_two", TWO),
    ("test_cart.TestMean.test_of_two", TWO),
    ("TestMean.test_of_two", TWO),
    ("com.shop.CartTest.addsUp", KNOWN[3][0]),
    ("com.shop.CartTest#addsUp", KNOWN[3][0]),
    ("com.shop.CartTest > addsUp()", KNOWN[3][0]),
    ("com.shop.CartTest.addsUp(int, String)[2]", KNOWN[3][0]),
    ("TestParse", KNOWN[4][0]),
    ("TestParse/empty_input", KNOWN[4][0]),
    ("TestParse/a.b/c#01", KNOWN[4][0]),
    ("cart::tests::adds_up", KNOWN[5][0]),
    # another file, another class, several, none
    ("tests/other.py::test_total", ""),
    ("tests/test_cart.py::TestOther::test_of_two", ""),
    ("tests.test_other.TestMean.test_of_two", ""),
    ("test_total", ""),
    ("test_cart.py::test_total", ""),
    ("test_missing", ""),
    ("adds two numbers", ""),
    ("", ""),
]


@pytest.mark.parametrize(("reported", "symbol"), NAMES, ids=[n for n, _ in NAMES])
def test_which_test_is_meant(reported: str, symbol: str) -> None:
    test = parse_name(reported)
    known = [(s, path) for s, path in KNOWN if s.rpartition(".")[2] == test.name]
    assert choose(test, known) == symbol


OUTPUTS = [
    (
        "tests/a.py::test_x PASSED   [ 50%]\ntests/a.py::T::test_y[a b] FAILED [100%]\n"
        "FAILED tests/a.py::T::test_y[a b] - assert 1 == 2\n1 failed, 1 passed in 0.1s",
        [("tests/a.py::test_x", "passed"), ("tests/a.py::T::test_y[a b]", "failed")],
    ),
    (
        "[gw0] [ 50%] PASSED tests/a.py::test_x\nERROR tests/a.py::test_z - boom",
        [("tests/a.py::test_x", "passed"), ("tests/a.py::test_z", "error")],
    ),
    (
        "test_a (m.C) ... ok\ntest_b (m.C.test_b) ... FAIL\ntest_c (m.C) ... skipped 'no'\n"
        "FAIL: test_b (m.C.test_b)",
        [("test_a (m.C)", "passed"), ("test_b (m.C.test_b)", "failed"), ("test_c (m.C)", "skipped")],
    ),
    (
        "=== RUN TestA\n--- PASS: TestA (0.25s)\n    --- FAIL: TestA/sub (0.00s)\n--- SKIP: TestB",
        [("TestA", "passed"), ("TestA/sub", "failed"), ("TestB", "skipped")],
    ),
    (
        "test m::tests::a ... ok\ntest m::tests::b ... FAILED\ntest c ... ignored",
        [("m::tests::a", "passed"), ("m::tests::b", "failed"), ("c", "skipped")],
    ),
    (
        "CartTest > addsUp() PASSED\n[ERROR] com.CartTest.subtracts:12 <<< FAILURE!",
        [("CartTest > addsUp()", "passed"), ("com.CartTest.subtracts", "failed")],
    ),
    (
        "1..3\nok 1 - adds up\nnot ok 2 - takes off\nok 3 later # SKIP none",
        [("adds up", "passed"), ("takes off", "failed"), ("later", "skipped")],
    ),
    ("\x1b[32mtests/a.py::test_x PASSED\x1b[0m", [("tests/a.py::test_x", "passed")]),
    ("412 passed in 3.1s", []),
    ("- the test passed\nok\nFAILED to connect to db::host", []),
]  # fmt: skip


@pytest.mark.parametrize(("output", "found"), OUTPUTS, ids=[o[:30] for o, _ in OUTPUTS])
def test_what_runners_print(output: str, found: list[tuple[str, str]]) -> None:
    assert [(r.reported, r.status) for r in results(output, {})] == found


def test_a_test_that_is_run_twice_in_one_output_keeps_both_results() -> None:
    output = "tests/a.py::t FAILED\ntests/a.py::t PASSED"
    assert [r.status for r in results(output, {})] == ["failed", "passed"]


def test_seconds_of_go_are_milliseconds() -> None:
    assert results("--- PASS: TestA (0.25s)", {})[0].took_ms == 250.0


def test_meta_goes_before_the_output_and_faulty_entries_are_left_out() -> None:
    tests: list[Any] = [
        {"name": " a ", "status": "Passed", "took_ms": 2},
        {"name": "b", "status": "failure", "took_ms": "x"},
        {"name": "c", "status": "xfail", "took_ms": float("nan")},
        {"name": "", "status": "passed"},
        {"name": "d", "status": "maybe"},
        {"name": 1, "status": "passed"},
        "e",
    ]
    found = results("tests/a.py::test_x PASSED", {"tests": tests})
    assert [(r.reported, r.status, r.took_ms) for r in found] == [
        ("a", "passed", 2.0),
        ("b", "failed", None),
        ("c", "skipped", None),
    ]


def test_of_too_many_results_failures_stay() -> None:
    tests = [{"name": f"t{i}", "status": "passed"} for i in range(MAX_RESULTS + 10)]
    tests[-1]["status"] = "failed"
    found = results("", {"tests": tests})
    assert len(found) == MAX_RESULTS
    assert found[-1].status == "failed"


@pytest.mark.parametrize(
    "piece", ["a::", "ok 1 ", "test a ... ", "[", "--- PASS: x", " PASSED", "(", "a > "]
)
def test_long_repeats_end(piece: str) -> None:
    results((piece * 600)[:1_900] + "\n" + piece * 50_000, {})
    results(("x" + piece * 300)[:1_900].join("\n" * 400), {})
    parse_name(piece * 100_000)


@given(
    st.text(max_size=80),
    st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=4),
)
def test_any_name_is_read_and_only_known_symbols_are_chosen(
    reported: str, known: list[tuple[str, str]]
) -> None:
    assert choose(parse_name(reported), known) in {"", *(s for s, _ in known)}
