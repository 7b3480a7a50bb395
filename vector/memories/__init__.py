"""MemoryStore: memories with two times."""
