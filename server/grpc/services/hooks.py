"""HookService: short answers about a folder, an edit or a search, made to be pushed into a session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from etl.ingest.importers.edits import header
from etl.pipeline import IndexRequest
from plait.client import folders
from plait.domain.access import Verb
from plait.domain.answers.indexing import Repository
from plait.domain.answers.search import RepositoryRevision
from plait.domain.errors import InvalidInput, PathNotAllowed, TooManyJobs
from plait.domain.remarks import Remark, clean
from plait.domain.values import Filter, Revision
from plait.retrieval.code_graph.definitions import defined
from plait.retrieval.code_graph.edit_advice import advise
from plait.retrieval.packing.remarks import fitted
from plait.text import token_count
from plait.v1 import hook_service_pb2 as pb
from plait.v1 import hook_service_pb2_grpc
from plait.wire import hooks as wire_hooks
from server.access import current, roots
from server.app import App
from server.grpc import in_use, visible
from server.grpc.messages import scope

MAX_PATH, MAX_NAME, MAX_MODEL = 4096, 200, 128  # bytes
MAX_FILES, MAX_NAMES, MAX_KNOWN = 20, 20, 4096
MAX_EDIT_BYTES = 256 * 1024
_Request = pb.DescribeFolderRequest | pb.AdviseEditRequest | pb.NameSymbolsRequest
BUDGET, LEAST_BUDGET, MOST_BUDGET = 200, 20, 1000


class HookService(hook_service_pb2_grpc.HookServiceServicer):
    def __init__(self, app: App) -> None:
        self._app = app

    def _tenant(self, context: Any) -> str:
        return scope.tenant_of(context, self._app.settings.scope)

    async def DescribeFolder(
        self, request: pb.DescribeFolderRequest, context: Any
    ) -> pb.DescribeFolderResponse:
        tenant = self._tenant(context)
        found = await self._found(tenant, _path(request.folder, "folder"))
        if found is None:
            return pb.DescribeFolderResponse()
        root, repository = found
        indexing = request.refresh and self._refresh(tenant, root, repository)
        in_use.note(self._app, tenant, [repository.name])
        await _warm(request)
        return pb.DescribeFolderResponse(
            repository=repository.name,
            root=str(root),
            text=_described(repository, indexing, request),
            indexing=indexing,
        )

    async def AdviseEdit(
        self, request: pb.AdviseEditRequest, context: Any
    ) -> pb.AdviseEditResponse:
        start, tenant = perf_counter(), self._tenant(context)
        _at_most(request.edits, MAX_FILES, "edits", least=1)
        if sum(len(edit.hunks) for edit in request.edits) > MAX_EDIT_BYTES:
            raise InvalidInput(
                f"edits have more than {MAX_EDIT_BYTES} characters; send the changed hunks alone",
                field="edits",
            )
        edits = wire_hooks.edits_of(request.edits)
        paths = [_path(edit.path, f"edits[{i}].path") for i, edit in enumerate(edits)]
        found = await self._found(tenant, paths[0].parent)
        if found is None:
            return pb.AdviseEditResponse()
        root, repository = found
        hunks = [edit.hunks for edit in edits]
        diff = await asyncio.to_thread(_as_diff, root, paths, hunks)
        name = scope.name_in(tenant, repository.name)
        view = await self._app.truth.search.view(Filter(repos=(name,), tenant=tenant))
        advice = await advise(self._app.deps, view, name, diff)
        in_use.note(self._app, tenant, [repository.name])
        in_use.edited(
            self._app, tenant, repository.name, await asyncio.to_thread(_inside, root, paths)
        )
        await _warm(request)
        return pb.AdviseEditResponse(
            repository=repository.name,
            remarks=_packed(advice.remarks, request),
            edited_keys=advice.edited,
            took_ms=(perf_counter() - start) * 1e3,
        )

    async def NameSymbols(
        self, request: pb.NameSymbolsRequest, context: Any
    ) -> pb.NameSymbolsResponse:
        start, tenant = perf_counter(), self._tenant(context)
        _at_most(request.names, MAX_NAMES, "names", least=1)
        for i, one in enumerate(request.names):
            if not one or len(one.encode()) > MAX_NAME:
                raise InvalidInput(
                    f"names[{i}] has {len(one.encode())} bytes; give 1 to {MAX_NAME}",
                    field=f"names[{i}]",
                )
        found = await self._found(tenant, _path(request.folder, "folder"))
        if found is None:
            return pb.NameSymbolsResponse()
        _, repository = found
        name = scope.name_in(tenant, repository.name)
        view = await self._app.truth.search.view(Filter(repos=(name,), tenant=tenant))
        remarks = await defined(self._app.deps, view, name, request.names)
        in_use.note(self._app, tenant, [repository.name])
        await _warm(request)
        return pb.NameSymbolsResponse(
            repository=repository.name,
            remarks=_packed(remarks, request),
            took_ms=(perf_counter() - start) * 1e3,
        )

    async def _found(self, tenant: str, folder: Path) -> tuple[Path, Repository] | None:
        """The indexed repository that `folder` is in, with its folder."""
        known = await self._app.truth.repositories.list(tenant)
        indexed = [_listed(tenant, one) for one in known if visible.sees(tenant, one.repo)]
        at = await asyncio.to_thread(folders.locate, folder, indexed)
        return (at.root, at.repository) if at.repository is not None else None

    def _refresh(self, tenant: str, root: Path, repository: Repository) -> bool:
        """Begin an index run, or join the one that runs; whether there is one. Whether vectors
        are wanted stays as it was. Who may not index has none begun."""
        caller = current.caller()
        if not caller.may(Verb.ADMIN):
            return False
        if not caller.local:  # the owner's own were indexed by the owner
            try:
                root = roots.check(root, caller, self._app.settings.server)
            except PathNotAllowed:
                return False
        if not root.is_dir():  # it was indexed on another machine
            return False
        try:
            request = IndexRequest(root, repository.name, embed=False, tenant=tenant, again=True)
            self._app.jobs.start(request)
        except TooManyJobs:
            return False
        return True


def _listed(tenant: str, one: Revision) -> Repository:
    name = scope.name_out(tenant, one.repo)
    at = RepositoryRevision(name, one.number, one.graph_number, one.embedded, one.chunks)
    return Repository(name, one.root, at, one.files, one.published_at)


def _path(text: str, field: str) -> Path:
    """Raises: InvalidInput."""
    if not text.startswith("/") or len(text.encode()) > MAX_PATH or "\0" in text:
        raise InvalidInput(
            f"{field} is {text[:100]!r}; give an absolute path of at most {MAX_PATH} bytes",
            field=field,
        )
    return Path(text)


def _at_most(values: Sequence[object], most: int, field: str, *, least: int = 0) -> None:
    if not least <= len(values) <= most:
        raise InvalidInput(
            f"{field} has {len(values)} entries; give {least} to {most}", field=field
        )


def _as_diff(root: Path, paths: Sequence[Path], hunks: Sequence[str]) -> str:
    """One unified diff of the files inside `root`, by their paths in it."""
    lines: list[str] = []
    for path, text in zip(paths, hunks, strict=True):
        for inside in _inside(root, [path]):
            lines += [*header(inside), text.rstrip("\n")]
    return "\n".join(lines) + "\n"


def _inside(root: Path, paths: Sequence[Path]) -> list[str]:
    """Those of `paths` that lie below `root`, relative to it; links on the way followed."""
    real = [path.parent.resolve() / path.name for path in paths]
    return [path.relative_to(root).as_posix() for path in real if path.is_relative_to(root)]


def _described(repository: Repository, indexing: bool, request: _Request) -> str:
    """One line within the budget; without the repository's name, or empty, where that is too small."""
    counter, budget = _counter(request)
    fresh = folders.freshness(repository).summary() + (", being updated" if indexing else "")
    for named in (clean(repository.name), "this repository"):
        text = (
            f"Plait has {named} indexed: {repository.files:,} files, {fresh}. Its recall, search and graph "
            "answer faster than grep."
        )
        if counter.count(text) <= counter.usable(budget):
            return text
    return ""


def _packed(
    remarks: Sequence[Remark], request: pb.AdviseEditRequest | pb.NameSymbolsRequest
) -> list[pb.Remark]:
    """Those that fit and are new to the session. Raises: InvalidInput."""
    _at_most(request.known_keys, MAX_KNOWN, "known_keys")
    counter, budget = _counter(request)
    kept = fitted(remarks, request.known_keys, counter, budget)
    return wire_hooks.remarks(kept)


async def _warm(request: _Request) -> None:
    """Read the tokenizer's tables in a thread, where a server that rested has let them go."""
    counter, _ = _counter(request)
    if not token_count.is_warm(counter.encoding):
        await asyncio.to_thread(counter.count, "warm")


def _counter(request: _Request) -> tuple[token_count.Counter, int]:
    """Who counts, and how much there may be. Raises: InvalidInput."""
    budget = request.budget_tokens or BUDGET
    if not LEAST_BUDGET <= budget <= MOST_BUDGET:
        raise InvalidInput(
            f"budget_tokens is {budget}; give {LEAST_BUDGET} to {MOST_BUDGET}, or 0 for {BUDGET}",
            field="budget_tokens",
        )
    if len(request.tokenizer.encode()) > MAX_MODEL:
        raise InvalidInput(
            f"tokenizer has more than {MAX_MODEL} bytes; give a model's name", field="tokenizer"
        )
    return token_count.counter(request.tokenizer), budget
