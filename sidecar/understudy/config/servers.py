"""Which model servers answer on this machine: a look at a few well-known ports of the loopback address.

Nothing but 127.0.0.1 is ever asked, no name is resolved, no proxy is used and no key is sent.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from dataclasses import dataclass

from understudy.model.delegators import ModelServer

CONNECT_SECONDS = 0.2
"""A loopback connection is accepted or refused within a millisecond."""

ANSWER_SECONDS = 2.0
"""Listing models reads a folder; a server that is loading a model may need a moment."""

TOTAL_SECONDS = 4.0
"""Whatever listens there, however slowly it talks."""

MAX_ANSWER_BYTES = 512 * 1024

PORTS: tuple[tuple[str, int, str], ...] = (
    ("ollama", 11434, "Ollama"),
    ("lmstudio", 1234, "LM Studio"),
    ("llamacpp", 8080, "llama.cpp server"),
    ("vllm", 8000, "vLLM"),
)
"""Kind, default port, and what people call it."""


@dataclass(frozen=True)
class FoundServer:
    """A server that answered like one that serves models."""

    model_server: ModelServer
    models: list[str]


def detect_servers(ports: tuple[tuple[str, int, str], ...] = PORTS) -> list[FoundServer]:
    """Return the model servers that answer now, with the models they list; takes at most a few seconds."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only when servers are looked for

    with ThreadPoolExecutor(max_workers=len(ports), thread_name_prefix="understudy-server") as pool:
        return [found for found in pool.map(lambda port: _ask(*port), ports) if found is not None]


def _ask(kind: str, port: int, title: str) -> FoundServer | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=CONNECT_SECONDS)
    watch: threading.Timer | None = None
    try:
        connection.connect()
        connection.sock.settimeout(ANSWER_SECONDS)
        watch = threading.Timer(TOTAL_SECONDS, _hang_up, [connection.sock])
        watch.daemon = True
        watch.start()
        connection.request("GET", "/v1/models", headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read(MAX_ANSWER_BYTES) if response.status == http.HTTPStatus.OK else b""
        listed = json.loads(body)["data"]
        models = [item["id"] for item in listed if isinstance(item["id"], str)]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return None  # nothing there, or something that is no model server
    finally:
        if watch is not None:
            watch.cancel()
        connection.close()
    server = ModelServer(name=kind, display_name=title, kind=kind, base_url=f"http://127.0.0.1:{port}/v1")
    return FoundServer(server, models)


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
