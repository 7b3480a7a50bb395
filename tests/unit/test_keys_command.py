"""`plait keys`: what is no key to make is said before a server is asked."""

from __future__ import annotations

from datetime import timedelta

import pytest

from server.commands import keys

ADD = ("add", "ci", "--all-repos")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "ACTION"),
        (("make",), "invalid choice"),
        (("add",), "NAME"),
        (("add", "ci"), "--repo --all-repos is required"),
        (("add", "ci", "--repo", "app", "--all-repos"), "not allowed with"),
        ((*ADD, "--tenant", "acme", "--all-tenants"), "not allowed with"),
        ((*ADD, "--verbs", "read,delete"), "some of read,write,admin"),
        ((*ADD, "--verbs", ""), "some of read,write,admin"),
        ((*ADD, "--expires", "soon"), "as 90d"),
        ((*ADD, "--expires", "-3d"), "expected one argument"),
        ((*ADD, "--expires", "999999999w"), "as 90d"),
        ((*ADD, "--calls-per-minute", "0"), "no whole number from 1"),
        ((*ADD, "--max-concurrent", "many"), "no whole number from 1"),
        (("rotate",), "KEY"),
        (("rotate", "ci", "--grace", "never"), "as 90d"),
        (("revoke",), "KEY"),
    ],
)
def test_wrong_usage_says_what_is_right(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        keys.main(words)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert told in err
    assert out == ""


def test_what_is_not_said_is_little() -> None:
    args = keys._parser("plait keys").parse_args(ADD)
    assert [verb.value for verb in args.verbs] == ["read"]
    assert args.expires == timedelta(days=90)
    assert (args.key_tenant, args.all_tenants) == ("", False)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("12h", timedelta(hours=12)),
        ("90d", timedelta(days=90)),
        ("52w", timedelta(weeks=52)),
    ],
)
def test_spans_of_time(text: str, span: timedelta) -> None:
    assert keys._parser("plait keys").parse_args([*ADD, "--expires", text]).expires == span
    rotate = ["rotate", "ci", "--grace"]
    assert keys._parser("plait keys").parse_args([*rotate, text]).grace == span
    assert keys._parser("plait keys").parse_args([*rotate, "0"]).grace == timedelta(0)
    assert keys._parser("plait keys").parse_args([*ADD, "--expires", "never"]).expires is None
