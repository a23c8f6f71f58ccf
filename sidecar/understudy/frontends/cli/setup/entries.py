"""Read and print configured entries: delegators and model servers."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
import msgspec

from understudy.frontends.cli import exit_codes
from understudy.frontends.cli.output import output
from understudy.frontends.cli.terminal import terminal


def print_entry(entry: Any, declared: Any) -> None:
    """Print an entry as JSON, with its location and problems."""
    place = f", {output.file_of(entry.location)}" if entry.location else ""
    editable = "" if entry.editable else " (not editable by commands)"
    click.echo(terminal.one_line(f"{declared.name}: from {entry.scope}{place}{editable}"))
    data = json.dumps(msgspec.to_builtins(declared), indent=2, ensure_ascii=False)
    click.echo("\n".join(map(terminal.sanitize, data.splitlines())))
    output.problems(entry.state.problems)


def print_saved(verb: str, entry: Any, name: str, group: str, *, json_: bool) -> None:
    """Print that an entry was added or updated, its problems, and on a terminal how to test it with ``group``."""
    if json_:
        output.json(entry)
        return
    place = f" in {output.file_of(entry.location)}" if entry.location else ""
    click.echo(terminal.one_line(f"{verb} {name}{place}."))
    output.problems(entry.state.problems)
    if sys.stdout.isatty():
        click.echo(f"next: understudy {group} test {name}")


def print_connection_test(found: Any, *, json_: bool) -> int:
    """Print a ``ConnectionTest``; return the exit code: 0 if every step succeeded."""
    if json_:
        output.json(found)
    else:
        brush = output.paint()
        for step in found.steps:
            mark = brush("✓", fg="green") if step.ok else brush("✗", fg="red")
            click.echo(
                f"{mark} {step.name.replace('_', ' ')}: {terminal.one_line(step.message)} ({step.seconds:.1f} s)"
            )
    return exit_codes.Exit.OK if found.ok else exit_codes.Exit.UNVERIFIED


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Return ``NAME=VALUE`` options as a mapping."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint=option)
        found[key] = value
    return found


def read_declaration(file: Any) -> dict[str, Any]:
    """Return the JSON object in ``file``."""
    try:
        found = msgspec.json.decode(file.read())
    except (OSError, msgspec.DecodeError) as error:
        raise click.BadParameter(f"{file.name}: {error}.", param_hint="--from-json") from None
    if not isinstance(found, dict):
        raise click.BadParameter(f"{file.name} does not contain a JSON object.", param_hint="--from-json")
    return found


def remove_fields(declared: dict[str, Any], fields: tuple[str, ...], name: str) -> None:
    """Remove the fields that ``--unset`` names from the declaration of the entry ``name``."""
    for field in fields:
        if field not in declared:
            raise click.BadParameter(
                f"{name} has no field {field!r}, only {', '.join(declared)}.", param_hint="--unset"
            )
        del declared[field]
