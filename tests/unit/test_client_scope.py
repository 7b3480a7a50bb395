"""A call of a client that names no repository means the one that a command would mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from plait.client import here
from plait.client.calls import index, knowledge
from plait.client.calls.call import Call
from plait.client.errors import PlaitRpcError
from plait.domain.options import SearchOptions

REFUSED = PlaitRpcError(
    grpc.StatusCode.INVALID_ARGUMENT, "filter.repositories is empty", reason="SCOPE_MISSING"
)


@dataclass(frozen=True, slots=True)
class Indexed:
    name: str
    root: str


def search() -> Call[Any]:
    return knowledge.search("x", None, 0, 0.0, SearchOptions(), None)


def template() -> Call[Any]:
    where = knowledge.GraphScope((), False, None, None)
    return knowledge.template("callers", {"symbol": "x"}, where, 0, None)


def scoped(call: Call[Any], *indexed: Indexed) -> Any:
    found: Any = indexed
    request: Any = here.scoped(call, found, REFUSED).request
    return request.filter if call.method == "Search" else request


@pytest.mark.parametrize("call", [search(), template()], ids=["search", "template"])
def test_the_innermost_around_the_current_folder_else_the_only_one(
    call: Call[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    outer, held = Indexed("outer", str(tmp_path)), Indexed("inner", str(inner))
    elsewhere = Indexed("other", "/elsewhere")
    assert here.is_missing(call, REFUSED)
    assert list(scoped(call, outer, elsewhere, held).repositories) == ["inner"]
    assert list(scoped(call, elsewhere).repositories) == ["other"]
    assert scoped(call).all_repositories  # nothing is indexed: nothing to leak
    with pytest.raises(PlaitRpcError, match=r"other, third; name one with where=Filter") as caught:
        scoped(call, elsewhere, Indexed("third", "/third"))
    assert caught.value.reason == "SCOPE_MISSING"
    asked: Any = call.request
    assert not (asked.filter if call.method == "Search" else asked).repositories


def test_only_reads_are_sent_again() -> None:
    call = search()
    other = PlaitRpcError(grpc.StatusCode.NOT_FOUND, "no", reason="REPOSITORY_NOT_INDEXED")
    assert not here.is_missing(call, other)
    assert not here.is_missing(index.delete_repository("x", None), REFUSED)
