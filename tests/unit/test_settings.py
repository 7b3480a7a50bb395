"""Settings: the order of sources, and errors that name the key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_type_hints

import pytest

from plait import settings
from plait.domain.errors import BadSettings

ROOT = Path(__file__).parents[2]


def test_the_environment_beats_the_file_and_the_file_beats_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "plait.yaml"
    file.write_text("search: {k: 20, candidates: 50}\n")
    loaded = settings.load(file, environ={"PLAIT_SEARCH__K": "30"})
    assert (loaded.search.k, loaded.search.candidates, loaded.search.fusion) == (30, 50, "minmax")


def test_plait_home_is_made_absolute(tmp_path: Path) -> None:
    assert settings.load(environ={"PLAIT_HOME": "~/x"}).home == Path("~/x").expanduser()


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"PLAIT_SEARCH__K": "many"}, "search.k"),
        ({"PLAIT_SEARCH__NO_SUCH": "1"}, "search.no_such"),
        ({"PLAIT_SEARCH__K": "0"}, "search.k"),
        ({"PLAIT_NONSENSE": "1"}, "PLAIT_NONSENSE"),
    ],
)
def test_a_wrong_variable_is_named(environ: dict[str, str], named: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(named)):
        settings.load(environ=environ)


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "search: 3", "\0"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plait.yaml"
    file.write_text(text)
    with pytest.raises(BadSettings):
        settings.load(file, environ={})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=re.escape("none.yaml")):
        settings.load(tmp_path / "none.yaml", environ={})


def test_secrets_are_not_shown() -> None:
    loaded = settings.load(environ={"PLAIT_GRAPH__PASSWORD": "hunter2"})
    assert "hunter2" not in repr(loaded)


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    for section, kind in get_type_hints(settings.Settings).items():
        keys = getattr(kind, "__struct_fields__", None)
        for name in [f"{section}.{key}" for key in keys] if keys else [section]:
            assert f"`{name}`" in text, name
