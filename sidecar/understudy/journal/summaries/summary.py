"""Load delegations from their journals, cache them in ``summary.json``, and list them in pages."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import Collection

import msgspec

from understudy.files import durable
from understudy.journal import delegation_folder, reader
from understudy.journal.delegation_folder import Folder
from understudy.journal.summaries.fold import fold
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation
from understudy.model.delegation.spec import initial
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.wire import ready

_SUMMARY_LIMIT = 64 * 1024 * 1024
_decoder = msgspec.json.Decoder(ready(Delegation))
DEFAULT_PAGE = 100
LARGEST_PAGE = 1000


def load(folder: Folder) -> Delegation:
    """Return the delegation after all events of its journal: ``summary.json`` plus the events it lacks.

    Raises ``state_unavailable`` when neither file can be used, ``unknown_delegation`` when the folder is gone.
    """
    delegation = _cached(folder)
    if delegation is not None and not (_agrees(folder, delegation.last_seq) and _ended_so(folder, delegation)):
        delegation = None
    if delegation is None:
        if not folder.path.is_dir():
            return _gone(folder)
        delegation = initial(delegation_folder.read_spec(folder))
    tail = reader.Tail(folder, after=delegation.last_seq)
    while events := tail.read():
        for event in events:
            delegation = fold(delegation, event)
    return delegation


def peek(folder: Folder) -> Delegation:
    """Return the cached delegation, at most one second old while a worker runs; without a cache, do as ``load``.

    Whether and how a delegation ended is always read from the journal.
    """
    delegation = _cached(folder)
    return delegation if delegation is not None and _ended_so(folder, delegation) else load(folder)


def save(folder: Folder, delegation: Delegation) -> None:
    """Replace ``summary.json``; only the lock's holder may do so. Raises ``OSError``, which callers may ignore."""
    durable.replace(folder.summary, msgspec.json.encode(delegation))


def _cached(folder: Folder) -> Delegation | None:
    try:
        # Plain calls for speed: a page reads a hundred of these.
        descriptor = os.open(f"{folder.path}/summary.json", os.O_RDONLY | durable.OPEN_FLAGS)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        if size > _SUMMARY_LIMIT:
            return None
        delegation = _decoder.decode(os.read(descriptor, size + 1))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    finally:
        os.close(descriptor)
    return delegation if delegation.id == folder.id and delegation.last_seq >= 0 else None


_END_BYTES = 32 * 1024
"""How far from the end ``finished`` is searched; if it is further back, the journal is folded."""


def _agrees(folder: Folder, seq: int) -> bool:
    """Return whether the journal has at least ``seq`` lines; else the summary belongs to another journal."""
    return seq == 0 or reader.last_seq(folder) >= seq


def _ended_so(folder: Folder, delegation: Delegation) -> bool:
    """Return whether the end in a summary is the last one of the journal; true for a delegation that has not ended.

    Every process of the user can write ``summary.json``, so an agent could write its own verdict there. In the journal
    the end is among the last lines, before the decisions.
    """
    if delegation.state is not State.FINISHED:
        return True
    try:
        descriptor = os.open(f"{folder.path}/events.jsonl", os.O_RDONLY | durable.OPEN_FLAGS)
    except OSError:
        return False
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, _END_BYTES, max(0, size - _END_BYTES))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    for line in reversed(tail.split(b"\n")):
        if b'"finished"' in line:
            event = reader.decode(line, 0)
            if isinstance(event, events.Finished):
                return event.verdict == delegation.verdict and event.reservations == delegation.reservations
    return False


def _gone(folder: Folder) -> Delegation:
    raise UnderstudyError(
        ErrorKind.UNKNOWN_DELEGATION,
        f"The folder of delegation {folder.id} is gone.",
        hint="`understudy list` shows the IDs.",
    )


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
