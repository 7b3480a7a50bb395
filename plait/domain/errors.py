"""Every error Plait raises on purpose: what happened, which values, what to do.

`reason` is stable and meant for programs; the text may change. Every value in the text is also in
`metadata`. `server/grpc/errors.py` maps the families below to canonical gRPC codes, by the nearest
mapped ancestor. `docs/errors.md` lists every reason with its fix, and a test keeps it complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar


class PlaitError(Exception):
    """Root of all deliberate errors. Subclasses set `reason` (UPPER_SNAKE_CASE)."""

    reason: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, **metadata: object) -> None:
        super().__init__(message)
        self.message = message
        self.metadata: dict[str, str] = {k: str(v) for k, v in metadata.items()}


# -- families: one a canonical code --------------------------------------------------------------


class InvalidInput(PlaitError):
    """The request can never succeed as written (INVALID_ARGUMENT)."""

    reason = "INVALID_INPUT"

    def __init__(self, message: str, *, field: str = "", **metadata: object) -> None:
        super().__init__(message, **metadata)
        self.field = field  # the request field at fault, for BadRequest


class NotFound(PlaitError):
    """What was named does not exist (NOT_FOUND)."""

    reason = "NOT_FOUND"


class Conflict(PlaitError):
    """What was named exists already and differs (ALREADY_EXISTS)."""

    reason = "CONFLICT"


class Precondition(PlaitError):
    """The request is fine, the state is not; the text says what to change (FAILED_PRECONDITION)."""

    reason = "PRECONDITION"


class Busy(PlaitError):
    """Somebody else is at it; try again (ABORTED)."""

    reason = "BUSY"


class Exhausted(PlaitError):
    """A limit, a disk or a quota is full (RESOURCE_EXHAUSTED)."""

    reason = "EXHAUSTED"


class Forbidden(PlaitError):
    """Refused by a rule that the caller cannot change (PERMISSION_DENIED)."""

    reason = "FORBIDDEN"


class Unauthenticated(PlaitError):
    """Nobody knows who calls (UNAUTHENTICATED)."""

    reason = "UNAUTHENTICATED"


class Unavailable(PlaitError):
    """A part Plait depends on does not answer; try again (UNAVAILABLE)."""

    reason = "UNAVAILABLE"


class OutOfTime(PlaitError):
    """The deadline passed (DEADLINE_EXCEEDED)."""

    reason = "OUT_OF_TIME"


class NotBuilt(PlaitError):
    """Declared in the contract, not built yet (UNIMPLEMENTED)."""

    reason = "NOT_BUILT"


class Internal(PlaitError):
    """A fault of Plait itself (INTERNAL). The log of the server has the details."""

    reason = "INTERNAL"


# -- settings ---------------------------------------------------------------------------------------


class BadSettings(InvalidInput):
    reason = "BAD_SETTINGS"


# -- stores -------------------------------------------------------------------------------------------


class StoreUnavailable(Unavailable):
    """A database does not answer."""

    reason = "STORE_UNAVAILABLE"


class GraphUnavailable(StoreUnavailable):
    """The graph server does not answer."""

    reason = "GRAPH_UNAVAILABLE"


class StoreFull(Exhausted):
    """The disk under a database is full."""

    reason = "STORE_FULL"


class StoreContended(Busy):
    """A deadlock or a serialization failure that did not go away when tried again."""

    reason = "STORE_CONTENDED"


class EmbeddedServerFailed(Unavailable):
    """A child server did not start or keep running."""

    reason = "EMBEDDED_SERVER_FAILED"


class HomeUnusable(Precondition):
    """The data folder cannot be written, or the servers' account cannot reach it."""

    reason = "HOME_UNUSABLE"


class SchemaMismatch(Precondition):
    """The database's migrations differ from this version's."""

    reason = "SCHEMA_MISMATCH"


class UnsafeGraphStore(Precondition):
    """A start-up probe that should have been refused by the graph server went through."""

    reason = "UNSAFE_GRAPH_STORE"


# -- repositories and indexing --------------------------------------------------------------------------


class RepositoryNotIndexed(NotFound):
    reason = "REPOSITORY_NOT_INDEXED"

    def __init__(self, repository: str) -> None:
        super().__init__(
            f"repository {repository!r} has no published index; "
            f"run `plait index PATH --repo {repository}` first, or `plait doctor` to list what is indexed",
            repository=repository,
        )


class FolderNotIndexed(NotFound):
    """The folder that a command was called in is a repository of its own, inside one that is indexed."""

    reason = "FOLDER_NOT_INDEXED"

    def __init__(self, root: str, around: str, command: str) -> None:
        super().__init__(
            f"{root} is a git work tree of its own and is not indexed; run `{command}` to index it, or say "
            f"--repo {around} if you mean the repository around it",
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


class GraphUpdating(Busy):
    """The graph is between two revisions and the caller's deadline is too short to wait, or what a read
    asks for was being deleted in every one of its tries."""

    reason = "GRAPH_UPDATING"


class GraphConflict(Busy):
    """Two processes write the same part of the graph; the one that lost tries again."""

    reason = "GRAPH_CONFLICT"


# -- embedding ----------------------------------------------------------------------------------------


class EmbeddingModelMismatch(Precondition):
    reason = "EMBEDDING_MODEL_MISMATCH"

    def __init__(self, index_model: str, index_dim: int, model: str, dim: int) -> None:
        super().__init__(
            f"the index holds vectors of {index_model} ({index_dim}-d) and the configured model is "
            f"{model} ({dim}-d); vectors of two models are never mixed. Set the model back in "
            "`embedding`, or use another `PLAIT_HOME` or database for the new model and index again",
            index_model=index_model,
            index_dim=index_dim,
            model=model,
            dim=dim,
        )


class EmbeddingUnavailable(Unavailable):
    reason = "EMBEDDING_UNAVAILABLE"


class LanguageModelUnavailable(Unavailable):
    """The chat model or reranker does not answer; whoever asked goes on without it."""

    reason = "LANGUAGE_MODEL_UNAVAILABLE"


class EmbeddingRefused(Precondition):
    """The provider refused for good: a wrong key, an unknown model, a wrong dimension."""

    reason = "EMBEDDING_REFUSED"


class BadModelFile(Precondition):
    """A model file is missing or its digest is not the one Plait shipped."""

    reason = "BAD_MODEL_FILE"


# -- graph queries ----------------------------------------------------------------------------------------


class CypherRefused(InvalidInput):
    """The guard found a clause, procedure or pattern that a read-only query may not have."""

    reason = "CYPHER_REFUSED"


class CypherInvalid(InvalidInput):
    """The graph server could not parse or run the statement."""

    reason = "CYPHER_INVALID"


class UnknownTemplate(InvalidInput):
    reason = "UNKNOWN_TEMPLATE"


class UnknownSymbol(NotFound):
    """No node answers to the name a template was given."""

    reason = "UNKNOWN_SYMBOL"


class AmbiguousSymbol(InvalidInput):
    """Several nodes answer to the name; the text lists them."""

    reason = "AMBIGUOUS_SYMBOL"


class ResultTooLarge(Exhausted):
    reason = "RESULT_TOO_LARGE"


class DeadlineExceeded(OutOfTime):
    reason = "DEADLINE_EXCEEDED"

    def __init__(self, what: str, limit_s: float) -> None:
        super().__init__(
            f"{what} did not end within {round(limit_s, 1):g} s; ask for less or allow more time",
            what=what,
            limit_s=limit_s,
        )


# -- episodes ---------------------------------------------------------------------------------------------


class EpisodeInvalid(InvalidInput):
    reason = "EPISODE_INVALID"


class RequestIdReused(Conflict):
    reason = "REQUEST_ID_REUSED"

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"request_id {request_id!r} was used before with another body; "
            "send the same body to repeat a request, or a new request_id for a new one",
            request_id=request_id,
        )


class RequestForgotten(RequestIdReused):
    """What this request stored was forgotten: a repeat must not bring it back."""

    reason = "REQUEST_FORGOTTEN"

    def __init__(self, request_id: str) -> None:
        Conflict.__init__(
            self,
            f"what request {request_id!r} stored was forgotten, and a repeat does not bring it back; "
            "send it under a new request_id to store it again",
            request_id=request_id,
        )


# -- the server and the wire ----------------------------------------------------------------------------


class MemoryInvalid(InvalidInput):
    """A memory that breaks a rule of docs/memories.md; `field` is at fault."""

    reason = "MEMORY_INVALID"


class RecallUnknown(NotFound):
    """No receipt of that recall: never made, another tenant's, or no longer kept."""

    reason = "RECALL_UNKNOWN"

    def __init__(self, recall_id: object) -> None:
        super().__init__(
            f"no recall {recall_id} is on record; use the `recall_id` of an answer of this tenant, not "
            "older than `recall.keep_s`",
            recall_id=recall_id,
        )


class MemoryNotFound(NotFound):
    """No such memory in the scope that was named (or it was forgotten)."""

    reason = "MEMORY_NOT_FOUND"

    def __init__(self, id_: object, repo: str, why: str = "", **metadata: object) -> None:
        """`why`: why this read does not see a memory that is there, and which does."""
        super().__init__(
            f"memory {id_} of {repo!r} is not read: {why}"
            if why
            else f"no memory {id_} in {repo!r}; `ListMemories` shows those there are",
            id=id_,
            repo=repo,
            **metadata,
        )


class MemoryClosed(Conflict):
    """What a memory is to take the place of has ended: something else has its place, or it was deleted."""

    reason = "MEMORY_CLOSED"

    def __init__(self, id_: object, at: datetime | None, by: object | None) -> None:
        """`at`: None where an earlier memory of the same batch ended it; `by`: what has its place."""
        when = f"at {at.isoformat()}" if at else "earlier in this batch"
        if by is None:
            super().__init__(
                f"memory {id_} can't be superseded: it was closed {when}, and nothing has its place (it "
                "was deleted, or what had its place was forgotten); leave `supersedes` out to store this "
                "as a new memory",
                id=id_,
                superseded_at=at.isoformat() if at else "",
                superseded_by="",
            )
            return
        super().__init__(
            f"memory {id_} can't be superseded again: memory {by} took its place {when}; read that one "
            "and supersede it, or leave `supersedes` out to store this beside it",
            id=id_,
            superseded_at=at.isoformat() if at else "",
            superseded_by=by,
        )


class ScopeMissing(InvalidInput):
    """A read or write that names no repository, and does not ask for all of them out loud."""

    reason = "SCOPE_MISSING"


class TimeNotUnderstood(InvalidInput):
    """Words that name no time."""

    reason = "TIME_NOT_UNDERSTOOD"


class HistoryGone(Precondition):
    """The recorded time asked for is before what is kept of this repository's code."""

    reason = "HISTORY_GONE"


class UndoExpired(Precondition):
    """The compaction's undo window has passed, or it was undone before."""

    reason = "UNDO_EXPIRED"


class CompactionUnknown(NotFound):
    reason = "COMPACTION_UNKNOWN"

    @classmethod
    def of(cls, id_: object) -> CompactionUnknown:
        return cls(
            f"no compaction {id_} of this tenant; `plait compact` prints the id of each run", id=id_
        )


class TranscriptInvalid(InvalidInput):
    """A file that an importer does not understand."""

    reason = "TRANSCRIPT_INVALID"


class RequestMalformed(InvalidInput):
    """The bytes are no message of the contract."""

    reason = "REQUEST_MALFORMED"


class StreamBroken(Unavailable):
    """The server ended a stream that was being written to; why is lost on the way."""

    reason = "STREAM_BROKEN"


class MethodUnknown(NotBuilt):
    """The server has no such method."""

    reason = "METHOD_UNKNOWN"

    def __init__(self, method: str) -> None:
        super().__init__(
            f"this server has no method {method[:200]!r}; the client and the server are of different "
            "versions (`plait version`), or the name is misspelled",
            method=method[:200],
        )


class MessageTooLarge(Exhausted):
    """A request or an answer is larger than `server.max_message_bytes`."""

    reason = "MESSAGE_TOO_LARGE"

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"the {what} has {size} bytes and may have {limit}; send or ask for less at a time, or raise "
            "`server.max_message_bytes`",
            size_bytes=size,
            limit_bytes=limit,
        )


class PageTokenInvalid(InvalidInput):
    reason = "PAGE_TOKEN_INVALID"


class IndexJobUnknown(NotFound):
    reason = "INDEX_JOB_UNKNOWN"

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"no index job {job_id[:64]!r} on this server; jobs are forgotten when it stops. "
            "Start the index again: a run on an unchanged repository ends at once",
            job_id=job_id[:64],
        )


class ServerAlreadyRunning(Precondition):
    reason = "SERVER_ALREADY_RUNNING"


class PortTaken(Precondition):
    reason = "PORT_TAKEN"


class FileLeftAlone(Precondition):
    """A file of an agent that `plait install` or `uninstall` can't edit safely."""

    reason = "FILE_LEFT_ALONE"


class McpAddressRefused(InvalidInput):
    """`plait mcp --http` is not to listen there, or not without being told so."""

    reason = "MCP_ADDRESS_REFUSED"


class TokenUnsafe(Precondition):
    """The token file of `plait serve` or `plait mcp --http` is readable for others, or broken."""

    reason = "TOKEN_UNSAFE"


class ServerNotAnswering(Unavailable):
    """A server of this PLAIT_HOME runs and doesn't answer."""

    reason = "SERVER_NOT_ANSWERING"


class ServiceNotStarted(Unavailable):
    """The background service of a PLAIT_HOME could not be started, or be stopped. Where it said why, the
    `reason` is that of its own error."""

    reason: str = "SERVICE_NOT_STARTED"  # type: ignore[misc]  # of the instance, see `because`

    @classmethod
    def because(cls, reason: str, message: str, values: Mapping[str, str]) -> ServiceNotStarted:
        """With the reason, text and values of the error that ended its start."""
        error = cls(message, **values)
        error.reason = reason
        return error


class TooManyJobs(Exhausted):
    reason = "TOO_MANY_JOBS"


# -- who may call ---------------------------------------------------------------------------------


class TlsMissing(Precondition):
    """The server is not to listen beyond this machine without TLS."""

    reason = "TLS_MISSING"


class TlsUnusable(Precondition):
    """A certificate or key can't be used, or other accounts can read the key."""

    reason = "TLS_UNUSABLE"


class ServerNotOurs(Forbidden):
    """Another account's process listens where our server should."""

    reason = "SERVER_NOT_OURS"


class VerbNotAllowed(Forbidden):
    """The caller's key does not have the verb of the method."""

    reason = "VERB_NOT_ALLOWED"


class TenantNotAllowed(Forbidden):
    """The call names another tenant than its key's."""

    reason = "TENANT_NOT_ALLOWED"


class RepositoryNotAllowed(Forbidden):
    """The call names a repository that its key does not have; whether it exists is not said."""

    reason = "REPOSITORY_NOT_ALLOWED"


class CypherNotAllowed(Forbidden):
    """Raw Cypher reads the whole graph, and the caller's key does not."""

    reason = "CYPHER_NOT_ALLOWED"


class PathNotAllowed(Forbidden):
    """The folder to index lies outside the roots of this caller."""

    reason = "PATH_NOT_ALLOWED"


class TooManyCalls(Exhausted):
    """As many calls as may be are being answered."""

    reason = "TOO_MANY_CALLS"


class TooManyConnections(Exhausted):
    """The key has as many connections as one may have."""

    reason = "TOO_MANY_CONNECTIONS"


class QuotaExceeded(Exhausted):
    """A limit of the caller's key. `retry_s`: when it may do again; 0: never as it is."""

    reason = "QUOTA_EXCEEDED"

    def __init__(self, message: str, *, retry_s: float = 0.0, **metadata: object) -> None:
        super().__init__(message, **metadata)
        self.retry_s = retry_s


class RequestTooSlow(OutOfTime):
    """The whole request did not arrive in time."""

    reason = "REQUEST_TOO_SLOW"


# -- access ------------------------------------------------------------------------------------------


class KeyUnknown(NotFound):
    """No such API key, or none that this caller may manage."""

    reason = "KEY_UNKNOWN"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"there is no key {key[:80]!r} that you may manage; `plait keys list --all` has them",
            key=key[:80],
        )


class KeyNameTaken(Conflict):
    """A living key of the tenant has that name."""

    reason = "KEY_NAME_TAKEN"

    def __init__(self, name: str, tenant: str) -> None:
        whose = f"tenant {tenant!r} has" if tenant else "there is"
        super().__init__(
            f"{whose} a living key named {name!r}; choose another name, `plait keys rotate {name}` for a "
            f"new secret, or `plait keys revoke {name}` first",
            name=name,
            tenant=tenant,
        )


class KeyEnded(Precondition):
    """The key was revoked or has expired, and can't get another secret."""

    reason = "KEY_ENDED"

    def __init__(self, key: str, name: str) -> None:
        super().__init__(
            f"the key {name!r} ({key}) was revoked or has expired; make another with `plait keys add`",
            key=key,
            name=name,
        )


class TooManyKeys(Exhausted):
    reason = "TOO_MANY_KEYS"


class GrantTooWide(Forbidden):
    """A key may not be given more than its giver has."""

    reason = "GRANT_TOO_WIDE"
