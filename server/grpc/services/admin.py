"""AdminService: compare, rebuild, compact, forget, count."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import plait
from etl.verify import Differences, Verification, Verifier
from plait.domain.answers.search import Degradation
from plait.domain.answers.status import MemoryUsage, Stats
from plait.domain.answers.upkeep import (
    Compacted,
    Comparison,
    DeadLetters,
    Difference,
    Forgotten,
    Letter,
)
from plait.domain.deadline import Deadline
from plait.domain.errors import CompactionUnknown, PlaitError
from plait.domain.retention import Compaction, ForgetReceipt
from plait.domain.scope import Scope
from plait.domain.values import Collection, Filter, Revision
from plait.memory.compact import NOTHING
from plait.memory.retention import most_tokens
from plait.ports import DeadLetter, View
from plait.v1 import admin_service_pb2 as pb
from plait.v1 import admin_service_pb2_grpc
from plait.wire import status, upkeep
from server.app import App
from server.grpc import visible
from server.grpc.messages import convert, parse, parse_memory, scope

MAX_STEPS = 10_000
MAX_SHOWN = 1000
LOOK_S = 0.05  # how often an answer that waits for the graph looks at it
_KINDS = ("missing", "extra", "different")
_ANY = tuple(Collection)


class AdminService(admin_service_pb2_grpc.AdminServiceServicer):
    def __init__(self, app: App) -> None:
        self._app = app

    def _tenant(self, context: Any) -> str:
        return scope.tenant_of(context, self._app.settings.scope)

    async def _named(self, tenant: str, request: Any) -> View:
        """The repositories a request is about, all known to the tenant.

        Raises: ScopeMissing, InvalidInput, RepositoryNotIndexed.
        """
        names = parse.repositories(request.repositories, "repositories")
        scope.check_named(names, request.all_repositories, "repositories")
        repos = scope.names_in(tenant, names)
        where = Filter(repos=repos, all_repos=not repos, tenant=tenant, collections=_ANY)
        return await self._app.truth.search.view(
            await visible.narrowed(self._app.truth.search, where)
        )

    # -- the graph ------------------------------------------------------------------------------------

    async def Verify(self, request: pb.VerifyRequest, context: Any) -> pb.VerifyResponse:
        tenant = self._tenant(context)
        view = await self._named(tenant, request)
        verifier = Verifier(self._app.truth.outbox, self._app.graph, self._app.projector)
        found = []
        for revision in view.revisions:
            result = await verifier.verify(revision.repo)
            # What it was projected to meanwhile.
            current = await self._app.truth.search.view(
                Filter(repos=(revision.repo,), tenant=tenant, collections=_ANY)
            )
            found.append(_comparison(tenant, result, current.revisions[0]))
        return pb.VerifyResponse(
            repositories=[upkeep.comparison(one) for one in found],
            consistent=all(one.consistent for one in found),
        )

    async def Rebuild(self, request: pb.RebuildRequest, context: Any) -> pb.RebuildResponse:
        view = await self._named(self._tenant(context), request)
        names = [revision.repo for revision in view.revisions]
        return pb.RebuildResponse(waiting=await self._app.commit(self._reset(names)))

    async def _reset(self, names: Sequence[str]) -> int:
        for name in names:
            await self._app.truth.outbox.reset(name)
        waiting = await self._app.truth.outbox.waiting(names)
        self._app.level_soon()
        return waiting

    async def ListDeadLetters(
        self, request: pb.ListDeadLettersRequest, context: Any
    ) -> pb.ListDeadLettersResponse:
        tenant = self._tenant(context)
        letters = await self._dead(await self._named(tenant, request))
        shown = tuple(_letter(tenant, one) for one in letters[:MAX_SHOWN])
        return upkeep.letters(DeadLetters(shown, total=len(letters)))

    async def _dead(self, view: View) -> list[DeadLetter]:
        names = [revision.repo for revision in view.revisions]
        # An empty list would mean every tenant's.
        return await self._app.truth.outbox.dead(names) if names else []

    async def RetryDeadLetters(
        self, request: pb.RetryDeadLettersRequest, context: Any
    ) -> pb.RetryDeadLettersResponse:
        view = await self._named(self._tenant(context), request)
        names = [revision.repo for revision in view.revisions]

        async def revive() -> int:
            revived = await self._app.truth.outbox.revive(names) if names else 0
            self._app.project_soon()
            return revived

        return pb.RetryDeadLettersResponse(revived=await self._app.commit(revive()))

    # -- memories -------------------------------------------------------------------------------------

    async def Compact(self, request: pb.CompactRequest, context: Any) -> pb.CompactResponse:
        tenant = self._tenant(context)
        parse.request_id(request.request_id)
        parse_memory.repository(tenant, request.repository, "repository")
        agent = parse.text(request.agent_id, "agent_id", parse.MAX_NAME_BYTES)
        if request.without_agent == bool(agent):
            raise parse.bad(
                "agent_id",
                "is given and without_agent is set; leave one of them out"
                if agent
                else "is empty; say whose memories to compact, or set without_agent",
            )
        where = Scope(tenant, request.repository, agent)
        undo_s = parse_memory.undo_window(request, self._app.settings.memory.undo_s)
        work = self._app.retention.compact(
            where,
            budget=parse_memory.budget(request.budget),
            dry_run=request.dry_run,
            undo_s=undo_s,
            request_id=request.request_id,
        )
        done = await self._app.commit(work)
        return upkeep.compacted(_compacted(tenant, done, dry_run=request.dry_run))

    async def UndoCompaction(
        self, request: pb.UndoCompactionRequest, context: Any
    ) -> pb.UndoCompactionResponse:
        tenant = self._tenant(context)
        id_ = parse_memory.id_(request.compaction_id, "compaction_id")

        if visible.is_limited() and not visible.sees(
            tenant, await self._app.truth.retention.compacted_in(tenant, id_)
        ):
            raise CompactionUnknown.of(id_)

        async def undo() -> int:
            restored = await self._app.truth.retention.undo(tenant, id_)
            self._app.project_soon()
            return restored

        return pb.UndoCompactionResponse(restored=await self._app.commit(undo()))

    async def Forget(self, request: pb.ForgetRequest, context: Any) -> pb.ForgetResponse:
        tenant = self._tenant(context)
        repo = parse_memory.repository(tenant, request.repository, "repository")
        selector = parse_memory.selector(request.selector)

        async def forget() -> ForgetReceipt:
            done = await self._app.truth.forgetting.forget(
                tenant, repo, selector, dry_run=request.dry_run
            )
            if not request.dry_run:
                await self._app.clear_caches()
                self._app.remove_soon()
            return done

        receipt = await self._app.commit(forget())
        response = upkeep.forgotten(
            _forgotten(receipt, not receipt.dry_run and await self._followed(repo))
        )
        if request.reclaim and not request.dry_run:
            response.reclaimed.extend(await self._app.commit(self._app.truth.forgetting.reclaim()))
        if (held := await self._app.truth.forgetting.held(receipt.marks)) is not None:
            response.table_files, response.log_files = held.table_files, held.log_files
        return response

    async def _followed(self, repo: str) -> bool:
        """Whether the graph shows what the truth holds of `repo`, within `server.follow_s`; one that was
        never made holds nothing that has to go."""
        if self._app.graph_is_empty:
            return True
        deadline = Deadline.after(self._app.settings.server.follow_s)
        while await self._app.truth.outbox.waiting([repo]):
            if deadline.left_s <= 0:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    # -- counts ---------------------------------------------------------------------------------------

    async def Stats(self, request: pb.StatsRequest, context: Any) -> pb.StatsResponse:
        tenant = self._tenant(context)
        truth = self._app.truth
        view = await self._seen(tenant)
        published = [revision for revision in view.revisions if revision.number]
        usage = {
            key: n
            for key, n in (await truth.retention.usage(tenant)).items()
            if visible.sees(tenant, key[0])
        }
        largest = sorted(usage.items(), key=lambda one: (-one[1].tokens, one[0]))[:MAX_SHOWN]
        counts: dict[str, int] = {}
        degraded: list[Degradation] = []
        if request.include_graph:
            await self._count(view, counts, degraded)
        return status.stats(
            Stats(
                version=plait.__version__,
                started_at=self._app.started_at,
                revisions=convert.revisions(tenant, published),
                waiting_projections=await truth.outbox.waiting(visible.own(tenant)),
                graph_counts=counts,
                embedding_model=view.model,
                embedding_dimension=view.dim,
                degraded=tuple(degraded),
                dead_letters=len(await self._dead(view)),
                memory_usage={
                    (scope.name_out(tenant, repo), agent, budget): MemoryUsage(
                        known.tokens,
                        most_tokens(self._app.settings.memory, budget),
                        known.memories,
                        known.closed,
                    )
                    for (repo, agent, budget), known in largest
                },
            )
        )

    async def _seen(self, tenant: str) -> View:
        """All that the caller sees of the tenant, which may be nothing."""
        where = Filter(tenant=tenant, all_repos=True, collections=_ANY)
        view = await self._app.truth.search.view(where)
        return replace(
            view, revisions=tuple(r for r in view.revisions if visible.sees(tenant, r.repo))
        )

    async def _count(self, view: View, counts: dict[str, int], degraded: list[Degradation]) -> None:
        """Add the graph's counts of the tenant's repositories to `counts`."""
        try:
            graph = await self._app.graph()
            for revision in view.revisions:
                for name, count in (await graph.counts(revision.repo)).items():
                    counts[name] = counts.get(name, 0) + count
        except PlaitError as exc:
            degraded.append(Degradation("graph", exc.reason))


def _comparison(tenant: str, found: Verification, revision: Revision) -> Comparison:
    return Comparison(
        revision=convert.revision(tenant, revision),
        consistent=found.consistent and not found.dead,
        nodes=found.nodes,
        edges=found.edges,
        differences=tuple(
            _difference(tenant, kind, getattr(found, kind))
            for kind in _KINDS
            if getattr(found, kind).total
        ),
        waiting=found.waiting,
        dead_letters=found.dead,
        checked=found.checked,
        took_ms=found.took_ms,
    )


def _difference(tenant: str, kind: str, found: Differences) -> Difference:
    prefix = scope.name_in(tenant, "")
    examples = [example.replace(prefix, "") if prefix else example for example in found.examples]
    return Difference(kind, found.total, found.counts, tuple(examples))


def _letter(tenant: str, letter: DeadLetter) -> Letter:
    prefix = scope.name_in(tenant, "")
    return Letter(
        event_id=letter.event_id,
        repository=scope.name_out(tenant, letter.repo),
        kind=letter.kind,
        attempts=letter.attempts,
        cause=letter.cause.replace(prefix, "") if prefix else letter.cause,
        died_at=letter.died_at,
    )


def _compacted(tenant: str, done: Compaction, *, dry_run: bool) -> Compacted:
    plan, carried_out = done.plan, done.id != NOTHING
    return Compacted(
        id=str(done.id) if carried_out else "",
        dry_run=dry_run,
        steps=tuple(plan.steps[:MAX_STEPS]),
        steps_left_out=max(0, len(plan.steps) - MAX_STEPS),
        summaries=tuple(convert.memory(tenant, entry) for entry in plan.summaries),
        examined=plan.examined,
        closed=len(plan.closed),
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens_after,
        budget_tokens=plan.budget_tokens,
        notes=tuple(plan.notes),
        undo_until=done.undo_until if carried_out else None,
    )


def _forgotten(receipt: ForgetReceipt, graph_done: bool) -> Forgotten:
    return Forgotten(
        id="" if receipt.dry_run or not receipt.event_id else str(receipt.id),
        dry_run=receipt.dry_run,
        memory_ids=tuple(receipt.entries[:MAX_STEPS]),
        episode_ids=tuple(receipt.episodes[:MAX_STEPS]),
        memories=len(receipt.entries),
        episodes=len(receipt.episodes),
        removed=receipt.removed,
        left=receipt.left,
        graph_done=graph_done,
    )
