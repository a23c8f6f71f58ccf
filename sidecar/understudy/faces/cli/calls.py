"""The one way from a command to the method table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from understudy.api import table
from understudy.api.caller import Here


def call(name: str, /, **params: Any) -> Any:
    """Answer one request for a person at a terminal; parameters that are None are left out."""
    given = {key: value for key, value in params.items() if value is not None}
    return table.call(name, given, Here(Path.cwd()))


def uri(path: str) -> str:
    """Return the ``file:`` URI of a path as the person typed it: relative to here, links kept, bytes kept."""
    from understudy.engine.places import uri_of  # noqa: PLC0415 - few commands take paths

    return uri_of(Path.cwd() / Path(path).expanduser())


def resolve(identifier: str | None) -> str:
    """Return the whole id for an abbreviated one."""
    from understudy.journal import store  # noqa: PLC0415 - few commands take ids

    return store.resolve_id(identifier or "")
