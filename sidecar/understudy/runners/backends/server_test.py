"""List a model server's models and test its connection: ``modelServers/test|models`` and ``delegators/test``."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from understudy.config import locality
from understudy.config.discovery import declarations
from understudy.model.config.config_entries import ConnectionTest, ConnectionTestStep
from understudy.model.config.delegators import Delegator, Model, ModelPrice, ModelServer
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import foreign_json
from understudy.model.text.sanitize import strip_controls
from understudy.runners.backends import protocol_choice
from understudy.runners.backends.dialects import Dialect, dialect_of
from understudy.runners.backends.http import http_client, http_errors
from understudy.secrets import Redactor

PROBE_SECONDS = 20.0
"""The limit for each step; a model that is loaded first may take longer, and then the test reports that."""
_MAX_LIST_BYTES = 8 << 20
_MAX_MODELS = 5000
_SHOWN_FIELDS = 6
_SHOWN_FIELD = 40
_SHOWN_TEXT = 80
_CONTEXT_FIELDS = (
    "context_length",
    "max_model_len",
    "context_window",
    "max_context_length",
    "n_ctx",
    "inputTokenLimit",
)


PROTOCOL = "gemini"
_VERSION = re.compile(r"/v1(beta)?/?$")


def list_models(
    server: ModelServer,
    *,
    key: Callable[[], str | None] | None = None,
    delegator: Delegator | None = None,
    timeout_seconds: float = PROBE_SECONDS,
) -> list[Model]:
    """Return the models that ``GET <baseUrl>/models`` lists, in the server's order; errors as in ``http_errors``."""
    body = _request(server, "GET", "/models", None, key=key, delegator=delegator, seconds=timeout_seconds)
    try:
        value = foreign_json.decode(body)
    except foreign_json.UNREADABLE:
        value = None
    entries = value.get("data", value.get("models")) if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise UnderstudyError(
            ErrorKind.MALFORMED_OUTPUT,
            f"Model server {server.name!r} did not send a list of models. {_received(body, value)}",
            hint="Check that `base_url` ends where `/chat/completions` begins (often `/v1`).",
        )
    return [model for entry in entries[:_MAX_MODELS] if (model := _model(entry)) is not None]


def probe(
    server: ModelServer,
    *,
    model: str | None = None,
    delegator: Delegator | None = None,
    key: Callable[[], str | None] | None = None,
    round_trip: bool = False,
    timeout_seconds: float = PROBE_SECONDS,
) -> ConnectionTest:
    """Test ``server`` step by step: endpoint, key, model (if named), and a round trip of a few tokens (if asked).

    Never raises because of the server; a step that depends on a failed one is left out.
    """
    steps = _Steps()
    models: list[Model] = []
    choice: protocol_choice.Choice | None = None
    if protocol_choice.is_open(server) and (delegator is None or delegator.tool is None):
        choice = _choose(server, model or "", key=key, delegator=delegator)
        server = protocol_choice.with_protocol(server, choice.protocol)

    def endpoint() -> str:
        nonlocal models
        models = list_models(server, key=key, delegator=delegator, timeout_seconds=timeout_seconds)
        return f"{len(models)} models listed."

    failure = steps.take("endpoint", endpoint)
    if failure is not None and failure.kind is ErrorKind.AUTH_FAILED:
        # The server responds: only the key is wrong.
        refused = steps.done.pop()
        steps.add("endpoint", "It responds.", seconds=refused.seconds)
        steps.add("key", failure.message, ok=False)
    elif failure is None:
        has_key = key is not None and server.api_key is not None
        steps.add("key", "Accepted." if has_key else "No key is configured, and the server asked for none.")
    unlisted = failure is not None and failure.kind in {ErrorKind.BAD_REQUEST, ErrorKind.MODEL_NOT_FOUND}
    if model and failure is None:
        names = [entry.id for entry in models]
        if model in names or not names:
            steps.add("model", f"{model} is listed." if names else "The server lists no models.")
        else:
            steps.add(
                "model", f"{model} is not among the {len(names)} listed models ({', '.join(names[:5])}, …).", ok=False
            )
    if model and round_trip and unlisted:
        # A server without a list of models can still work.
        steps.done.pop()
        steps.add("endpoint", "It responds, but lists no models.")
    if choice is not None and (failure is None or failure.kind is not ErrorKind.CONNECTION_FAILED):
        which = "auto" if model else "auto, for a model whose name suggests none"
        steps.add("protocol", f"`{choice.protocol}` ({which}: {choice.why}).")
    if model and round_trip and (failure is None or unlisted):
        steps.take(
            "round_trip", lambda: _round_trip(server, model, key=key, delegator=delegator, seconds=timeout_seconds)
        )
    return ConnectionTest(ok=all(step.ok for step in steps.done), steps=steps.done)


def _choose(
    server: ModelServer, model: str, *, key: Callable[[], str | None] | None, delegator: Delegator | None
) -> protocol_choice.Choice:
    """Ask the server what it supports; a server that cannot be reached is reported by the first step."""
    secret = key() if key is not None else None
    try:
        where = http_client.endpoint(server, local=locality.is_bound(delegator, server), key=secret)
    except UnderstudyError:
        return protocol_choice.expected(server, model)
    return protocol_choice.decide(server, model, where)


class _Steps:
    """The steps completed so far."""

    def __init__(self) -> None:
        self.done: list[ConnectionTestStep] = []

    def add(self, name: str, message: str, *, ok: bool = True, seconds: float = 0.0) -> None:
        self.done.append(ConnectionTestStep(name=name, ok=ok, message=message, seconds=round(seconds, 3)))

    def take(self, name: str, step: Callable[[], Any]) -> UnderstudyError | None:
        started = time.monotonic()
        try:
            message = step()
        except UnderstudyError as error:
            hint = f" {error.hint}" if error.hint else ""
            self.add(name, error.message + hint, ok=False, seconds=time.monotonic() - started)
            return error
        self.add(name, message, seconds=time.monotonic() - started)
        return None


def _round_trip(
    server: ModelServer,
    model: str,
    *,
    key: Callable[[], str | None] | None,
    delegator: Delegator | None,
    seconds: float,
) -> str:
    dialect = _dialect(server, delegator)
    body = dialect.probe("Answer with the word: ready", 16)
    if isinstance(dialect, GeminiProbe):
        path = dialect.path_of(model)
    else:
        path = dialect.path
        body = {**((delegator and delegator.model_properties) or {}), "model": model, "stream": False} | body
    text = _request(server, "POST", path, body, key=key, delegator=delegator, seconds=seconds)
    try:
        value = foreign_json.decode(text)
    except foreign_json.UNREADABLE:
        value = None
    answered = value.get(dialect.answer_field) if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(answered, list) or not answered:
        if isinstance(value, dict) and value.get("error"):
            raise http_errors.reported(value["error"], server.name, lambda text: text)
        raise UnderstudyError(
            ErrorKind.MALFORMED_OUTPUT,
            f"Model server {server.name!r} did not send a completion. {_received(text, value)}",
            hint="Check `base_url`.",
        )
    served = value.get("model")
    # llama-server and others accept any model name; report the model that really answered.
    other = f", by {strip_controls(served)[:80]!r}" if isinstance(served, str) and served and served != model else ""
    return f"Answered{other}."


def _received(body: str, value: Any) -> str:
    """Describe an unexpected body in one sentence; JSON and markup say nothing to a reader."""
    start = body.lstrip()
    if isinstance(value, dict):
        fields = ", ".join(strip_controls(str(name))[:_SHOWN_FIELD] for name in list(value)[:_SHOWN_FIELDS])
        return f"It sent JSON with the fields {fields}." if fields else "It sent an empty JSON object."
    if value is not None:
        return "It sent JSON without the expected fields."
    if start.startswith("<"):
        return "It sent a web page."
    if start.startswith(("data:", "event:")):
        return "It sent a stream of events, although none was asked for."
    if start.startswith(("{", "[")):
        return "It sent JSON that is cut off or invalid."
    line = " ".join(strip_controls(start[:_SHOWN_TEXT]).split())
    return f"It sent: “{line}”." if line else "It sent nothing."


def _dialect(server: ModelServer, delegator: Delegator | None) -> Dialect | GeminiProbe:
    """Return the dialect that ``delegator`` uses, else the preferred one of the server."""
    supported = declarations.capabilities_of(delegator, server) if delegator is not None else None
    chosen = declarations.protocol_for(server, supported) if supported is not None else None
    if chosen == PROTOCOL or set(declarations.protocols_of(server)) == {PROTOCOL}:
        return GeminiProbe()
    return dialect_of(msgspec.structs.replace(server, protocols=[chosen]) if chosen is not None else server)


def _request(
    server: ModelServer,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    *,
    key: Callable[[], str | None] | None,
    delegator: Delegator | None,
    seconds: float,
) -> str:
    """Send one request and return the body of an answer with status 200; raise for everything else."""
    import httpx

    secret = key() if key is not None else None
    redactor = Redactor({f"model server {server.name}": secret} if secret else {})
    where = http_client.endpoint(server, local=locality.is_bound(delegator, server), key=secret)
    dialect = _dialect(server, delegator)
    path = dialect.below(where.base.path, path)
    if isinstance(dialect, GeminiProbe):
        headers = dialect.headers(where.headers, secret)
    else:
        headers = {**where.headers, **dialect.headers(secret)}
    try:
        status, content = http_client.fetch(
            where,
            method,
            path,
            content=msgspec.json.encode(body) if body is not None else None,
            headers={**headers, "Accept": "application/json"},
            seconds=seconds,
            most=_MAX_LIST_BYTES,
        )
    except TimeoutError:
        raise UnderstudyError(
            ErrorKind.TIMED_OUT,
            f"Model server {server.name!r} did not answer {method} {path} within {seconds:g} s.",
            hint="If it is loading a model, try again in a minute.",
        ) from None
    except (httpx.HTTPError, httpx.StreamError, OSError) as error:
        reason = http_errors.reason_of(error, redactor.redact)
        raise UnderstudyError(
            ErrorKind.CONNECTION_FAILED,
            f"Model server {server.name!r} could not be reached at {server.base_url}: {reason}.",
            hint="Check that the server is running and that `base_url` is correct.",
        ) from None
    text = content.decode("utf-8", "replace")
    if status != 200:
        raise http_errors.refusal(status, text, server.name, redactor.redact)
    return redactor.redact(text)


def _model(entry: Any) -> Model | None:
    if isinstance(entry, str):
        return Model(id=strip_controls(entry)[:256])
    if not isinstance(entry, dict):
        return None
    name = entry.get("id") or entry.get("name") or entry.get("model")
    if not isinstance(name, str) or not name:
        return None
    meta = entry.get("meta")
    context: int | None = None
    for place in (entry, meta if isinstance(meta, dict) else {}):
        for field in _CONTEXT_FIELDS:
            value = place.get(field)
            if context is None and isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9:
                context = value
    return Model(
        id=strip_controls(name.removeprefix("models/"))[:256],
        context_tokens=context,
        price=_price(entry.get("pricing")),
    )


def _price(value: Any) -> ModelPrice | None:
    """Return the prices per million tokens from a list like OpenRouter's, which has USD per token as strings."""
    if not isinstance(value, dict):
        return None
    price = ModelPrice(input=_per_million(value.get("prompt")), output=_per_million(value.get("completion")))
    return price if price != ModelPrice() else None


def _per_million(per_token: Any) -> str | None:
    from decimal import Decimal

    # OpenRouter sends a string, others a number, which may have an exponent.
    text = str(per_token) if isinstance(per_token, str | int | float) and not isinstance(per_token, bool) else ""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,18})?([eE]-[0-9]{1,2})?", text):
        return None
    amount = Decimal(text) * 1_000_000
    return format(amount.normalize() if amount != amount.to_integral_value() else amount.quantize(Decimal(1)), "f")


class GeminiProbe:
    """Builds the requests of a connection test."""

    answer_field = "candidates"

    @staticmethod
    def path_of(model: str) -> str:
        """Return the path of a request to ``model``."""
        return f"/models/{model.removeprefix('models/')}:generateContent"

    @staticmethod
    def below(base: str, path: str) -> str:
        """Return where ``path`` is: addresses are given with and without the version, which Gemini CLI adds."""
        return path if _VERSION.search(base) else f"/v1beta{path}"

    @staticmethod
    def headers(headers: Mapping[str, str], key: str | None) -> dict[str, str]:
        """Return the headers with the key where this API expects it; it takes ``Authorization`` for a login."""
        kept = {name: value for name, value in headers.items() if name != "Authorization"}
        return kept | ({"x-goog-api-key": key.strip()} if key and key.strip() else {})

    @staticmethod
    def probe(prompt: str, tokens: int) -> dict[str, Any]:
        """Return the body of a short request. The model is in its path, and unknown fields are refused."""
        return {
            "contents": [{"role": "user", "parts": [{"text": prompt}]}],
            "generationConfig": {"maxOutputTokens": tokens},
        }
