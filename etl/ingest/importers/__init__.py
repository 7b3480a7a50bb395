"""Readers of what other tools leave behind: bytes in, episodes out. No I/O but the stream given."""
