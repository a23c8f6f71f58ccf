"""What commands print: structures as JSON, tables, and errors with what to do next."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from understudy.faces.cli import terminal
from understudy.model.errors import UnderstudyError

NAMES_SHOWN = 5


def json(value: Any) -> None:
    """Print a structure of the contract as one JSON value: on one line in a pipe, indented on a terminal."""
    data = msgspec.json.encode(value)
    if terminal.is_terminal(sys.stdout):
        data = msgspec.json.format(data, indent=2)
    click.echo(data)


def json_line(value: Any) -> None:
    """Print a structure as one line, at once: for streams."""
    click.echo(msgspec.json.encode(value))
    sys.stdout.flush()


def error(problem: UnderstudyError, *, as_json: bool) -> None:
    """Say what went wrong: a sentence and a hint on stderr, or ``{"error": ErrorInfo}`` on stdout for scripts."""
    if as_json:
        json({"error": problem.info()})
        return
    paint = terminal.Paint(on=terminal.has_colour(sys.stderr))
    place = f"{problem.location.uri}:{problem.location.range.start.line + 1}: " if problem.location else ""
    click.echo(f"{paint('error:', fg='red', bold=True)} {place}{terminal.clean(problem.message)}", err=True)
    names = [terminal.path(name) for name in problem.names or []]
    if names and problem.kind.startswith("unknown_"):
        click.echo(f"  near: {', '.join(names[:NAMES_SHOWN])}", err=True)
    else:
        for name in names:
            click.echo(f"  - {name}", err=True)
    if problem.hint:
        click.echo(f"{paint('hint:', fg='cyan')} {terminal.clean(problem.hint)}", err=True)


def paint() -> terminal.Paint:
    """Return the colours of stdout."""
    return terminal.Paint(on=terminal.has_colour(sys.stdout))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns, the last one cut to the terminal's width; the header only for people."""
    # A path may hold more than one blank in a row, and is to be read as it is.
    lines = [[cell if cell.isprintable() else terminal.one_line(cell) for cell in row] for row in rows]
    for_people = terminal.is_terminal(sys.stdout)
    if for_people:
        lines.insert(0, list(header))
    if not lines:
        return
    widths = [max(terminal.width_of(line[column]) for line in lines) for column in range(len(header))]
    brush = paint()
    for number, line in enumerate(lines):
        cells = [cell + " " * (size - terminal.width_of(cell)) for cell, size in zip(line, widths, strict=True)]
        text = "  ".join(cells).rstrip()
        if for_people:
            text = terminal.cut(text, terminal.width())
        click.echo(brush(text, dim=True) if for_people and number == 0 else text)


def problems(found: Sequence[Any]) -> None:
    """Print problems of the configuration on stderr, each with its place and its hint."""
    brush = terminal.Paint(on=terminal.has_colour(sys.stderr))
    colours = {"error": "red", "warning": "yellow", "information": "cyan"}
    for problem in found:
        place = ""
        if problem.location is not None:
            start = problem.location.range.start
            place = f"{problem.location.uri.removeprefix('file://')}:{start.line + 1}:{start.character + 1}: "
        label = brush(f"{problem.severity}:", fg=colours[problem.severity])
        click.echo(f"{label} {terminal.one_line(place + problem.message)}", err=True)
        if problem.hint:
            click.echo(f"  {terminal.one_line(problem.hint)}", err=True)
