"""Frozen values, ids, errors, clock, deadline: no I/O."""
