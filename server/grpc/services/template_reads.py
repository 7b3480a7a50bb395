"""GraphQuery's templates inside one tenant: answered from the primary store, at the revision that they name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plait.domain.answers.graph import GraphResult
from plait.domain.deadline import Deadline
from plait.domain.errors import (
    AmbiguousSymbol,
    InvalidInput,
    PlaitError,
    ResultTooLarge,
    StoreUnavailable,
    UnknownSymbol,
)
from plait.domain.memory import NOW, AsOf
from plait.domain.values import Collection, Filter, Revision
from plait.ports import CodeGraph, View
from plait.retrieval.code_graph.templates import answers, memories
from plait.retrieval.code_graph.templates.catalogue import Kind, Template, find
from plait.retrieval.code_graph.templates.cells import Limits
from server.app import App
from server.grpc import visible
from server.grpc.messages import scope

# A repository that has episodes or memories and no index answers too.
_ANY = tuple(Collection)
_OF_AGENTS = tuple(one for one in Collection if one is not Collection.FILES)


@dataclass(frozen=True, slots=True)
class TemplateQuestion:
    """`repos` qualified, empty for all of the tenant's."""

    repos: tuple[str, ...]
    name: str
    parameters: Mapping[str, Any]
    max_rows: int
    as_of: AsOf = NOW


class TemplateReader:
    """Reads for one call of one tenant."""

    def __init__(self, app: App, tenant: str, deadline: Deadline) -> None:
        self._app = app
        self._tenant = tenant
        self._deadline = deadline

    async def read(self, asked: TemplateQuestion) -> tuple[GraphResult, list[Revision]]:
        """The answer, and the revisions it is of.

        Raises: UnknownTemplate, InvalidInput, RepositoryNotIndexed, UnknownSymbol, AmbiguousSymbol,
        ResultTooLarge, CodeGraphTooLarge, DeadlineExceeded.
        """
        template = find(asked.name)
        given = template.check(self._qualified(asked.parameters))
        template.check_time(asked.as_of)
        where = Filter(
            repos=asked.repos, all_repos=not asked.repos, tenant=self._tenant, collections=_ANY
        )
        where = await visible.narrowed(self._app.truth.search, where)
        if template.memory:
            await self._app.truth.outbox.settle()
        try:
            return await self._read(template, given, asked, where)
        except _NotRead:  # two publishes since the view was taken: what it shows may be collected
            return await self._read(template, given, asked, where)

    async def _read(
        self,
        template: Template,
        given: Mapping[str, Any],
        asked: TemplateQuestion,
        where: Filter,
    ) -> tuple[GraphResult, list[Revision]]:
        view = await self._app.truth.search.view(where)
        shown = [replace(one, graph_number=one.number) for one in view.revisions]
        names = self._names(asked, given, view)
        if template.memory and asked.as_of:
            view = await self._at_times(view, asked.as_of, where)
        question = _Question(self._app, template, given, asked, view, self._deadline)
        return await self._of_one(question, names), shown

    async def _at_times(self, view: View, as_of: AsOf, where: Filter) -> View:
        """With the times of links; code stays as it is published."""
        of_agents = replace(where, collections=_OF_AGENTS, as_of=as_of)
        then = await self._app.truth.search.view(of_agents)
        return replace(view, valid=then.valid, recorded=then.recorded)

    def _names(
        self, asked: TemplateQuestion, given: Mapping[str, Any], view: View
    ) -> Sequence[str]:
        """Where names are looked up: the parameter `repo` narrows the repositories of the request, and so does
        an id, which begins with one's name."""
        names = [revision.repo for revision in view.revisions]
        if said := asked.parameters.get("repo"):
            name = scope.name_in(self._tenant, str(said), "template.parameters[repo]")
            if name not in names:
                raise InvalidInput(
                    f"template.parameters[repo] {str(said)[:80]!r} is none of the repositories that the "
                    "request names; name it there too",
                    field="template.parameters",
                )
            return [name]
        texts = [value for value in given.values() if isinstance(value, str)]
        owners = [name for name in names if any(text.startswith(f"{name}:") for text in texts)]
        return owners or names

    async def _of_one(self, question: _Question, names: Sequence[str]) -> GraphResult:
        """Of several repositories each is asked, and one may answer."""
        found: dict[str, GraphResult] = {}
        missing: UnknownSymbol | None = None
        for name in names:
            try:
                found[name] = await question.of(name)
            except UnknownSymbol as exc:
                missing = missing or exc
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            shown = ", ".join(scope.name_out(self._tenant, name) for name in sorted(found))
            raise AmbiguousSymbol(
                f"the name stands for something in each of {shown}; name one repository",
                field="repositories",
            )
        raise missing or UnknownSymbol("nothing is indexed here yet; run `plait index PATH` first")

    def _qualified(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Ids as the caller knows them (`repo:name`) get their tenant."""
        return {
            key: scope.id_in(self._tenant, value, f"template.parameters[{key}]")
            if isinstance(value, str) and ":" in value and "@" not in value.partition(":")[0]
            else value
            for key, value in parameters.items()
        }


class _NotRead(StoreUnavailable):
    """A code graph was not read, in good time: its revision is gone, or the store failed."""


class _TooLarge(Exception):
    """A code graph is not kept: it has more edges than `recall.max_graph_edges`."""


@dataclass(frozen=True, slots=True)
class _Question:
    """One checked question, to be asked of a repository."""

    app: App
    template: Template
    given: Mapping[str, Any]
    asked: TemplateQuestion
    view: View
    deadline: Deadline

    @property
    def limits(self) -> Limits:
        return Limits(self.asked.max_rows, self.app.settings.graph.max_result_bytes)

    async def of(self, repo: str) -> GraphResult:
        try:
            return await self._answered(repo, lambda: self._graph(repo))
        except _TooLarge:
            async with self.app.partial_graphs:
                return await self._by_parts(repo)

    async def _answered(self, repo: str, graph_of: memories.Graph) -> GraphResult:
        if self.template.memory:
            source = memories.Source(self.app.truth.memory_links, self.view, repo, graph_of)
            return await memories.answer(source, self.template.name, self.given, self.limits)
        graph = await graph_of()
        if graph is None:
            raise self._no_code(repo)
        # A thread: names near to an unknown one, or thousands of rows, take tens of milliseconds.
        return await asyncio.to_thread(
            answers.answer, graph, self.template.name, self.given, self.limits
        )

    async def _by_parts(self, repo: str) -> GraphResult:
        """From the rows of a repository whose graph is too large to be kept: what the question needs of it."""
        partial = self.app.truth.relations.partial_graph(self.view, repo)

        async def graph_of() -> CodeGraph:
            return partial.graph

        while True:
            self.deadline.check("reading the code graph")
            failed: PlaitError | None = None
            try:
                found = await self._answered(repo, graph_of)
            except (UnknownSymbol, AmbiguousSymbol, ResultTooLarge) as exc:
                failed = exc  # of what has been read so far
            match await partial.complete():
                case "gone":
                    raise self._not_read(repo)
                case "whole" if failed is not None:
                    raise failed
                case "whole":
                    return found

    def _no_code(self, repo: str) -> UnknownSymbol:
        text = next(
            str(self.given[param.name])
            for param in self.template.params
            if param.kind is not Kind.INT
        )
        return UnknownSymbol(
            f"nothing is called {text!r} in the repository {repo!r}, which has no code indexed; run "
            "`plait index PATH` first",
            symbol=text,
        )

    async def _graph(self, repo: str) -> CodeGraph | None:
        """The code of the view's revision; None where there is none. Raises: _TooLarge, _NotRead."""
        relations = self.app.truth.relations
        graph = await relations.code_graph(self.view, repo, wait_s=self.deadline.left_s)
        if graph is not None:
            return graph
        match relations.graph_state(self.view, repo):
            case "none":
                return None
            case "too_large":
                raise _TooLarge
        self.deadline.check("reading the code graph")
        raise self._not_read(repo)

    def _not_read(self, repo: str) -> _NotRead:
        return _NotRead(
            f"the code graph of {repo!r} could not be read; the service's log says why",
            repository=repo,
        )
