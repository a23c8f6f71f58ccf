"""Problems of a configuration: findings about a value, and findings with their location in a file."""

from __future__ import annotations

from collections.abc import Sequence
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
