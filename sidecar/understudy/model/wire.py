"""The base classes of all structures that are sent or received, their encoding, and times as text.

Field names are snake_case here and camelCase on the wire. A field without a default is always
present; an optional one is left out while it has its default.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import msgspec

_encoder = msgspec.json.Encoder()
_Kind = TypeVar("_Kind")
_building = threading.RLock()
_ready: set[Any] = set()


class Wire(msgspec.Struct, rename="camel", omit_defaults=True):
    """A structure that Understudy sends: readers ignore fields they do not know."""


class Strict(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A structure that Understudy receives: a field it does not know is an error."""


def encode(message: Any) -> bytes:
    """Return JSON. In a path that is not UTF-8, each invalid byte becomes U+FFFD: JSON cannot represent it."""
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        return _encoder.encode(whole(msgspec.to_builtins(message)))


def whole(value: Any) -> Any:
    """Return JSON data without halves of surrogate pairs."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {whole(key): whole(item) for key, item in value.items()}
    return value


def camel(name: str) -> str:
    """Return the wire name of a snake_case field (``base_url`` → ``baseUrl``)."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def snake(name: str) -> str:
    """Return the name of a field by its wire name (``baseUrl`` → ``base_url``)."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def ready(kind: _Kind) -> _Kind:
    """Prepare ``kind``, a type for msgspec to decode or convert to, for use in any thread, and return it.

    msgspec 0.22 builds its data about a structure when it first decodes one, and publishes the data before it is
    complete: a second thread that decodes the same structure at that moment reads a null pointer, and the process dies.
    """
    if kind not in _ready:
        with _building:
            if kind not in _ready:
                msgspec.json.Decoder(kind)
                _ready.add(kind)
    return kind


def timestamp(
    moment: datetime | float | None = None, precision: Literal["milliseconds", "seconds"] = "milliseconds"
) -> str:
    """Return a time, such as ``2026-11-21T00:45:12.000Z``: by default now; a number is seconds since the epoch.

    Texts of one precision sort in the order of time. Raises the errors of ``datetime`` for a number out of its range.
    """
    if not isinstance(moment, datetime):
        moment = datetime.now(UTC) if moment is None else datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def retry_time(epoch_seconds: float) -> str | None:
    """Return a time in the format of ``retryAt`` of an error; None if it is out of range."""
    try:
        return timestamp(epoch_seconds, "seconds")
    except (ValueError, OverflowError, OSError):
        return None
