"""SearchStore and RelationStore: what one snapshot answers, an arm at a time."""
