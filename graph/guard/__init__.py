"""The guard for users' Cypher: one statement that can only read."""
