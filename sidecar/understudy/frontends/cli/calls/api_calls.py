"""Call the API from a command; errors about options name options, not file keys."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from understudy.api import method_table
from understudy.api.caller import TerminalCaller, current_folder, require_current_folder
from understudy.model.errors import UnderstudyError
from understudy.model.text import path_quoting

_ALSO = (
    ("api_key", "--key-env"),
    ("model_properties", "--property"),
    ("task", "--question"),
    ("task", "--spec"),
    ("total_bytes", "--max-bytes"),
)
"""Keys whose option has another name, for commands that have that option."""
_KEY = re.compile(r"`(?:launch\.|limits\.)?([a-z_]+|[a-z]+[A-Z]\w*)`")
_ASSIGNMENT = re.compile(r"(?:launch = \{ )?\b([a-z_]+) = (\"[^\"]*\"|\[[^\]]*\])(?: \})?")


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


@contextlib.contextmanager
def as_options(*, also_json: bool = False) -> Iterator[None]:
    """Replace the keys of a file that an error names by options of the running command.

    Errors are unchanged with --json, unless ``also_json``, and where they are in a file.
    """
    try:
        yield
    except UnderstudyError as error:
        context = click.get_current_context(silent=True)
        is_json = context is not None and context.params.get("json_") and not also_json
        if context is None or is_json or error.location:
            raise
        by_key = _options(context.command)
        # The message is about what was given (--no-worktree), the hint about what to give instead.
        message = _said(error.message, by_key | _negated(context))
        hint = _said(error.hint, by_key) if error.hint else None
        raise UnderstudyError(error.kind, message, hint=hint, names=error.names, log_paths=error.log_paths) from None


def _options(command: click.Command) -> dict[str, str]:
    by_key = {
        str(parameter.name): next(opt for opt in reversed(parameter.opts) if opt.startswith("--"))
        for parameter in command.params
        if isinstance(parameter, click.Option) and any(opt.startswith("--") for opt in parameter.opts)
    }
    return by_key | {key: option for key, option in _ALSO if option in by_key.values()}


def _negated(context: click.Context) -> dict[str, str]:
    """Return the options that were given in their negative form."""
    return {
        str(parameter.name): parameter.secondary_opts[0]
        for parameter in context.command.params
        if isinstance(parameter, click.Option)
        and parameter.secondary_opts
        and context.params.get(str(parameter.name)) is False
    }


def _said(text: str, by_key: dict[str, str]) -> str:
    def key(match: re.Match[str]) -> str:
        name = re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", match[1])
        return by_key.get(name, match[0])

    def assignment(match: re.Match[str]) -> str:
        if match[1] not in by_key:
            return match[0]
        value = match[2].strip('"')
        if value.startswith("["):
            words = re.findall(r'"([^"]*)"', value)
            value = f"'{' '.join(words)}'"
        return f"{by_key[match[1]]} {value}"

    return _KEY.sub(key, _ASSIGNMENT.sub(assignment, text))
