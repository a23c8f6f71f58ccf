"""Hunks for a person's eyes: their lines with context, what is odd about them, and the sides of a conflict."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from understudy.faces.cli import lines, terminal
from understudy.model.delegations import FileDiff, Hunk, HunkState
from understudy.model.errors import ErrorKind, UnderstudyError

CONTEXT = 3
"""Unchanged lines around a hunk, as in `git diff`."""
LINES_SHOWN = 400
"""Lines of one hunk that are printed; more than that is read in a diff, not at a prompt."""
SIDE_SHOWN = 40
"""Lines of one side of a conflict."""

_LINK = "120000"

Caller = Callable[..., Any]
"""``calls.call``, or what a test puts in its place."""


class Item(NamedTuple):
    """One hunk with its file and its place among the file's hunks, counted from 1."""

    file: FileDiff
    hunk: Hunk
    number: int

    @property
    def name(self) -> str:
        """Return the hunk by its path in the contract and its id: no two are alike."""
        return f"{self.file.path}:{self.hunk.id}"

    @property
    def spelled(self) -> str:
        """Return the hunk as it is printed and the commands take it: ``PATH:HUNK``."""
        return f"{terminal.path(self.file.path)}:{self.hunk.id}"


class Side(NamedTuple):
    """A file on one side: its lines with their line feeds (None: not text), how large it is, its mode."""

    lines: list[str] | None
    size: int
    mode: str


def items(files: Iterable[FileDiff]) -> list[Item]:
    """Return all hunks in the order of the diff."""
    return [Item(file, hunk, number) for file in files for number, hunk in enumerate(file.hunks, 1)]


def pending(files: Iterable[FileDiff]) -> list[Item]:
    """Return the hunks that are not decided."""
    return [item for item in items(files) if item.hunk.state is HunkState.PENDING]


def place(item: Item) -> str:
    """Return where a hunk is, in words: ``lines 10-14``, ``line 3``, or what becomes of the file."""
    file, hunk = item.file, item.hunk
    if file.status != "modified":
        return {
            "added": "new file",
            "deleted": "deleted",
            "renamed": f"renamed from {terminal.path(file.from_ or '?')}",
            "mode": "mode",
            "type": "becomes another kind of file",
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
        """Read what belongs to ``identifier``."""
        self._identifier = identifier
        self._call = call
        self._known: dict[tuple[str, str], Side | None] = {}

    def forget(self) -> None:
        """Read everything again: the result has changed."""
        self._known.clear()

    def of(self, file: FileDiff, side: str) -> Side | None:
        """Return a side of a file, None where it is not there or is not a file (a submodule)."""
        path = (file.from_ or file.path) if side == "base" else file.path
        if (file.status, side) in {("added", "base"), ("deleted", "result")}:
            return None
        if (path, side) not in self._known:
            self._known[path, side] = self._read(path, side)
        return self._known[path, side]

    def _read(self, path: str, side: str) -> Side | None:
        try:
            found = self._call("delegations/file", id=self._identifier, path=path, side=side)
        except UnderstudyError as error:
            if error.kind in {ErrorKind.INVALID_PARAMS, ErrorKind.FILE_TOO_LARGE}:
                return None
            raise
        if found.text is not None:
            return Side(_lines(found.text), len(found.text.encode()), found.mode)
        data = base64.b64decode(found.base64 or "")
        # Git's own test for binary: a NUL. What is left is text in another encoding.
        text = None if b"\0" in data else _lines(data.decode("utf-8", "replace"))
        return Side(text, len(data), found.mode)


def render(item: Item, sides: Sides, paint: terminal.Paint, heading: str = "") -> str:
    """Return a hunk as text for a terminal: heading, warnings, lines with context."""
    file, hunk = item.file, item.hunk
    rows = [paint(f"{terminal.path(file.path)}  {heading}{place(item)}", bold=True)]
    reason = file.flagged
    if reason:
        rows.append(paint(f"! this file {reason}: look twice before you accept it", fg="yellow", bold=True))
    if hunk.conflict:
        rows.append(paint("! it did not merge into your file when it was accepted before", fg="yellow"))
    if hunk.edited:
        rows.append(paint("edited by hand", fg="cyan"))
    base, result = sides.of(file, "base"), sides.of(file, "result")
    if base and result and base.mode != result.mode and (file.status != "modified" or _is_empty(hunk)):
        rows.append(paint(f"mode {_mode(base.mode)} → {_mode(result.mode)}", fg="cyan"))
    elif result and result.mode != "100644" and (not base or result.mode == _LINK):
        rows.append(paint(f"mode {_mode(result.mode)}", fg="cyan"))
    if result and _leads_outside(file.path, result):
        rows.append(paint("! this link leads out of the workspace", fg="yellow", bold=True))
    return "\n".join([*rows, *_body(item, base, result, paint)]) + "\n"


def three_sides(path: str, conflict: Any, paint: terminal.Paint) -> str:
    """Return a conflict with what the person has now, the base, and what the result has."""
    rows = [paint(f"{terminal.path(path)}:{conflict.hunk} does not merge and stays undecided", bold=True)]
    gone = "a folder, or something else that is no file" if conflict.in_the_way else "there is no such file"
    for title, text, colour, absent in (
        ("yours now", conflict.yours, "green", gone),
        ("the base", conflict.base, None, "there was no such file"),
        ("the result", conflict.result, "red", "the file is deleted"),
    ):
        if text is None:
            rows.append(paint(f"  {title}: {absent}", fg="cyan"))
            continue
        if "\0" in text:
            rows.append(paint(f"  {title}: binary", fg="cyan"))
            continue
        rows.append(paint(f"  {title}:" if text else f"  {title}: nothing", fg="cyan"))
        shown = _lines(text)
        rows += [paint(f"    {terminal.visible(line)}", fg=colour) for line in shown[:SIDE_SHOWN]]
        if len(shown) > SIDE_SHOWN:
            rows.append(f"    … and {lines.plural(len(shown) - SIDE_SHOWN, 'more line')}")
    return "\n".join(rows) + "\n"


def _body(item: Item, base: Side | None, result: Side | None, paint: terminal.Paint) -> list[str]:
    file, hunk = item.file, item.hunk
    if file.binary or any(side is not None and side.lines is None for side in (base, result)):
        return [f"binary: {_size(base)} → {_size(result)}"]
    if base is None and result is None:
        return ["its contents cannot be shown here"]
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
        rows[LINES_SHOWN:] = [paint(f"… and {lines.plural(rest, 'more line')}: `understudy diff` shows all", dim=True)]
    return rows


def _context(item: Item, old: list[str]) -> tuple[list[str], list[str]]:
    """Return unchanged lines before and after, up to the neighbouring hunks, which are decided on their own."""
    hunk = item.hunk
    # An empty old side is named by the line before it.
    first = hunk.old_start if hunk.old_lines else hunk.old_start + 1
    end = first + hunk.old_lines
    neighbours = [one for one in item.file.hunks if one is not hunk and not _is_empty(one)]
    spans = [
        (one.old_start, one.old_start + one.old_lines) if one.old_lines else (one.old_start + 1, one.old_start + 1)
        for one in neighbours
    ]
    lowest = max((stop for _, stop in spans if stop <= first), default=1)
    highest = min((start for start, _ in spans if start >= end), default=len(old) + 1)
    return old[max(lowest, first - CONTEXT) - 1 : first - 1], old[end - 1 : min(highest, end + CONTEXT) - 1]


def _signed(sign: str, content: list[str], paint: terminal.Paint, **style: Any) -> list[str]:
    rows = []
    for line in content:
        rows.append(paint(sign + terminal.visible(line), **style))
        if not line.endswith("\n"):
            rows.append(paint("\\ no line feed at the end of the file", dim=True))
    return rows


def _lines(text: str) -> list[str]:
    """Return lines as git counts them: only a line feed ends one."""
    parts = text.split("\n")
    last = parts.pop()
    found = [f"{part}\n" for part in parts]
    return [*found, last] if last else found


def _mode(mode: str) -> str:
    return f"{mode} (a symbolic link)" if mode == _LINK else mode


def _leads_outside(path: str, side: Side) -> bool:
    """Tell whether a side is a link to what lies outside of the folder that is under review, by its words alone."""
    if side.mode != _LINK or side.lines is None:
        return False
    where = posixpath.normpath(posixpath.join("/top", posixpath.dirname(path), "".join(side.lines)))
    return not f"{where}/".startswith("/top/")


def _is_empty(hunk: Hunk) -> bool:
    return not hunk.old_lines and not hunk.new_lines


def _size(side: Side | None) -> str:
    return "nothing" if side is None else lines.plural(side.size, "byte")
