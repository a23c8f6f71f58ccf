"""Kinds of model servers, the default address of each, and which of them run on this machine."""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import threading
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from understudy.config import locality

CONNECT_SECONDS = 0.2
"""A loopback connection is accepted or refused within a millisecond."""
ANSWER_SECONDS = 2.0
"""Listing models reads a folder; a server that is loading a model may need a moment."""
TOTAL_SECONDS = 4.0
"""A server that sends its answer slowly is given up after this."""
MAX_ANSWER_BYTES = 512 * 1024
MAX_MODELS = 500


class ServerKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of model server; ``server_presets.toml`` has them all."""

    kind: str
    """The value of ``kind`` in a model server."""
    title: str
    base_url: str = ""
    """Its default address; empty: there is none."""
    protocols: Sequence[str] = ("openai",)
    """The first is the preferred one. Only what the server's documentation names for this address."""
    local: bool = False
    """Whether it usually runs on the user's own machine."""
    needs_key: bool = False
    key_variable: str | None = None
    """The environment variable in which its documentation expects the key."""
    key_url: str | None = None
    """The page on which its users create keys."""
    families: Sequence[str] = ()
    """Names under which users know the models that it serves, for searches."""


@functools.cache
def kinds() -> Mapping[str, ServerKind]:
    """Return every kind, in the order in which frontends list them."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {kind: ServerKind(kind=kind, **table) for kind, table in tables.items()}


def running(candidates: Iterable[ServerKind]) -> Mapping[str, list[str]]:
    """Return those of the kinds whose default address on this machine answers now, with the models that each lists.

    Takes at most a few seconds.
    """
    from concurrent.futures import ThreadPoolExecutor

    local = [kind for kind in candidates if urlsplit(kind.base_url).hostname in locality.LOOPBACK]
    with ThreadPoolExecutor(max_workers=max(1, len(local)), thread_name_prefix="understudy-server") as pool:
        answers = pool.map(lambda kind: _models(kind.base_url), local)
        return {kind.kind: models for kind, models in zip(local, answers, strict=True) if models is not None}


def _models(base_url: str) -> list[str] | None:
    """Return the models that the server at a loopback address lists, ``None`` when there is no model server."""
    parts = urlsplit(base_url)
    import http.client  # here, because most requests need only the presets

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
