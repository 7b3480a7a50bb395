"""A server that Plait can't use is a setting to mend: nothing waits for it to come back."""

from __future__ import annotations

import pytest

from graph.dialect import of_agent
from plait.domain.errors import BadSettings


@pytest.mark.parametrize("agent", ["Neo4j/5.12.0", "Neo4j/4.4.30", "Memgraph/2.0", ""])
def test_a_server_that_can_not_be_used_is_refused(agent: str) -> None:
    with pytest.raises(BadSettings):
        of_agent(agent)


@pytest.mark.parametrize("agent", ["Neo4j/5.26.30", "Neo4j/2026.08.1"])
def test_one_that_can_is_known(agent: str) -> None:
    assert of_agent(agent).stops_on_disconnect  # as Neo4j does
