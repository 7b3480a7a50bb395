"""`plait completion`: the scripts, run by the shells themselves."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from server import cli
from server.commands import completion

# What is typed (the last word is being completed) → some of what is offered.
CASES: Mapping[tuple[str, ...], set[str]] = {
    ("plait", "rec"): {"recall"},
    ("plait", "uni"): {"uninstall"},
    ("plait", "recall", "--bud"): {"--budget"},
    ("plait", "search", "--mode", ""): {"fast", "full"},
    ("plait", "memory", "sto"): {"store"},
    ("plait", "keys", "ro"): {"rotate"},
    ("plait", "keys", "add", "--exp"): {"--expires"},
    ("plait", "memory", "store", "--import"): {"--importance"},
    ("plait", "install", "--agent", "c"): {"claude-code", "codex", "cursor"},
    ("plait", "completion", "f"): {"fish"},
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import shtab

    folder = tmp_path_factory.mktemp("completion")
    for shell in completion.SHELLS:
        text = shtab.complete(completion.whole_parser(), shell=shell)
        (folder / shell).write_text(text, encoding="utf-8")
    return folder


def said(shell: str, script: str) -> list[str]:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    argv = {"bash": [program, "--norc"], "zsh": [program, "-f"], "fish": [program, "--no-config"]}[
        shell
    ]
    done = subprocess.run(
        [*argv, "-c", script], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_bash_completes(scripts: Path, words: tuple[str, ...]) -> None:
    typed = " ".join(f"'{word}'" for word in words)
    found = said(
        "bash",
        f"source {scripts / 'bash'}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}\n"
        '_shtab_plait\nprintf "%s\\n" "${COMPREPLY[@]}"',
    )
    assert {word.strip() for word in found} >= CASES[words]
    assert all(word.startswith(words[-1]) for word in found)


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_fish_completes(scripts: Path, words: tuple[str, ...]) -> None:
    found = said("fish", f"source {scripts / 'fish'}\ncomplete -C '{' '.join(words)}'")
    assert {line.split("\t")[0] for line in found} >= CASES[words]


def test_zsh_reads_its_script(scripts: Path) -> None:
    found = said(
        "zsh",
        f"fpath=({scripts} $fpath); cp {scripts / 'zsh'} {scripts / '_plait'}\n"
        f"autoload -U compinit; compinit -u -d {scripts / 'dump'}\n"
        "print ${_comps[plait]}; autoload +X _plait && print $+functions[_plait]",
    )
    assert found == ["_plait", "1"]
    for word in ("recall", "uninstall", "--budget"):
        assert word in (scripts / "zsh").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(cli.COMMANDS.keys() - {"hook"}))  # which only agents call
def test_every_option_that_the_help_names_is_completed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main = import_module(cli.COMMANDS[name][0]).main
    parser = completion.command_parser(main, f"plait {name}")
    known = {option for action in parser._actions for option in action.option_strings}
    with pytest.raises(SystemExit) as end:
        main(["--help"], prog=f"plait {name}")
    assert end.value.code == 0
    options = capsys.readouterr().out.partition("\noptions:\n")[2].partition("\nexamples:")[0]
    assert set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", options, re.MULTILINE)) <= known | {"--help"}
    assert {"--help"} <= known


def test_looking_for_a_parser_leaves_argparse_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    def without_parser(argv: list[str], prog: str) -> int:
        print("usage: …")
        return 0

    parser = completion.command_parser(without_parser, "plait odd")
    assert parser.parse_args([]).__dict__ == {}
    assert capsys.readouterr().out == ""
