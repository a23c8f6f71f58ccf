"""Suggest known names that are close to an unknown one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from understudy.model.errors import ErrorKind, UnderstudyError

_LISTED = {
    ErrorKind.UNKNOWN_DELEGATOR: ("delegator", "Run `understudy delegators list` to list them."),
    ErrorKind.UNKNOWN_MODEL_SERVER: ("model server", "Run `understudy servers list` to list them."),
    ErrorKind.UNKNOWN_RECIPE: ("recipe", "Run `understudy recipes` to list them."),
    ErrorKind.UNKNOWN_CHECK: ("check", "`understudy checks` lists the checks."),
}
"""The word for what has the name, and how to look up the names, for each kind of error."""


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
