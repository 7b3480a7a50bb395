"""What hooks send and get ↔ messages. Light to load: a hook lives for a tenth of a second."""

from __future__ import annotations

from collections.abc import Iterable

from plait.domain.remarks import FileEdit, Remark
from plait.v1 import hook_service_pb2 as pb


def edits(values: Iterable[FileEdit]) -> list[pb.FileEdit]:
    return [pb.FileEdit(path=one.path, hunks=one.hunks) for one in values]


def edits_of(messages: Iterable[pb.FileEdit]) -> tuple[FileEdit, ...]:
    return tuple(FileEdit(one.path, one.hunks) for one in messages)


def remarks(values: Iterable[Remark]) -> list[pb.Remark]:
    return [pb.Remark(key=one.key, heading=one.heading, text=one.text) for one in values]


def remarks_of(messages: Iterable[pb.Remark]) -> tuple[Remark, ...]:
    return tuple(Remark(one.key, one.heading, one.text) for one in messages)
