"""Episodes from outside: what is read, what is refused, and what counts as the same."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.ingest.episode_json import load, read
from plait.domain.errors import EpisodeInvalid
from plait.domain.values import ArtifactKind, Collection, Episode, Evidence
from plait.memory import episode as episodes
from plait.memory.episode import check, parse
from plait.wire import episodes as wire_episodes

DOCS = Path(__file__).parents[2] / "docs"

SMALL: dict[str, Any] = {"repo": "flask", "outcome": {"status": "success"}}


def with_(**changes: Any) -> dict[str, Any]:
    return {**SMALL, **changes}


def artifact(**changes: Any) -> dict[str, Any]:
    return with_(artifacts=[{"kind": "plan", "content": "x", **changes}])


def outcome(**changes: Any) -> dict[str, Any]:
    return with_(outcome={"status": "success", **changes})


def evidence(**changes: Any) -> dict[str, Any]:
    return with_(evidence=[{"name": "run.log", "content": "x", **changes}])


def documented_example() -> dict[str, Any]:
    text = (DOCS / "episodes.md").read_text(encoding="utf-8")
    example: dict[str, Any] = json.loads(text.split("```json\n")[1].split("```")[0])
    return example


def test_the_documented_example_is_read_whole() -> None:
    episode = parse(documented_example())
    assert episode.repo == "django"
    assert [a.kind for a in episode.artifacts] == ["plan", "diff", "test_result", "reflection"]
    assert episode.outcome.metrics == {"tests_passed": 412.0, "minutes": 7.5}
    assert episode.started_at == datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
    assert episode.tags == ("defer", "orm")


def test_the_documented_example_fits_the_schema() -> None:
    schema = json.loads((DOCS / "episode.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(documented_example(), schema)


def test_every_kind_of_artifact_has_a_collection() -> None:
    assert set(episodes.COLLECTION_OF) == set(ArtifactKind)
    assert len(set(episodes.COLLECTION_OF.values())) == len(Collection) - 1
    assert Collection.FILES not in episodes.COLLECTION_OF.values()


REFUSED: list[tuple[str, Any, str]] = [
    ("not an object", [], "/"),
    ("a string", "x", "/"),
    ("no repo", {"outcome": {"status": "success"}}, "/repo"),
    ("no outcome", {"repo": "x"}, "/outcome"),
    ("empty repo", with_(repo=""), "/repo"),
    ("repo with a space", with_(repo="a b"), "/repo"),
    ("repo that climbs", with_(repo="../x"), "/repo"),
    ("repo of 129 characters", with_(repo="a" * 129), "/repo"),
    ("unknown key", with_(artefacts=[]), "/artefacts"),
    ("key with a slash", with_(**{"a/b": 1}), "/a~1b"),
    ("request id with a space", with_(request_id="a b"), "/request_id"),
    ("request id too long", with_(request_id="a" * 129), "/request_id"),
    ("request id of a number", with_(request_id=7), "/request_id"),
    ("outcome is a list", with_(outcome=[]), "/outcome"),
    ("no status", with_(outcome={}), "/outcome/status"),
    ("unknown status", outcome(status="won"), "/outcome/status"),
    ("status of null", outcome(status=None), "/outcome/status"),
    ("long summary", outcome(summary="x" * 16_385), "/outcome/summary"),
    ("metric of text", outcome(metrics={"a": "1"}), "/outcome/metrics/a"),
    ("metric of true", outcome(metrics={"a": True}), "/outcome/metrics/a"),
    ("metric too large", outcome(metrics={"a": 10**400}), "/outcome/metrics/a"),
    ("metric infinite", outcome(metrics={"a": float("inf")}), "/outcome/metrics/a"),
    ("metric without a name", outcome(metrics={"": 1}), "/outcome/metrics/"),
    ("too many metrics", outcome(metrics={str(i): 1 for i in range(101)}), "/outcome/metrics"),
    ("commit of words", outcome(commit="latest"), "/outcome/commit"),
    ("artifacts is an object", with_(artifacts={}), "/artifacts"),
    ("too many artifacts", with_(artifacts=[{}] * 501), "/artifacts"),
    ("artifact is text", with_(artifacts=["x"]), "/artifacts/0"),
    ("unknown kind", artifact(kind="patch"), "/artifacts/0/kind"),
    ("kind of a number", artifact(kind=1), "/artifacts/0/kind"),
    ("no content", with_(artifacts=[{"kind": "plan"}]), "/artifacts/0/content"),
    ("blank content", artifact(content=" \n"), "/artifacts/0/content"),
    ("long content", artifact(content="x" * (2**20 + 1)), "/artifacts/0/content"),
    ("content in long characters", artifact(content="ä" * 2**19 + "x"), "/artifacts/0/content"),
    ("NUL in content", artifact(content="a\0b"), "/artifacts/0/content"),
    ("half a character", artifact(content="\ud800"), "/artifacts/0/content"),
    ("absolute path", artifact(path="/etc/passwd"), "/artifacts/0/path"),
    ("path that climbs", artifact(path="a/../../b"), "/artifacts/0/path"),
    ("path of Windows", artifact(path="a\\b"), "/artifacts/0/path"),
    ("meta is a list", artifact(meta=[1]), "/artifacts/0/meta"),
    ("meta too large", artifact(meta={"a": "x" * 65_536}), "/artifacts/0/meta"),
    ("integer too large", artifact(meta={"a": {"b": 2**60}}), "/artifacts/0/meta/a/b"),
    ("NUL in meta", artifact(meta={"a": ["\0"]}), "/artifacts/0/meta/a/0"),
    ("evidence is text", with_(evidence="a"), "/evidence"),
    ("evidence without a name", evidence(name=""), "/evidence/0/name"),
    ("evidence without bytes", with_(evidence=[{"name": "a"}]), "/evidence/0"),
    ("evidence twice", evidence(base64="YQ=="), "/evidence/0"),
    ("empty evidence", evidence(content=""), "/evidence/0/content"),
    ("evidence in no base64", with_(evidence=[{"name": "a", "base64": "%"}]), "/evidence/0/base64"),
    ("half a character in evidence", evidence(content="\ud800"), "/evidence/0/content"),
    ("no media type", evidence(media_type="json"), "/evidence/0/media_type"),
    ("media type with a line", evidence(media_type="a/b\nc"), "/evidence/0/media_type"),
    ("large evidence", evidence(content="x" * (2**24 + 1)), "/evidence/0/content"),
    ("much evidence", with_(evidence=[{}] * 21), "/evidence"),
    (
        "evidence too large together",
        with_(evidence=[{"name": "a", "content": "x" * 2**23}] * 4),
        "/evidence",
    ),
    ("tags is text", with_(tags="a"), "/tags"),
    ("tag of a number", with_(tags=[1]), "/tags/0"),
    ("empty tag", with_(tags=["a", ""]), "/tags/1"),
    ("too many tags", with_(tags=[str(i) for i in range(51)]), "/tags"),
    ("time without an offset", with_(started_at="2026-01-01T00:00:00"), "/started_at"),
    ("time of words", with_(started_at="yesterday"), "/started_at"),
    ("time of a number", with_(started_at=17), "/started_at"),
    ("time before 1970", with_(started_at="1969-12-31T00:00:00Z"), "/started_at"),
    ("time in the future", with_(started_at="2999-01-01T00:00:00Z"), "/started_at"),
]


@pytest.mark.parametrize(
    ("document", "pointer"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_what_breaks_a_rule_is_refused_with_its_pointer(document: Any, pointer: str) -> None:
    with pytest.raises(EpisodeInvalid) as caught:
        parse(document)
    assert str(caught.value).startswith(f"{pointer}: ")
    assert ";" in str(caught.value)  # the fix


def test_meta_is_flattened_or_refused() -> None:
    deep: Any = 1
    for _ in range(17):
        deep = [deep]
    with pytest.raises(EpisodeInvalid, match="levels deep"):
        parse(artifact(meta={"a": deep}))


def test_contents_together_have_a_limit() -> None:
    many = [{"kind": "note", "content": "x" * 2**20}] * 17
    with pytest.raises(EpisodeInvalid, match=r"^/artifacts: hold"):
        parse(with_(artifacts=many))


def test_evidence_is_read_as_text_or_base64() -> None:
    read_ = parse(
        with_(
            evidence=[
                {"name": "a.txt", "media_type": "text/plain; charset=utf-8", "content": "é"},
                {"name": "b", "base64": "AP8="},
            ]
        )
    )
    assert read_.evidence == (
        Evidence("a.txt", "text/plain; charset=utf-8", "é".encode()),
        Evidence("b", "application/octet-stream", b"\0\xff"),
    )


def test_evidence_is_part_of_the_body() -> None:
    bare, one, other = parse(SMALL), parse(evidence()), parse(evidence(content="y"))
    assert len({bare.body_hash, one.body_hash, other.body_hash}) == 3
    # As it was before there was evidence: episodes stored then are still known.
    assert bare.body_hash.hex().startswith("6d2067db6388a0e2")


# -- the same, or not -----------------------------------------------------------------------------------


def test_order_of_keys_and_tags_does_not_matter() -> None:
    one = parse(with_(tags=["b", "a", "b"], outcome={"status": "success", "summary": "s"}))
    two = parse(
        {"outcome": {"summary": "s", "status": "success"}, "tags": ["a", "b"], "repo": "flask"}
    )
    assert one == two
    assert one.request_id == f"body-{one.body_hash.hex()}"


def test_the_request_id_is_no_part_of_the_body() -> None:
    one, two = parse(with_(request_id="r-1")), parse(with_(request_id="r-2"))
    assert (one.request_id, two.request_id) == ("r-1", "r-2")
    assert one.body_hash == two.body_hash


@pytest.mark.parametrize(
    "change",
    [
        with_(repo="click"),
        outcome(status="failure"),
        outcome(summary="other"),
        outcome(metrics={"a": 1}),
        artifact(),
        artifact(meta={"a": 1}),
        artifact(path="a.py"),
        with_(agent_id="a"),
        with_(session_key="a"),
        with_(tags=["a"]),
        with_(started_at="2026-01-01T00:00:00Z"),
    ],
)
def test_every_part_of_the_body_is_in_the_hash(change: dict[str, Any]) -> None:
    assert parse(change).body_hash != parse(SMALL).body_hash


numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10)
metas = st.dictionaries(plain, numbers | plain | st.lists(numbers, max_size=3), max_size=4)


@given(metas, st.dictionaries(plain.filter(str.strip), numbers, max_size=3))
def test_json_and_the_wire_make_the_same_episode(
    meta: dict[str, Any], metrics: dict[str, float]
) -> None:
    document = artifact(meta=meta) | {"outcome": {"status": "partial", "metrics": metrics}}
    direct = parse(document)
    sent = wire_episodes.episode_of(wire_episodes.episode(direct), direct.request_id)
    assert check(sent) == direct


def test_checking_twice_changes_nothing() -> None:
    once = parse(documented_example())
    assert check(once) == once
    assert check(replace(once, request_id="")) == once


# -- files ------------------------------------------------------------------------------------------------


def episodes_in(data: bytes, repo: str = "") -> list[Episode | str]:
    return [r.episode or str(r.error) for r in read(io.BytesIO(data), repo)]


def test_one_object_over_many_lines() -> None:
    data = json.dumps(documented_example(), indent=2).encode()
    assert episodes_in(data) == [parse(documented_example())]


def test_json_lines_with_blank_ones_and_a_byte_order_mark() -> None:
    line = json.dumps(SMALL).encode()
    assert episodes_in(b"\xef\xbb\xbf\n" + line + b"\n\n" + line + b"\n") == [parse(SMALL)] * 2


def test_a_faulty_line_does_not_stop_the_next() -> None:
    line = json.dumps(SMALL).encode()
    entries = list(read(io.BytesIO(line + b"\n{\n" + line + b"\n")))
    assert [(e.line, e.episode is not None) for e in entries] == [(1, True), (2, False), (3, True)]


def test_repo_stands_in_where_none_is_named() -> None:
    line = b'{"outcome": {"status": "unknown"}}'
    (episode,) = episodes_in(line, repo="click")
    assert isinstance(episode, Episode)
    assert episode.repo == "click"
    (named,) = episodes_in(json.dumps(SMALL).encode(), repo="click")
    assert isinstance(named, Episode)
    assert named.repo == "flask"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"[1, 2]", "not an object"),
        (b"{'repo': 'x'}", "is not JSON"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b'{"repo": NaN}', "NaN"),
        (b'{"repo": "a", "repo": "b"}', "twice"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", "number"),
    ],
)
def test_what_is_no_document_is_refused(data: bytes, says: str) -> None:
    (error,) = episodes_in(data)
    assert isinstance(error, str)
    assert says in error


@pytest.mark.parametrize("data", [b"", b"\n \n"])
def test_an_empty_input_is_refused(data: bytes) -> None:
    with pytest.raises(EpisodeInvalid, match="empty"):
        list(read(io.BytesIO(data)))


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        load(data)
    except EpisodeInvalid:
        return
