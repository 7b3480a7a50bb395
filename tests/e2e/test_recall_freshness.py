"""What agents said of code, asked for after the code changed: over gRPC, with a real little repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from plait.client import AsyncPlaitClient, new_memory
from plait.domain.options import RecallOptions
from plait.domain.recall import AnchorState, Freshness, NamedAnchor, RecalledItem
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from server.app import App
from tests.e2e.conftest import at_rest

REPO = "harvest"
SILO = '''\
class Silo:
    """Where grain is kept."""

    def fill(self, grain: float) -> float:
        """Pour grain in and say how much was too much."""
        room = self.size - self.level
        self.level += min(room, grain)
        return max(0.0, grain - room)


def weigh_grain(sacks: list[float], moisture: float = 0.14) -> float:
    # what is dry weighs less
    total = sum(sacks)
    return total * (1.0 - moisture)


def grind_grain(sacks):
    return [sack / 2 for sack in sacks if sack > 0.5 and sack < 99.5 and not sack == 42.0]
'''
# Another layout, no comment: the same code. `fill` reads otherwise, `grind_grain` moved, untouched.
SILO_NOW = '''\
class Silo:
    """Where grain is kept."""

    def fill(self, grain: float) -> float:
        """Pour grain in and say how much was too much."""
        room = self.size - self.level
        self.level += min(room, 0.9 * grain)
        return max(0.0, grain - room)


def weigh_grain(
    sacks: list[float],
    moisture: float = 0.14,
) -> float:
    total = sum(sacks)

    return total * (1.0 - moisture)
'''
MILL = """\
def grind_grain(sacks):
    return [sack / 2 for sack in sacks if sack > 0.5 and sack < 99.5 and not sack == 42.0]
"""
OLD = """\
def count_harvest_carts(carts):
    return len(carts)
"""
SAID = {
    "changed": "The silo overflows because `Silo.fill` in farm/silo.py counts the grain twice.",
    "same": "Moisture of the grain is taken off in weigh_grain(), never before it.",
    "moved": "Sacks of 42 kilograms are never ground: `grind_grain` leaves that grain out.",
    "gone": "Carts of the harvest are counted by `count_harvest_carts`, broken ones of grain too.",
    "none": "Grain is bought on Mondays and the silo is empty on Sundays.",
}
EXPECTED = {
    "changed": (Freshness.DRIFTED, AnchorState.CHANGED),
    "same": (Freshness.FRESH, AnchorState.SAME),
    "moved": (Freshness.FRESH, AnchorState.MOVED),
    "gone": (Freshness.ORPHANED, AnchorState.GONE),
    "none": (Freshness.UNVERIFIABLE, None),
}


def write(root: Path, files: dict[str, str]) -> None:
    for path in root.rglob("*.py"):
        path.unlink()
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


async def index(client: AsyncPlaitClient, root: Path, files: dict[str, str]) -> None:
    write(root, files)
    begun = await client.start_index(str(root), repository=REPO)
    *_, job = [state async for state in client.watch_index_job(begun.id)]
    assert job.state == "succeeded", job.error_message


@pytest.fixture(scope="module")
async def harvested(
    client: AsyncPlaitClient, app: App, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Code, memories and a run that name it, and then the code as it is now."""
    root = tmp_path_factory.mktemp("harvest")
    await index(client, root, {"farm/silo.py": SILO, "farm/old.py": OLD})
    for text in SAID.values():
        await client.store(new_memory(text, repo=REPO, agent_id="miller"))
    reflection = Artifact(ArtifactKind.REFLECTION, "Grain: `Silo.fill` must not count twice.")
    await client.append_episode(Episode("harvest-1", REPO, Outcome("success"), (reflection,)))
    await at_rest(app)
    await index(client, root, {"farm/silo.py": SILO_NOW, "farm/mill.py": MILL})
    await at_rest(app)
    return REPO


async def asked(client: AsyncPlaitClient) -> list[RecalledItem]:
    answer = await client.recall(
        "what is known of grain, the silo, its sacks and the harvest's carts",
        where=Filter((REPO,), collections=(Collection.MEMORIES, Collection.REFLECTIONS)),
        options=RecallOptions(with_content=True, min_score=0.0),
    )
    assert answer.degraded == ()
    return list(answer.items)


@pytest.mark.parametrize("name", SAID)
async def test_a_memory_is_as_fresh_as_the_code_it_names(
    client: AsyncPlaitClient, harvested: str, name: str
) -> None:
    item = next(i for i in await asked(client) if i.item.content == SAID[name])
    freshness, state = EXPECTED[name]
    assert item.freshness is freshness
    assert [anchor.state for anchor in item.anchors] == ([state] if state else [])


async def test_the_context_says_what_changed(client: AsyncPlaitClient, harvested: str) -> None:
    items = {item.item.content: item for item in await asked(client)}
    changed, moved = items[SAID["changed"]], items[SAID["moved"]]
    assert changed.anchors == (
        NamedAnchor("farm/silo.py", "farm.silo.Silo.fill", AnchorState.CHANGED),
    )
    assert changed.reasons[0] == "Silo.fill in farm/silo.py changed since"
    assert moved.anchors[0].to == "farm/mill.py"
    answer = await client.recall(
        "why does the silo overflow", where=Filter((REPO,), collections=(Collection.MEMORIES,))
    )
    assert "Silo.fill in farm/silo.py changed since (drifted, agent-claimed)" in answer.context


async def test_a_reflection_drifts_as_a_memory_does(
    client: AsyncPlaitClient, harvested: str
) -> None:
    (item,) = [i for i in await asked(client) if i.item.collection is Collection.REFLECTIONS]
    assert item.freshness is Freshness.DRIFTED
