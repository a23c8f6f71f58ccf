"""Read and print configured entries: delegators and model servers."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any, cast

import click
import msgspec

from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.output import event_lines, output
from understudy.frontends.cli.terminal import terminal
from understudy.model.config.config_entries import ConnectionTest, ConnectionTestStep
from understudy.model.errors import UnderstudyError

_AT_A_TIME = 4
"""Agents that are tested at the same time; each takes some hundred megabytes."""


def print_entry(entry: Any, declared: Any) -> None:
    """Print an entry as JSON, with its location and problems."""
    place = f", {output.file_of(entry.location)}" if entry.location else ""
    editable = "" if entry.editable else " (not editable by commands)"
    output.say(terminal.one_line(f"{declared.name}: from {entry.scope}{place}{editable}"))
    data = json.dumps(msgspec.to_builtins(declared), indent=2, ensure_ascii=False)
    click.echo("\n".join(map(terminal.sanitize, data.splitlines())))
    output.problems(entry.state.problems)


def described_target(model: str | None, host: str | None, key: str | None) -> str:
    """Return in parentheses where a delegator sends, and whether the key is there; nothing if nothing is known."""
    keys = {"set": "key set", "missing": "key missing", "keyring": "key in the keyring"}
    parts = [f"{model or 'no model'} at {host}" if host else model or "", keys.get(key or "", "")]
    text = ", ".join(filter(None, parts))
    return f" ({text})" if text else ""


def print_saved(verb: str, entry: Any, name: str, following: str, *, json_: bool) -> None:
    """Print that an entry was added or updated, its problems, and on a terminal the command ``following``."""
    if json_:
        output.json(entry)
        return
    place = f" in {output.file_of(entry.location)}" if entry.location else ""
    output.say(terminal.one_line(f"{verb} {name}{place}."))
    output.problems(entry.state.problems)
    if terminal.is_terminal(sys.stdout):
        output.say(event_lines.next_commands(following))


def print_connection_test(result: Any, *, json_: bool) -> int:
    """Print a ``ConnectionTest``; return the exit code: 0 if every step succeeded."""
    if json_:
        output.json(result)
    else:
        brush = output.paint()
        for step in result.steps:
            mark = brush("✓", fg="green") if step.ok else brush("✗", fg="red")
            output.say(
                f"{mark} {step.name.replace('_', ' ')}: {terminal.one_line(step.message)} ({step.seconds:.1f} s)"
            )
    return exit_codes.Exit.OK if result.ok else exit_codes.Exit.UNVERIFIED


def print_connection_tests(workspace: str, *, json_: bool) -> int:
    """Test the delegators of a workspace, some at a time, and print the results in order; return the exit code."""
    from concurrent.futures import ThreadPoolExecutor

    listed = call("delegators/list", workspace=workspace).delegators
    names = [entry.delegator.name for entry in listed if entry.delegator.remote_agent is entry.delegator.route is None]
    results: dict[str, ConnectionTest] = {}
    with ThreadPoolExecutor(max_workers=_AT_A_TIME) as pool:
        for name, result in zip(names, pool.map(partial(_tested, workspace), names), strict=True):
            results[name] = result
            if not json_:
                _print_named(name, result)
    if json_:
        output.json(results)
    return exit_codes.Exit.OK if all(result.ok for result in results.values()) else exit_codes.Exit.UNVERIFIED


def _tested(workspace: str, name: str) -> ConnectionTest:
    try:
        return cast("ConnectionTest", call("delegators/test", name=name, workspace=workspace))
    except UnderstudyError as error:  # one that was removed meanwhile must not hide the others
        step = ConnectionTestStep(name="configuration", ok=False, message=error.message, seconds=0.0)
        return ConnectionTest(ok=False, steps=[step])


def _print_named(name: str, test: ConnectionTest) -> None:
    if test.ok:
        asked = next((step.message for step in test.steps if step.name in {"round_trip", "model"}), None)
        text = asked or "Its program was found. Agents in tmux are not asked anything."
        mark = output.paint()("✓", fg="green")
    else:
        failed = next(step for step in test.steps if not step.ok)
        text = f"{failed.name.replace('_', ' ')}: {failed.message}"
        mark = output.paint()("✗", fg="red")
    output.say(f"{mark} {terminal.one_line(f'{name}: {text}')}")


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Return ``NAME=VALUE`` options as a mapping."""
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint=option)
        values[key] = value
    return values


def remove_fields(declared: dict[str, Any], fields: tuple[str, ...], name: str) -> None:
    """Remove the fields that ``--unset`` names from the declaration of the entry ``name``."""
    for field in fields:
        if field == "name":
            raise click.BadParameter("an entry always has a name; --rename changes it.", param_hint="--unset")
        if field not in declared:
            raise click.BadParameter(
                f"{name} has no field {field!r}, only {', '.join(other for other in declared if other != 'name')}.",
                param_hint="--unset",
            )
        del declared[field]
