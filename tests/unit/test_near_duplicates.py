"""Sketches of texts: what has the same words meets, what has other ones does not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.text.mentions import Mentions, mentions, unique
from plait.text.near_duplicates import jaccard, same_words, sketches, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Run `make check`, then PUSH!", ["run", "make", "check", "then", "push"]),
        ("snake_case and don't", ["snake", "case", "and", "don", "t"]),
        ("Straße", ["strasse"]),
        ("東京 x1", ["東", "京", "x1"]),
        ("... --- 🎉", []),
        ("", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_the_first_number_is_that_of_the_very_words() -> None:
    (sketch,) = sketches("r", [words("a b c")])
    assert sketch[0] == same_words("r", words("A, b; C"))
    assert sketch[0] != same_words("r", words("c b a"))
    assert sketch[0] != same_words("other", words("a b c"))
    assert sketches("r", [[]]) == [[]]
    assert sketches("r", []) == []


def test_sketches_never_change() -> None:
    """They are stored: another version has to find them."""
    assert sketches("r", [["one", "two"]]) == [
        [
            -4616227269636426547,
            1627829509182890893,
            5443918327513512806,
            -3402621112262875771,
            -5965724376442003906,
        ]
    ]


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=12), max_size=6))
def test_a_sketch_does_not_depend_on_its_neighbours_or_order(texts: list[list[str]]) -> None:
    together = sketches("r", texts)
    assert together == [sketches("r", [text])[0] for text in texts]
    assert [s[1:] for s in together] == [sketches("r", [sorted(set(t))])[0][1:] for t in texts]


def test_near_texts_meet_and_far_ones_do_not() -> None:
    rng = random.Random(1)
    vocabulary = [f"w{i}" for i in range(3000)]
    near = far = 0
    for _ in range(200):
        a = rng.sample(vocabulary, 60)
        b = a[:57] + rng.sample(vocabulary, 3)
        assert jaccard(set(a), set(b)) >= 0.89
        first, second, third = sketches("r", [a, b, rng.sample(vocabulary, 60)])
        near += not set(first).isdisjoint(second)
        far += not set(first).isdisjoint(third)
    assert near >= 195
    assert far <= 2


def test_jaccard() -> None:
    assert jaccard({"a", "b"}, {"b", "c"}) == pytest.approx(1 / 3)
    assert jaccard(set(), set()) == 0.0


@pytest.mark.parametrize(
    ("text", "paths", "names"),
    [
        ("see src/app/main.py and ./x.ts.", ("src/app/main.py", "x.ts"), ("x.ts",)),
        ("`run` calls parse_url(), not foo", (), ("run", "parse_url")),
        ("Session.get, Session::put and HttpClient", ("Session.get",),
         ("Session.get", "Session.put", "HttpClient")),
        ("plain words only, nothing else", (), ()),
        ("http://x.org/a/b.html is a page", (), ()),
        ("THE END. Hello World", (), ()),
        ("see src/app.py:40, b.py:3-9 and c/d.ts#L3-L9.", ("src/app.py", "b.py", "c/d.ts"), ()),
        ("`tests/t.py::TestB::test_c` fails", ("tests/t.py",), ("TestB.test_c",)),
        ("in a/b.py::update it is", ("a/b.py",), ("update",)),
        ("call self.refresh() there", ("self.refresh",), ("refresh",)),
        ("`self.x` is no name, size_0 is", ("self.x",), ("size_0",)),
        ("**`run`** (see `stop`), 0.75 of 1.0", (), ("run", "stop")),
    ],
)  # fmt: skip
def test_mentions(text: str, paths: tuple[str, ...], names: tuple[str, ...]) -> None:
    found = mentions(text)
    assert (found.paths, found.names) == (paths, names)


def test_mentions_with_a_line() -> None:
    text = "src/app.py:40 then b.py:3-9, c/d.ts#L3-L9, e.py:12:5: and f.py, 3:4"
    lines = (("src/app.py", 40), ("b.py", 3), ("c/d.ts", 3), ("e.py", 12))
    found = mentions(text)
    assert found == Mentions(("src/app.py", "b.py", "c/d.ts", "e.py", "f.py"), ("f.py",), lines)


@pytest.mark.parametrize(
    "text",
    [
        "a." * 25_000,
        "_" * 50_000,
        "aB" * 25_000,
        "a.b/" * 12_000,
        "`" * 50_000,
        "+ " * 25_000,
        "a_ " * 20_000,
        "a.py:1 " * 9_000,
        "`" + "a" * 50_000,
    ],
)
def test_hostile_texts_name_little(text: str) -> None:
    found = mentions(text)
    assert len(found.paths) + len(found.names) <= 2


def test_unique() -> None:
    symbols = {"a.X.get", "b.Y.get", "b.only"}
    assert unique("a.X.get", symbols) == "a.X.get"
    assert unique("X.get", symbols) == "a.X.get"
    assert unique("get", symbols) is None
    assert unique("only", symbols) == "b.only"
    assert unique("none", symbols) is None
