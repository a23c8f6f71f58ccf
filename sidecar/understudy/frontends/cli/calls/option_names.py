"""Name options, not file keys, in errors about options."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import click

from understudy.model.errors import UnderstudyError

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


@contextlib.contextmanager
def as_options(*, also_json: bool = False) -> Iterator[None]:
    """Replace the keys of a file that an error names by options of the running command.

    Errors are unchanged with --json, unless ``also_json``, and for declarations that come from a file.
    """
    try:
        yield
    except UnderstudyError as error:
        context = click.get_current_context(silent=True)
        is_json = context is not None and context.params.get("json_") and not also_json
        if context is None or is_json or context.params.get("from_json") or error.location:
            raise
        known = _options(context.command)
        # The message is about what was given (--no-worktree), the hint about what to give instead.
        message = _said(error.message, known | _negated(context))
        hint = _said(error.hint, known) if error.hint else None
        raise UnderstudyError(error.kind, message, hint=hint, names=error.names, log_paths=error.log_paths) from None


def _options(command: click.Command) -> dict[str, str]:
    own = {
        str(one.name): next(opt for opt in reversed(one.opts) if opt.startswith("--"))
        for one in command.params
        if isinstance(one, click.Option) and any(opt.startswith("--") for opt in one.opts)
    }
    return own | {key: option for key, option in _ALSO if option in own.values()}


def _negated(context: click.Context) -> dict[str, str]:
    """Return the options that were given in their negative form."""
    return {
        str(one.name): one.secondary_opts[0]
        for one in context.command.params
        if isinstance(one, click.Option) and one.secondary_opts and context.params.get(str(one.name)) is False
    }


def _said(text: str, known: dict[str, str]) -> str:
    def key(found: re.Match[str]) -> str:
        name = re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", found[1])
        return known.get(name, found[0])

    def assignment(found: re.Match[str]) -> str:
        if found[1] not in known:
            return found[0]
        value = found[2].strip('"')
        if value.startswith("["):
            words = re.findall(r'"([^"]*)"', value)
            value = f"'{' '.join(words)}'"
        return f"{known[found[1]]} {value}"

    return _KEY.sub(key, _ASSIGNMENT.sub(assignment, text))
