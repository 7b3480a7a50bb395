"""IndexStore: a repository's next revision, its words and its vectors."""
