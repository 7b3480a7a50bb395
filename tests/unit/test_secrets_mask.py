"""Credentials are covered, everything else stays: lengths, lines, diffs and JSON keep their form.

Test credentials are put together here, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.values import Artifact, ArtifactKind, Evidence
from plait.memory import episode as rules
from plait.secrets.episodes import masked_episode
from plait.secrets.mask import Masker
from plait.secrets.rules import Pattern, Rules
from plait.text.diff import parse_diff

MASKER = Masker()
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
TOKENS = [
    "sk-ant-" + "api03-AbCdEfGhIjKlMnOpQrSt0123456789",
    "sk-proj-" + "AbCdEfGhIjKlMnOpQrSt0123456789",
    "ghp_" + LETTERS,
    "github_" + "pat_11ABCDEFG0abcdefghij_klmnop",
    "glpat-" + "abcdefghij0123456789",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "AIza" + "SyA-0123456789abcdefghijklmnopqrstu",
    "xoxb-" + "1234567890-abcdefghij",
    "hooks.slack.com/services/" + "T00000000/B00000000/" + "XXXXXXXXXXXX",
    "sk_live_" + "abcdefghijklmnop0123",
    "npm_" + LETTERS,
    "hf_" + "abcdefghijklmnopqrstuvwxyz012345",
    "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "pypi-" + "AgEIcHlwaS5vcmc" * 4 + "0",
]  # fmt: skip


def mask(text: str, *, code: bool = False, masker: Masker = MASKER) -> tuple[str, int]:
    done = masker.text(text, code=code)
    assert len(done.text) == len(text)
    assert [len(line) for line in done.text.split("\n")] == [len(line) for line in text.split("\n")]
    return done.text, done.count


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "form", ["{}", 'key = "{}"', "x={} y", "['{}',", '{{"a": "{}\\n"}}', '"one\\n{}"', "a%3D{}"]
)
def test_a_key_is_known_by_its_form(token: str, form: str) -> None:
    text, found = mask(form.format(token))
    assert found == 1
    assert token[-10:] not in text
    assert "[redacted:" in text or "*" * len(token) in text


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("https://ana:s3cretly@example.com/x", "s3cretly"),
        ("postgresql://:pw4database@h/db", "pw4database"),
        ("-H 'Authorization: Bearer abcdef123456'", "abcdef123456"),
        ("authorization: Basic YWxhZGRpbjpvcGVu1", "YWxhZGRpbjpvcGVu1"),
        ("PROXY-AUTHORIZATION=abcdefgh1", "abcdefgh1"),
        ("export DB_PASSWORD=correct-h0rse", "correct-h0rse"),
        ('"api_key": "a1b2c3d4e5f6"', "a1b2c3d4e5f6"),
        (r"{\"client_secret\": \"a1b2c3d4e5f6\"}", "a1b2c3d4e5f6"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG"),
        ("x-api-key: 0123456789abcdef", "0123456789abcdef"),
        ("İ AUTH_TOKEN=abcdefgh12345678", "abcdefgh12345678"),
        ('password = "P@$$w0rd!x"', "P@$$w0rd!x"),
        ('password = "pässw0rd-ü"', "pässw0rd-ü"),
        ("DEPLOY_TOKEN='f3B9xQ27LmZ0pR4tVc8K'", "f3B9xQ27LmZ0pR4tVc8K"),
    ],
)
def test_a_credential_is_known_by_its_name(text: str, covered: str) -> None:
    done, found = mask(text)
    assert found == 1
    before, _, after = text.partition(covered)
    assert done.startswith(before)
    assert done.endswith(after)
    assert covered not in done


@pytest.mark.parametrize(
    "text",
    [
        "password = request.form['password']",
        "password: str = field()",
        "api_key=os.environ['API_KEY']",
        "token: xxxxxxxxxxxx",
        "the secret key is to write tests",
        "def reset_password(user, token):",
        'for k in ["old_password", "new_password1", "new_password2"]:',
        "task-force-of-many-words-in-a-row",
        '<div class="sk-loading-indicator-wrapper">',
        "https://example.com:8080/a@b",
        "amqp://guest:guest@localhost//",
        "http://user:password@host",
        "git@github.com:a/b.git",
        "commit 3f2c9ab8d1e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "Authorization: none",
        "session_key: ticket-x",
        "PASSWORD=12345678",
        'api_key = "${API_KEY_V2}"',
        'cache_key = "views.decorators.cache_page.v2"',
        "-----BEGIN RSA PRIVATE KEY----- and -----END RSA PRIVATE KEY-----",
    ],
)
def test_code_and_prose_stay(text: str) -> None:
    assert mask(text) == (text, 0)


def test_in_code_what_is_bare_is_an_expression() -> None:
    assert mask("token = sha256_of(x)\npassword=passw0rd_of_user\n", code=True)[1] == 0
    assert mask('password = "a1b2c3d4e5"\n', code=True)[1] == 1


KEY = "\n".join(
    [
        "-----BEGIN RSA PRIVATE" + " KEY-----",
        *["MIIEow" + "Ab+/" * 12] * 3,
        "-----END RSA PRIVATE" + " KEY-----",
    ]
)


def test_a_key_block_in_a_diff_keeps_its_lines() -> None:
    diff = "--- a/k\n+++ b/k\n@@ -0,0 +1,5 @@\n" + "".join(f"+{line}\n" for line in KEY.split("\n"))
    text, found = mask(diff)
    assert found == 1
    assert "MIIE" not in text
    assert parse_diff(text).problems == 0
    assert parse_diff(text).files[0].hunks[0].new_lines == 5


@pytest.mark.parametrize(
    "form",
    [
        "k = '''{}'''",
        '"{}"',
        "{}\nthe rest is text that nobody covers, with 1 number\n",
        "    {}\n",
    ],
)
def test_a_key_is_covered_in_every_notation_and_without_its_end(form: str) -> None:
    for key in (
        KEY,
        KEY[: KEY.rindex("\n")],
        KEY.replace("\n", "\\n"),
        KEY.replace("\n", '\\n"\n"'),
    ):
        text, found = mask(form.format(key))
        assert found == 1
        assert "MIIE" not in text
        assert "Ab+/" not in text
        if "nobody" in form:
            assert "the rest is text that nobody covers, with 1 number" in text


def test_json_stays_json() -> None:
    value = {
        "key": "-----BEGIN PRIVATE KEY-----\nAbCd0123AbCd0123AbCd\n-----END PRIVATE KEY-----\n",
        "cmd": 'curl -H "Authorization: Bearer abc123def456ghi789jkl0" https://u:p4ssw@h/',
        "nested": json.dumps({"password": "a1b2c3d4e5\\"}),
    }
    body, found = MASKER.body(json.dumps(value).encode())
    assert found == 4
    clean = json.loads(body)
    assert json.loads(clean["nested"])["password"].startswith("***")


def test_utf_16_is_masked_in_place() -> None:
    body = b"\xff\xfe" + f'<a key="{TOKENS[2]}"/>'.encode("utf-16-le")
    clean, found = MASKER.body(body)
    assert found == 1
    assert len(clean) == len(body)
    assert TOKENS[2].encode("utf-16-le") not in clean


def test_an_episode_is_clean_everywhere_and_counts_it() -> None:
    secret = TOKENS[0]
    document = {"repo": "x", "outcome": {"status": "success", "summary": f"used {secret}"}}
    episode = rules.parse(document)
    episode = rules.check(
        type(episode)(
            **{
                **{f: getattr(episode, f) for f in episode.__slots__},
                "artifacts": (
                    Artifact(
                        ArtifactKind.TURN,
                        f"a {secret}",
                        meta={"command": [secret], "env": {"api_key": "a1b2c3d4e5f6"}},
                    ),
                ),
                "evidence": (Evidence("e", "text/plain", secret.encode() + b"\xff"),),
            }
        )
    )
    clean = masked_episode(MASKER, episode)
    assert secret not in repr(clean)
    assert "a1b2c3d4e5f6" not in repr(clean)
    assert clean.outcome.metrics["redacted"] == 5
    assert clean.evidence[0].body.endswith(b"\xff")
    assert masked_episode(MASKER, clean) == clean


def test_a_line_says_itself_that_it_is_no_secret() -> None:
    line = f'KEY = "{TOKENS[2]}"'
    assert mask(f"{line}  # pragma: allowlist secret\n")[1] == 0
    assert mask(f"# pragma: allowlist nextline secret\n{line}\n")[1] == 0
    assert mask(f"# pragma: allowlist nextline secret\n\n{line}\n")[1] == 1


def test_rules_add_patterns_and_exceptions_and_switch_off() -> None:
    own = Masker(
        Rules(
            patterns=(Pattern("acme", r"acme_(?P<secret>[a-z]{8})", "acme_"), Pattern("x", "(?s)<k>.*?</k>")),
            allow=(re.escape(TOKENS[2]),),
            disable=("password",),
        )
    )  # fmt: skip
    assert mask("acme_abcdefgh", masker=own) == ("acme_********", 1)
    assert mask("<k>one\ntwo three four\n</k>", masker=own)[0] == "******\n[redacted:x]**\n****"
    assert mask(f"{TOKENS[2]} {TOKENS[4]} password='a1b2c3d4e5'", masker=own)[1] == 1


@given(st.text(max_size=200))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    once, _ = mask(text)
    assert mask(once) == (once, 0)


@given(st.binary(max_size=200))
def test_bytes_without_credentials_are_untouched(body: bytes) -> None:
    clean, found = MASKER.body(body)
    assert len(clean) == len(body)
    assert (clean == body) == (found == 0)


@pytest.mark.parametrize(
    "part",
    ["eyJ", "eyJ-", "sk-", "password=", "://", "-----BEGIN PRIVATE KEY-----\n", "bearer ", "aws'", "key=\"",
     "AccountKey=", "cloudant:", "authorization", "-us1", "ibm_key=", "twilio AC", "secretkey=", ":AA", "\\n"],
)  # fmt: skip
def test_a_hostile_text_is_masked_in_linear_time(part: str) -> None:
    """Milliseconds each: anything quadratic would take minutes."""
    mask(part * (300_000 // len(part)))
