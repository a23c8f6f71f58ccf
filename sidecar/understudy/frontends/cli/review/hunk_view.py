"""Render a hunk with its context and warnings, or the three sides of a conflict."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from understudy.frontends.cli.output import event_lines
from understudy.frontends.cli.terminal import terminal
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff, Hunk, HunkState
from understudy.model.places import SHOWN
from understudy.model.text.patches import lines_of

CONTEXT = 3
"""Unchanged lines around a hunk, as in `git diff`."""
LINES_SHOWN = 400
"""How many lines of one hunk are printed."""
SIDE_SHOWN = 40
"""How many lines of one side of a conflict are printed."""

_LINK = "120000"

Caller = Callable[..., Any]
"""``api_calls.call``, or a replacement in tests."""


class Item(NamedTuple):
    """One hunk with its file and its number among the file's hunks, from 1."""

    file: FileDiff
    hunk: Hunk
    number: int

    @property
    def name(self) -> str:
        """Return the unique name of the hunk: its path on the wire and its id."""
        return f"{self.file.path}:{self.hunk.id}"

    @property
    def spelled(self) -> str:
        """Return the hunk as commands print and accept it: ``PATH:HUNK``."""
        return f"{terminal.path(self.file.path)}:{self.hunk.id}"


class Side(NamedTuple):
    """A file on one side: its lines with their line feeds (None: not text), size in bytes, and mode."""

    lines: list[str] | None
    size: int
    mode: str


def items(files: Iterable[FileDiff]) -> list[Item]:
    """Return all hunks in the order of the diff."""
    return [Item(file, hunk, number) for file in files for number, hunk in enumerate(file.hunks, 1)]


def pending(files: Iterable[FileDiff]) -> list[Item]:
    """Return the pending hunks."""
    return [item for item in items(files) if item.hunk.state is HunkState.PENDING]


def place(item: Item) -> str:
    """Return where a hunk is, as text: ``lines 10-14``, ``line 3``, or how the file changes."""
    file, hunk = item.file, item.hunk
    if file.status != "modified":
        return {
            "added": "new file",
            "deleted": "deleted",
            "renamed": f"renamed from {terminal.path(file.from_ or '?')}",
            "mode": "mode",
            "type": "file type changed",
        }[file.status]
    if file.binary:
        return "binary"
    if not hunk.old_lines and not hunk.new_lines:
        return "mode"
    start, count = (hunk.new_start, hunk.new_lines) if hunk.new_lines else (hunk.old_start, hunk.old_lines)
    sign = "" if hunk.new_lines else "removed "
    return f"{sign}line {start}" if count == 1 else f"{sign}lines {start}-{start + count - 1}"


class Sides:
    """Reads both sides of the files of one delegation, each once."""

    def __init__(self, identifier: str, call: Caller) -> None:
        """Read the files of the delegation ``identifier``."""
        self._identifier = identifier
        self._call = call
        self._known: dict[tuple[str, str], Side | None] = {}

    def forget(self) -> None:
        """Drop the cache: the result has changed."""
        self._known.clear()

    def of(self, file: FileDiff, side: str) -> Side | None:
        """Return a side of a file, None if it does not exist or is not a file (a submodule)."""
        path = (file.from_ or file.path) if side == "base" else file.path
        if (file.status, side) in {("added", "base"), ("deleted", "result")}:
            return None
        if (path, side) not in self._known:
            self._known[path, side] = self._read(path, side)
        return self._known[path, side]

    def _read(self, path: str, side: str) -> Side | None:
        try:
            file = self._call("delegations/file", id=self._identifier, path=path, side=side)
        except UnderstudyError as error:
            if error.kind in {ErrorKind.INVALID_PARAMS, ErrorKind.FILE_TOO_LARGE}:
                return None
            raise
        if file.text is not None:
            return Side(lines_of(file.text), len(file.text.encode()), file.mode)
        data = base64.b64decode(file.base64 or "")
        # As git does: a file with a NUL is binary, any other is text in some encoding.
        text = None if b"\0" in data else lines_of(data.decode("utf-8", "replace"))
        return Side(text, len(data), file.mode)


def render(item: Item, sides: Sides, paint: terminal.Paint, heading: str = "") -> str:
    """Return a hunk as text for a terminal: heading, warnings, lines with context."""
    file, hunk = item.file, item.hunk
    rows = [paint(f"{terminal.path(file.path)}  {heading}{place(item)}", bold=True)]
    reason = file.flag_reason
    if reason:
        rows.append(paint(f"! flagged: this file {reason}", fg="yellow", bold=True))
    if hunk.conflict:
        rows.append(paint("! conflict: an earlier accept of this hunk failed", fg="yellow"))
    if hunk.edited:
        rows.append(paint("edited", fg="cyan"))
    again = rejected_before(hunk)
    if again:
        rows.append(paint(f"! {again}", fg="yellow"))
    rows += evidence_rows(hunk, paint)
    base, result = sides.of(file, "base"), sides.of(file, "result")
    if base and result and base.mode != result.mode and (file.status != "modified" or _is_empty(hunk)):
        rows.append(paint(f"mode {_mode(base.mode)} → {_mode(result.mode)}", fg="cyan"))
    elif result and result.mode != "100644" and (not base or result.mode == _LINK):
        rows.append(paint(f"mode {_mode(result.mode)}", fg="cyan"))
    if result and _leads_outside(file.path, result):
        rows.append(paint("! this link points outside the workspace", fg="yellow", bold=True))
    return "\n".join([*rows, *_body(item, base, result, paint)]) + "\n"


def rejected_before(hunk: Hunk) -> str:
    """Return that the user rejected this change in an earlier result, and why; empty if they did not."""
    if hunk.rejected_before is None:
        return ""
    reason = terminal.one_line(hunk.rejected_before.reason or "")
    return f"rejected before: {reason}" if reason else f"rejected before, in {hunk.rejected_before.id}"


def evidence_rows(hunk: Hunk, paint: terminal.Paint) -> list[str]:
    """Return a line for each place of a hunk: whether tests notice it, and why."""
    rows = []
    for changed in hunk.places:
        shown = changed.evidence in SHOWN
        name = f"{terminal.one_line(changed.function)}: " if changed.function else ""
        mark, colour = ("tested", "green") if shown else ("! not tested", "yellow")
        rows.append(paint(f"{mark}: {name}{terminal.one_line(changed.why)}", fg=colour))
    return rows


def three_sides(path: str, conflict: Any, paint: terminal.Paint) -> str:
    """Return a conflict with its three sides: the user's file, the base and the result."""
    rows = [paint(f"{terminal.path(path)}:{conflict.hunk} has a conflict and stays pending", bold=True)]
    gone = "not a regular file" if conflict.blocked else "no such file"
    for title, text, colour, absent in (
        ("yours now", conflict.yours, "green", gone),
        ("the base", conflict.base, None, "no such file"),
        ("the result", conflict.result, "red", "deleted"),
    ):
        if text is None:
            rows.append(paint(f"  {title}: {absent}", fg="cyan"))
            continue
        if "\0" in text:
            rows.append(paint(f"  {title}: binary", fg="cyan"))
            continue
        rows.append(paint(f"  {title}:" if text else f"  {title}: empty", fg="cyan"))
        shown = lines_of(text)
        rows += [paint(f"    {terminal.visible(line)}", fg=colour) for line in shown[:SIDE_SHOWN]]
        if len(shown) > SIDE_SHOWN:
            rows.append(f"    … and {event_lines.plural(len(shown) - SIDE_SHOWN, 'more line')}")
    return "\n".join(rows) + "\n"


def _body(item: Item, base: Side | None, result: Side | None, paint: terminal.Paint) -> list[str]:
    file, hunk = item.file, item.hunk
    if file.binary or any(side is not None and side.lines is None for side in (base, result)):
        return [f"binary: {_size(base)} → {_size(result)}"]
    if base is None and result is None:
        return ["the contents cannot be shown here"]
    if _is_empty(hunk):
        return []
    old, new = (base.lines if base else None) or [], (result.lines if result else None) or []
    removed = old[hunk.old_start - 1 : hunk.old_start - 1 + hunk.old_lines] if hunk.old_lines else []
    added = new[hunk.new_start - 1 : hunk.new_start - 1 + hunk.new_lines] if hunk.new_lines else []
    before, after = _context(item, old)
    rows = [paint(f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@", fg="cyan")]
    rows += _signed(" ", before, paint)
    rows += _signed("-", removed, paint, fg="red")
    rows += _signed("+", added, paint, fg="green")
    rows += _signed(" ", after, paint)
    if len(rows) > LINES_SHOWN:
        rest = len(rows) - LINES_SHOWN
        rows[LINES_SHOWN:] = [
            paint(f"… and {event_lines.plural(rest, 'more line')}: `understudy diff` prints all", dim=True)
        ]
    return rows


def _context(item: Item, old: list[str]) -> tuple[list[str], list[str]]:
    """Return unchanged lines before and after, up to the neighbouring hunks."""
    hunk = item.hunk
    # The position of an empty old side is the line before it.
    first = hunk.old_start if hunk.old_lines else hunk.old_start + 1
    end = first + hunk.old_lines
    neighbours = [other for other in item.file.hunks if other is not hunk and not _is_empty(other)]
    spans = [
        (neighbour.old_start, neighbour.old_start + neighbour.old_lines)
        if neighbour.old_lines
        else (neighbour.old_start + 1, neighbour.old_start + 1)
        for neighbour in neighbours
    ]
    lowest = max((stop for _, stop in spans if stop <= first), default=1)
    highest = min((start for start, _ in spans if start >= end), default=len(old) + 1)
    return old[max(lowest, first - CONTEXT) - 1 : first - 1], old[end - 1 : min(highest, end + CONTEXT) - 1]


def _signed(sign: str, content: list[str], paint: terminal.Paint, **style: Any) -> list[str]:
    rows = []
    for line in content:
        rows.append(paint(sign + terminal.visible(line), **style))
        if not line.endswith("\n"):
            rows.append(paint("\\ No newline at end of file", dim=True))
    return rows


def _mode(mode: str) -> str:
    return f"{mode} (a symbolic link)" if mode == _LINK else mode


def _leads_outside(path: str, side: Side) -> bool:
    """Return whether a side is a link that points outside the workspace, judged by its text alone."""
    if side.mode != _LINK or side.lines is None:
        return False
    where = posixpath.normpath(posixpath.join("/top", posixpath.dirname(path), "".join(side.lines)))
    return not f"{where}/".startswith("/top/")


def _is_empty(hunk: Hunk) -> bool:
    return not hunk.old_lines and not hunk.new_lines


def _size(side: Side | None) -> str:
    return "no file" if side is None else event_lines.plural(side.size, "byte")
