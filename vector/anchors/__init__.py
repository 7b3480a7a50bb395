"""Where agents' items are anchored in code, and how fresh those anchors are."""
