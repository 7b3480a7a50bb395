"""Rules that people add: what is read of them, what is refused and how, and which files they leave out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from etl.source.secrets import Files
from plait.domain.errors import BadSettings
from plait.secrets import rules
from plait.secrets.mask import Masker
from plait.secrets.rules import BUILT_IN, Pattern, Rules, load, parse

DOCUMENT = Path(__file__).parents[2] / "docs" / "secrets.md"


def test_the_example_of_the_documentation_does_what_it_says() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    told = parse(yaml.safe_load(block), "rules.yaml")
    masker, files = Masker(told), Files(told)
    token = "acme_" + "a1" * 16
    assert masker.text(f"x {token}").text == f"x acme_[redacted:acme-token]{'*' * 11}"
    assert masker.text("acme_" + "0" * 32).count == 0
    assert files.by_name("a/b.vault")
    assert files.by_name("ops/logins/")
    assert not files.by_name("config/secrets.yml")
    assert files.mask(token.encode(), "tests/fixtures/a/b.txt", code=False)[1] == 0


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ("[]", "must hold a mapping"),
        ("fils: []", "unknown key 'fils'"),
        ("files: .env", "files must be a list"),
        ("files: ['']", "files[0] must be one line"),
        ("patterns: [{name: a}]", "patterns[0] needs"),
        ("patterns: [{name: A B, regex: x}]", "patterns[0].name"),
        ("patterns: [{name: a, regex: '('}]", "no regular expression"),
        ("patterns: [{name: a, regex: 'x*'}]", "matches the empty text"),
        ("allow: ['[']", "allow[0] is no regular expression"),
        ("disable: [nothing]", "disable names 'nothing'"),
        ("a: [", "not valid YAML"),
    ],
)
def test_a_faulty_rule_is_named(tree: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(tree)
    with pytest.raises(BadSettings) as caught:
        load(str(file))
    assert said in caught.value.message
    assert str(file) in caught.value.message


def test_a_file_that_is_missing_is_an_error_and_none_is_the_built_in_rules(tmp_path: Path) -> None:
    assert load("") is BUILT_IN
    with pytest.raises(BadSettings, match="cannot be read"):
        load(str(tmp_path / "gone.yaml"))


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("allow: [a]\n")
    assert load(str(file)).allow == ("a",)
    file.write_text("allow: [a, b]\n")
    assert load(str(file)).allow == ("a", "b")


def test_rules_that_mask_alike_have_one_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Rules(patterns=(Pattern("a", "x"),))
    assert one.digest() == Rules(patterns=(Pattern("a", "x"),)).digest()
    assert one.digest() != BUILT_IN.digest()
    before = BUILT_IN.digest()
    monkeypatch.setattr(rules, "VERSION", rules.VERSION + 1)
    assert BUILT_IN.digest() != before


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        (".env", True),
        ("a/.ENV.local", True),
        ("deploy/prod.env", True),
        ("a/.env.example", False),
        ("a/b/.docker/config.json", True),
        ("config.json", False),
        ("home/.ssh/", True),
        ("id_ed25519", True),
        ("id_ed25519.pub", False),
        ("infra/a.tfstate.backup", True),
        ("src/secrets.py", False),
        ("docs/topics/auth/passwords.txt", False),
        ("src/env.py", False),
        ("environment.yml", False),
    ],
)
def test_a_file_is_a_secret_by_its_name(path: str, secret: bool) -> None:
    assert Files(BUILT_IN).by_name(path) == secret
