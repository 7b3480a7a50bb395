"""The service that a client starts: `plait serve` on the home's socket alone, until nobody calls."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from plait import settings as plait_settings
from plait.client.discovery import ServerAddress
from plait.domain.errors import PlaitError
from plait.domain.scope import DEFAULT_TENANT

logger = logging.getLogger(__name__)


def run(folder: Path, config: Mapping[str, Any], fd: int) -> int:
    """Serve the home that the environment names. On `fd` one line of JSON says where, or why not, to who
    started us; they may be gone."""
    from server.process import logs
    from vector.server import embedded

    logs.to_stderr(verbose=False)
    try:
        file = Path(config["config"]) if config["config"] else None
        # The tenant is each caller's to say: what the first one had set is not everybody's.
        settings = plait_settings.load(file, scope={"tenant": DEFAULT_TENANT})
        held = embedded.start_soon(settings)
        from server.process import serve  # half a second of imports, while the store starts

        def ready(address: ServerAddress) -> None:
            for lease in held:
                lease.close()  # the server has its own
            _ready(fd, config["turn"], address)

        serve.run(settings, ready, background=True)
        return 0
    except PlaitError as exc:
        logger.error("not started", extra={"reason": exc.reason, "error": exc.message})
        _tell(fd, {"reason": exc.reason, "message": exc.message, "metadata": exc.metadata})
        return 1


def _ready(fd: int, turn: int, address: ServerAddress) -> None:
    os.close(turn)  # the next one may look: there is an address now
    _tell(fd, {"address": asdict(address)})


def _tell(fd: int, message: Mapping[str, Any]) -> None:
    try:
        os.write(fd, json.dumps(message).encode() + b"\n")
        os.close(fd)
    except OSError:  # nobody waits, or it was told already
        return
