"""Rules for episodes, memories, feedback and retention: no I/O."""
