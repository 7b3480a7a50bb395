"""Episodes without credentials: artifacts, evidence and the outcome's summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plait.domain.values import Artifact, Episode, Evidence
from plait.secrets.mask import Masker

METRIC = "redacted"  # of an episode's outcome: how many credentials were covered
MAX_DEPTH = 20


def masked_episode(masker: Masker, episode: Episode) -> Episode:
    """`episode` with every credential covered, and with `redacted` among its metrics where there were any.

    Ids and names that the caller chose stay as they are. Lengths stay, so what fitted the contract's limits
    still does. Masking twice changes nothing more.
    """
    counted = Counter(masker)
    artifacts = tuple(counted.artifact(a) for a in episode.artifacts)
    summary = counted.text(episode.outcome.summary)
    evidence = tuple(counted.evidence(e) for e in episode.evidence)
    tags = tuple(counted.text(tag) for tag in episode.tags)
    if not counted.found:
        return episode
    before = episode.outcome.metrics.get(METRIC, 0.0)
    metrics = {**episode.outcome.metrics, METRIC: before + counted.found}
    outcome = replace(episode.outcome, summary=summary, metrics=metrics)
    return replace(episode, artifacts=artifacts, outcome=outcome, evidence=evidence, tags=tags)


class Counter:
    """Masks texts and values, and counts what was covered."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self.found = 0

    def text(self, text: str) -> str:
        done = self._masker.text(text)
        self.found += done.count
        return done.text

    def artifact(self, artifact: Artifact) -> Artifact:
        content, meta = self.text(artifact.content), self.value(artifact.meta)
        return replace(artifact, content=content, meta=meta)

    def evidence(self, evidence: Evidence) -> Evidence:
        body, found = self._masker.body(evidence.body)
        self.found += found
        return replace(evidence, body=body)

    def value(self, value: Any, name: str = "", depth: int = 0) -> Any:
        """JSON. A text is judged with the name it stands under: `{"api_key": "…"}`."""
        if isinstance(value, str):
            return self._named(name, value)
        if depth > MAX_DEPTH:
            return value  # whoever checks it refuses it for its depth
        if isinstance(value, Mapping):
            return {k: self.value(v, str(k), depth + 1) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(v, name, depth + 1) for v in value]
        return value

    def _named(self, name: str, text: str) -> str:
        if not name or '"' in text or "\n" in text or len(name) > 100:
            return self.text(text)
        before = f'{name}="'
        done = self._masker.text(f'{before}{text}"')
        if not done.count or not done.text.startswith(before):
            return self.text(text)
        self.found += done.count
        return done.text[len(before) : -1]
