"""Requests to values, checked; values to responses."""
