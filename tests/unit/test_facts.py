"""Facts of files, and those that an older version has stored."""

from __future__ import annotations

import msgspec
import pytest

from etl.changed import decode as reusable
from etl.facts import (
    FACTS_VERSION,
    Argument,
    FileFacts,
    PackedReferences,
    Reference,
    ReferenceKind,
    no_facts,
)
from etl.facts import decode as decode_facts
from etl.facts import encode as encode_facts

# As version 2 wrote them: text where there are enums and structs now.
_MODULE = ["a", "", "module", 0, 1, 2, 0, 20, [], "", False, 0, []]
_CALL = [0, "f", 1, "call", "x,k=y"]
_IMPORT = [0, "m", "*", "", 0, 1]
_BINDING = [0, "x", "xs", "iter", 1, 0]


@pytest.mark.parametrize(
    "parts",
    [
        [[], [], []],  # nothing that has changed its shape: the version alone tells
        [[], [_CALL], []],
        [[_IMPORT], [], []],
        [[], [], [_BINDING]],
    ],
)
def test_a_file_is_parsed_again_when_an_older_version_stored_its_facts(
    parts: list[list[object]],
) -> None:
    blob = msgspec.msgpack.encode(["a.py", "python", "a", [_MODULE], *parts, [], False, 2])
    assert reusable(blob) is None


def test_facts_come_back_as_they_were_stored() -> None:
    facts = no_facts("a.py", "python", "a")
    assert decode_facts(encode_facts(facts)) == facts == reusable(encode_facts(facts))
    assert isinstance(facts, FileFacts)
    assert facts.version == FACTS_VERSION


def test_references_stay_packed_and_read_as_a_list() -> None:
    uses = [Reference(0, "f", 1), Reference(1, "a.b", 2, ReferenceKind.NEW, (Argument("x"),))]
    facts = msgspec.structs.replace(no_facts("a.py", "python", "a"), references=uses)
    blob = encode_facts(facts)
    stored = decode_facts(blob)
    assert stored == facts
    assert isinstance(stored.references, PackedReferences)
    assert [*stored.references] == [*stored.references] == uses
    assert len(stored.references) == 2
    assert uses[0] in stored.references
    assert encode_facts(stored) == blob
    assert stored == decode_facts(blob)
    assert not decode_facts(encode_facts(no_facts("a.py", "python", "a"))).references


def test_references_of_another_shape_are_not_facts() -> None:
    blob = msgspec.msgpack.encode(
        ["a.py", "python", "a", [_MODULE], [], 1, [], [], False, FACTS_VERSION]
    )
    assert reusable(blob) is None
