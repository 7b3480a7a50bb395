"""What look-ups cost while a transcript is read: the model, Claude Code's lines, and hostile ones."""

from __future__ import annotations

import io
import itertools
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.ingest.importers import registry
from etl.ingest.importers.costs import payments
from etl.ingest.importers.costs.payments import Payments, sent_tokens
from etl.ingest.importers.draft import Options
from plait.domain import savings
from plait.domain.savings import Looked, metric
from plait.domain.values import Episode
from plait.text import token_count

PLAIT, SEARCH, READ = Looked.PLAIT, Looked.SEARCH, Looked.READ
START = datetime(2026, 3, 2, 9, tzinfo=UTC)


# -- the model -------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.sampled_from(
        ["call", "summary", *itertools.product(Looked, ["asked", "answered", "pushed"])]
    ),
    max_size=40,
)
TEXTS = {
    (kind, what): f"{kind} {what} " * (3 * i + j + 1)
    for i, kind in enumerate(Looked)
    for j, what in enumerate(["asked", "answered", "pushed"])
}


def once_summarised(events: Sequence[Any]) -> list[Any]:
    """A summary is told twice, as a boundary and as its text: until the next call that is one."""
    out: list[Any] = []
    told = False
    for event in events:
        if event == "summary" and told:
            event = "nothing"
        told = event == "summary" or (told and event != "call")
        out.append(event)
    return out


def by_formula(events: Sequence[Any]) -> Counter[str]:
    """tokens × (1 + later calls that are sent them), each look-up by itself."""
    out: Counter[str] = Counter()
    events = once_summarised(events)
    for at, event in enumerate(events):
        if event == "call":
            out[savings.CALLS] += 1
        if not isinstance(event, tuple):
            continue
        kind, what = event
        until = next((i for i, e in enumerate(events[at:], at) if e == "summary"), len(events))
        later = sum(e == "call" for e in events[at:until])
        n = token_count.count(TEXTS[event])
        out[metric(kind, "answers")] += what == "asked" or (what == "pushed" and later > 0)
        # The model wrote what it asked; what came in is paid first by the call that is sent it.
        paid = later + 1 if what == "asked" else later
        out[metric(kind, "tokens")] += n * min(1, paid)
        out[metric(kind, "again")] += n * max(0, paid - 1)
    return Counter({name: n for name, n in out.items() if n})


def replayed(events: Sequence[Any], borders: frozenset[int] = frozenset()) -> Counter[str]:
    """The same by the importer's way, an episode ending at each of `borders`."""
    paid, out = Payments(), Counter[str]()
    for at, event in enumerate(events):
        window = paid.window()
        if event == "call":
            window.call()
        elif event == "summary":
            window.summarised()
        else:
            kind, what = event
            if what == "asked":
                window.tool_called(f"id{at}", TEXTS[event], kind)
            elif what == "pushed":
                window.pushed(TEXTS[event], kind)
            else:
                window.tool_called(f"id{at}", "", kind)
                window.tool_returned(f"id{at}", TEXTS[event])
        if at in borders:
            out.update({name: int(n) for name, n in paid.take().items()})
    out.update({name: int(n) for name, n in paid.take().items()})
    # Half of a call and of its result are one look-up each here: what was asked is not counted twice.
    for kind in Looked:
        out[metric(kind, "answers")] -= sum(e == (kind, "answered") for e in events)
    del out[savings.VERSION_METRIC]
    return Counter({name: n for name, n in out.items() if n})


@given(EVENTS)
def test_a_look_up_costs_its_tokens_once_and_at_each_later_call(events: list[Any]) -> None:
    assert replayed(events) == by_formula(events)


@given(EVENTS, st.frozensets(st.integers(0, 40), max_size=5))
def test_where_episodes_end_changes_no_sum(events: list[Any], borders: frozenset[int]) -> None:
    assert replayed(events, borders) == replayed(events)


def test_the_formula_by_hand() -> None:
    window = (paid := Payments()).window()
    window.call()
    window.tool_called("1", "look for the retry", PLAIT)
    asked = token_count.count("look for the retry")
    window.tool_returned("1", "it is in http.py, line 40")
    answer = token_count.count("it is in http.py, line 40")
    for _ in range(4):
        window.call()
    told = paid.take()
    assert told[metric(PLAIT, "answers")] == 1
    assert told[metric(PLAIT, "tokens")] + told[metric(PLAIT, "again")] == 5 * asked + 4 * answer


def test_what_no_call_was_sent_costs_nothing() -> None:
    window = (paid := Payments()).window()
    window.call()
    window.tool_called("1", "", READ)
    window.tool_returned("1", "never read")
    assert metric(READ, "tokens") not in paid.take()


def test_the_lines_of_one_message_are_one_call() -> None:
    window = (paid := Payments()).window()
    for id_ in ("m1", "m1", "m2", "m1", "m3"):
        window.call(id_)
    assert paid.take()[savings.CALLS] == 3


def test_results_that_were_cleared_are_not_paid_again() -> None:
    window = (paid := Payments()).window()
    window.call()
    window.tool_called("1", "", READ)
    window.tool_returned("1", "a long file")
    window.call()
    window.cleared(["1", "unknown", 7])
    window.call()
    told = paid.take()
    assert told[metric(READ, "tokens")] > 0
    assert metric(READ, "again") not in told


def test_usage_scales_only_steps_that_it_can_be_held_against() -> None:
    window = (paid := Payments()).window()
    window.call("1", {"input_tokens": 1_000})
    window.tool_called("a", "", READ)
    window.tool_returned("a", "word " * 1_000)
    window.call("2", {"input_tokens": 2_300})  # 1.3 of what was counted
    window.text_added("word " * 100)
    window.unmeasured()  # a picture came with it
    window.call("3", {"input_tokens": 9_000})
    window.text_added("word " * 100)
    window.call("4", {"input_tokens": 90_000})  # no text of 100 words is that large
    told = paid.take()
    assert told[savings.GROWN] == 1_300
    assert 990 <= told[savings.GROWN_COUNTED] <= 1_010
    assert told[savings.SENT] == 1_000 + 2_300 + 9_000 + 90_000
    assert told[savings.SENT_CALLS] == 4


USAGES: list[tuple[object, int | None]] = [
    ({"input_tokens": 3, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 5}, 12),
    ({"input_tokens": 3, "cache_read_input_tokens": None}, 3),
    ({"prompt_tokens": 70, "input_tokens": 3}, 70),
    ({"input_tokens": -3}, None),
    ({"input_tokens": 3, "cache_read_input_tokens": -1}, None),
    ({"input_tokens": 10**9}, None),
    ({"input_tokens": 10**40}, None),
    ({"input_tokens": 1.5}, None),
    ({"input_tokens": True}, None),
    ({"input_tokens": "9"}, None),
    ({"input_tokens": 0}, None),
    ({}, None),
    ([1], None),
    (None, None),
]


@pytest.mark.parametrize(("usage", "sent"), USAGES)
def test_usage_that_is_impossible_is_not_used(usage: object, sent: int | None) -> None:
    assert sent_tokens(usage) == sent


def test_hostile_counts_stay_within_their_bounds() -> None:
    paid = Payments()
    for n in range(payments.MAX_WINDOWS + 50):
        paid.window(f"agent {n}").call()
    assert len(paid._windows) <= payments.MAX_WINDOWS + 1
    assert paid.take()[savings.CALLS] == payments.MAX_WINDOWS + 50
    window = paid.window()
    for n in range(payments.MAX_WAITING + 50):
        window.tool_called(f"id{n}", "", READ)
    assert len(window._waiting) == payments.MAX_WAITING
    counts = payments.Counts()
    counts.add("x", 10**30)
    counts.add("x", 10**30)
    assert counts.take()["x"] == savings.MAX_COUNT


# -- Claude Code's lines -----------------------------------------------------------------------------------


class Lines:
    """A session's lines, a second apart."""

    def __init__(self) -> None:
        self.out: list[dict[str, Any]] = []

    def add(self, kind: str, **more: Any) -> None:
        at = START + timedelta(seconds=len(self.out))
        self.out.append(
            {
                "type": kind,
                "sessionId": "s-1",
                "cwd": "/src/shop",
                "uuid": f"u{len(self.out)}",
                "timestamp": at.isoformat(),
                **more,
            }
        )

    def user(self, content: Any, **more: Any) -> None:
        self.add("user", message={"role": "user", "content": content}, **more)

    def says(self, id_: str, *blocks: dict[str, Any], stop: str = "tool_use", **more: Any) -> None:
        usage = more.pop("usage", None)
        message: dict[str, Any] = {"id": id_, "role": "assistant", "content": list(blocks)}
        message |= {"stop_reason": stop} | ({"usage": usage} if usage else {})
        self.add("assistant", message=message, **more)

    def looks(self, id_: str, tool: str, result: str, given: Any = None, **more: Any) -> None:
        """A message with one call, and its result."""
        use = {"type": "tool_use", "id": f"t-{id_}", "name": tool, "input": given or {}}
        self.says(id_, use, **more)
        answer = {"type": "tool_result", "tool_use_id": f"t-{id_}", "content": result}
        self.user([answer], **{k: v for k, v in more.items() if k != "usage"})

    def ends(self, id_: str, **more: Any) -> None:
        self.says(id_, {"type": "text", "text": "Done."}, stop="end_turn", **more)

    def episodes(self, now: datetime | None = None) -> list[Episode]:
        body = "".join(json.dumps(line) + "\n" for line in self.out).encode()
        found = registry.read_all(io.BytesIO(body), "x", "claude-code", Options(now=now))
        return [one.episode for one in found if one.episode is not None]


def summed(episodes: Sequence[Episode]) -> Counter[str]:
    out: Counter[str] = Counter()
    for one in episodes:
        assert one.outcome.metrics[savings.VERSION_METRIC] == savings.VERSION
        out.update({k: int(v) for k, v in one.outcome.metrics.items() if k.startswith("context_")})
    return out


def test_answers_of_plait_are_counted_however_they_come() -> None:
    lines = Lines()
    pushed = "Plait: shop is indexed, revision 4"
    lines.add(
        "attachment",
        attachment={
            "type": "hook_additional_context",
            "hookEvent": "SessionStart",
            "content": [pushed],
        },
    )
    lines.add(
        "attachment",
        attachment={"type": "hook_success", "hookEvent": "SessionStart", "stdout": pushed + "\n"},
    )
    for output in ({"content": "", "stdout": pushed}, {"stdout": json.dumps({"a": pushed})}):
        lines.add(
            "attachment",
            attachment={"type": "hook_success", "hookEvent": "SessionStart", **output},
        )
    lines.add(
        "attachment",
        attachment={"type": "hook_success", "hookEvent": "Stop", "stdout": pushed},
    )
    lines.user("fix the cart")
    lines.looks("m1", "mcp__plait__recall", "cart.py:3 total", {"task": "fix the cart"})
    lines.looks("m2", "Bash", "cart.py:9 discount", {"command": "plait search discount"})
    lines.looks("m3", "Grep", "cart.py:3", {"pattern": "total"})
    lines.ends("m4")
    (episode,) = lines.episodes()
    told = summed([episode])
    assert told[savings.CALLS] == 4
    assert told[metric(PLAIT, "answers")] == 4
    push, hits = token_count.count(pushed), token_count.count("cart.py:3 total")
    asked = token_count.count('{"task": "fix the cart"}')
    shell = token_count.count('{"command": "plait search discount"}')
    found = token_count.count("cart.py:9 discount")
    assert told[metric(PLAIT, "tokens")] == 2 * push + hits + asked + shell + found
    assert told[metric(PLAIT, "again")] == 2 * push * 3 + hits * 2 + asked * 3 + shell * 2 + found
    assert told[metric(SEARCH, "answers")] == 1
    # And none of it comes back as something that the agent said.
    assert not any("discount" in a.content and "cart.py:9" in a.content for a in episode.artifacts)
    assert not any("cart.py:3 total" in a.content for a in episode.artifacts)


def test_a_summary_ends_what_is_paid_again_also_over_turns() -> None:
    lines = Lines()
    lines.user("read it")
    lines.looks("m1", "Read", "the whole file " * 20, {"file_path": "/src/shop/a.py"})
    lines.ends("m2")
    lines.user("go on")
    lines.ends("m3")
    lines.add("system", subtype="compact_boundary")
    lines.user("This session continues …", isCompactSummary=True)
    lines.user("and on")
    lines.ends("m4")
    lines.ends("m5")
    episodes = lines.episodes()
    assert len(episodes) >= 3
    told = summed(episodes)
    asked = token_count.count('{"file_path": "/src/shop/a.py"}')
    file = token_count.count("the whole file " * 20)
    assert told[metric(READ, "tokens")] == asked + file
    assert told[metric(READ, "again")] == 2 * asked + file


def test_a_subagent_pays_in_a_context_of_its_own() -> None:
    lines = Lines()
    lines.user("look")
    side: dict[str, Any] = {"isSidechain": True, "agentId": "a1"}
    lines.user("find it", **side)
    lines.looks("s1", "Read", "file", {"file_path": "b"}, **side)
    lines.says("s2", {"type": "text", "text": "found"}, **side)
    lines.looks("m1", "Bash", "ok", {"command": "make"})
    lines.ends("m2")
    told = summed(lines.episodes())
    assert told[savings.CALLS] == 4
    assert told[metric(READ, "again")] == token_count.count('{"file_path": "b"}')


def test_a_grown_session_counts_what_it_counted_before() -> None:
    lines = Lines()
    for turn in range(4):
        lines.user(f"turn {turn}")
        lines.looks(f"m{turn}a", "Read", "some file " * 9)
        lines.looks(f"m{turn}b", "mcp__plait__search", "a place")
        lines.ends(f"m{turn}c")
    whole = lines.episodes()
    for cut in range(1, len(lines.out)):
        part = Lines()
        part.out = lines.out[:cut]
        before = part.episodes(now=START + timedelta(minutes=1))
        assert before == whole[: len(before)]


def test_hostile_lines_are_counted_as_far_as_they_say_something() -> None:
    lines = Lines()
    lines.user("go")
    lines.says("", {"type": "tool_use", "name": "Read", "input": "no object"})  # no ids at all
    lines.user([{"type": "tool_result", "content": "a file"}])
    lines.says(
        "m2", {"type": "tool_use", "id": "x", "name": 7, "input": None}, usage={"input_tokens": -5}
    )
    lines.user([{"type": "tool_result", "tool_use_id": ["x"], "content": {"a": 1}}, 3, None])
    lines.add("attachment", attachment=[1, 2])
    lines.add("attachment", attachment={"type": "hook_additional_context", "content": {"a": 1}})
    lines.add(
        "system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": 3}
    )
    lines.add("assistant", message="text")
    lines.says("", usage={"input_tokens": 10**30})
    lines.ends("m3")
    told = summed(lines.episodes())
    assert told[savings.CALLS] == 4
    assert savings.SENT not in told
    assert told[metric(READ, "answers")] == 1
    assert all(0 <= n < 10**6 for n in told.values())


# -- SWE-agent's steps -------------------------------------------------------------------------------------


def trajectory(body: dict[str, Any]) -> Counter[str]:
    found = registry.read_all(
        io.BytesIO(json.dumps(body).encode()), "x.traj", "swe-agent", Options(repo="r")
    )
    return summed([one.episode for one in found if one.episode is not None])


def test_steps_of_swe_agent_are_calls_and_their_look_ups_are_paid_again() -> None:
    actions = [
        ("find_file http.py", "src/http.py", SEARCH),
        ("open src/http.py 40", "the file " * 30, READ),
        ("str_replace_editor view /testbed/src/http.py", "the file again " * 30, READ),
        ("plait recall 'retry the download'", "http.py:40", PLAIT),
        ("python -m pytest -q", "1 passed in 0.1s", None),
        ("submit", "", None),
    ]
    steps = [{"action": a, "observation": o, "thought": "so"} for a, o, _ in actions]
    told = trajectory({"trajectory": steps, "info": {"exit_status": "submitted"}})
    assert told[savings.CALLS] == len(actions)
    for kind in Looked:
        mine = [(n, a, o) for n, (a, o, k) in enumerate(actions) if k is kind]
        asked = [token_count.count(a) * (len(actions) - n) for n, a, _ in mine]
        came = [token_count.count(o) * (len(actions) - n - 1) for n, _, o in mine]
        paid = told[metric(kind, "tokens")] + told[metric(kind, "again")]
        assert paid == sum(asked) + sum(came)
        assert told[metric(kind, "answers")] == len(mine)


def test_usage_of_mini_swe_agent_is_read_from_its_responses() -> None:
    def said(n: int) -> dict[str, Any]:
        usage = {"response": {"usage": {"prompt_tokens": 1_000 + 1_500 * n}}}
        return {"role": "assistant", "content": "```bash\ncat a.py\n```", "extra": usage}

    shown = {"role": "user", "content": "word " * 1_000}
    messages = [{"role": "user", "content": "fix it"}, said(0), shown, said(1), shown, said(2)]
    told = trajectory({"messages": messages, "info": {"exit_status": "Submitted"}})
    assert told[savings.SENT] == 1_000 + 2_500 + 4_000
    assert told[savings.GROWN] == 3_000
    assert told[metric(READ, "answers")] == 2
