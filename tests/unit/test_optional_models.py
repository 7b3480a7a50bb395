"""What is off by default costs nobody its import."""

from __future__ import annotations

import subprocess
import sys

import pytest

OPTIONAL = (
    "plait.models.language.chat",
    "plait.models.language.cross_encoder",
    "plait.memory.summary_model",
    "plait.retrieval.opinions",
    "openai",
)
SEARCHES = """
import asyncio, server.app
from plait.retrieval.query.analysis import Mode, SearchQuery
from tests.unit.test_search_pipeline import ITEMS, Shelf, service

answer = asyncio.run(service(Shelf(*ITEMS, lexical={1: 9.0})).search(SearchQuery("lost", mode=Mode.FULL)))
assert answer.hits
"""
SUMMARIZES = """
from plait.memory.summarize import open_summarizer
from plait.settings import MemorySettings

open_summarizer(MemorySettings())
"""


@pytest.mark.parametrize("script", [SEARCHES, SUMMARIZES], ids=["search", "summarize"])
def test_nothing_optional_is_loaded_with_the_defaults(script: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", f"{script}\nimport sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert not [name for name in told.stdout.split() if name.startswith(OPTIONAL)]
