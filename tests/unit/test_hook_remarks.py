"""What a session is told: never over the budget, never twice, and only what is sure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.remarks import MAX_TEXT, Remark, clean, composed, key_of
from plait.ports import Changed, ChangedCode, CodeGraph, MemoryLink, View
from plait.retrieval.code_graph.edit_advice import Advice, advise
from plait.retrieval.packing.remarks import fitted
from plait.retrieval.search_context import Deps
from plait.text import token_count
from server.hooks.shown import KEEP_S, Shown, folder, sweep
from tests.unit.code_graphs import graph

# -- limits -----------------------------------------------------------------------------------------------

_LINES = st.lists(
    st.builds(
        Remark,
        key=st.integers(0, 40).map(lambda n: f"{n:016x}"),
        heading=st.sampled_from(["Defined here:", "Tests that run it:", "`ü` changed:"]),
        text=st.text(max_size=300).map(clean),
    ),
    max_size=30,
)


@given(_LINES, st.sampled_from(["", "claude", "gpt-4o", "who-knows"]), st.integers(20, 400))
def test_lines_never_pass_the_budget_however_they_are_thinned(
    remarks: list[Remark], model: str, budget: int
) -> None:
    counter = token_count.counter(model)
    kept = fitted(remarks, {f"{7:016x}"}, counter, budget)
    usable = counter.usable(budget)
    assert counter.count(composed(kept)) <= usable
    assert len({one.key for one in kept}) == len(kept)
    assert f"{7:016x}" not in {one.key for one in kept}
    # The client leaves out what another hook has said meanwhile.
    for n in range(min(len(kept), 4)):
        assert counter.count(composed(kept[:n] + kept[n + 1 :])) <= usable


@given(st.text())
def test_a_line_is_one_line(text: str) -> None:
    said = clean(text)
    assert len(said) <= MAX_TEXT
    assert len(said.splitlines()) <= 1
    assert said.isprintable()


def test_a_key_is_of_a_symbol_whatever_part_of_it_is_meant() -> None:
    assert key_of("r", "a.py", "m.f#2") == key_of("r", "a.py", "m.f")
    assert key_of("r", "a.py", "m.f") != key_of("r", "b.py", "m.f")


# -- once a session ---------------------------------------------------------------------------------------


def test_a_key_is_given_to_one_of_many_hooks(tmp_path: Path) -> None:
    keys = [f"{n:016x}" for n in range(50)]
    with ThreadPoolExecutor(8) as pool:
        given_out = list(pool.map(lambda _: Shown(tmp_path, "one").add(keys), range(16)))
    assert sorted(key for part in given_out for key in part) == keys
    assert set(Shown(tmp_path, "one").keys()) == set(keys)
    assert Shown(tmp_path, "other").keys() == ()


def test_what_was_shown_is_private_and_names_no_session(tmp_path: Path) -> None:
    Shown(tmp_path, "../../etc/passwd").add(["0" * 16])
    (file,) = folder(tmp_path).iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder(tmp_path).stat().st_mode & 0o777 == 0o700
    assert len(file.name) == 32


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    shown = Shown(tmp_path, "s")
    shown.add(["0" * 16])
    (file,) = folder(tmp_path).iterdir()
    target = tmp_path / "target"
    target.write_text("mine")
    file.unlink()
    file.symlink_to(target)
    with pytest.raises(OSError, match="symbolic"):
        shown.add(["1" * 16])
    assert target.read_text() == "mine"


def test_a_damaged_file_counts_for_what_is_whole_in_it(tmp_path: Path) -> None:
    Shown(tmp_path, "s").add(["0" * 16])
    (file,) = folder(tmp_path).iterdir()
    file.write_bytes(b"\xff\xfe\0junk\n" + file.read_bytes())
    assert Shown(tmp_path, "s").keys() == ("0" * 16,)


def test_old_sessions_are_swept(tmp_path: Path) -> None:
    Shown(tmp_path, "old").add(["0" * 16])
    (old,) = folder(tmp_path).iterdir()
    os.utime(old, (0, KEEP_S))
    Shown(tmp_path, "new").add(["0" * 16])
    sweep(tmp_path, now=2 * KEEP_S + 60)
    assert not old.exists()
    sweep(tmp_path)
    assert Shown(tmp_path, "new").keys()
    sweep(tmp_path / "nowhere")


# -- after an edit ----------------------------------------------------------------------------------------

EDGES = [
    ("CALLS", "m.caller", "m.area"),
    ("CALLS", "test_area", "m.area"),
    ("VALIDATED_BY", "m.area", "test_area"),
    ("VALIDATED_BY", "m.area", "test_volume"),
    ("OVERRIDES", "m.Sub.draw", "m.Base.draw"),
    ("CALLS", "m.screen", "m.Base.draw"),
]
RENAMED = "@@ -1,1 +1,1 @@\n-def area(a):\n+def surface(a):"
BODY = "@@ -1,2 +1,2 @@\n def area(a):\n-    return 1\n+    return 2"
DRAW = "@@ -1,1 +1,1 @@\n-    def draw(self):\n+    def draw(self, on):"


class Stores:
    """What `advise` reads: changes by their symbols, and a graph."""

    def __init__(self, *symbols: str, code: CodeGraph | None, sure: float = 1.0) -> None:
        self.symbols, self.code, self.sure = symbols, code, sure

    async def changed(self, view: View, diff: str) -> ChangedCode:
        found = (Changed("r", "a.py", symbol, 1, sure=self.sure) for symbol in self.symbols)
        return ChangedCode(tuple(found))

    async def code_graph(self, view: View, repo: str, *, wait_s: float) -> CodeGraph | None:
        return self.code

    async def links(
        self, view: View, ends: Sequence[tuple[str, str]], limit: int
    ) -> list[MemoryLink]:
        return []


async def advice(hunks: str, *symbols: str, **more: Any) -> Advice:
    stores = Stores(*symbols, **{"code": graph(EDGES), **more})
    deps = SimpleNamespace(impact=stores, relations=stores)
    diff = f"--- a/a.py\n+++ b/a.py\n{hunks}\n"
    return await advise(cast(Deps, deps), cast(View, None), "r", diff)


async def test_who_calls_a_renamed_function_must_change() -> None:
    found = await advice(RENAMED, "m.area")
    said = [(one.heading, one.text) for one in found.remarks]
    assert said[0] == ("`area` no longer defined; these call it:", "a.py:1 m.caller")
    assert [text for heading, text in said if heading.startswith("Tests")] == [
        "a.py::test_area",  # its name says most
        "a.py::test_volume",
    ]


async def test_a_body_alone_names_the_tests() -> None:
    found = await advice(BODY, "m.area")
    assert {one.heading for one in found.remarks} == {"Tests that run it:"}


async def test_what_overrides_a_changed_method_is_named() -> None:
    found = await advice(DRAW, "m.Base.draw")
    assert [(one.heading, one.text) for one in found.remarks] == [
        ("`draw` changed its parameters; these call it:", "a.py:1 m.screen"),
        ("These override `draw`:", "a.py:1 m.Sub.draw"),
    ]


async def test_what_was_edited_is_no_news() -> None:
    found = await advice(RENAMED, "m.area", "m.caller")
    assert "m.caller" not in composed(found.remarks)
    assert key_of("r", "a.py", "m.area") in found.edited


async def test_nothing_is_said_where_the_place_is_not_sure() -> None:
    assert (await advice(RENAMED, "m.area", sure=0.4)).remarks == ()
    assert (await advice(RENAMED, "m.unknown")).remarks == ()
    assert (await advice(RENAMED, "m.area", code=None)).remarks == ()


async def test_a_test_that_is_edited_needs_no_telling() -> None:
    assert (await advice(BODY, "test_area")).remarks == ()
