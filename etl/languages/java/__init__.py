"""Java: extract and resolve."""
