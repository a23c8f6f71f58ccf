"""``config KEY VALUE``: read or set one value of the entries that Understudy writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from understudy.frontends.cli.calls import options
from understudy.frontends.cli.calls.api_calls import call, uri
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import camel, snake

_DEFAULT = "default"
_OTHER_NAMES = {"default_profile": _DEFAULT, "default_delegator": _DEFAULT, "defaults.delegator": _DEFAULT}
"""Names of other tools, and that of the file, for the default delegator."""
_GROUPS = {"delegators": "delegators", "model-servers": "modelServers"}
_ENTRY = {"delegators": "delegator", "model-servers": "model_server"}


@click.command(
    epilog=options.examples(
        "understudy config",
        "understudy config default claude",
        "understudy config default.review claude --scope workspace",
        "understudy config delegators.claude.model sonnet",
        "understudy config delegators.claude.launch.yolo true",
        "understudy config delegators.claude.limits --unset",
    )
)
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--unset", is_flag=True, help="Remove the value of KEY.")
@click.option(
    "--scope",
    type=click.Choice(["user", "workspace"]),
    default="user",
    show_default=True,
    help="Whose default to set; other values are set where their entry is.",
)
@options.in_workspace
@options.as_json
def config(*, key: str | None, value: str | None, unset: bool, scope: str, workspace: str | None, json_: bool) -> None:
    """Show or set one value of your configuration.

    The name is agent-delegator's. KEY is `default`, `default.RECIPE`, `delegators.NAME.FIELD` or
    `model-servers.NAME.FIELD`; without KEY, all are listed. VALUE is a text, a number, true, false, or JSON. Only files
    that Understudy wrote are changed: what you wrote by hand, such as config.toml, you edit yourself.
    """
    if unset and (value is not None or key is None):
        raise click.UsageError("--unset takes KEY, and no VALUE.")
    values = dict(_every(workspace))
    if key is None:
        if json_:
            output.json(values)
        else:
            output.table(("KEY", "VALUE"), [(name, _shown(item)) for name, item in values.items()])
        return
    key = _OTHER_NAMES.get(key, key)
    if value is None and not unset:
        below = _below(values, key)
        output.json(below) if json_ else click.echo(terminal.one_line(_shown(below)))
        return
    _set(key, None if value is None else _parsed(value), value, workspace, scope)
    now = _below(dict(_every(workspace)), key, missing=None)
    if json_:
        output.json({"key": key, "value": now})
    else:
        click.echo(f"{terminal.one_line(key)} = {terminal.one_line(_shown(now))}" if not unset else f"Removed {key}.")


def _every(workspace: str | None) -> Iterator[tuple[str, Any]]:
    place = uri(workspace or ".")
    entries = call("delegators/list", workspace=place).delegators
    for entry in entries:
        if entry.is_default:
            yield _DEFAULT, entry.delegator.name
        for recipe in entry.default_for:
            yield f"{_DEFAULT}.{recipe}", entry.delegator.name
    for group in _GROUPS:
        for entry in entries if group == "delegators" else _listed(group, place):
            declared = getattr(entry, _ENTRY[group])
            values = _snake(msgspec.to_builtins(declared))
            name = values.pop("name")
            yield from _leaves(f"{group}.{name}", values)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}", inner)
    else:
        yield path, value


def _below(values: dict[str, Any], key: str, **instead: Any) -> Any:
    """Return the value of a key, or a table of those below it."""
    if key in values:
        return values[key]
    inner = {name.removeprefix(f"{key}."): value for name, value in values.items() if name.startswith(f"{key}.")}
    if inner or "missing" in instead:
        return inner or instead["missing"]
    raise _unknown(key, values)


def _unknown(key: str, values: dict[str, Any]) -> UnderstudyError:
    import difflib

    near = difflib.get_close_matches(key, values, n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`understudy config` lists the keys that have a value."
    return UnderstudyError(ErrorKind.INVALID_PARAMS, f"{key!r} has no value.", hint=hint, names=near or None)


def _set(key: str, value: Any, raw: str | None, workspace: str | None, scope: str) -> None:
    head, _, rest = key.partition(".")
    place = uri(workspace or ".")
    if head == _DEFAULT:
        with options.as_options():
            call("delegators/setDefault", delegator=raw, recipe=rest or None, scope=scope, workspace=place)
        return
    group = _GROUPS.get(head)
    names = {getattr(entry, _ENTRY[head]).name for entry in _listed(head, place)} if group is not None else set()
    # Names may have dots, so the longest one that fits counts.
    name = max((candidate for candidate in names if rest.startswith(f"{candidate}.")), key=len, default=None)
    if group is None or name is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{key!r} cannot be set here.",
            hint="Set `default`, `default.RECIPE`, `delegators.NAME.FIELD` or `model-servers.NAME.FIELD`; what is in "
            "config.toml, you edit yourself: understudy init writes a commented one.",
        )
    field = rest.removeprefix(f"{name}.")
    try:
        _update(head, name, field, value, place)
    except UnderstudyError as error:
        if error.kind is not ErrorKind.INVALID_PARAMS or raw is None or isinstance(value, str):
            raise
        # A text that looks like a number: a version, an amount, the value of a variable.
        _update(head, name, field, raw, place)


def _update(head: str, name: str, field: str, value: Any, place: str) -> None:
    group = _GROUPS[head]
    before = call(f"{group}/get", name=name, workspace=place)
    declared = msgspec.to_builtins(getattr(before, _ENTRY[head]))
    _put(declared, [camel(step) for step in field.split(".")], value, field)
    with options.as_options():
        call(f"{group}/update", name=name, revision=before.revision, workspace=place, **{camel(_ENTRY[head]): declared})


def _listed(head: str, place: str) -> list[Any]:
    group = _GROUPS[head]
    entries: list[Any] = getattr(call(f"{group}/list", workspace=place), snake(group))
    return entries


_FREE = frozenset({"env", "modelProperties", "headers", "extensions", "prices"})
"""Tables whose keys the user chooses, so that they are not translated."""


def _put(values: dict[str, Any], path: list[str], value: Any, key: str) -> None:
    for step in path[:-1]:
        values = values.setdefault(step, {})
        if not isinstance(values, dict):
            raise click.UsageError(f"{key} is not a table.")
        if step in _FREE:
            # What follows is a name, with all its dots and underscores.
            path = [f".{key}".partition(f".{snake(step)}.")[2]]
            break
    if value is None:
        values.pop(path[-1], None)
    else:
        values[path[-1]] = value


def _snake(value: Any, free: bool = False) -> Any:
    if not isinstance(value, dict):
        return value
    return {key if free else snake(key): _snake(inner, key in _FREE) for key, inner in value.items()}


def _parsed(text: str) -> Any:
    """Return a value as typed: JSON where it is JSON, else the text itself."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if parsed is None else parsed


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
