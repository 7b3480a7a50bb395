"""How long a call may take where its caller gives no `timeout_s`: guessed, several times what calls take."""

from __future__ import annotations

SEARCH_S = 15.0
GRAPH_S = 30.0
WRITE_S = 60.0
READ_S = 30.0
UPKEEP_S = 300.0  # upkeep reads whole repositories
