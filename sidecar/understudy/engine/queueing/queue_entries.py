"""The queue on disk: one small file for each delegation that has not started, in a folder that names its state.

::

    <state>/queue/waiting/<slots>/<id>        waits for a slot below <slots>
    <state>/queue/held/<boot>/<slots>/<id>    it comes after others of its group, which have not all ended
    <state>/queue/launched/<id>               a worker has a slot and is about to write ``started``
    <state>/queue/left/<id>                   it started or ended; what comes after it was not looked at yet
    <state>/queue/after/<boot>/<other>/<id>   <id> must be looked at when <other> has ended
    <state>/queue/unrecorded/<id>             its base is not recorded yet; one byte for each try
    <state>/queue/keys/<digest>/<id>          it needs keys from the environment with this digest
    <state>/queue/paused                      nothing that waits starts while this file exists
    <state>/queue/order                       the order that the user gave to what waits; what is not in it comes after

An entry is created by ``add``, removed by ``drop``, and moves by one rename in between, so a killed process leaves it
in one state or in the other. Only the process that holds the delegation's lock changes an entry; ``leave`` may also
follow the end of the delegation. Its marks (in ``after``, ``unrecorded`` and ``keys``) are made after the entry and
removed before it, so none is left without an entry that leads to it.

To serve a slot, no process looks at what is held, only at what is in ``left`` and ``launched``: about as many as run.
Yet nothing stays held, whatever process is killed:

- A delegation is held while each of those that it comes after has ended and was looked at, or has an entry, and a mark
  for it in ``after``. The mark is made first. Then the other must still have an entry, and must not have ended. Then it
  is held. All this happens under its lock.
- An entry is dropped when its delegation has ended, under its lock, and nothing in ``after`` is marked for it. Such a
  mark is removed under the lock of the marked delegation, after that was looked at and is not held because of it.
- A process that finds a lock taken leaves the mark and the entry to the next one that serves the queue. The holder does
  that after it has released the lock; if it is killed, any other.
"""

from __future__ import annotations

import contextlib
import enum
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.journal import delegation_folder
from understudy.model.wire import ready
from understudy.process import identity

_LIMIT = 64 * 1024
_MOST_TRIES = 100
"""Most repetitions after another process changed a folder in the same moment."""
_MOST_ORDERED = 10_000
_ORDER_BYTES = 1024 * 1024


class EntryState(enum.StrEnum):
    """The state of an entry: the folder that its file is in.

    .. code-block:: text

        (none) ─► waiting ⇄ launched ─► left ─► (none)
                   ⇅ └──────────────────►┘
                  held ─────────────────►┘
    """

    HELD = "held"
    """It comes after others. It waits when they have succeeded; it leaves when one of them has failed, or when it was
    cancelled."""
    WAITING = "waiting"
    """No process runs it. It becomes ``launched`` by the process that found a free slot and nothing older to start;
    it leaves when it was cancelled."""
    LAUNCHED = "launched"
    """A worker has a slot. It leaves when the worker writes ``started`` or ends. When the worker died before that, it
    waits again, at its old place; after ``launcher.MOST_LAUNCHES`` the delegation ends."""
    LEFT = "left"
    """It is no longer in the queue: it has started, or never will. When it has ended, the next process that serves the
    queue looks at those that come after it, and removes the entry."""


class NeededKeys(msgspec.Struct, frozen=True):
    """Variables that the delegation needs from the environment of the process that asked for it."""

    names: list[str]
    digest: str
    """Identifies their values without revealing them."""


class Entry(msgspec.Struct):
    """The content of an entry."""

    keys: NeededKeys | None = None
    launches: int = 0
    """How often a worker was started for it."""
    after: list[str] = []
    """Those that it comes after: only for these can it have marks."""


def add(
    root: Path, identifier: str, slots: int, *, keys: NeededKeys | None, record: bool, after: Sequence[str] = ()
) -> None:
    """Create an entry that waits. ``record``: its base must be recorded; ``after``: those that it comes after.

    Raises the errors of ``durable.failure``.
    """
    place = _waiting(root, identifier, slots)
    with durable.named_failures(place):
        _make(place.parent)
        _make(_queue(root) / EntryState.LEFT)  # so that to leave needs no space on the disk
        durable.replace(place, msgspec.json.encode(Entry(keys=keys, after=[*filter(delegation_folder.is_id, after)])))
        if record:
            _touch(_queue(root) / "unrecorded" / identifier)
        if keys is not None:
            _touch(_queue(root) / "keys" / keys.digest / identifier)


def waiting(root: Path) -> list[tuple[str, int]]:
    """Return the delegations that wait for a slot with their number of slots, in the order in which they start.

    That is oldest first (an id begins with its time), after those that ``reorder`` put in another order.
    """
    return _in_order(root, _entries(_queue(root) / EntryState.WAITING))


def queued(root: Path) -> list[tuple[str, int]]:
    """Return the delegations that wait for a slot or are held, in the order of ``waiting``."""
    return _in_order(root, [*_entries(_queue(root) / EntryState.WAITING), *_all_held(root)])


def _entries(pools: Path) -> list[tuple[str, int]]:
    return [(identifier, int(name)) for name in _names(pools) if name.isdecimal() for identifier in _ids(pools / name)]


def _in_order(root: Path, found: list[tuple[str, int]]) -> list[tuple[str, int]]:
    places = _order(root)
    return sorted(found, key=lambda entry: (places.get(entry[0], len(places)), entry))


def reorder(root: Path, identifiers: Sequence[str]) -> None:
    """Let these delegations start in this order, before all others in the queue, also those that are added later."""
    place = _queue(root) / "order"
    with durable.named_failures(place):
        _make(place.parent)
        durable.replace(place, msgspec.json.encode(list(identifiers)[:_MOST_ORDERED]))


def _order(root: Path) -> dict[str, int]:
    try:
        found = msgspec.json.decode(durable.read_whole(_queue(root) / "order", _ORDER_BYTES), type=list[str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return {identifier: number for number, identifier in enumerate(found)}


def is_paused(root: Path) -> bool:
    """Return whether nothing that waits may start."""
    return (_queue(root) / "paused").exists()


def pause(root: Path, *, paused: bool) -> None:
    """Let nothing that waits start, or let it start again; what runs is not affected."""
    place = _queue(root) / "paused"
    with durable.named_failures(place):
        if paused:
            _touch(place)
        else:
            place.unlink(missing_ok=True)


def held(root: Path) -> list[str]:
    """Return the delegations that come after others which have not all ended, oldest first."""
    return sorted(identifier for identifier, _ in _all_held(root))


def mark(root: Path, identifier: str, others: Sequence[str]) -> None:
    """Note that a delegation must be looked at when one of ``others`` has ended. The caller holds its lock."""
    for other in filter(delegation_folder.is_id, others):
        with durable.named_failures(_after(root, other)):
            _touch(_after(root, other) / identifier)


def unmark(root: Path, identifier: str, others: Sequence[str]) -> None:
    """Note that a delegation is not held because of ``others``. The caller holds its lock, or it has ended."""
    for other in filter(delegation_folder.is_id, others):
        (_after(root, other) / identifier).unlink(missing_ok=True)
        _remove_if_empty(_after(root, other))


def is_followed(root: Path, other: str) -> bool:
    """Return whether a delegation may have to be looked at when ``other`` has ended."""
    return _after(root, other).exists()


def followers(root: Path, other: str) -> list[str]:
    """Return the delegations that must be looked at when ``other`` has ended, oldest first."""
    return sorted(_ids(_after(root, other)))


def hold(root: Path, identifier: str, slots: int) -> None:
    """Hold a delegation that waits or is held. Each that it waits for has a mark and an entry."""
    _move(_waiting(root, identifier, slots), _held(root, identifier, slots))


def release(root: Path, identifier: str) -> None:
    """Let a delegation wait for a slot if it is held."""
    for place in _held_places(root, identifier):
        _move(place, _waiting(root, identifier, int(place.parent.name)))


def release_earlier(root: Path) -> None:
    """Let everything wait for a slot that was held before the machine was started: it is held again at its turn.

    After a power cut, the marks and the entries that it was held with are not on the disk for sure.
    """
    boot = _boot()
    for name in _names(_queue(root) / EntryState.HELD):
        if name != boot:
            folder = _queue(root) / EntryState.HELD / name
            for identifier, slots in _entries(folder):
                _move(folder / str(slots) / identifier, _waiting(root, identifier, slots))
            shutil.rmtree(folder, ignore_errors=True)
    for name in _names(_queue(root) / "after"):
        if name != boot:
            shutil.rmtree(_queue(root) / "after" / name, ignore_errors=True)


def _boot() -> str:
    return identity.boot_id() or "unknown"


def _after(root: Path, other: str) -> Path:
    return _queue(root) / "after" / _boot() / other


def _held(root: Path, identifier: str, slots: int) -> Path:
    return _queue(root) / EntryState.HELD / _boot() / str(max(1, slots)) / identifier


def _waiting(root: Path, identifier: str, slots: int) -> Path:
    return _queue(root) / EntryState.WAITING / str(max(1, slots)) / identifier


def _left(root: Path, identifier: str) -> Path:
    return _queue(root) / EntryState.LEFT / identifier


def _all_held(root: Path) -> list[tuple[str, int]]:
    folder = _queue(root) / EntryState.HELD
    return [entry for boot in _names(folder) for entry in _entries(folder / boot)]


def _held_places(root: Path, identifier: str) -> list[Path]:
    folder = _queue(root) / EntryState.HELD
    return [folder / boot / name / identifier for boot in _names(folder) for name in _names(folder / boot)]


def launched(root: Path) -> list[str]:
    """Return the delegations whose worker has a slot but has not written ``started``."""
    return _ids(_queue(root) / EntryState.LAUNCHED)


def unrecorded(root: Path) -> list[str]:
    """Return the delegations whose base is not recorded yet, oldest first."""
    return sorted(_ids(_queue(root) / "unrecorded"))


def keyed(root: Path, digest: str) -> list[str]:
    """Return the delegations that need the keys with this digest."""
    return _ids(_queue(root) / "keys" / digest)


def contains(root: Path, identifier: str) -> bool:
    """Return whether the delegation is in the queue: it has an entry and has not left. One that moves may be missed."""
    return any(place.exists() for place in _places(root, identifier))


def has_entry(root: Path, identifier: str) -> bool:
    """Return whether the delegation has an entry, perhaps one that has left. One that moves now may be missed."""
    return contains(root, identifier) or _left(root, identifier).exists()


def left(root: Path) -> list[str]:
    """Return the delegations that have started or ended, and whose entry was not dropped yet."""
    return _ids(_queue(root) / EntryState.LEFT)


def position(root: Path, identifier: str, slots: int) -> int:
    """Return the place of a queued delegation among those with the same number of slots; the first is 1."""
    others = [other for other, its_slots in queued(root) if its_slots == max(1, slots)]
    return others.index(identifier) + 1 if identifier in others else len(others) + 1


def read(root: Path, identifier: str) -> Entry:
    """Return the content of an entry; a damaged one counts as new."""
    for place in [*_places(root, identifier), _left(root, identifier)]:
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(durable.read_whole(place, _LIMIT), type=ready(Entry))
    return Entry()


def launch(root: Path, identifier: str, slots: int) -> None:
    """Move an entry from ``waiting`` to ``launched``, and count it."""
    entry = read(root, identifier)
    entry.launches += 1
    place = _waiting(root, identifier, slots)
    target = _queue(root) / EntryState.LAUNCHED / identifier
    with durable.named_failures(place):
        _make(target.parent)
        durable.replace(place, msgspec.json.encode(entry))
        place.replace(target)


def wait_again(root: Path, identifier: str, slots: int, *, was_started: bool = True) -> None:
    """Move an entry from ``launched`` back to ``waiting``; if no worker ``was_started``, this launch does not count."""
    place = _queue(root) / EntryState.LAUNCHED / identifier
    target = _waiting(root, identifier, slots)
    with durable.named_failures(target):
        if not was_started:
            entry = read(root, identifier)
            entry.launches = max(0, entry.launches - 1)
            durable.replace(place, msgspec.json.encode(entry))
        _make(target.parent)
        place.replace(target)


def count_try(root: Path, identifier: str) -> int:
    """Count a try to record the base; return how many there were before, in case they killed their process."""
    place = _queue(root) / "unrecorded" / identifier
    descriptor = durable.open_regular(place, os.O_WRONLY | os.O_APPEND)
    try:
        before = os.fstat(descriptor).st_size
        os.write(descriptor, b".")
    finally:
        os.close(descriptor)
    return before


def recorded(root: Path, identifier: str) -> None:
    """Note that the base is recorded, or left to the worker."""
    (_queue(root) / "unrecorded" / identifier).unlink(missing_ok=True)


def leave(root: Path, identifier: str) -> None:
    """Take a delegation that started, ended, or never starts out of the queue; do nothing if it is not in the queue."""
    for place in _places(root, identifier):
        _move(place, _left(root, identifier))
    (_queue(root) / "unrecorded" / identifier).unlink(missing_ok=True)
    keys = read(root, identifier).keys
    if keys is not None:
        (_queue(root) / "keys" / keys.digest / identifier).unlink(missing_ok=True)


def drop(root: Path, identifier: str) -> None:
    """Remove the entry of a delegation that has ended, unless another one must be looked at before.

    The caller holds its lock: checks that run again would let it end a second time.
    """
    leave(root, identifier)
    # Before its own entry: without that, nothing leads to what is left of these.
    unmark(root, identifier, read(root, identifier).after)
    if _remove_if_empty(_after(root, identifier)):
        _left(root, identifier).unlink(missing_ok=True)


def _remove_if_empty(folder: Path) -> bool:
    """Return whether the folder is gone."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _places(root: Path, identifier: str) -> list[Path]:
    pools = _names(_queue(root) / EntryState.WAITING)
    return [
        *(_queue(root) / EntryState.WAITING / name / identifier for name in pools),
        _queue(root) / EntryState.LAUNCHED / identifier,
        *_held_places(root, identifier),
    ]


def _queue(root: Path) -> Path:
    return root / "queue"


def _make(folder: Path) -> None:
    folder.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)


def _touch(place: Path) -> None:
    for left_tries in reversed(range(_MOST_TRIES)):
        _make(place.parent)
        try:
            os.close(durable.open_regular(place, os.O_WRONLY | os.O_CREAT))
        except FileNotFoundError:  # another process removed the folder while it was empty
            if not left_tries:
                raise
        else:
            return


def _move(place: Path, target: Path) -> None:
    """Move an entry; do nothing if it is not there."""
    if place.exists():
        with durable.named_failures(target), contextlib.suppress(FileNotFoundError):
            _make(target.parent)
            place.replace(target)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - called for each start; a thousand Path objects would cost more
    except (FileNotFoundError, NotADirectoryError):
        return []


def _ids(folder: Path) -> list[str]:
    return [name for name in _names(folder) if delegation_folder.is_id(name)]
