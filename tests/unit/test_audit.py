"""The audit log: whole lines, bounded files, nothing that a call said in words, and no call held up."""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

import server.audit
from plait.settings import load
from plait.v1 import access_service_pb2, admin_service_pb2, memory_service_pb2
from plait.v1 import knowledge_service_pb2 as kpb
from server.audit import Audit, Entry, open_audit
from server.grpc import audited
from server.grpc.audited import Noted
from server.grpc.server import SERVICES
from tests.processes import wait_until

# What changes nothing. A new method is in one of the two.
READS = {
    "Search", "Recall", "ReplayRecall", "GraphQuery", "GetMemory", "ListMemories", "QueryMemories",
    "GetSavings", "GetIndexJob", "WatchIndexJob", "ListRepositories", "Verify", "ListDeadLetters", "Stats",
    "DescribeFolder", "AdviseEdit", "NameSymbols", "ListKeys",
}  # fmt: skip


def entry(**more: Any) -> Entry:
    return Entry(**{"caller": "k1", "peer": "socket", "method": "S/M", "code": "OK", **more})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server" / "audit.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def test_each_call_is_a_line_that_only_its_owner_reads(path: Path) -> None:
    audit = Audit(path, 2**20, 2)
    for n in range(3):
        audit.record(entry(tenant="acme", ids=(f"i{n}",), count=1, repositories=("a\nb",)))
    audit.close()
    found = lines(path)
    assert [one["ids"] for one in found] == [["i0"], ["i1"], ["i2"]]
    assert found[0].keys() == {
        "at", "event", "caller", "peer", "method", "code", "reason", "tenant", "repositories", "ids",
        "count", "request_id",
    }  # fmt: skip
    assert found[0]["repositories"] == ["a\nb"]
    assert path.stat().st_mode & 0o777 == 0o600
    again = Audit(path, 2**20, 2)
    again.record(entry())
    again.close()
    assert len(lines(path)) == 4


def test_nothing_is_opened_before_there_is_something_to_write(path: Path) -> None:
    Audit(path, 2**20, 2).close()
    assert not path.exists()


def test_files_stay_below_their_size_and_number(path: Path) -> None:
    audit = Audit(path, 4096, 3)
    for n in range(200):
        audit.record(entry(request_id=f"r{n:03}"))
    audit.close()
    kept = sorted(path.parent.iterdir())
    assert [one.name for one in kept] == [
        "audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3",
    ]  # fmt: skip
    assert all(one.stat().st_size <= 4096 for one in kept)
    assert all(one.stat().st_mode & 0o777 == 0o600 for one in kept)
    told = [line["request_id"] for one in (*kept[:0:-1], path) for line in lines(one)]
    assert told == [f"r{n:03}" for n in range(200 - len(told), 200)]
    assert len(told) > 30


def test_two_processes_append_to_one_file(path: Path) -> None:
    both = [Audit(path, 4096, 50) for _ in range(2)]
    for n in range(300):
        both[n % 2].record(entry(request_id=f"r{n:03}"))
    for audit in both:
        audit.close()
    told = [line["request_id"] for one in path.parent.iterdir() for line in lines(one)]
    assert sorted(told) == [f"r{n:03}" for n in range(300)]


def test_a_file_that_was_moved_away_is_begun_anew(path: Path) -> None:
    audit = Audit(path, 2**20, 2)
    audit.record(entry(request_id="a"))
    wait_until(lambda: path.exists() and path.stat().st_size)
    path.rename(path.with_name("moved"))
    audit.record(entry(request_id="b"))
    audit.close()
    assert [one["request_id"] for one in lines(path)] == ["b"]


def test_a_link_in_its_place_is_not_followed(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("")
    path.parent.mkdir()
    path.symlink_to(victim)
    audit = Audit(path, 2**20, 2)
    audit.record(entry())
    audit.close()
    assert victim.read_text() == ""
    assert "can't be written" in caplog.text


def full_disk(monkeypatch: pytest.MonkeyPatch, takes: int = 0) -> Callable[[], None]:
    """Have the disk be full after `takes` more bytes; gives what frees it again."""
    write, left = os.write, [takes]

    def limited(fd: int, data: bytes) -> int:
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = write(fd, data[: left[0]])
        left[0] -= done
        return done

    monkeypatch.setattr(os, "write", limited)
    return lambda: left.__setitem__(0, 2**30)


def test_a_full_disk_fails_no_call_and_is_said_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    free = full_disk(monkeypatch, takes=30)
    audit = Audit(path, 2**20, 2)
    for n in range(5):
        audit.record(entry(request_id=f"lost{n}"))
        wait_until(lambda n=n: audit._file._lost == n + 1)  # type: ignore[misc]
    assert caplog.text.count("can't be written") == 1
    free()
    audit.record(entry(request_id="kept"))
    audit.close()
    torn, told, kept = path.read_text().split("\n")[:3]
    assert len(torn) == 30
    assert (json.loads(told)["event"], json.loads(told)["count"]) == ("lost", 5)
    assert json.loads(kept)["request_id"] == "kept"
    assert caplog.text.count("is written again") == 1


def test_a_disk_that_hangs_holds_no_call_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does what waits for it grow without end."""
    hung, write = threading.Event(), os.write
    monkeypatch.setattr(server.audit, "WAITING", 100)
    monkeypatch.setattr(os, "write", lambda fd, data: hung.wait() and write(fd, data))
    audit = Audit(path, 2**20, 2)
    for _ in range(1000):
        audit.record(entry())
    assert audit._queue.qsize() <= 100
    hung.set()
    audit.close()
    found = lines(path)
    assert (
        len(found) + sum(one.get("count", 0) - 1 for one in found if one["event"] == "lost") >= 100
    )


def test_one_who_knocks_without_end_does_not_push_the_rest_out(path: Path) -> None:
    now = [0.0]
    audit = Audit(path, 2**20, 2, clock=lambda: now[0])
    for _ in range(1000):
        audit.record(entry(caller="nobody", code="UNAUTHENTICATED", refused=True))
    audit.record(entry(caller="k1", code="PERMISSION_DENIED", refused=True))
    audit.record(entry(caller="nobody", method="S/Write"))
    now[0] = 61.0
    audit.record(entry(caller="nobody", code="UNAUTHENTICATED", refused=True))
    audit.close()
    found = lines(path)
    refused = [one for one in found if one["event"] == "refused"]
    assert len([one for one in refused if one["caller"] == "nobody"]) == 61
    assert len([one for one in refused if one["caller"] == "k1"]) == 1
    (more,) = [one for one in found if one["event"] == "refusals"]
    assert (more["caller"], more["count"]) == ("nobody", 940)
    assert [one["method"] for one in found if one["event"] == "call"] == ["S/Write"]


def test_callers_without_end_take_no_memory_without_end(path: Path) -> None:
    audit = Audit(path, 2**22, 2)
    for n in range(3000):
        audit.record(entry(caller=f"k{n}", code="PERMISSION_DENIED", refused=True))
    assert len(audit._refusals) <= server.audit.MAX_CALLERS + 1
    audit.close()


def test_settings_place_it_or_switch_it_off(tmp_path: Path) -> None:
    home = {"PLAIT_HOME": str(tmp_path / "home")}
    assert server.audit.path_of(load(environ=home)) == tmp_path / "home/server/audit.jsonl"
    elsewhere = load(environ={**home, "PLAIT_AUDIT__FILE": str(tmp_path / "a.jsonl")})
    assert server.audit.path_of(elsewhere) == tmp_path / "a.jsonl"
    assert open_audit(load(environ={**home, "PLAIT_AUDIT__ENABLED": "false"})) is None


# -- what is told of a call --------------------------------------------------------------------------------


def methods() -> dict[str, tuple[str, str]]:
    """Every method of the contract: name → the names of its messages."""
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.Default()
    return {
        method.name: (method.input_type.name, method.output_type.name)
        for service in SERVICES
        for method in pool.FindServiceByName(service).methods
    }


def test_every_method_is_a_read_or_is_told_of() -> None:
    told = {name for name in methods() if audited.is_audited(f"/plait.v1.S/{name}")}
    assert told | READS == methods().keys()
    assert not told & READS
    messages = {name for pair in methods().values() for name in pair}
    assert audited.IDS.keys() <= messages
    assert audited.REPOSITORIES.keys() <= messages


MARKER = "m4rk3r text of a caller"
KINDS = [
    kind
    for module in (kpb, memory_service_pb2, admin_service_pb2, access_service_pb2)
    for name, kind in module.DESCRIPTOR.message_types_by_name.items()
    if name.endswith(("Request", "Response"))
]


def filled(message: Message, depth: int = 0) -> Message:
    """`message` with words of the caller in every text, at every depth; each says which field it is."""
    for field in message.DESCRIPTOR.fields:
        inner = field.message_type
        if field.type == FieldDescriptor.TYPE_STRING:
            said = f"{MARKER} in {field.name}"
            if field.is_repeated:
                getattr(message, field.name).append(said)
            else:
                setattr(message, field.name, said)
        elif inner is not None and depth < 4 and inner.file.package == "plait.v1":
            if inner.GetOptions().map_entry:
                continue
            if field.is_repeated:
                filled(getattr(message, field.name).add(), depth + 1)
            else:
                filled(getattr(message, field.name), depth + 1)
    return message


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_no_words_of_a_caller_are_told_but_names_of_repositories_and_requests(kind: Any) -> None:
    from google.protobuf import message_factory

    message = filled(message_factory.GetMessageClass(kind)())
    (one,) = told_of("AdminService/Forget", message, code="INTERNAL", reason="INTERNAL")
    line = one.line()
    assert {name.rpartition(" ")[2] for name in line.pop("repositories")} <= {
        "repository", "repositories", "name",
    }  # fmt: skip
    assert line.pop("request_id").rpartition(" ")[2] in ("", "request_id")
    assert MARKER not in json.dumps(line)


class Recorded:
    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def record(self, one: Entry) -> None:
        self.entries.append(one)


def told_of(method: str, *messages: Message, code: str = "OK", reason: str = "") -> list[Entry]:
    told, noted = Recorded(), Noted()
    for message in messages:
        noted.message(message)
    noted.tell(
        told,  # type: ignore[arg-type]
        method=f"/plait.v1.{method}", caller="k1", peer="tcp 10.0.0.1:5", tenant="acme", code=code,
        reason=reason,
    )  # fmt: skip
    return told.entries


ID = "01a20255-de4b-7000-8000-00a6447b1e8e"


def test_a_write_is_told_with_what_it_wrote() -> None:
    request = memory_service_pb2.StoreMemoryRequest(request_id="r")
    request.memory.repository, request.memory.content = "app", MARKER
    response = memory_service_pb2.StoreMemoryResponse()
    response.memory.id, response.memory.content = ID, MARKER
    (one,) = told_of("MemoryService/StoreMemory", request, response)
    assert (one.repositories, one.ids, one.count, one.request_id) == (("app",), (ID,), 1, "r")
    assert (one.peer, one.tenant, one.refused) == ("tcp 10.0.0.1:5", "acme", False)


def test_a_write_that_failed_is_told_with_its_reason() -> None:
    request = memory_service_pb2.DeleteMemoryRequest(id="rm -rf /", repository="app")
    (one,) = told_of("MemoryService/DeleteMemory", request, code="INVALID_ARGUMENT", reason="X")
    assert (one.code, one.reason, one.ids) == ("INVALID_ARGUMENT", "X", ())


def test_many_ids_are_counted_and_the_first_hundred_told() -> None:
    response = admin_service_pb2.ForgetResponse(
        memory_ids=[f"{n:08x}-0000-7000-8000-000000000000" for n in range(5000)]
    )
    (one,) = told_of("AdminService/Forget", response)
    assert (one.count, len(one.ids)) == (5000, 100)
    assert len(json.dumps(one.line())) < 8192


def test_reads_and_dry_runs_are_not_told_and_refusals_are() -> None:
    search = kpb.SearchRequest(query=MARKER)
    dry = admin_service_pb2.ForgetRequest(repository="app", dry_run=True)
    assert told_of("KnowledgeService/Search", search) == []
    assert told_of("KnowledgeService/Search", search, code="INVALID_ARGUMENT") == []
    assert told_of("AdminService/Forget", dry) == []
    for code, reason in (
        ("UNAUTHENTICATED", "UNAUTHENTICATED"),
        ("PERMISSION_DENIED", "FORBIDDEN"),
        ("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"),
        ("INVALID_ARGUMENT", "CYPHER_REFUSED"),
    ):
        (one,) = told_of("KnowledgeService/Search", search, code=code, reason=reason)
        assert one.refused
        assert MARKER not in json.dumps(one.line())


@given(st.text(max_size=400), st.lists(st.text(max_size=400), max_size=120))
def test_whatever_a_name_holds_a_line_is_one_line_of_json(said: str, names: list[str]) -> None:
    text = json.dumps(entry(request_id=said, repositories=tuple(names)).line())
    assert "\n" not in text
    assert text.isascii()
    assert len(json.loads(text)["request_id"]) <= 128
