"""Repositories and the runs that index them."""

from __future__ import annotations

from plait.domain.errors.families import (
    Busy,
    Conflict,
    Exhausted,
    InvalidInput,
    NotFound,
    Precondition,
    Unavailable,
)


class RepositoryNotIndexed(NotFound):
    reason = "REPOSITORY_NOT_INDEXED"

    def __init__(self, repository: str) -> None:
        super().__init__(
            f"repository {repository!r} has no published index; "
            f"run `plait index PATH --repo {repository}` first, or `plait doctor` to list what is indexed",
            repository=repository,
        )


class FolderNotIndexed(NotFound):
    """The folder that a command was called in is a repository of its own: inside one that is indexed, or a linked
    work tree of one."""

    reason = "FOLDER_NOT_INDEXED"

    def __init__(self, root: str, around: str, command: str) -> None:
        super().__init__(
            f"{root} is a git work tree of its own and is not indexed; run `{command}` to index it, or say "
            f"--repo {around} if you mean that repository",
            root=root,
            around=around,
            command=command,
        )


class DraftLost(Busy):
    """The database crashed during an index run and lost part of what the run had written."""

    reason = "DRAFT_LOST"

    def __init__(self, repository: str) -> None:
        super().__init__(
            f"PostgreSQL crashed while {repository!r} was being indexed and lost part of the run; what was "
            "published is intact: run again",
            repository=repository,
        )


class RepositoryNameTaken(Conflict):
    reason = "REPOSITORY_NAME_TAKEN"

    def __init__(self, repository: str, indexed_root: str, root: str) -> None:
        super().__init__(
            f"the name {repository!r} belongs to the repository at {indexed_root}, not to {root}; "
            "choose another with `--repo NAME`, or say `--move` if the folder moved",
            repository=repository,
            indexed_root=indexed_root,
            root=root,
        )


class RepositoryBusy(Busy):
    reason = "REPOSITORY_BUSY"

    def __init__(self, repository: str) -> None:
        super().__init__(
            f"another process is indexing {repository!r}; wait for it to end, then run again",
            repository=repository,
        )


class NotARepository(InvalidInput):
    """The path is missing, not a folder, or not readable."""

    reason = "NOT_A_REPOSITORY"


class EmptyRepository(InvalidInput):
    """Nothing in the folder can be indexed."""

    reason = "EMPTY_REPOSITORY"


class NoSymbols(Precondition):
    """Parseable files yielded no symbol at all: a broken grammar, never a success."""

    reason = "NO_SYMBOLS"


class ParseWorkerFailed(Unavailable):
    """A parse worker process could not be started."""

    reason = "PARSE_WORKER_FAILED"


class ExportFailed(Precondition):
    """The file that an export goes to can't be written."""

    reason = "EXPORT_FAILED"


class IndexJobUnknown(NotFound):
    reason = "INDEX_JOB_UNKNOWN"

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"no index job {job_id[:64]!r} on this server; jobs are forgotten when it stops. "
            "Start the index again: a run on an unchanged repository ends at once",
            job_id=job_id[:64],
        )


class TooManyJobs(Exhausted):
    reason = "TOO_MANY_JOBS"
