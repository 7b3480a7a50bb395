"""Have the running service of this home do an index run: it holds what repositories in use were bound from, and
its own runs and this one then take turns in one process."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from typing import TYPE_CHECKING

import plait
from etl.plan import repository_name
from etl.report import IndexReport, Progress
from plait.client import PlaitClient, discovery
from plait.client.errors import PlaitRpcError
from plait.domain.errors import PlaitError

if TYPE_CHECKING:
    from pathlib import Path

    from plait.domain.answers.indexing import IndexJob
    from plait.settings import Settings


class RunFailed(PlaitError):
    """With the reason, text and values of the error that ended the service's run."""

    reason: str  # type: ignore[misc]  # of the instance

    def __init__(self, job: IndexJob) -> None:
        super().__init__(job.error_message, **job.error_metadata)
        self.reason = job.error_reason


_FIELDS = frozenset(field.name for field in fields(IndexReport))


def hand_over(
    root: Path, repo: str, settings: Settings, progress: Progress, *, embed: bool
) -> IndexReport | None:
    """The report of the service's run over `root`, which is absolute, as soon as it is published. None where this
    process has to do it: no service runs, or one with other settings, this folder was not indexed before or is
    named through a link, or the service ended over it.

    Raises: RunFailed; PlaitRpcError, when the service refuses it.
    """
    if os.path.realpath(root) != str(root):
        return None  # the service goes by what a link or `..` leads to, this command by what it was given
    known = discovery.running(settings.home)
    if known is None or known.version != plait.__version__ or known.settings != settings.digest():
        return None
    name = repository_name(root, repo)
    with PlaitClient(known.target, tenant=settings.scope.tenant, settings=settings) as client:
        try:
            if not any(r.name == name and r.root == str(root) for r in client.list_repositories()):
                return None
            return _followed(client, root, name, progress, embed=embed)
        except PlaitRpcError:
            if discovery.running(settings.home) == known:
                raise
            return None  # it has ended, and its run has left nothing that this one could trip over


def _followed(
    client: PlaitClient, root: Path, repo: str, progress: Progress, *, embed: bool
) -> IndexReport | None:
    begun = client.start_index(str(root), repository=repo, embed=embed)
    stage, done = "", 0
    for job in client.watch_index_job(begun.id):
        if job.state == "published" or job.final:
            break
        if job.stage != stage:
            stage, done = job.stage, 0
            progress.start(stage, job.total or None)
        progress.advance(job.done - done)
        done = job.done
    progress.finish()
    job = client.get_index_job(begun.id)
    if job.state == "cancelled":
        return None
    return _report(job)


def _report(job: IndexJob) -> IndexReport:
    """Raises: RunFailed."""
    if not job.report:
        raise RunFailed(job)
    body = {name: value for name, value in json.loads(job.report).items() if name in _FIELDS}
    for name in ("skipped_files", "unparsed_files", "masked_files", "notes"):
        body[name] = tuple(tuple(one) if isinstance(one, list) else one for one in body[name])
    return IndexReport(**body)
