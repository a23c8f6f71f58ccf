"""Find model servers that run on this machine by asking the default ports of the loopback address.

Only 127.0.0.1 is asked, no name is resolved, no proxy is used and no key is sent.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from understudy.config import locality
from understudy.config.discovery.server_presets import KINDS, ServerKind

CONNECT_SECONDS = 0.2
"""A loopback connection is accepted or refused within a millisecond."""

ANSWER_SECONDS = 2.0
"""Listing models reads a folder; a server that is loading a model may need a moment."""

TOTAL_SECONDS = 4.0
"""A server that sends its answer slowly is given up after this."""

MAX_ANSWER_BYTES = 512 * 1024
MAX_MODELS = 500


def running(kinds: Iterable[ServerKind] = tuple(KINDS.values())) -> Mapping[str, list[str]]:
    """Return the kinds whose default address on this machine answers now, with the models that each lists.

    Takes at most a few seconds.
    """
    from concurrent.futures import ThreadPoolExecutor

    local = [kind for kind in kinds if urlsplit(kind.base_url).hostname in locality.LOOPBACK]
    with ThreadPoolExecutor(max_workers=max(1, len(local)), thread_name_prefix="understudy-server") as pool:
        answers = pool.map(lambda kind: _models(kind.base_url), local)
        return {kind.kind: models for kind, models in zip(local, answers, strict=True) if models is not None}


def _models(base_url: str) -> list[str] | None:
    """Return the models that the server at a loopback address lists, ``None`` when there is no model server."""
    parts = urlsplit(base_url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=CONNECT_SECONDS)
    watch: threading.Timer | None = None
    try:
        connection.connect()
        connection.sock.settimeout(ANSWER_SECONDS)
        watch = threading.Timer(TOTAL_SECONDS, _hang_up, [connection.sock])
        watch.daemon = True
        watch.start()
        connection.request("GET", f"{parts.path.rstrip('/')}/models", headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read(MAX_ANSWER_BYTES) if response.status == http.HTTPStatus.OK else b""
        listed = json.loads(body)["data"]
        return [item["id"] for item in listed if isinstance(item["id"], str)][:MAX_MODELS]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return None
    finally:
        if watch is not None:
            watch.cancel()
        connection.close()


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
