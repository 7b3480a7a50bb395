"""Episodes, memories, and what compacts and imports them."""

from __future__ import annotations

from datetime import datetime

from plait.domain.errors.families import Conflict, InvalidInput, NotFound, Precondition


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


class MemoryInvalid(InvalidInput):
    """A memory that breaks a rule of docs/memories.md; `field` is at fault."""

    reason = "MEMORY_INVALID"


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
