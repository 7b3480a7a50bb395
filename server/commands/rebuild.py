"""`plait rebuild`; see `verify`, which it ends with."""

from __future__ import annotations

from server.commands.verify import rebuild_main as main

__all__ = ["main"]
