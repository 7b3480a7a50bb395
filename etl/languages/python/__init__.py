"""Python: extract and resolve."""
