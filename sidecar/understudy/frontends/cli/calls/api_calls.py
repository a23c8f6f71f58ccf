"""Call the API from a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from understudy.api import method_table
from understudy.api.caller import TerminalCaller, current_folder, require_current_folder
from understudy.model.text import path_quoting


def call(name: str, /, **params: Any) -> Any:
    """Answer one request of the user at this terminal; parameters that are None are left out."""
    arguments = {key: value for key, value in params.items() if value is not None}
    return method_table.call(name, arguments, caller())


def caller() -> TerminalCaller:
    """Return the user at this terminal."""
    return TerminalCaller(current_folder())


def uri(path: str) -> str:
    """Return the ``file:`` URI of a path as typed: relative to the current directory, links and bytes kept."""
    named = Path(path).expanduser()
    folder = named if named.is_absolute() else require_current_folder()
    return path_quoting.uri_of(folder / named)


def resolve(identifier: str | None) -> str:
    """Return the full id of an abbreviated one. Errors: ``unknown_delegation``, with the ids that match."""
    return str(call("delegations/get", id=identifier or "").id)


def whole_group(identifier: str | None) -> str | None:
    """Return the full id of an abbreviated group, None for None. Errors: ``unknown_group``."""
    return None if identifier is None else str(call("groups/get", id=identifier).id)


def members(identifiers: tuple[str, ...], group: str | None) -> list[str]:
    """Return the delegations that a command names one by one; a command may name a group instead."""
    if not identifiers and group is None:
        raise click.UsageError("Name a delegation, or a group with --group.")
    return [resolve(text) for text in identifiers]
