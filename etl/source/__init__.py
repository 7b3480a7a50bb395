"""A repository's files as they lie on the disk: which count, and how hostile ones are read."""
