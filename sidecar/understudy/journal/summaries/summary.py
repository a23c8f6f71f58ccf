"""Load a delegation from its journal, and cache the result in ``summary.json``."""

from __future__ import annotations

import os

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
