"""Choose the protocol of a model server that declares ``protocols = ["auto"]``.

The name of the model says which protocol is tried first. The server itself decides: a request without content is sent
to the path of each protocol until one is not refused as unknown. No model reads it, so it costs nothing. It goes to the
configured address only, and no redirect is followed. What the server supports is kept for a day, for all processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from understudy.config.discovery import declarations
from understudy.files import durable
from understudy.journal import delegation_folder
from understudy.model.config.delegators import ModelServer
from understudy.model.errors import UnderstudyError
from understudy.model.wire import ready
from understudy.runners.backends.http import http_client

if TYPE_CHECKING:
    from understudy.runners.backends.dialects import Dialect

KEPT_SECONDS = 24 * 3600.0
ANSWER_SECONDS = 10.0
"""A server that needs longer is busy or loads a model; then the name of the model decides, and nothing is kept."""
_BODY_BYTES = 16 << 10
_MOST_BYTES = 64 << 10

_CHAT_MODELS = re.compile(r"(deepseek|openai|gpt|qwen|minimax|moonshot|kimi|grok)([-_./:\d]|$)", re.IGNORECASE)
"""Models that are served over chat completions in the first place; others over Messages."""
_UNKNOWN_PATH = frozenset({404, 405, 501})
_UNCLEAR = frozenset({401, 403, 407, 408, 429, 502, 503, 504})
"""Refusals that come before the path is looked at."""
_NO_SUCH_ENDPOINT = re.compile(r"(unexpected|unknown|invalid|no such) (endpoint|url|path|route)", re.IGNORECASE)
"""In an answer with another status: LM Studio's."""


class _Supported(msgspec.Struct):
    """What a server was found to support."""

    checked_at: float
    protocols: dict[str, bool]


class Choice(msgspec.Struct, frozen=True):
    """A protocol, and why it is used, as a clause."""

    protocol: str
    why: str
    asked: bool = False
    """Whether the server was asked now."""


def is_open(server: ModelServer) -> bool:
    """Return whether the server leaves the choice to Understudy."""
    return server.protocols == [declarations.AUTO]


def order_for(model: str) -> list[str]:
    """Return the protocols in the order in which they are tried for a model."""
    last = model.rpartition("/")[2]
    chat = _CHAT_MODELS.match(model) or _CHAT_MODELS.match(last)
    return ["openai", "anthropic", "responses"] if chat else ["anthropic", "openai", "responses"]


def expected(server: ModelServer, model: str) -> Choice:
    """Return what will be used, as far as it is known without asking the server."""
    order = order_for(model)
    answers = _read(server)
    if answers is not None:
        first = next((protocol for protocol in order if answers.get(protocol)), None)
        if first is not None:
            return Choice(first, "the server was found to support it")
    return Choice(order[0], "the name of the model suggests it; the server is asked before the first request")


def decide(server: ModelServer, model: str, where: http_client.Endpoint) -> Choice:
    """Return the protocol for requests to ``server``, which is asked unless its answers are known."""
    order = order_for(model)
    answers = _read(server) or {}
    asked = False
    for protocol in order:
        supported = answers.get(protocol)
        if supported is None:
            supported = _ask(where, protocol)
            asked = True
            if supported is None:
                break
            answers[protocol] = supported
        if supported:
            if asked:
                _keep(server, answers)
            return Choice(protocol, _why(order, answers, protocol), asked)
    return Choice(
        order[0], "the name of the model suggests it; the server's answers do not show what it supports", asked
    )


def forget(server: ModelServer) -> None:
    """Ask the server again before the next request."""
    with contextlib.suppress(OSError):
        _file(server).unlink(missing_ok=True)


def with_protocol(server: ModelServer, protocol: str) -> ModelServer:
    """Return ``server`` with this protocol only."""
    return msgspec.structs.replace(server, protocols=[protocol])


def _why(order: list[str], answers: dict[str, bool], protocol: str) -> str:
    missing = [f"`{other}`" for other in order[: order.index(protocol)] if answers.get(other) is False]
    if missing:
        return f"the server has no {' and no '.join(missing)}"
    return "the name of the model suggests it, and the server supports it"


def _ask(where: http_client.Endpoint, protocol: str) -> bool | None:
    """Return whether the server has the path of a protocol; None if its answer does not show that."""
    import httpx

    dialect = _dialect(protocol)
    try:
        status, body = http_client.fetch(
            where,
            "POST",
            dialect.below(where.base.path, dialect.path),
            content=b"{}",
            headers={**where.headers, **dialect.headers(where.key), "Accept": "application/json"},
            seconds=ANSWER_SECONDS,
            most=_BODY_BYTES,
        )
    except (TimeoutError, httpx.HTTPError, httpx.StreamError, OSError):
        return None
    if status in _UNCLEAR or 300 <= status < 400:
        return None
    text = body.decode("utf-8", "replace")
    if status in _UNKNOWN_PATH:
        # A server may look at the model first: "model: field required" is an answer of the path.
        return (
            status == 404
            and text.lstrip().startswith("{")
            and "model" in text.lower()
            and _NO_SUCH_ENDPOINT.search(text) is None
        )
    return _NO_SUCH_ENDPOINT.search(text) is None


def _dialect(protocol: str) -> Dialect:
    from understudy.runners.backends.dialects import dialect_of

    return dialect_of(ModelServer(name="auto", kind="custom", base_url="http://127.0.0.1", protocols=[protocol]))


def _read(server: ModelServer) -> dict[str, bool] | None:
    try:
        stored = msgspec.json.decode(durable.read_whole(_file(server), _MOST_BYTES), type=ready(_Supported))
    except (OSError, UnderstudyError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    age = time.time() - stored.checked_at
    return dict(stored.protocols) if 0 <= age < KEPT_SECONDS else None


def _keep(server: ModelServer, answers: dict[str, bool]) -> None:
    place = _file(server)
    with contextlib.suppress(OSError, UnderstudyError):  # it is asked again then
        place.parent.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
        durable.replace(place, msgspec.json.encode(_Supported(time.time(), answers)))


def _file(server: ModelServer) -> Path:
    digest = hashlib.sha256(server.base_url.rstrip("/").encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return delegation_folder.state_root() / "server-protocols" / f"{digest}.json"
