"""GraphQuery inside one tenant: which repositories it may read, and how a name is looked up in them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from graph import templates
from plait.domain.answers.graph import GraphResult
from plait.domain.deadline import Deadline
from plait.domain.errors import AmbiguousSymbol, CypherRefused, InvalidInput, UnknownSymbol
from plait.domain.memory import NOW, AsOf
from plait.domain.values import Collection, Filter, Revision
from plait.ports import GraphStore, View
from plait.retrieval.code_graph.graph_query import read_steady
from plait.v1 import knowledge_service_pb2 as pb
from server.app import App
from server.grpc import visible
from server.grpc.messages import parse, scope, times

# A repository that has episodes or memories and no index is in the graph too.
_ANY = tuple(Collection)


@dataclass(frozen=True, slots=True)
class GraphQuestion:
    """`repos` qualified, empty for all of the tenant's. One of `template` and `cypher` is not empty."""

    repos: tuple[str, ...]
    template: str
    cypher: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    max_rows: int = 0
    as_of: AsOf = NOW


def parsed(tenant: str, request: pb.GraphQueryRequest, most_rows: int) -> GraphQuestion:
    """Raises: InvalidInput, ScopeMissing, TimeNotUnderstood."""
    names = parse.repositories(request.repositories, "repositories")
    scope.check_named(names, request.all_repositories, "repositories")
    repos = scope.names_in(tenant, names)
    rows = parse.max_rows(request.max_rows, most_rows)
    as_of = times.as_of(request.as_of)
    match request.WhichOneof("query"):
        case "template":
            name = parse.text(request.template.name, "template.name", parse.MAX_NAME_BYTES)
            values = parse.parameters(request.template.parameters, "template.parameters")
            if not name:
                raise parse.bad("template.name", "is empty; docs/schema-graph.md lists templates")
            return GraphQuestion(repos, name, "", values, rows, as_of)
        case "cypher":
            cypher = parse.text(request.cypher.text, "cypher.text", parse.MAX_CYPHER_BYTES)
            if not cypher.strip():
                raise InvalidInput("cypher.text is empty; write one statement", field="cypher.text")
            values = parse.parameters(request.cypher.parameters, "cypher.parameters")
            return GraphQuestion(repos, "", cypher, values, rows, as_of)
    raise InvalidInput("query is missing; set template or cypher", field="query")


class GraphReader:
    """Reads for one call of one tenant."""

    def __init__(self, app: App, tenant: str, deadline: Deadline) -> None:
        self._app = app
        self._tenant = tenant
        self._deadline = deadline

    async def read(self, asked: GraphQuestion) -> tuple[GraphResult, list[Revision]]:
        """The answer over one state of the graph, and the revisions it shows.

        Raises: RepositoryNotIndexed, CypherRefused, GraphUpdating; and as `GraphStore.query`.
        """
        truth = self._app.truth
        if asked.cypher:
            visible.check_cypher()
        if not asked.repos and visible.is_limited():
            asked = replace(asked, repos=(await self._narrowed(asked)).repos)
        # A wrong name is answered before a graph is started.
        view = await self._view(asked)
        alone = await self._alone(asked)
        names = tuple(r.repo for r in view.revisions)
        if asked.repos:
            names = asked.repos
        store = await self._app.graph()
        await self._app.graph_holds(names, self._deadline)

        async def read() -> tuple[GraphResult, View]:
            answer = (
                self._cypher(store, asked)
                if asked.cypher
                else self._template(store, asked, names, alone)
            )
            return await asyncio.gather(answer, self._view(asked))

        # With nothing of its own a tenant's epoch would be the whole server's.
        memory = not asked.template or templates.find(asked.template).memory
        result, seen = await read_steady(truth.outbox, names, read, self._deadline, memory=memory)
        if asked.cypher:
            await self._alone(asked)  # another tenant's first text may have come meanwhile
        return result, [r for r in seen.revisions if not asked.repos or r.repo in asked.repos]

    async def _narrowed(self, asked: GraphQuestion) -> Filter:
        return await visible.narrowed(self._app.truth.search, self._where(asked))

    async def _view(self, asked: GraphQuestion) -> View:
        return await self._app.truth.search.view(self._where(asked))

    def _where(self, asked: GraphQuestion) -> Filter:
        return Filter(
            repos=asked.repos,
            all_repos=not asked.repos,
            tenant=self._tenant,
            collections=_ANY,
        )

    async def _alone(self, asked: GraphQuestion) -> bool:
        """Whether the whole graph is this tenant's. Raises: CypherRefused."""
        others = [t for t in await self._app.truth.repositories.tenants() if t != self._tenant]
        if others and asked.cypher:
            raise CypherRefused(
                "this server holds more than one tenant, and Cypher reads the whole graph; use a "
                "template (`plait graph --help` lists them), or a server of your own",
                field="cypher.text",
            )
        return not others

    async def _cypher(self, store: GraphStore, asked: GraphQuestion) -> GraphResult:
        return await store.query(
            asked.cypher,
            asked.parameters,
            max_rows=asked.max_rows,
            deadline=self._deadline,
            as_of=asked.as_of,
            repos=asked.repos,
        )

    async def _template(
        self, store: GraphStore, asked: GraphQuestion, names: tuple[str, ...], alone: bool
    ) -> GraphResult:
        """A template looks names up in one repository, or in the whole graph: of several it is asked
        for each, and one may answer."""
        said = asked.parameters.get("repo")
        if isinstance(said, str) and said:
            names = (self._said(said, names),)
        elif alone and not asked.repos:
            return await self._one(store, asked, "")
        if len(names) == 1:
            return await self._one(store, asked, names[0])
        found: dict[str, GraphResult] = {}
        missing: UnknownSymbol | None = None
        for name in names:
            try:
                found[name] = await self._one(store, asked, name)
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

    def _said(self, said: str, names: tuple[str, ...]) -> str:
        """The parameter `repo`, which narrows the repositories of the request."""
        name = scope.name_in(self._tenant, said, "template.parameters[repo]")
        if name not in names:
            raise InvalidInput(
                f"template.parameters[repo] {said[:80]!r} is none of the repositories that the request "
                "names; name it there too",
                field="template.parameters",
            )
        return name

    async def _one(self, store: GraphStore, asked: GraphQuestion, repo: str) -> GraphResult:
        return await store.template(
            asked.template,
            {**self._qualified(asked.parameters), "repo": repo},
            max_rows=asked.max_rows,
            deadline=self._deadline,
            as_of=asked.as_of,
        )

    def _qualified(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Ids as the caller knows them (`repo:name`) get their tenant."""
        return {
            key: scope.id_in(self._tenant, value, f"template.parameters[{key}]")
            if isinstance(value, str) and ":" in value and "@" not in value.partition(":")[0]
            else value
            for key, value in parameters.items()
        }
