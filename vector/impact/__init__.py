"""ImpactStore: what a diff changes in the index."""
