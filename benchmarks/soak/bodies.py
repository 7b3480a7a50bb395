"""What writers send: bodies whose every text is unlike all others, made by a given source of chance."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from uuid import UUID

from benchmarks.soak.vectors import vector
from plait.client.entries import new_memory
from plait.domain.memory import MemoryEntry, MemoryId
from plait.domain.values import Artifact, ArtifactKind, Episode, Evidence, Outcome
from plait.memory.turn import ToolOutcome, Turn

# What the repositories of the soak hold, where they are indexed.
SOURCES = {
    "pkg/__init__.py": "",
    "pkg/work.py": "from pkg import more\n\n\ndef first():\n    return 1\n\n\ndef second():\n    return more.third()\n",
    "pkg/more.py": "def third():\n    return 3\n",
    "tests/test_work.py": "from pkg.work import first\n\n\ndef test_first():\n    assert first()\n",
}
# What an index run adds at the end of these: the same word to both.
MARKED_IN = ("pkg/more.py", "tests/test_work.py")
MARKED = "\n\ndef marked_{word}():\n    return '{word}'\n"
DIFF = """\
--- a/pkg/work.py
+++ b/pkg/work.py
@@ -4,2 +4,2 @@ from pkg import more
 def first():
-    return 1
+    return {n}  # {word}
--- a/pkg/more.py
+++ b/pkg/more.py
@@ -1,2 +1,2 @@
 def third():
-    return 3
+    return 3 + {n}
"""


def request_id(chance: random.Random) -> str:
    return str(UUID(int=chance.getrandbits(128), version=4))


def a_word(chance: random.Random) -> str:
    """Found nowhere else."""
    return f"zq{chance.getrandbits(80):020x}"


def a_text(chance: random.Random) -> str:
    return " ".join(a_word(chance) for _ in range(chance.randint(1, 12)))


def a_turn(chance: random.Random) -> Turn:
    """One that leads to three memories: what was said, laid down and done."""
    return Turn(
        user_message=f"Look at {a_word(chance)} first. Always run {a_word(chance)} before a commit.",
        outcomes=(ToolOutcome("pytest", f"{a_word(chance)} passed", command="pytest -q"),),
    )


def memory_id(entry: str) -> MemoryId:
    return MemoryId(UUID(entry))


def an_entry(repo: str, agent: str, text: str) -> MemoryEntry:
    """A memory with a vector of its own, that of its text."""
    return new_memory(
        text,
        repo=repo,
        agent_id=agent,
        session_key=f"{agent}-session",
        tags=[agent],
        embedding=vector(text),
    )


def an_episode(repo: str, agent: str, chance: random.Random) -> tuple[Episode, str]:
    """An episode and its shape: those of one shape differ in their words only."""
    kind = ArtifactKind
    shape = chance.choices(("note", "run", "wide"), (5, 4, 1))[0]
    if shape == "note":
        artifacts = [Artifact(kind.NOTE, f"note {a_word(chance)}", path="pkg/work.py")]
    elif shape == "wide":
        artifacts = [Artifact(kind.NOTE, f"note {n} {a_word(chance)}") for n in range(40)]
    else:
        word = a_word(chance)
        artifacts = [
            Artifact(kind.PLAN, f"plan {word}: change first, see #12", path="pkg/work.py"),
            Artifact(kind.DIFF, DIFF.format(n=chance.randrange(10**6), word=word)),
            Artifact(kind.TEST_RESULT, f"tests/test_work.py::test_first PASSED\n{word}"),
            Artifact(kind.REFLECTION, f"reflection {word}", meta={"symbol": "pkg.work.first"}),
            Artifact(kind.TURN, f"turn {word}"),
        ]
    evidence = (Evidence("log.txt", "text/plain", a_word(chance).encode() * 20),)
    episode = Episode(
        request_id=request_id(chance),
        repo=repo,
        outcome=Outcome(chance.choice(("success", "failure")), f"{shape} {a_word(chance)}"),
        artifacts=artifacts,
        agent_id=agent,
        session_key=f"{agent}-session",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        evidence=evidence if shape == "run" else (),
    )
    return episode, shape
