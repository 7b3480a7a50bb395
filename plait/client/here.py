"""The repository that a call means when it names none: the one around the current folder, else the only one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from plait.domain.errors import FolderNotIndexed

if TYPE_CHECKING:
    from plait.client.calls.call import Call
    from plait.client.errors import PlaitRpcError
    from plait.domain.answers.indexing import Repository

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
    """Its name; "" when there are several and none is around, or there is none.

    Raises: FolderNotIndexed, in a git work tree inside an indexed repository: it is a repository of its own.
    """
    if not indexed:
        return ""
    from plait.client.folders import locate

    try:
        folder = Path.cwd()
    except OSError:  # it was deleted under us
        folder = None
    if folder is not None:
        found = locate(folder, indexed)
        if found.repository is not None:
            return found.repository.name
        if found.around:
            raise FolderNotIndexed(str(found.root), found.around, found.command(folder))
    return indexed[0].name if len(indexed) == 1 else ""


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
