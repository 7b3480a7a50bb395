"""A server of chat completions on this machine, whose answers a test chooses."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], "tuple[int, bytes]"]


def said(text: str) -> tuple[int, bytes]:
    """An answer that is a chat completion with this text."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return 200, json.dumps(body).encode()


def refused(status: int, message: str = "no") -> tuple[int, bytes]:
    return status, json.dumps({"error": {"message": message}}).encode()


class Unread(ConnectionError):
    """The client gave up while it was asking."""


def body_of(request: BaseHTTPRequestHandler) -> dict[str, Any]:
    """The JSON that came with `request`. Raises: Unread."""
    size = int(request.headers["Content-Length"])
    raw = request.rfile.read(size)
    if len(raw) < size:
        raise Unread
    body: dict[str, Any] = json.loads(raw)
    return body


class HttpServer(ThreadingHTTPServer):
    """On a free port, a thread a connection. Clients that give up, as tests mean them to, are no news."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class ChatServer:
    """Speaks /v1/chat/completions; `answers` are given one a request, the last one for ever."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[Answer] = [lambda _: said("hello")]
        self.release = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = body_of(self)
                outer.requests.append(body)
                outer.headers.append({k.lower(): v for k, v in self.headers.items()})
                answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                status, raw = answer(body)
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)
                except OSError:
                    pass  # the client gave up, as a test means it to

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = HttpServer(Handler)

    @property
    def url(self) -> str:
        return f"{self.http.url}/v1"

    def says(self, *answers: tuple[int, bytes]) -> None:
        self.answers = [lambda _, one=one: one for one in answers]  # type: ignore[misc]

    def close(self) -> None:
        self.release.set()
        self.http.close()
