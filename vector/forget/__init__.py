"""Removal for good, and the proof of it."""
