"""What is near in the code graph: relations, impact, tests to run. Pure functions."""
