"""Go: extract and resolve."""
