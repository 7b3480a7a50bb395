"""RetentionStore: what is compacted, and its undoing."""
