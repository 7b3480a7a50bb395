"""Users' Cypher as a tree: parsed strictly, measured before it runs, rewritten where it has to be."""
