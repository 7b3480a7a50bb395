"""Plait: long-horizon memory for coding agents. The core: it knows no driver and no server."""

__version__ = "0.1.0"
