"""The members of a group as a table: redrawn in place on a terminal, one line for each change in a pipe."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import IO, Any

import click

from understudy.api.serving.follow import follow_group
from understudy.frontends.cli.calls import exit_codes
from understudy.frontends.cli.calls.api_calls import call
from understudy.frontends.cli.group import queue_commands
from understudy.frontends.cli.output import event_lines, output, verdict_card
from understudy.frontends.cli.output.live_view import REDRAW_SECONDS
from understudy.frontends.cli.output.output import thousands
from understudy.frontends.cli.terminal import terminal
from understudy.frontends.cli.terminal.terminal import HeldInterrupt, cut, one_line, width_of
from understudy.model.delegation.delegations import Delegation, GroupBudget
from understudy.model.states import State
from understudy.model.text.delegation_text import cause, duration

IDLE_SECONDS = 1.0
"""How often durations are redrawn."""
_FEWEST_ROWS = 4
_TITLE = 12
"""The narrowest column of titles."""
_ACTIVITY = 20
"""The narrowest column of activities; in a narrower terminal, there is none."""
_WIDE = 30
"""What activities get in a wide terminal, whatever the titles need."""
_LISTED = 5
"""How many failures, and how many commands of one kind, are printed below the table."""
_ACTIVE = frozenset({State.PREPARING, State.RUNNING, State.CHECKING, State.WAITING})


def view_on(stream: IO[str], budget: GroupBudget | None) -> GroupTable:
    """Return a live table on ``stream``."""
    return GroupTable(stream, redraw=terminal.can_redraw(stream), colour=terminal.has_colour(stream), budget=budget)


def follow(group: str, table: GroupTable | None) -> list[Delegation]:
    """Show the members of a group until all have finished; return them in order."""
    members: list[Delegation] = []
    for members in follow_group(group, idle_seconds=IDLE_SECONDS):
        if table is not None:
            table.show(members)
    if table is not None:
        table.clear()
    return members


def print_result(members: Sequence[Delegation], *, as_json: bool) -> int:
    """Print finished members in order, one line each, and return the highest exit code."""
    if as_json:
        for member in members:
            output.json_line(member)
    else:
        print_table(members)
    return max((exit_codes.of_verdict(member.verdict) for member in members), default=exit_codes.Exit.OK)


def print_answers(members: Sequence[Delegation]) -> None:
    """Print what each delegator answered, or says that it did, one after the other."""
    for member in members:
        text = (member.result.text or member.result.summary or "").strip() if member.result is not None else ""
        if text:
            click.echo(f"\n{output.paint()(f'{member.delegator} ({_short(member.id)}):', bold=True)}")
            click.echo(terminal.sanitize(text) if terminal.is_terminal(sys.stdout) else text)


def print_table(members: Sequence[Delegation], empty: str = "No delegation has joined this group.") -> None:
    """Print members in order, with what each of them did; on a terminal with the short form of their ids."""
    now, for_people = datetime.now(UTC), terminal.is_terminal(sys.stdout)
    header = ("ID", "STATE", "BY", "TIME", "TOKENS", "COST", "CHANGES", "TITLE")
    rows = [
        (
            _short(member.id) if for_people else member.id,
            verdict_card.state_and_kind(member),
            member.delegator,
            _took(member, now),
            _tokens(member),
            _cost(member),
            _changes(member),
            member.title,
        )
        for member in members
    ]
    kept = [column for column in range(len(header)) if not for_people or any(row[column] for row in rows)]
    output.table(
        [header[column] for column in kept],
        [[row[column] for column in kept] for row in rows],
        empty=empty,
    )
    if for_people:
        _print_rest(members)


def _print_rest(members: Sequence[Delegation]) -> None:
    """Print why members failed, and the commands that may come next."""
    failed = [member for member in members if member.error is not None]
    for member in failed[:_LISTED]:
        text = f"{_short(member.id)}: {one_line(member.error.message if member.error is not None else '')}"
        click.echo(output.paint()(cut(text, terminal.width()), fg="red"))
    pending = [f"understudy review {_short(member.id)}" for member in members if member.review.pending]
    again = [f"understudy retry {_short(member.id)}" for member in failed]
    unfinished = next((member.group_id for member in members if member.state is not State.FINISHED), None)
    follow_it = [f"understudy groups show {unfinished} --watch"] if unfinished is not None else []
    commands = [*follow_it, *pending[:_LISTED], *again[:_LISTED]]
    if commands:
        click.echo(f"\n{event_lines.next_commands(*commands)}")


def _short(identifier: str) -> str:
    """Return the end of an id, which is enough for every command."""
    return identifier.rpartition("-")[2]


class GroupTable:
    """Draws the members of one group again and again on one stream."""

    def __init__(
        self,
        stream: IO[str],
        *,
        redraw: bool,
        colour: bool,
        budget: GroupBudget | None = None,
        size: Callable[[], tuple[int, int]] = lambda: shutil.get_terminal_size((terminal.DEFAULT_WIDTH, 24)),
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Write to ``stream``; ``size`` returns the columns and lines of the terminal."""
        self._stream = stream
        self._redraw = redraw
        self._paint = terminal.Paint(on=colour)
        self._budget = budget
        self._size = size
        self._clock = clock
        self._now = now
        self._drawn: list[str] = []
        self._drawn_at = float("-inf")
        self._told: dict[str, str] = {}

    def show(self, members: Sequence[Delegation]) -> None:
        """Draw the members as they are now; in a pipe, write a line for each whose state changed."""
        if not self._redraw:
            self._tell(members)
        elif self._clock() - self._drawn_at >= REDRAW_SECONDS or _all_finished(members):
            self._draw(members)

    def clear(self) -> None:
        """Erase the table, before other output."""
        if self._drawn:
            self._stream.write(self._erase())
            self._stream.flush()
            self._drawn = []

    def _tell(self, members: Sequence[Delegation]) -> None:
        now, digits = self._now(), len(str(len(members)))
        for number, member in enumerate(members, 1):
            word = _word(member)
            if self._told.get(member.id) == word:
                continue
            self._told[member.id] = word
            why = f"{word} ({cause(member.error)})" if member.error is not None else word
            facts = [why, *(part for part in (_took(member, now), _tokens(member), _cost(member)) if part)]
            facts = (
                facts if member.state is State.FINISHED else [part for part in (word, _after(member, members)) if part]
            )
            title = one_line(member.title)
            self._stream.write(f"{number:>{digits}}/{len(members)} {title} ({member.delegator}): {', '.join(facts)}\n")
        self._stream.flush()

    def _draw(self, members: Sequence[Delegation]) -> None:
        columns, lines = self._size()
        columns = max(terminal.NARROWEST, columns) - 1  # some terminals wrap when the last column is written
        plain = self._lines(members, columns, max(_FEWEST_ROWS, lines - 1))
        # One write for the old table and the new one, so that the terminal does not flicker.
        self._stream.write(self._erase() + "".join(f"{styled}\n" for _, styled in plain))
        self._stream.flush()
        self._drawn = [text for text, _ in plain]
        self._drawn_at = self._clock()

    def _erase(self) -> str:
        """Return what erases the old table; a terminal that became narrower has wrapped its lines."""
        if not self._drawn:
            return ""
        columns = max(1, self._size()[0])
        height = sum(max(1, -(-width_of(text) // columns)) for text in self._drawn)
        return f"\r\x1b[{height}A\x1b[J"

    def _lines(self, members: Sequence[Delegation], columns: int, lines: int) -> list[tuple[str, str]]:
        """Return each line as plain text and in colours."""
        now = self._now()
        shown, hidden = _fitting(members, lines - 2)
        cells = {
            number: (
                str(number + 1),
                one_line(members[number].title),
                members[number].delegator,
                _word(members[number]),
                _took(members[number], now),
                _tokens(members[number]),
                _cost(members[number]),
            )
            for number in shown
        }
        header = ("", "TITLE", "BY", "STATE", "TIME", "TOKENS", "COST")
        every = [header, *cells.values()]
        sizes = [max(width_of(row[column]) for row in every) for column in range(len(header))]
        for column in range(4, len(header)):
            if not any(row[column] for row in every[1:]):
                sizes[column] = 0
        sizes[2] = min(sizes[2], max(len("BY"), columns // 6))
        fixed = sum(size + 2 for column, size in enumerate(sizes) if size and column != 1)
        space = max(_TITLE, columns - fixed)
        if space >= 2 * _WIDE:
            sizes[1] = min(sizes[1], space - _WIDE - 2)
        activity = space - sizes[1] - 2
        sizes[1] = min(sizes[1], space)
        rendered = [self._row(header, sizes, columns, "ACTIVITY" if activity >= _ACTIVITY else "", dim=True)]
        for number, row in cells.items():
            member = members[number]
            doing = _doing(member, members) if activity >= _ACTIVITY else ""
            colour = "yellow" if member.waiting_for is not None else verdict_card.verdict_colour(member.verdict)
            waits = member.state is State.QUEUED
            rendered.append(self._row(row, sizes, columns, doing, state=None if waits else colour, dim=waits))
        if hidden:
            text = cut(f"   and {len(hidden)} more: {_counts([members[number] for number in hidden])}", columns)
            rendered.append((text, self._paint(text, dim=True)))
        text = cut(self._summary(members, now), columns)
        rendered.append((text, self._paint(text, bold=True)))
        return rendered

    def _row(
        self,
        row: Sequence[str],
        sizes: Sequence[int],
        columns: int,
        activity: str,
        *,
        state: str | None = None,
        dim: bool = False,
    ) -> tuple[str, str]:
        right = {0, 4, 5, 6}
        parts = []
        for column, (cell, size) in enumerate(zip(row, sizes, strict=True)):
            if size:
                text = cut(cell, size)
                blanks = " " * (size - width_of(text))
                parts.append((column, blanks + text if column in right else text + blanks))
        if activity:
            parts.append((-1, activity))
        plain = cut("  ".join(text for _, text in parts).rstrip(), columns)
        if dim or state is None:
            return plain, self._paint(plain, dim=dim)
        start = len("  ".join(text for column, text in parts if 0 <= column < 3)) + 2
        end = start + len(row[3])
        return plain, plain[:start] + self._paint(plain[start:end], fg=state) + plain[end:]

    def _summary(self, members: Sequence[Delegation], now: datetime) -> str:
        finished = sum(member.state is State.FINISHED for member in members)
        parts = [f"{finished} of {len(members)} done"]
        running = sum(member.state in _ACTIVE for member in members)
        waiting = sum(member.state is State.QUEUED for member in members)
        parts += [f"{running} running"] * bool(running) + [f"{waiting} waiting"] * bool(waiting)
        began = min((at for member in members if (at := _time(member.started_at)) is not None), default=now)
        parts.append(duration((now - began).total_seconds()))
        tokens = sum(member.usage.input_tokens + member.usage.output_tokens for member in members)
        most = self._budget.max_tokens if self._budget is not None else None
        if tokens or most is not None:
            parts.append(f"{thousands(tokens)}{f' of {thousands(most)}' if most is not None else ''} tokens")
        cost = sum((_decimal(member.cost_usd) for member in members), Decimal(0))
        usd = self._budget.max_usd if self._budget is not None else None
        if cost or usd is not None:
            parts.append(f"${cost:.2f}{f' of ${usd}' if usd is not None else ''}")
        if any(member.waiting_for is not None for member in members):
            parts.append("answer with: understudy inbox")
        return " · ".join(parts)


def _fitting(members: Sequence[Delegation], rows: int) -> tuple[list[int], list[int]]:
    """Return the numbers of the members to show, in order, and of the others: those at work come first."""
    if len(members) <= rows:
        return list(range(len(members))), []
    ranks = {State.QUEUED: 1, State.FINISHED: 2}
    by_rank = sorted(range(len(members)), key=lambda number: (ranks.get(members[number].state, 0), number))
    # The line about the others takes one row.
    return sorted(by_rank[: rows - 1]), sorted(by_rank[rows - 1 :])


def _counts(members: Sequence[Delegation]) -> str:
    return ", ".join(f"{count} {word}" for word, count in Counter(map(_word, members)).items())


def _word(member: Delegation) -> str:
    return "asks you" if member.waiting_for is not None else verdict_card.state_word(member)


def _after(member: Delegation, members: Sequence[Delegation]) -> str:
    """Return the rows that a member comes after and that have not finished, while it waits."""
    if member.state is not State.QUEUED:
        return ""
    rows = [
        str(number)
        for number, other in enumerate(members, 1)
        if other.id in member.after and other.state is not State.FINISHED
    ]
    return f"after {', '.join(rows)}" if rows else ""


def _doing(member: Delegation, members: Sequence[Delegation]) -> str:
    if member.waiting_for is not None:
        return one_line(member.waiting_for.title)
    if member.state is not State.FINISHED:
        return _after(member, members) or one_line(member.activity or "")
    if member.error is not None:
        return one_line(member.error.message)
    return _changes(member) or ", ".join(map(event_lines.words, member.reservations))


def _changes(member: Delegation) -> str:
    files = member.result.files if member.result is not None else []
    added, removed = sum(file.additions for file in files), sum(file.deletions for file in files)
    return f"+{added} -{removed} in {event_lines.plural(len(files), 'file')}" if files else ""


def _took(member: Delegation, now: datetime) -> str:
    """Return how long a member has worked, without checks that ran again later; those count from their own start."""
    if not member.attempts:
        return ""
    began, ended = member.attempts[0].started_at, member.finished_at
    if member.rechecked_at is not None:
        began, ended = (member.rechecked_at, None) if ended is None else (began, member.attempts[-1].finished_at)
    start, end = _time(began), now if ended is None else _time(ended)
    return "" if start is None else duration(((end or now) - start).total_seconds())


def _tokens(member: Delegation) -> str:
    count = member.usage.input_tokens + member.usage.output_tokens
    return thousands(count) if count else ""


def _cost(member: Delegation) -> str:
    return "" if member.cost_usd is None else f"${_decimal(member.cost_usd):.2f}"


def _decimal(text: str | None) -> Decimal:
    try:
        return Decimal(text or 0)
    except InvalidOperation:
        return Decimal(0)


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _all_finished(members: Sequence[Delegation]) -> bool:
    return all(member.state is State.FINISHED for member in members)


def to_the_end(started: Any, held: HeldInterrupt, *, detach: bool, quiet: bool, as_json: bool) -> int:
    """Follow a group that was started to its end, print its results and return the highest exit code.

    A Ctrl-C that was held back while it started cancels it.
    """
    group = started.group
    queue_commands.warn_if_paused()
    if detach:
        output.json(started) if as_json else click.echo(group.id)
        held.explain_detached(f"understudy groups cancel {group.id}")
        return exit_codes.Exit.OK
    silent = quiet or (as_json and not terminal.is_terminal(sys.stderr))
    if not silent:
        click.echo(f"Group {group.id}", err=True)
    table = None if silent else view_on(sys.stderr, group.budget)
    members = _follow_or_cancel(group.id, table, held)
    code = print_result(members, as_json=as_json)
    if group.kind == "compare" and not as_json:
        print_answers(members)
    return code


def _follow_or_cancel(group: str, table: GroupTable | None, held: HeldInterrupt) -> list[Delegation]:
    """Follow to the end; Ctrl-C cancels all and waits for their end, a second Ctrl-C exits at once."""
    try:
        held.release()
        return follow(group, table)
    except KeyboardInterrupt:
        if table is not None:
            table.clear()
        click.echo("Cancelling; partial work is kept (Ctrl-C again to exit at once).", err=True)
    try:
        delegations: list[Delegation] = call("groups/cancel", id=group).delegations
    except KeyboardInterrupt:
        click.echo(f"Stopped waiting; run `understudy groups show {group}` to see the results.", err=True)
        raise
    return delegations
