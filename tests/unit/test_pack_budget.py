"""The budget is a wall: whatever the items hold, a context never has more tokens than it may."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.domain.recall import Block, RecallFormat, Tier, Trust
from plait.domain.values import Collection, Item, ItemId
from plait.retrieval.packing import markdown
from plait.retrieval.packing.choose import Entry, Room, Size, choose
from plait.retrieval.packing.neighbours import join
from plait.retrieval.packing.pack import CODE, MEMORY, Limits, pack
from plait.retrieval.packing.piece import Piece
from plait.text.token_count import counter

WHEN = datetime(2026, 3, 1, tzinfo=UTC)
MODELS = ["", "gpt-4", "claude-sonnet-4", "llama-3.1-70b", "no-such-model"]


def item(number: int, content: str, collection: Collection, **fields: str) -> Item:
    made = {"path": f"src/f{number}.py", "symbol": "", "kind": "function", "language": "python"}
    made |= fields
    if collection is not Collection.FILES:
        made |= {"kind": "memory", "language": ""}
    return Item(
        ItemId(UUID(int=number)),
        collection,
        "r",
        made["kind"],
        made["path"],
        made["symbol"],
        made["language"],
        1,
        1 + content.count("\n"),
        content,
        WHEN,
    )


# What joins at the seams of pieces if anything does: line ends, slashes, digits, blanks, backticks.
TEXTS = st.one_of(
    st.text(max_size=120),
    st.text(alphabet="ab1 /\n\r\t`>#-=.,()\u2028\u0301é😀", max_size=200),
    st.integers(1, 60).map(lambda n: "\n".join(f"    value_{i} = call({i})" for i in range(n))),
    st.just("def f(a,\n      b):\n    '''Say it. Twice.'''\n    return a\n"),
)


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    made = []
    for number in range(1, draw(st.integers(0, 12)) + 1):
        collection = draw(st.sampled_from(list(Collection)))
        one = item(number, draw(TEXTS), collection, path=draw(TEXTS), symbol=draw(TEXTS))
        made.append(
            Piece(
                one,
                draw(st.floats(0, 1)),
                tuple(draw(st.lists(TEXTS, max_size=3))),
                draw(st.sampled_from(list(Trust))),
            )
        )
    return made


def limits(budget: int, model: str = "", items: int = 24) -> Limits:
    return Limits(budget, counter(model), items, {CODE: 0.6, MEMORY: 0.5})


@settings(max_examples=120, deadline=None)
@given(pieces(), st.integers(20, 700), st.sampled_from(list(RecallFormat)), st.sampled_from(MODELS))
def test_a_context_is_never_over_its_budget(
    made: list[Piece], budget: int, format_: RecallFormat, model: str
) -> None:
    bounds = limits(budget, model)
    block = pack(made, bounds, format_)
    count = bounds.counter.count
    assert count(block.context) <= bounds.usable <= budget
    if format_ is RecallFormat.STRUCTURED:
        assert block.context == ""
        assert block.tokens == sum(count(one.text) for one in block.items) <= bounds.usable
    else:
        assert block.tokens == count(block.context)
    assert bool(block.items) != bool(block.silence)
    everything = [one.item.id for one in block.items] + [o.id for o in block.omitted]
    assert sorted(everything) == sorted(p.item.id for p in made), "each is in or out, with a cause"


@settings(max_examples=120, deadline=None)
@given(pieces(), st.sampled_from(MODELS[:4]))
def test_the_tokens_of_pieces_add_up(made: list[Piece], model: str) -> None:
    bounds = limits(100_000, model)
    block = pack(made, bounds, RecallFormat.MARKDOWN)
    head = bounds.counter.count(markdown.HEADING) if block.items else 0
    assert block.tokens == head + sum(one.tokens for one in block.items)
    assert block.context == "".join(
        [markdown.HEADING if block.items else "", *(one.text for one in block.items)]
    )


def tiers(block: Block) -> list[Tier]:
    return [one.tier for one in block.items]


CODE_TEXT = "def fetch(url):\n    '''Get a page.'''\n" + "\n".join(
    f"    step_{i} = prepare(url, {i})" for i in range(30)
)


def test_tiers_step_down_as_the_budget_shrinks() -> None:
    made = [Piece(item(1, CODE_TEXT, Collection.FILES), 0.9)]
    seen = [tiers(pack(made, limits(b), RecallFormat.MARKDOWN)) for b in (2000, 100, 40, 20)]
    assert seen == [[Tier.FULL], [Tier.OUTLINE], [Tier.LINE], []]
    assert "fits into 20 tokens" in pack(made, limits(20), RecallFormat.MARKDOWN).silence


def test_places_come_first_and_source_where_it_is_asked_for() -> None:
    made = [Piece(item(n, CODE_TEXT, Collection.FILES), 1 - n / 100) for n in range(1, 9)]
    size = pack(made[:1], limits(2000), RecallFormat.MARKDOWN).tokens + 100
    places = pack(made, limits(size), RecallFormat.MARKDOWN)
    source = pack(made, replace(limits(size), prefer_source=True), RecallFormat.MARKDOWN)
    assert tiers(places)[0] is not Tier.FULL
    assert len(places.items) == 8 > len(source.items)
    assert tiers(source)[0] is Tier.FULL


def test_nothing_is_cut_in_the_middle() -> None:
    made = [Piece(item(n, CODE_TEXT, Collection.FILES), 1 / n) for n in range(1, 9)]
    for budget in range(60, 3000, 97):
        for one in pack(made, limits(budget), RecallFormat.MARKDOWN).items:
            assert (CODE_TEXT in one.text) == (one.tier is Tier.FULL)
            assert ("prepare" in one.text) == (one.tier is Tier.FULL)


def test_code_leaves_room_for_memories_and_takes_what_they_leave() -> None:
    code = [Piece(item(n, CODE_TEXT + f"\n    n={n}", Collection.FILES), 0.9) for n in range(1, 9)]
    note = "\n".join(f"Remember step {i}: it needs care." for i in range(15))
    notes = [
        Piece(item(n, f"{note} {n}", Collection.MEMORIES, path=""), 0.3) for n in range(20, 28)
    ]
    mixed = pack([*code, *notes], limits(2000), RecallFormat.MARKDOWN)
    used = sum(one.tokens for one in mixed.items if one.item.collection is Collection.FILES)
    assert used <= 0.6 * 2000 + 60, "but for lines that the memories left"
    assert any(one.item.collection is Collection.MEMORIES for one in mixed.items)
    alone = pack(code, limits(2000), RecallFormat.MARKDOWN)
    assert alone.tokens > 0.8 * 2000, "nobody else wants it"


def test_no_share_is_kept_for_what_nobody_wants() -> None:
    long = Piece(item(1, CODE_TEXT, Collection.FILES), 0.9)
    short = [Piece(item(n, f"x{n} = 1", Collection.FILES), 0.5) for n in range(2, 9)]
    size = pack([long], limits(2000), RecallFormat.MARKDOWN).tokens
    for notes in ([], [Piece(item(20, "Mind it.", Collection.MEMORIES, path=""), 0.3)]):
        bounds = replace(limits(int(1.3 * size)), prefer_source=True)
        block = pack([long, *short, *notes], bounds, RecallFormat.MARKDOWN)
        assert block.items[0].item.id == long.item.id
        assert block.items[0].tier is Tier.FULL, (
            "longer than the share of code, which none disputes"
        )


def test_what_is_only_named_stands_under_its_file_in_the_order_of_the_best() -> None:
    text = "\n".join(f"    step_{i} = go(url)" for i in range(280))  # of no signature
    made = [
        Piece(item(1, text, Collection.FILES, path="a.py", symbol="a.one"), 0.9, ("why",)),
        Piece(item(2, "x = 1", Collection.FILES, path="b.py", symbol="b.two"), 0.8, ("why",)),
        Piece(item(3, text, Collection.FILES, path="a.py", symbol="a.C.three"), 0.7),
        Piece(item(4, text, Collection.FILES, path="c.py", symbol="c.four"), 0.6),
    ]
    block = pack(made, limits(150), RecallFormat.MARKDOWN)
    assert block.context.splitlines()[2:] == [
        "- [score: 0.90] `a.py` (unverifiable, agent-claimed)",
        "  1-280 one — why",
        "  1-280 C.three",
        "- [score: 0.80] `b.py:1` `two` — why (unverifiable, agent-claimed)",
        "```python",
        "x = 1",
        "```",
        "- [score: 0.60] `c.py:1-280` `four` (unverifiable, agent-claimed)",
    ]
    assert [one.item.id.int for one in block.items] == [1, 3, 2, 4]


def test_no_more_items_than_asked_for() -> None:
    made = [Piece(item(n, f"note {n}", Collection.MEMORIES, path=""), 0.5) for n in range(1, 31)]
    block = pack(made, limits(4000, items=5), RecallFormat.MARKDOWN)
    assert len(block.items) == 5
    assert {o.why.cause for o in block.omitted} == {"items"}


SIZES = st.lists(
    st.builds(
        Size,
        st.sampled_from(list(Tier)),
        st.integers(1, 99),
        st.floats(0.01, 1.2),
        st.sampled_from(["", "a", "b"]),
    ),
    max_size=4,
)
ENTRIES = st.lists(
    st.builds(
        Entry,
        st.floats(1e-6, 1),
        st.sampled_from([CODE, MEMORY]),
        SIZES,
        place=st.sampled_from([None, None, "f", "g"]),
    ),
    max_size=20,
)
HEADS = {"a": 30, "b": 7}
SHARES = {CODE: 0.6, MEMORY: 0.5}


@given(ENTRIES, st.integers(0, 900), st.integers(0, 900), st.integers(0, 10))
def test_a_choice_keeps_its_bounds_and_pays_for_each_head_once(
    entries: list[Entry], tokens: int, names: int, most: int
) -> None:
    room = Room(tokens, min(names, tokens), most, first=tokens)
    choice = choose(entries, room, SHARES, HEADS)
    taken = [e.sizes[s] for e, s in zip(entries, choice.sizes, strict=True) if s >= 0]
    needed = sum(HEADS[head] for head in {size.head for size in taken if size.head})
    assert sum(size.tokens for size in taken) + needed == choice.spent <= tokens
    assert len(taken) <= most
    chosen = {i for i, size in enumerate(choice.sizes) if size >= 0}
    assert chosen.isdisjoint(choice.inside)
    assert set(choice.inside.values()) <= chosen
    assert set(choice.refused) == set(range(len(entries))) - chosen - set(choice.inside)


@given(ENTRIES, st.integers(0, 600), st.integers(0, 300), st.data())
def test_a_choice_names_no_less_with_more_room(
    entries: list[Entry], names: int, more: int, data: st.DataObject
) -> None:
    """Whatever source is shown, and whatever stands in it."""
    index = st.integers(0, max(len(entries) - 1, 0))
    held = data.draw(st.dictionaries(index, st.sets(index, max_size=4), max_size=6))
    held = held if entries else {}
    named = []
    for tokens in (names, names + more):
        extra = data.draw(st.integers(0, 400))
        room = Room(tokens + extra, tokens // 2, 12, first=tokens)
        choice = choose(entries, room, SHARES, HEADS, lambda i, size: held.get(i, ()))
        named.append(set(range(len(entries))) - set(choice.refused))
    assert named[0] <= named[1]


@pytest.mark.parametrize("better", [0.9, 0.5])
def test_the_better_of_two_equals_comes_first(better: float) -> None:
    sizes = [Size(Tier.LINE, 100, 1.0)]
    entries = [Entry(0.4, CODE, sizes), Entry(better, CODE, sizes)]
    assert choose(entries, Room(100, 100, 5), {}).sizes == (-1, 0)


def test_no_source_is_shown_while_better_places_are_not_named() -> None:
    sizes = [Size(Tier.FULL, 90, 1.0), Size(Tier.LINE, 20, 0.1)]
    entries = [Entry(1.0 - n / 10, CODE, sizes) for n in range(5)]
    assert choose(entries, Room(100, 100, 9), {}).sizes == (1, 1, 1, 1, 1)
    assert choose(entries, Room(110, 40, 9), {}).sizes == (0, 1, -1, -1, -1)


def test_code_and_notes_are_named_in_turns() -> None:
    sizes = [Size(Tier.LINE, 50, 1.0)]
    code = [Entry(0.9, CODE, sizes) for _ in range(20)]
    notes = [Entry(0.1, MEMORY, sizes) for _ in range(20)]
    counts = []
    for tokens in (200, 1000):
        choice = choose([*code, *notes], Room(tokens, tokens, 40), SHARES)
        named = [size >= 0 for size in choice.sizes]
        counts.append((sum(named[:20]), sum(named[20:])))
    assert counts == [(4, 0), (13, 7)], (
        "the best first, then each its share though it is worth less"
    )


# -- a larger budget -----------------------------------------------------------------------------------

LINES = [
    f"    value_{n} = compute_something({n})" if n % 7 else f"def function_{n}(argument):"
    for n in range(60)
]


@st.composite
def crowded(draw: st.DrawFn) -> list[Piece]:
    """Chunks of two files that overlap, hold each other, are parts of one symbol or are joined; and notes that
    repeat their lines."""
    made: list[Piece] = []
    for number in range(1, draw(st.integers(1, 24)) + 1):
        first = draw(st.integers(0, len(LINES) - 1))
        lines = LINES[first : first + draw(st.integers(1, 30))]
        text, score = "\n".join(lines), draw(st.floats(0, 1))
        if draw(st.integers(0, 4)) == 0:
            note = item(number, f"{draw(TEXTS)}\n\n{text}", Collection.MEMORIES, path="")
            made.append(Piece(note, score, (), draw(st.sampled_from(list(Trust)))))
            continue
        symbol = draw(st.sampled_from(["", "m.A", "m.A.one", "m.A.one", "m.two"]))
        one = item(number, text, Collection.FILES, path=draw(PATHS), symbol=symbol)
        one = replace(one, start_line=first + 1, end_line=first + len(lines))
        others = [p.item for p in made if draw(st.booleans())]
        joined = join(one, others) if others else None
        made.append(Piece(one, score, (draw(st.sampled_from(["", "why"])),), joined=joined))
    return sorted(made, key=lambda piece: -piece.score)


PATHS = st.sampled_from(["src/a.py", "src/a.py", "src/package/b.py"])


def named_in(block: Block) -> set[ItemId]:
    return {id_ for one in block.items for id_ in (one.item.id, *one.also)}


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(crowded(), pieces()),
    st.integers(20, 1500),
    st.integers(1, 900),
    st.sampled_from(list(RecallFormat)),
    st.booleans(),
    st.integers(0, 6),
)
def test_a_larger_budget_names_no_less(
    made: list[Piece], budget: int, more: int, format_: RecallFormat, source: bool, before: int
) -> None:
    preface = [f"- Run `tests/test_{n}.py::test_{n}`" for n in range(before)]
    blocks = [
        pack(made, replace(limits(b), prefer_source=source), format_, preface)
        for b in (budget, budget + more)
    ]
    here = {piece.item.id for piece in made}
    assert named_in(blocks[0]) & here <= named_in(blocks[1])
    lines = [[line for line in preface if line in block.context] for block in blocks]
    assert lines[1][: len(lines[0])] == lines[0]
    for block in blocks:
        assert block.tokens <= block.budget
