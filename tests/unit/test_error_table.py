"""Every deliberate error has a code, a rich status and a place in docs/errors.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2
from hypothesis import given
from hypothesis import strategies as st

from plait.domain import errors
from plait.domain.errors import Busy, InvalidInput, PlaitError, RepositoryNotIndexed
from server.grpc.errors import CODES, code_of, internal, status_of

DOCS = Path(__file__).parents[2] / "docs" / "errors.md"


def kinds(root: type[PlaitError] = PlaitError) -> Iterator[type[PlaitError]]:
    """Every error class that Plait itself defines (the client's mirrors others' reasons)."""
    for kind in root.__subclasses__():
        if kind.__module__.startswith(f"{errors.__name__}."):
            yield kind
        yield from kinds(kind)


def documented() -> dict[str, str]:
    """Reason → the code under whose heading docs/errors.md has it."""
    found, code = {}, ""
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## ([A-Z_]+): ", line):
            code = heading[1]
        elif row := re.match(r"\| `([A-Z_]+)` \| \S.+ \| \S.+ \|$", line):
            assert row[1] not in found, f"{row[1]} is documented twice"
            found[row[1]] = code
    return found


KINDS = sorted(set(kinds()), key=lambda kind: str(kind.reason))


@pytest.mark.parametrize("kind", KINDS)
def test_every_reason_is_documented_under_its_code(kind: type[PlaitError]) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9_]{2,62}", kind.reason)
    assert documented().get(kind.reason) == code_of(kind).name


def test_no_reason_is_documented_that_does_not_exist() -> None:
    assert documented().keys() == {kind.reason for kind in kinds()}


def test_no_two_errors_share_a_reason() -> None:
    reasons = [kind.reason for kind in set(kinds())]
    assert len(reasons) == len(set(reasons))


def test_every_family_has_a_code_of_its_own() -> None:
    families = [kind for kind in CODES if kind is not PlaitError]
    assert {CODES[kind] for kind in families} == set(CODES.values()) - {grpc.StatusCode.INTERNAL}


def details(exc: PlaitError) -> dict[str, object]:
    out: dict[str, object] = {}
    for detail in status_of(exc).details:
        for kind in ("ErrorInfo", "BadRequest", "RetryInfo"):
            message = getattr(error_details_pb2, kind)()
            if detail.Is(message.DESCRIPTOR):
                detail.Unpack(message)
                out[kind] = message
    return out


def test_error_info_carries_reason_domain_and_values() -> None:
    info = details(RepositoryNotIndexed("flask"))["ErrorInfo"]
    assert isinstance(info, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain) == ("REPOSITORY_NOT_INDEXED", "plait")
    assert dict(info.metadata) == {"repository": "flask"}


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("filter.until", "filter.until"),
        ("/request_id", "request_id"),
        ("/repo", "episode.repository"),
        ("/artifacts/3/kind", "episode.artifacts[3].kind"),
        ("/started_at", "episode.start_time"),
    ],
)
def test_a_field_at_fault_is_named_as_the_contract_names_it(field: str, path: str) -> None:
    bad = details(InvalidInput("wrong", field=field))["BadRequest"]
    assert isinstance(bad, error_details_pb2.BadRequest)
    assert [v.field for v in bad.field_violations] == [path]


def test_what_may_heal_says_when_to_try_again() -> None:
    retry = details(Busy("wait"))["RetryInfo"]
    assert isinstance(retry, error_details_pb2.RetryInfo)
    assert retry.retry_delay.seconds > 0
    assert "RetryInfo" not in details(InvalidInput("never"))


def test_an_unknown_exception_leaks_nothing_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    exc = internal(ValueError("password=hunter2"), "/plait.v1.KnowledgeService/Search")
    assert code_of(type(exc)) is grpc.StatusCode.INTERNAL
    assert "hunter2" not in str(status_of(exc))
    assert "hunter2" in caplog.text
    assert exc.metadata["error_id"] in {r.__dict__.get("error_id") for r in caplog.records}


@given(st.text(), st.dictionaries(st.text(), st.text(), max_size=40), st.text())
def test_any_text_fits_into_trailing_metadata(
    message: str, metadata: dict[str, str], field: str
) -> None:
    exc = InvalidInput(message * 50, field=field)
    exc.metadata = {key[:64]: value * 50 for key, value in metadata.items()}
    assert status_of(exc).ByteSize() < 16_384
