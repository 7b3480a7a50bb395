"""What a candidate is worth. Pure functions on candidates and weights."""
