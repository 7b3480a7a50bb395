"""Credentials go, everything else stays: text, diffs and JSON keep their form."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.values import Artifact, ArtifactKind, Evidence
from plait.memory import episode as rules
from plait.memory.importers.redact import redact, redact_bytes, redact_episode
from plait.reading.diff import parse_diff

SECRETS = [
    "sk-ant-api03-AbCdEfGhIjKlMnOpQrSt0123456789",
    "sk-proj-AbCdEfGhIjKlMnOpQrSt0123456789",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghij_klmnop",
    "glpat-abcdefghij0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA-0123456789abcdefghijklmnopqrstu",
    "xoxb-1234567890-abcdefghij",
    "hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXX",
    "sk_live_abcdefghijklmnop0123",
    "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "hf_abcdefghijklmnopqrstuvwxyz012345",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "pypi-" + "AgEIcHlwaS5vcmc" * 4,
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", ["{}", 'key = "{}"', "x={} y", "['{}',", '{{"a": "{}\\n"}}'])
def test_a_key_is_known_by_its_form(secret: str, form: str) -> None:
    text, found = redact(form.format(secret))
    assert found == 1
    assert secret not in text
    assert "[redacted:" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://ana:s3cret@example.com/x", "https://ana:[redacted:password]@example.com/x"),
        ("postgresql://:pw@h/db", "postgresql://:[redacted:password]@h/db"),
        (
            "-H 'Authorization: Bearer abcdef123456'",
            "-H 'Authorization: Bearer [redacted:authorization]'",
        ),
        ("authorization: Basic YWxhZGRpbjpvcGVu", "authorization: Basic [redacted:authorization]"),
        ("PROXY-AUTHORIZATION=abcdefgh1", "PROXY-AUTHORIZATION=[redacted:authorization]"),
        ("export DB_PASSWORD=correct-h0rse", "export DB_PASSWORD=[redacted:password]"),
        ('"api_key": "a1b2c3d4e5f6"', '"api_key": "[redacted:key]"'),
        (r"{\"client_secret\": \"a1b2c3d4e5f6\"}", r"{\"client_secret\": \"[redacted:secret]\"}"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = [redacted:key]"),
        ("x-api-key: 0123456789abcdef", "x-api-key: [redacted:key]"),
        ("İ AUTH_TOKEN=abcdefgh12345678", "İ AUTH_TOKEN=[redacted:token]"),
    ],
)
def test_a_credential_is_known_by_its_name(text: str, expected: str) -> None:
    assert redact(text) == (expected, 1)


@pytest.mark.parametrize(
    "text",
    [
        "password = request.form['password']",
        "password: str = field()",
        "api_key=os.environ['API_KEY']",
        "token: xxxxxxxxxxxx",
        "the secret key is to write tests",
        "def reset_password(user, token):",
        "task-force-of-many-words-in-a-row",
        '<div class="sk-loading-indicator-wrapper">',
        "https://example.com:8080/a@b",
        "git@github.com:a/b.git",
        "commit 3f2c9ab8d1e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "Authorization: none",
        "session_key: ticket-x",
        "PASSWORD=12345678",
    ],
)
def test_code_and_prose_stay(text: str) -> None:
    assert redact(text) == (text, 0)


def test_a_key_block_in_a_diff_keeps_its_lines() -> None:
    key = "\n".join(
        [
            "-----BEGIN RSA PRIVATE KEY-----",
            *["MIIEow" + "Ab+/" * 12] * 3,
            "-----END RSA PRIVATE KEY-----",
        ]
    )
    diff = "--- a/k\n+++ b/k\n@@ -0,0 +1,5 @@\n" + "".join(f"+{line}\n" for line in key.split("\n"))
    text, found = redact(diff)
    assert found == 1
    assert "MIIE" not in text
    assert parse_diff(text).problems == 0
    assert parse_diff(text).files[0].hunks[0].new_lines == 5


def test_json_stays_json() -> None:
    value = {
        "key": "-----BEGIN PRIVATE KEY-----\nAbCd0123\n-----END PRIVATE KEY-----\n",
        "cmd": 'curl -H "Authorization: Bearer abc123def456ghi789jkl0" https://u:p4ss@h/',
        "nested": json.dumps({"password": "a1b2c3d4e5\\"}),
    }
    body, found = redact_bytes(json.dumps(value).encode())
    assert found == 4
    clean = json.loads(body)
    assert json.loads(clean["nested"])["password"].startswith("[redacted:password]")


def test_an_episode_is_clean_everywhere_and_counts_it() -> None:
    secret = SECRETS[0]
    document = {"repo": "x", "outcome": {"status": "success", "summary": f"used {secret}"}}
    episode = rules.parse(document)
    episode = rules.check(
        type(episode)(
            **{
                **{f: getattr(episode, f) for f in episode.__slots__},
                "artifacts": (
                    Artifact(ArtifactKind.TURN, f"a {secret}", meta={"command": [secret]}),
                ),
                "evidence": (Evidence("e", "text/plain", secret.encode() + b"\xff"),),
            }
        )
    )
    clean = redact_episode(episode)
    assert secret not in repr(clean)
    assert clean.outcome.metrics["redacted"] == 4
    assert clean.evidence[0].body.endswith(b"\xff")
    assert redact_episode(clean) == clean


@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once, _ = redact(text)
    assert redact(once) == (once, 0)


@given(st.binary(max_size=200))
def test_bytes_without_credentials_are_untouched(body: bytes) -> None:
    clean, found = redact_bytes(body)
    assert (clean == body) == (found == 0)
