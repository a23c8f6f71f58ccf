"""List and filter delegations in pages."""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Collection

from understudy.journal import delegation_folder
from understudy.journal.delegation_folder import Folder
from understudy.journal.summaries.summary import peek
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

DEFAULT_PAGE = 100
LARGEST_PAGE = 1000


def page(
    *,
    states: Collection[State] | None = None,
    workspace: str | None = None,
    delegator: str | None = None,
    group: str | None = None,
    text: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> tuple[list[Delegation], str | None]:
    """Return delegations, newest first, and the cursor of the next page (None: this is the last).

    ``workspace`` must equal the one in the specification; ``delegator`` matches the chosen delegator and those of the
    attempts; ``text`` is searched in id, title, recipe and result, ignoring case. Summaries are read only until the
    page is full. A cursor names the last delegation read, so a delegation that starts between two pages neither shifts
    nor repeats an entry. Unreadable folders are left out. Raises ``invalid_params`` for an invalid cursor or a limit
    below 1; a limit above ``LARGEST_PAGE`` is reduced to it.
    """
    size = DEFAULT_PAGE if limit is None else min(limit, LARGEST_PAGE)
    if size < 1:
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, f"Invalid limit {limit}.", hint="Use a limit of at least 1.")
    below = None if cursor is None else _decode_cursor(cursor)
    needle = text.casefold() if text else None
    root = delegation_folder.delegations_root()
    delegations: list[Delegation] = []
    names = delegation_folder.ids()
    start = 0 if below is None else _first_below(names, below)
    for place in range(start, len(names)):
        folder = Folder(names[place], root / names[place])
        try:
            delegation = peek(folder)
        except (UnderstudyError, OSError):
            continue
        if group is not None and delegation.group_id != group:
            continue
        if not _fits(delegation, states, workspace, delegator, needle):
            continue
        delegations.append(delegation)
        if len(delegations) == size:
            more = place + 1 < len(names)
            return delegations, _encode_cursor(names[place]) if more else None
    return delegations, None


def _fits(
    delegation: Delegation,
    states: Collection[State] | None,
    workspace: str | None,
    delegator: str | None,
    needle: str | None,
) -> bool:
    if states and delegation.state not in states:
        return False
    if workspace is not None and delegation.workspace != workspace:
        return False
    if (
        delegator is not None
        and delegation.delegator != delegator
        and all(attempt.delegator != delegator for attempt in delegation.attempts)
    ):
        return False
    if needle is None:
        return True
    result = delegation.result
    texts = [delegation.id, delegation.title, delegation.recipe]
    if result is not None:
        texts += [result.summary or "", result.text or ""]
    return any(needle in candidate.casefold() for candidate in texts)


def _first_below(names: list[str], below: str) -> int:
    """Return the index of the first name, newest first, that is older than ``below``."""
    low, high = 0, len(names)
    while low < high:
        middle = (low + high) // 2
        if names[middle] < below:
            high = middle
        else:
            low = middle + 1
    return low


def _encode_cursor(last: str) -> str:
    return base64.urlsafe_b64encode(b"1:" + last.encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> str:
    with contextlib.suppress(binascii.Error, UnicodeError, ValueError):
        plain = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        version, _, last = plain.partition(":")
        if version == "1" and delegation_folder.is_id(last):
            return last
    raise UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        "Invalid cursor: it does not come from a previous page.",
        hint="Omit it to start with the newest delegation.",
    )
