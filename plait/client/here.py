"""The repository that a call means when it names none: the one around the current folder, else the only one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from plait.client.calls import Call
    from plait.client.errors import PlaitRpcError
    from plait.client.values import Repository

T = TypeVar("T")

REASON = "SCOPE_MISSING"
# Reads; what changes or compares the stores says whose.
READS = frozenset({"Search", "Recall", "GraphQuery", "ListMemories", "QueryMemories"})


def is_missing(call: Call[T], error: PlaitRpcError) -> bool:
    """Whether `call` was refused only because it names no repository, and may be sent with one."""
    return error.reason == REASON and call.method in READS


def scoped(call: Call[T], indexed: Sequence[Repository], error: PlaitRpcError) -> Call[T]:
    """`call` with the repository that is meant here; where nothing is indexed, with all of them.

    Raises: PlaitRpcError, a `SCOPE_MISSING` that names them, when there are several and none is around.
    """
    request: Any = type(call.request)()
    request.CopyFrom(call.request)
    where = request if "repositories" in request.DESCRIPTOR.fields_by_name else request.filter
    name = meant(indexed)
    if name:
        where.repositories.append(name)
    elif not indexed:
        where.all_repositories = True
    else:
        raise _several(indexed, error)
    return replace(call, request=request)


def meant(indexed: Sequence[Repository]) -> str:
    """Its name; "" when there are several and none is around, or there is none."""
    return around(indexed) or (indexed[0].name if len(indexed) == 1 else "")


def around(indexed: Sequence[Repository]) -> str:
    """The innermost repository whose folder holds the current one; "" where none does."""
    try:
        here = Path.cwd().resolve()
    except OSError:  # the folder was deleted under us
        return ""
    holding = [(len(r.root), r.name) for r in indexed if r.root and here.is_relative_to(r.root)]
    return max(holding)[1] if holding else ""


def _several(indexed: Sequence[Repository], error: PlaitRpcError) -> PlaitRpcError:
    from plait.client.errors import PlaitRpcError

    names = ", ".join(repository.name for repository in indexed)
    return PlaitRpcError(
        error.code,
        f"several repositories are indexed and the current folder is in none of them: {names}; name one "
        "with where=Filter(repos=(NAME,)) (templates and Cypher: repositories=[NAME]), or say that all "
        "are meant with all_repos=True (all_repositories=True)",
        reason=REASON,
        fields=error.fields,
        metadata={key: str(value) for key, value in error.metadata.items()},
    )
