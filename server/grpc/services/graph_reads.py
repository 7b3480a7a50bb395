"""GraphQuery inside one tenant: what is asked, and Cypher's repositories. Templates: `template_reads`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plait.domain.answers.graph import GraphResult
from plait.domain.deadline import Deadline
from plait.domain.errors import CypherRefused, InvalidInput
from plait.domain.memory import NOW, AsOf
from plait.domain.values import Collection, Filter, Revision
from plait.ports import View
from plait.retrieval.code_graph.graph_query import read_steady
from plait.v1 import knowledge_service_pb2 as pb
from server.app import App
from server.grpc import visible
from server.grpc.messages import parse, scope, times
from server.grpc.services.template_reads import TemplateQuestion

# A repository that has episodes or memories and no index is in the graph too.
_ANY = tuple(Collection)


@dataclass(frozen=True, slots=True)
class GraphQuestion:
    """`repos` qualified, empty for all of the tenant's."""

    repos: tuple[str, ...]
    cypher: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    max_rows: int = 0
    as_of: AsOf = NOW


def parsed(
    tenant: str, request: pb.GraphQueryRequest, most_rows: int
) -> GraphQuestion | TemplateQuestion:
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
            return TemplateQuestion(repos, name, values, rows, as_of)
        case "cypher":
            cypher = parse.text(request.cypher.text, "cypher.text", parse.MAX_CYPHER_BYTES)
            if not cypher.strip():
                raise InvalidInput("cypher.text is empty; write one statement", field="cypher.text")
            values = parse.parameters(request.cypher.parameters, "cypher.parameters")
            return GraphQuestion(repos, cypher, values, rows, as_of)
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
        visible.check_cypher()
        # A wrong name is answered before a graph is started.
        view = await self._view(asked)
        await self._check_alone()
        names = asked.repos or tuple(r.repo for r in view.revisions)
        store = await self._app.graph()
        await self._app.graph_holds(names, self._deadline)

        async def read() -> tuple[GraphResult, View]:
            answer = store.query(
                asked.cypher,
                asked.parameters,
                max_rows=asked.max_rows,
                deadline=self._deadline,
                as_of=asked.as_of,
                repos=asked.repos,
            )
            return await asyncio.gather(answer, self._view(asked))

        result, seen = await read_steady(truth.outbox, names, read, self._deadline)
        await self._check_alone()  # another tenant's first text may have come meanwhile
        return result, list(seen.revisions)

    async def _view(self, asked: GraphQuestion) -> View:
        where = Filter(
            repos=asked.repos, all_repos=not asked.repos, tenant=self._tenant, collections=_ANY
        )
        return await self._app.truth.search.view(where)

    async def _check_alone(self) -> None:
        """Whether the whole graph is this tenant's. Raises: CypherRefused."""
        if any(one != self._tenant for one in await self._app.truth.repositories.tenants()):
            raise CypherRefused(
                "this server holds more than one tenant, and Cypher reads the whole graph; use a "
                "template (`plait graph --help` lists them), or a server of your own",
                field="cypher.text",
            )
