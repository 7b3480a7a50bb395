"""The outbox: what waits to be projected to the graph."""
