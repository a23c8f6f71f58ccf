"""Problems of a configuration: findings about a value or a place in a file, and known names close to an unknown one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from understudy.model.config.config_entries import Problem
from understudy.model.errors import ErrorKind, Location, UnderstudyError

KeyPath = tuple[str | int, ...]
"""The path to a value in a document: ``("delegators", 0, "launch", "output")``."""
Code = Literal[
    "syntax",  # not TOML, no front matter, not UTF-8: the whole file is ignored
    "unknown_key",
    "missing",
    "wrong_type",
    "not_a_list",  # [name] where [[name]] is meant
    "not_allowed",  # not one of the allowed values
    "unknown_name",  # of a delegator, model server, tool, recipe, check
    "duplicate",
    "no_effect",  # the field would have no effect, so it is refused
    "secret",
    "overrides",
    "value",  # any other problem of a value
]
"""The kind of a finding."""
_LISTED = {
    ErrorKind.UNKNOWN_DELEGATOR: ("delegator", "Run `understudy delegators list` to list them."),
    ErrorKind.UNKNOWN_MODEL_SERVER: ("model server", "Run `understudy servers list` to list them."),
    ErrorKind.UNKNOWN_RECIPE: ("recipe", "Run `understudy recipes` to list them."),
    ErrorKind.UNKNOWN_CHECK: ("check", "`understudy checks` lists the checks."),
    ErrorKind.UNKNOWN_SCHEDULE: ("schedule", "`understudy schedules` lists the schedules."),
    ErrorKind.UNKNOWN_NOTIFICATION: ("notification", "`understudy notifications` lists the receivers."),
}
"""The word for what has the name, and how to look up the names, for each kind of error."""


class Finding(msgspec.Struct, frozen=True):
    """A problem of a field, or a remark about it."""

    path: KeyPath
    message: str
    hint: str | None = None
    severity: Literal["error", "warning", "information"] = "error"
    key: bool = False
    """Whether it is about the key rather than the value."""
    code: Code = "value"
    names: Sequence[str] = ()
    """Names that may have been meant, most likely first."""


class LocatedFinding(Problem, kw_only=True):
    """A finding with its place and kind; ``plain`` returns the wire structure."""

    code: Code = "value"

    def plain(self) -> Problem:
        """Return the problem as the contract defines it."""
        return Problem(severity=self.severity, message=self.message, hint=self.hint, location=self.location)


def _unusable(what: str, name: str) -> str:
    return f"The {what} {name!r} cannot be used: "


def cause_of(error: UnderstudyError, what: str, name: str) -> str:
    """Return the reason of an error from ``unusable``, without the entry that a list names already."""
    return str(error.message).removeprefix(_unusable(what, name))


def unusable(what: str, name: str, finding: Finding | Problem, location: Location | None = None) -> UnderstudyError:
    """Return the error for using an entry that has a finding: always ``config_invalid``."""
    return UnderstudyError(
        ErrorKind.CONFIG_INVALID,
        f"{_unusable(what, name)}{finding.message}",
        hint=finding.hint or "Correct its configuration.",
        location=(finding.location if isinstance(finding, Problem) else None) or location,
    )


def near(name: str, known: Iterable[str]) -> str | None:
    """Return a hint for an unknown name: the closest known one, otherwise all of them."""
    names = sorted(known)
    closest = close(name, names)
    if closest:
        return f"Did you mean `{closest[0]}`?"
    return f"Valid names: {', '.join(names[:20])}." if names else None


def close(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names closest to an unknown one, the closest first, at most three.

    Case and separators do not count: ``baseURL`` and ``base-url`` are ``base_url``.
    """
    import difflib

    names = sorted(known)
    same = [candidate for candidate in names if _plain(candidate) == _plain(name)]
    return [*same, *(candidate for candidate in difflib.get_close_matches(name, names, n=3) if candidate not in same)][
        :3
    ]


def _plain(name: str) -> str:
    return re.sub(r"[-_. ]", "", name).casefold()


def unknown_name(kind: ErrorKind, name: str, known: Iterable[str]) -> UnderstudyError:
    """Return the error for an unknown name, with the known names that are close to it."""
    names = sorted(known)
    suggested = close(name, names)
    what, where = _LISTED[kind]
    return UnderstudyError(
        kind,
        f"There is no {what} {name!r}.",
        hint=f"Did you mean {suggested[0]!r}?" if suggested else where,
        names=suggested or names[:20],
    )
