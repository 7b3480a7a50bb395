"""EpisodeStore: runs, their items and their links."""
