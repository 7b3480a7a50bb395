"""Module names, languages and test files, by path alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.languages import extractor, is_code, language_of
from etl.languages.names import is_test_path, module_name

PACKAGES = frozenset({"src/click", "django", "django/db", "tests/model_fields", "a/b"})


@pytest.mark.parametrize(
    ("path", "language", "expected"),
    [
        ("src/click/core.py", "python", "click.core"),
        ("django/db/__init__.py", "python", "django.db"),
        ("django/__main__.py", "python", "django.__main__"),
        ("tests/model_fields/tests.py", "python", "model_fields.tests"),
        ("a/b/c.py", "python", "b.c"),
        ("scripts/run.py", "python", "scripts.run"),
        ("src/run.py", "python", "run"),
        ("setup.py", "python", "setup"),
        ("__init__.py", "python", "__init__"),
        ("v1.2/x.y.py", "python", "v1_2.x_y"),
        ("src/main/java/com/x/A.java", "java", "com.x.A"),
        ("web/a.test.ts", "typescript", "web.a_test"),
    ],
)
def test_module_names(path: str, language: str, expected: str) -> None:
    assert module_name(path, language, PACKAGES) == expected


@pytest.mark.parametrize(
    ("path", "language", "expected"),
    [
        ("tests/test_a.py", "python", True),
        ("pkg/test_a.py", "python", True),
        ("pkg/a_test.py", "python", True),
        ("pkg/tests.py", "python", True),
        ("conftest.py", "python", True),
        ("pkg/latest.py", "python", False),
        ("pkg/contest.py", "python", False),
        ("web/a.spec.tsx", "tsx", True),
        ("web/a.ts", "typescript", False),
        ("x_test.go", "go", True),
        ("src/test/java/ATest.java", "java", True),
    ],
)
def test_test_paths(path: str, language: str, expected: bool) -> None:
    assert is_test_path(path, language) is expected


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a.py", "python"),
        ("a/B.TSX", "tsx"),
        ("README.md", "markdown"),
        ("Dockerfile", "dockerfile"),
        ("Dockerfile.dev", "dockerfile"),
        ("a.tar.unknown", "text"),
        ("LICENSE", "text"),
        (".gitignore", "text"),
        ("x.rs", "rust"),
        ("go.mod", "gomod"),
    ],
)
def test_languages_by_name(path: str, language: str) -> None:
    assert language_of(path) == language


def test_each_parsed_language_has_an_extractor_of_its_name() -> None:
    for language in ("python", "javascript", "typescript", "tsx", "java", "go"):
        assert is_code(language)
        assert extractor(language) is extractor(language)
        assert extractor(language).language == language
    assert not is_code("markdown")


_PARTS = st.lists(st.text(alphabet="ab.-_ é", min_size=1, max_size=4), min_size=1, max_size=5)


@given(_PARTS, st.sampled_from(["python", "java", "go", "typescript"]))
def test_a_module_name_has_no_empty_part(parts: list[str], language: str) -> None:
    name = module_name("/".join(parts), language, frozenset({parts[0]}))
    assert name
    assert all(name.split("."))
