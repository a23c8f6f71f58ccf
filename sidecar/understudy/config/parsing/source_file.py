"""Read files with arbitrary content: within limits, without exceptions, and with the places of all values.

Beside the file of a delegator that was imported is its agent profile. ``NAME.profile.json`` has the original text, byte
for byte. ``NAME.profile.base`` has the delegator as it was imported: an export changes in the profile only what has
changed in the delegator since.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.config import findings
from understudy.config.findings import Code, LocatedFinding
from understudy.config.parsing import file_syntax
from understudy.model.errors import Location, Position, Range

MAX_BYTES = 256 * 1024
"""The largest configuration file or recipe; hand-written ones are a hundredth of this."""
MAX_DEPTH = 32
"""Deeper nesting is an accident or an attack; recursion within this stays far below Python's own limit."""
_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = re.compile(rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*+")
_MAX_NAMES = 100
"""The most names in one dotted key: ``tomllib`` takes quadratic time and memory, and 32 levels are refused anyway."""
_MAX_PROFILE_BYTES = 4 * 1024 * 1024


class Source:
    """One file as it was read: its bytes, and the places of its values."""

    def __init__(self, path: Path, data: bytes, *, start: int = 0, end: int | None = None) -> None:
        """Take the bytes of ``path``; the TOML is between byte ``start`` and ``end`` (front matter)."""
        self.path = path
        self.data = data
        self.toml = data[start:end]
        self._line = data[:start].count(b"\n")
        self._positions: file_syntax.Positions | None = None

    def parse(self) -> tuple[dict[str, Any] | None, list[LocatedFinding]]:
        """Return the parsed TOML, or ``None`` and the problem that prevents it."""
        try:
            text = self.toml.decode()
        except UnicodeDecodeError as error:
            return None, [self.not_utf8(error)]
        too_deep = [self.problem("The file cannot be read: nested too deeply.", code="syntax")]
        if any(_names(dotted[0]) > _MAX_NAMES for dotted in _DOTTED.finditer(text)):
            return None, too_deep
        try:
            value = tomllib.loads(text)
        except RecursionError:
            return None, too_deep
        except tomllib.TOMLDecodeError as error:
            return None, [self._syntax_problem(text, error)]
        except ValueError:  # an integer beyond Python's limit of digits, a date that does not exist
            message = "The file cannot be read: a number or date that is out of range."
            return None, [self.problem(message, code="syntax")]
        return value, []

    def problem(
        self,
        message: str,
        *,
        hint: str | None = None,
        at: Range | None = None,
        severity: Literal["error", "warning", "information"] = "error",
        code: Code = "value",
    ) -> LocatedFinding:
        """Return a problem of this file, at its beginning unless a place is given."""
        return LocatedFinding(
            severity=severity,
            message=message,
            hint=hint,
            location=self.location(at),
            code=code,
        )

    def not_utf8(self, error: UnicodeDecodeError) -> LocatedFinding:
        """Return the problem of a file whose bytes are not text; ``error`` is from all of them, or from its TOML."""
        at = file_syntax.point(error.object.count(b"\n", 0, error.start) + self._line, 0)
        return self.problem("The file is not UTF-8 text.", hint="Save it as UTF-8.", at=at, code="syntax")

    def unknown_key(self, path: findings.KeyPath, *, hint: str | None) -> LocatedFinding:
        """Return the problem of a key that no structure has."""
        at = self.where(path, key=True)
        return self.problem(f"Unknown key `{path[-1]}`.", hint=hint, at=at, code="unknown_key")

    def location(self, at: Range | None = None) -> Location:
        """Return a place in this file."""
        return Location(self.path.as_uri(), at or file_syntax.START)

    def where(self, path: findings.KeyPath, *, key: bool = False) -> Range:
        """Return the place of the value at ``path`` (or of its key), or of the nearest enclosing value that has one."""
        if self._positions is None:
            self._positions = file_syntax.Positions(self.toml)
        while path:
            place = self._positions.key(path) if key else self._positions.value(path)
            if place is not None:
                return self._shifted(place)
            path = path[:-1]
        return file_syntax.START

    def _syntax_problem(self, text: str, error: tomllib.TOMLDecodeError) -> LocatedFinding:
        message, offset = file_syntax.syntax_problem(text, error)
        before = text[:offset]
        at = file_syntax.point(before.count("\n") + self._line, file_syntax.utf16(before.rpartition("\n")[2]))
        hint = "Correct this place; until then, the whole file is ignored."
        return self.problem(f"This is not TOML: {message}.", hint=hint, at=at, code="syntax")

    def _shifted(self, place: Range) -> Range:
        if not self._line:
            return place
        return Range(
            Position(place.start.line + self._line, place.start.character),
            Position(place.end.line + self._line, place.end.character),
        )


def _names(dotted: str) -> int:
    if dotted.count(".") < _MAX_NAMES:
        return 0
    return re.sub(r"""\"[^"]*"|'[^']*'""", "", dotted).count(".") + 1


def read(path: Path, *, inside: Path | None, most: int = MAX_BYTES) -> tuple[Source | None, list[LocatedFinding]]:
    """Return a file, or ``None`` if it does not exist, or ``None`` and the problems why it is not read.

    ``inside``: the workspace that must contain the file; a link anywhere on its path that leads out of
    the workspace is a problem. A file of the user's own configuration may be a link (many users share
    configuration between machines this way). A file of more than ``most`` bytes is a problem.
    """
    source = Source(path, b"")
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not block
    if inside is not None:
        root = os.path.realpath(inside)
        if os.path.commonpath([root, os.path.realpath(path)]) != root:
            return None, [
                source.problem("The file is reached through a link that leads out of the workspace, so it is not read.")
            ]
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None, []
    except OSError as error:
        reason = "it is a link that leads in a circle" if error.errno == errno.ELOOP else str(error.strerror)
        hint = "Make it readable for your user." if isinstance(error, PermissionError) else None
        return None, [source.problem(f"The file cannot be read: {reason}.", hint=hint)]
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None, [source.problem("This is not an ordinary file, so it is not read.")]
        data = b""
        while len(data) <= most and (piece := os.read(descriptor, most + 1 - len(data))):
            data += piece
    except OSError as error:
        return None, [source.problem(f"The file cannot be read: {error.strerror}.")]
    finally:
        os.close(descriptor)
    return opened(path, data, most=most)


def opened(path: Path, data: bytes, *, most: int = MAX_BYTES) -> tuple[Source | None, list[LocatedFinding]]:
    """Return a file with the content ``data``, or ``None`` and the problems why it is not read."""
    if len(data) > most:
        message = f"The file is larger than {most // 1024} KiB, so it is not read."
        return None, [Source(path, b"").problem(message)]
    return Source(path, data, start=3 if data.startswith(b"\xef\xbb\xbf") else 0), []


def unusable_value(value: Any) -> tuple[findings.KeyPath, str] | None:
    """Return the path of the first value that cannot be sent as JSON, and why; ``None`` if there is none."""
    stack: list[tuple[findings.KeyPath, Any]] = [((), value)]
    while stack:
        path, item = stack.pop()
        if len(path) > MAX_DEPTH:
            return path, f"is nested more than {MAX_DEPTH} levels deep"
        if isinstance(item, dict):
            stack += [((*path, key), inner) for key, inner in item.items()]
        elif isinstance(item, list):
            stack += [((*path, number), inner) for number, inner in enumerate(item)]
        elif isinstance(item, float) and (item != item or item in {float("inf"), float("-inf")}):  # noqa: PLR0124
            return path, "is not a finite number"
        elif isinstance(item, int) and not -(2**63) <= item < 2**64:
            return path, "is a number of more than 64 bits"
    return None


@dataclass(frozen=True)
class KeptProfile:
    """A profile, and the file of the delegator that it became."""

    text: str
    base: bytes | None


def profile_place(delegator: Path) -> Path:
    """Return where the profile of the delegator in this file is."""
    return delegator.with_name(f"{delegator.stem}.profile.json")


def profile_base_place(delegator: Path) -> Path:
    """Return where the delegator is kept as it was imported."""
    return delegator.with_name(f"{delegator.stem}.profile.base")


def read_profile(delegator: Path) -> KeptProfile | None:
    """Return the profile of the delegator in this file; None if it has none, or one that cannot be read."""
    profile, _ = read(profile_place(delegator), inside=None, most=_MAX_PROFILE_BYTES)
    if profile is None:
        return None
    base, _ = read(profile_base_place(delegator), inside=None, most=_MAX_PROFILE_BYTES)
    try:
        return KeptProfile(profile.data.decode(), base.data if base is not None else None)
    except UnicodeDecodeError:
        return None
