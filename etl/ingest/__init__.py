"""Importing episodes: inputs, formats, sinks and reports."""
