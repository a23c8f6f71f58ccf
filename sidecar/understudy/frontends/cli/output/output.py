"""Print JSON, tables, previews, errors and problems; format durations, counts and sizes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from understudy.frontends.cli.terminal import terminal
from understudy.model import wire
from understudy.model.delegation.ledger import LedgerTotals
from understudy.model.errors import Location, UnderstudyError
from understudy.model.hunks import Review
from understudy.model.text import path_quoting

NAMES_SHOWN = 12
_NOTHING = frozenset({"", "-"})
"""Cells without a value."""
_PROSE_COLUMNS = 30
"""Sentences are hard to read in a narrower column."""
_UNITS = ("B", "kB", "MB", "GB", "TB")


def json(value: Any) -> None:
    """Print a structure as JSON: on one line in a pipe, indented on a terminal."""
    data = wire.encode(value)
    if terminal.is_terminal(sys.stdout):
        data = msgspec.json.format(data, indent=2)
    click.echo(data)


def json_line(value: Any) -> None:
    """Print a structure as one line of JSON and flush, for streams."""
    click.echo(wire.encode(value))
    sys.stdout.flush()


def say(text: str, *, err: bool = False, hanging: int = 2) -> None:
    """Print prose; on a terminal, wrapped (see ``terminal.wrap``) and with short IDs in its commands."""
    click.echo(terminal.for_people(text, sys.stderr if err else sys.stdout, hanging), err=err)


def error(problem: UnderstudyError, *, as_json: bool) -> None:
    """Print an error: message, hint and logs on stderr, or ``{"error": ErrorInfo}`` on stdout for scripts."""
    if as_json:
        json({"error": problem.info()})
        return
    paint = terminal.Paint(on=terminal.has_colour(sys.stderr))
    place = _place(problem.location)
    say(f"{paint('error:', fg='red', bold=True)} {place}{terminal.sanitize(problem.message)}", err=True)
    names = [terminal.path(name) for name in problem.names or []]
    if (problem.hint or "").startswith("Did you mean"):
        pass  # the hint names them
    elif names and problem.kind.startswith("unknown_"):
        more = ", …" if len(names) > NAMES_SHOWN else ""
        say(f"  one of: {', '.join(names[:NAMES_SHOWN])}{more}", err=True)
    else:
        for name in names:
            click.echo(f"  - {name}", err=True)
    if problem.hint:
        say(f"{paint('hint:', fg='cyan')} {terminal.sanitize(problem.hint)}", err=True)
    for path in problem.log_paths or []:
        click.echo(f"{paint('log:', fg='cyan')} {terminal.short_path(path)}", err=True)


def file_of(location: Location) -> str:
    """Return the path of a location's file, for display; its URI if it is not a file of this machine."""
    path = path_quoting.path_of(location.uri)
    return terminal.one_line(location.uri if path is None else str(path))


def _place(location: Location | None) -> str:
    if location is None:
        return ""
    start = location.range.start
    return f"{file_of(location)}:{start.line + 1}:{start.character + 1}: "


def paint() -> terminal.Paint:
    """Return the colours of stdout."""
    return terminal.Paint(on=terminal.has_colour(sys.stdout))


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    empty: str | None = None,
    below: Sequence[str] = (),
    wrap: bool = False,
) -> None:
    """Print columns below a header; on a terminal, cut to its width. Without rows, say ``empty`` on stderr.

    Where a terminal is too narrow, the columns in ``below`` are written below their row, each with its name, in this
    order and until the others fit; one that has no value in any row is left out. With ``wrap``, the last column is
    prose, which is wrapped and never cut. A pipe gets every column, each row on one line.
    """
    if not rows and empty is not None:
        click.echo(empty, err=True)
        return
    # A path may contain several spaces in a row, which must be kept.
    lines = [[cell if cell.isprintable() else terminal.one_line(cell) for cell in row] for row in rows]
    lines.insert(0, list(header))
    for_people = terminal.is_terminal(sys.stdout)
    prose = len(header) - 1 if wrap else None
    widths = [max(terminal.width_of(line[column]) for line in lines) for column in range(len(header))]
    shown = [
        column
        for column, name in enumerate(header)
        if not (for_people and (name in below or column == prose) and all(row[column] in _NOTHING for row in lines[1:]))
    ]
    for name in below if for_people else ():
        # Prose that does not fit is written below, too.
        if sum(widths[column] + 2 for column in shown if column != prose) - 2 <= terminal.width():
            break
        if header.index(name) in shown:
            shown.remove(header.index(name))
    brush = paint()
    for number, line in enumerate(lines):
        cells = [line[column] + " " * (widths[column] - terminal.width_of(line[column])) for column in shown]
        text = "  ".join(cells).rstrip()
        if for_people and prose in shown:
            text = _with_prose("  ".join([*cells[:-1], ""]), line[shown[-1]], widths[shown[-1]], heading=not number)
        elif for_people and not wrap:
            text = terminal.cut(text, terminal.width())
        click.echo(brush(text, dim=True) if for_people and number == 0 else text)
        if number and for_people:
            moved = [column for column in range(len(header)) if column not in shown and header[column] in below]
            facts = [f"{header[column].lower()} {line[column]}" for column in moved if line[column] not in _NOTHING]
            for fact in terminal.fit(facts, terminal.width() - 2, " · "):
                click.echo(brush(f"  {fact}", dim=True))


def _with_prose(start: str, prose: str, longest: int, *, heading: bool) -> str:
    """Return a row that ends with prose: wrapped in its column, or below all rows where the column is too narrow.

    ``longest`` is the width of the longest text of the column; a ``heading`` is left out above prose that is below.
    """
    indent, width = terminal.width_of(start), terminal.width()
    words = terminal.words(prose)
    if width - indent >= min(_PROSE_COLUMNS, longest):
        return start + f"\n{' ' * indent}".join(terminal.fit(words, width - indent)).rstrip()
    lines = [f"  {line}" for line in terminal.fit(words, width - 2)] if prose and not heading else []
    return "\n".join([start.rstrip(), *lines])


def facts(rows: Sequence[tuple[str, str]]) -> None:
    """Print texts with what each is about, wrapped in their column; without those that are empty."""
    column = max(len(what) for what, _ in rows) + 4
    for what, text in rows:
        if text:
            click.echo(_with_prose(f"  {what}:".ljust(column), text, len(text), heading=False))


def problems(entries: Sequence[Any]) -> None:
    """Print problems of the configuration on stderr, each with its position and hint."""
    brush = terminal.Paint(on=terminal.has_colour(sys.stderr))
    colours = {"error": "red", "warning": "yellow", "information": "cyan"}
    for problem in entries:
        label = brush(f"{problem.severity}:", fg=colours[problem.severity])
        say(f"{label} {_place(problem.location)}{terminal.one_line(problem.message)}", err=True)
        if problem.hint:
            say(f"  {terminal.one_line(problem.hint)}", err=True)


def age(at: str, now: datetime) -> str:
    """Return how long ago ``at`` (ISO 8601) was, as ``7s``, ``12m``, ``3h`` or ``2d``; ``?`` if it is not a time."""
    try:
        seconds = max(0, int((now - datetime.fromisoformat(at)).total_seconds()))
    except (ValueError, TypeError):
        return "?"
    for size_, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size_:
            return f"{seconds // size_}{unit}"
    return f"{seconds}s"


def thousands(count: int) -> str:
    """Return ``950``, ``12.3k`` or ``1.2M``."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def cost_origin(source: str, price_date: str | None) -> str:
    """Return where a cost is from, as text."""
    return f"table {price_date}" if source == "table" and price_date else source


def usd(totals: LedgerTotals) -> str:
    """Return a cost in US dollars: ``?`` for an unknown one, ``+?`` for an unknown part, ``~`` before an estimate."""
    if totals.costs_unknown == totals.attempts:
        return "?"
    return ("~" if totals.costs_estimated else "") + totals.cost_usd + ("+?" if totals.costs_unknown else "")


def review_counts(review: Review) -> str:
    """Return how many hunks are accepted, rejected and pending; empty without hunks."""
    counts = ((review.accepted, "accepted"), (review.rejected, "rejected"), (review.pending, "pending"))
    return ", ".join(f"{count} {word}" for count, word in counts if count)


def size(count: int) -> str:
    """Return ``950 B``, ``1.2 MB``: powers of 1000, as in ``df -H``."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def preview(result: Any, *, as_json: bool, left_out: Sequence[tuple[str, str]] = ()) -> None:
    """Print a ``PreviewResult``; ``left_out`` are files that are not part of it, and why."""
    if as_json:
        json(result)
        return
    say(f"To {result.explain.delegator}: {terminal.one_line(result.explain.reason)}")
    for candidate in result.explain.candidates:
        if candidate.skipped_because:
            say(f"  not {candidate.name}: {terminal.one_line(candidate.skipped_because)}")
    if result.explain.fallback:
        say(f"  then, if it cannot work: {', '.join(result.explain.fallback)}")
    click.echo()
    rows = [
        (file.path, str(file.bytes), str(file.tokens), f"withheld: {file.withheld}" if file.withheld else "")
        for file in result.files
    ]
    rows += [(name, "", "", f"left out: {why}") for name, why in left_out]
    table(("FILE", "BYTES", "TOKENS", ""), rows)
    if not result.prompt:
        click.echo("\nNo prompt is sent: it works without a model and reads only the files.")
        return
    click.echo(f"\nAbout {result.tokens} tokens. The prompt:\n")
    click.echo(terminal.sanitize(result.prompt))
