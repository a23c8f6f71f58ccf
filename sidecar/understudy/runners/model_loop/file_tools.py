"""Read, list, search, edit and write the files of a worktree for a model.

Each function returns the text that the model gets, or raises ``ToolError`` with what to do instead. Every result is
bounded, and says so where something is left out.
"""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from understudy.files import nofollow
from understudy.model.errors import UnderstudyError
from understudy.model.text.sanitize import strip_controls

RESULT_BYTES = 24_000
"""Bytes of a file, a list or a search in one result: some 6,000 tokens."""
EDIT_BYTES = 8 << 20
"""Largest file that is edited, and most bytes that are written."""
LINE_FILE_BYTES = 16 << 20
"""Largest file that is read by lines, which takes up to 40 times its size; a larger one is read by bytes."""
MAX_LIST = 1000
MAX_MATCHES = 100
MAX_LINE = 400
"""Characters of one line of a search."""
SEARCH_FILE_BYTES = 2 << 20
"""Larger files are not searched."""
MAX_VISITED = 100_000
SEARCH_SECONDS = 20.0
MAX_GLOB = 1000
"""Characters of a glob: translating one takes time in the square of its length, which nothing can interrupt."""

Change = Literal["added", "modified"]


class ToolError(Exception):
    """A call failed; the message goes to the model."""


class FileTools:
    """The files of one worktree. ``withheld`` returns why a file must not be sent, or None."""

    def __init__(self, tree: Path, withheld: Callable[[str], str | None]) -> None:
        """Use the worktree ``tree``."""
        self._tree = tree
        self._withheld = withheld

    def read(self, path: str, start_line: int = 1, lines: int | None = None, start_byte: int | None = None) -> str:
        """Return numbered lines from ``start_line``, or the bytes from ``start_byte``."""
        path = self._path(path)
        with self._opened(path) as file:
            if file is None:
                raise ToolError(f"{path} does not exist. Use list_files to see which files there are.")
            size = os.fstat(file.fileno()).st_size
            if start_byte is not None:
                file.seek(max(0, start_byte))
                piece = file.read(RESULT_BYTES)
                left = size - start_byte - len(piece)
                mark = (
                    _mark(f"{left} more bytes; continue with start_byte={start_byte + len(piece)}") if left > 0 else ""
                )
                return _shown(piece) + mark
            if size > LINE_FILE_BYTES:
                raise ToolError(f"{path} has {size} bytes, too many to count lines. Use start_byte.")
            content = file.read(LINE_FILE_BYTES)
        if b"\0" in content[:8192]:
            raise ToolError(f"{path} is a binary file of {size} bytes. Use start_byte to read its bytes.")
        return _numbered(content, max(1, start_line), lines)

    def listing(self, path: str = "") -> str:
        """Return the paths of all files below a folder."""
        path = path if path.strip("./") else ""
        listed: list[str] = []
        total = 0
        size = 0
        for name, is_link in self._walk(self._path(path) if path else ""):
            total += 1
            shown = _name(name) + (" (a link)" if is_link else "")
            if len(listed) < MAX_LIST and size < RESULT_BYTES:
                listed.append(shown)
                size += len(shown.encode("utf-8", "replace"))
            if total >= MAX_VISITED:
                break
        if not listed:
            return "There are no files."
        more = total - len(listed)
        return "\n".join(listed) + (_mark(f"{more} more files; name a folder in path") if more else "")

    def search(self, text: str, path: str = "", glob: str = "") -> str:
        """Return the lines that contain ``text``, as ``path:line: text``.

        Not a regular expression: a model could write one that takes years, and nothing can interrupt it.
        """
        needle = text.encode("utf-8", "replace")
        if not needle or b"\n" in needle:
            raise ToolError("Give the text to look for in `text`: one line, or a part of one.")
        if len(glob) > MAX_GLOB:
            raise ToolError(f"The glob has more than {MAX_GLOB} characters.")
        path = path if path.strip("./") else ""
        until = time.monotonic() + SEARCH_SECONDS
        matches: list[str] = []
        size = 0
        for number, (name, is_link) in enumerate(self._walk(self._path(path) if path else "")):
            if number >= MAX_VISITED or time.monotonic() > until:
                matches.append(_mark("the search was ended here; name a folder in path, or a glob").strip())
                break
            if is_link or (glob and not _fits(name, glob)) or self._withheld(name):
                continue
            for line, found_text in self._matches(name, needle):
                shown = f"{_name(name)}:{line}: {found_text}"
                if len(matches) >= MAX_MATCHES or size + len(shown) > RESULT_BYTES:
                    return "\n".join(matches) + _mark("there are more matches; narrow the text, path or glob")
                matches.append(shown)
                size += len(shown)
        return "\n".join(matches) if matches else "Nothing was found."

    def edit(self, path: str, old_string: str, new_string: str) -> tuple[str, Change]:
        """Replace the one place in a file that is exactly ``old_string``; return what was done, and how."""
        path = self._path(path)
        content = self._content(path)
        if content is None:
            raise ToolError(f"{path} does not exist. Use write_file to create it.")
        changed, line = replace_once(content, old_string, new_string, path)
        self._write(path, changed)
        return f"Replaced one place in {path}, at line {line}.", "modified"

    def write(self, path: str, content: str) -> tuple[str, Change]:
        """Create or replace a file."""
        path = self._path(path)
        data = content.encode("utf-8", "replace")
        existed = self._write(path, data)
        return f"{'Replaced' if existed else 'Created'} {path} ({len(data)} bytes).", "modified" if existed else "added"

    def content(self, path: str) -> bytes | None:
        """Return a whole file; None if it does not exist."""
        return self._content(self._path(path))

    def write_bytes(self, path: str, data: bytes) -> Change:
        """Create or replace a file; return which."""
        return "modified" if self._write(self._path(path), data) else "added"

    # -- access ----------------------------------------------------------------------------------------------------

    def _path(self, path: str) -> str:
        """Return a path as it is known in the worktree; raise ``ToolError`` if it is not a path inside it."""
        if not isinstance(path, str) or not path.strip():
            raise ToolError("Name a file in `path`, relative to the root of the repository.")
        try:
            path = "/".join(nofollow.safe_parts(path.removeprefix("./")))
        except UnderstudyError as error:
            raise ToolError(_said(error)) from None
        why = self._withheld(path)
        if why is not None:
            raise ToolError(f"{path} is not available: {why}.")
        return path

    @contextmanager
    def _opened(self, path: str) -> Iterator[BinaryIO | None]:
        try:
            with nofollow.opened(self._tree, path) as file:
                yield file
        except UnderstudyError as error:
            raise ToolError(_said(error)) from None

    def _content(self, path: str) -> bytes | None:
        try:
            return nofollow.read(self._tree, path, EDIT_BYTES)
        except UnderstudyError as error:
            raise ToolError(_said(error)) from None

    def _write(self, path: str, data: bytes) -> bool:
        if len(data) > EDIT_BYTES:
            raise ToolError(f"{path} would have {len(data)} bytes; at most {EDIT_BYTES} are written.")
        try:
            return nofollow.write_over(self._tree, path, data)
        except UnderstudyError as error:
            raise ToolError(_said(error)) from None
        except OSError as error:
            raise ToolError(f"{path} cannot be written: {error.strerror}.") from None

    def _walk(self, path: str) -> list[tuple[str, bool]]:
        items: list[tuple[str, bool]] = []
        try:
            for item in nofollow.walk(self._tree, path):
                items.append(item)
                if len(items) >= MAX_VISITED:
                    break
        except UnderstudyError as error:
            raise ToolError(_said(error)) from None
        return items

    def _matches(self, name: str, needle: bytes) -> list[tuple[int, str]]:
        try:
            content = nofollow.read(self._tree, name, SEARCH_FILE_BYTES)
        except (UnderstudyError, OSError):
            return []
        if content is None or b"\0" in content[:8192]:
            return []
        matches = []
        for number, line in enumerate(content.split(b"\n"), 1):
            if needle in line:
                text = _shown(line.rstrip(b"\r"))
                matches.append((number, text if len(text) <= MAX_LINE else text[:MAX_LINE] + " [… the line goes on]"))
                if len(matches) > MAX_MATCHES:
                    break
        return matches


def replace_once(content: bytes, old: str, new: str, path: str) -> tuple[bytes, int]:
    """Return ``content`` with its one occurrence of ``old`` replaced, and the line of it; raise ``ToolError``.

    Lines may end with CRLF in the file and with LF in ``old``: then ``new`` gets the file's line ends too.
    """
    if not old:
        raise ToolError("old_string is empty. Use write_file to create a file.")
    needle, replacement = old.encode("utf-8", "replace"), new.encode("utf-8", "replace")
    count = content.count(needle)
    if count == 0 and b"\r\n" in content and b"\r" not in needle:
        needle, replacement = needle.replace(b"\n", b"\r\n"), replacement.replace(b"\n", b"\r\n")
        count = content.count(needle)
    if count == 0:
        raise ToolError(
            f"old_string is not in {path}; nothing was changed. It must match exactly, with all spaces and line ends. "
            "Read the file again and copy the text without the line numbers."
        )
    if count > 1:
        places = [str(content.count(b"\n", 0, match.start()) + 1) for match in re.finditer(re.escape(needle), content)]
        raise ToolError(
            f"old_string is in {path} {count} times (lines {', '.join(places[:10])}{' …' if count > 10 else ''}); "
            "nothing was changed. Include more of the lines around it, so that it is unique."
        )
    if old == new:
        raise ToolError("new_string is the same as old_string; nothing was changed.")
    place = content.index(needle)
    return content[:place] + replacement + content[place + len(needle) :], content.count(b"\n", 0, place) + 1


def _numbered(content: bytes, first: int, count: int | None) -> str:
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if not lines:
        return "The file is empty."
    if first > len(lines):
        raise ToolError(f"The file has only {len(lines)} lines.")
    last = len(lines) if count is None else min(len(lines), first - 1 + max(1, count))
    start = sum(len(line) + 1 for line in lines[: first - 1])
    shown: list[str] = []
    room = RESULT_BYTES
    for number in range(first, last + 1):
        line = lines[number - 1]
        if len(line) > room and shown:
            return "\n".join(shown) + _mark(f"the file has {len(lines)} lines; continue with start_line={number}")
        if len(line) > room:
            # One line that is longer than a result: only bytes lead on.
            following = start + room
            return f"{number}\t{_shown(line[:room])}" + _mark(
                f"line {number} has {len(line)} bytes; continue with start_byte={following}"
            )
        shown.append(f"{number}\t{_shown(line.removesuffix(bytes([13])))}")
        room -= len(line) + 8
        room = max(room, 0)
    ended = "" if last == len(lines) else _mark(f"the file has {len(lines)} lines; continue with start_line={last + 1}")
    return "\n".join(shown) + ended


def _fits(name: str, glob: str) -> bool:
    return fnmatch.fnmatchcase(name, glob) or fnmatch.fnmatchcase(name.rpartition("/")[2], glob)


def _shown(data: bytes) -> str:
    # As it is, so that an edit can quote it: the driver cleans what is shown to people.
    return data.decode("utf-8", "replace")


def _name(path: str) -> str:
    return strip_controls(os.fsencode(path).decode("utf-8", "replace"))


def _mark(what: str) -> str:
    return f"\n[… NOT COMPLETE: {what}]"


def _said(error: UnderstudyError) -> str:
    return f"{error.message} {error.hint}" if error.hint else error.message
