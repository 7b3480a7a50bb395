"""An embedding service that costs nothing: vectors made of a text's hash, over HTTP as OpenAI's are.

A killed server starts often, and loading a model each time is most of what that costs; what a vector
means is none of the soak's claims.
"""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

MODEL = "soak"
DIM = 32


def vector(text: str) -> list[float]:
    """Unit length; equal for equal texts, unlike for others."""
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    made = np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)
    return [float(x) for x in made / np.linalg.norm(made)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        rows = [
            {"object": "embedding", "index": n, "embedding": vector(text)}
            for n, text in enumerate(body["input"])
        ]
        raw = json.dumps({"object": "list", "data": rows, "model": MODEL}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a killed caller is what the soak is about."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """As `log_message`."""


class VectorService:
    def __init__(self) -> None:
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def environ(self) -> dict[str, str]:
        """The settings that make a server use it."""
        return {
            "PLAIT_EMBEDDING__PROVIDER": "openai",
            "PLAIT_EMBEDDING__BASE_URL": f"http://127.0.0.1:{self._http.server_address[1]}",
            "PLAIT_EMBEDDING__MODEL": MODEL,
            "PLAIT_EMBEDDING__DIMENSION": str(DIM),
            "PLAIT_EMBEDDING__API_KEY": "none",
        }

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
