"""The queue on disk: one small file for each delegation that has not started, in a folder that names its state.

::

    <state>/queue/waiting/<slots>/<id>         waits for a slot below <slots>
    <state>/queue/launched/<id>                a worker has a slot and is about to write ``started``
    <state>/queue/held/<boot>/<slots>/<id>     it comes after others of its group, which have not all ended
    <state>/queue/after/<other>/<id>           <id> comes after <other>, which may run or have ended
    <state>/queue/after-queued/<other>/<id>    <id> comes after <other>, which has an entry itself
    <state>/queue/unrecorded/<id>              its base is not recorded yet; one byte for each try
    <state>/queue/keys/<digest>/<id>           it needs keys from the environment with this digest
    <state>/queue/paused                       nothing that waits starts while this file exists
    <state>/queue/order                        the order that the user gave to what waits; what is not in it comes after

An entry moves by one rename, so a killed process leaves it in one state or in the other. Except for ``add``, only the
process that holds the delegation's lock changes an entry; ``remove`` may also follow the end of a delegation.

What is held is not looked at when a slot is served: only the delegations in ``after`` are, which are about as many as
run. One that has an entry cannot end before the entry is removed, and that moves what comes after it to ``after``.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
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

        (none) ─► held ⇄ waiting ⇄ launched ─► (none)
                    └───────┴──────────────────►┘
    """

    HELD = "held"
    """It comes after others. It waits when they have succeeded; it is removed when one of them has failed, or when it
    was cancelled."""
    WAITING = "waiting"
    """No process runs it. It becomes ``launched`` by the process that found a free slot and nothing older to start;
    it is removed when it was cancelled."""
    LAUNCHED = "launched"
    """A worker has a slot. It is removed when the worker writes ``started`` or ends. When the worker died before that,
    it waits again, at its old place; after ``launcher.MOST_LAUNCHES`` it is removed, and the delegation ends."""


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


def add(
    root: Path, identifier: str, slots: int, *, keys: NeededKeys | None, record: bool, after: Sequence[str] = ()
) -> None:
    """Create an entry that waits, or is held if it comes ``after`` others. ``record``: its base must be recorded.

    The caller serves the queue afterwards, because the others may have ended. Raises the errors of ``durable.failure``.
    """
    place = (_held(root) if after else _queue(root) / EntryState.WAITING) / str(max(1, slots)) / identifier
    with durable.named_failures(place):
        if record:
            _touch(_queue(root) / "unrecorded" / identifier)
        mark(root, after, identifier)
        if keys is not None:
            _touch(_queue(root) / "keys" / keys.digest / identifier)
        _make(place.parent)
        durable.replace(place, msgspec.json.encode(Entry(keys=keys)))


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


def is_held(root: Path, identifier: str) -> bool:
    """Return whether the delegation has an entry that is held."""
    return any(place.exists() for place in _held_places(root, identifier))


def hold(root: Path, identifier: str, slots: int, after: Sequence[str]) -> None:
    """Let a delegation that waits for a slot wait for others first, which may end before this returns."""
    target = _held(root) / str(slots) / identifier
    with durable.named_failures(target):
        mark(root, after, identifier)
        _make(target.parent)
        (_queue(root) / EntryState.WAITING / str(slots) / identifier).replace(target)


def release(root: Path, identifier: str) -> None:
    """Let a delegation that is held wait for a slot."""
    for place in _held_places(root, identifier):
        _release(root, place)


def release_earlier(root: Path) -> None:
    """Let everything wait for a slot that was held before the machine was started: it is held again at its turn.

    What is in ``after`` is not on the disk for sure, and without it no process looks at what is held.
    """
    for boot in _names(_queue(root) / EntryState.HELD):
        folder = _queue(root) / EntryState.HELD / boot
        if folder == _held(root):
            continue
        for identifier, slots in _entries(folder):
            _release(root, folder / str(slots) / identifier)
        with contextlib.suppress(OSError):
            for pool in folder.iterdir():
                pool.rmdir()
            folder.rmdir()


def _release(root: Path, place: Path) -> None:
    target = _queue(root) / EntryState.WAITING / place.parent.name / place.name
    with durable.named_failures(target):
        _make(target.parent)
        with contextlib.suppress(FileNotFoundError):  # another process did it
            place.replace(target)


def _held(root: Path) -> Path:
    return _queue(root) / EntryState.HELD / (identity.boot_id() or "unknown")


def _all_held(root: Path) -> list[tuple[str, int]]:
    folder = _queue(root) / EntryState.HELD
    return [entry for boot in _names(folder) for entry in _entries(folder / boot)]


def _held_places(root: Path, identifier: str) -> list[Path]:
    folder = _queue(root) / EntryState.HELD
    return [folder / boot / name / identifier for boot in _names(folder) for name in _names(folder / boot)]


def mark(root: Path, others: Sequence[str], identifier: str) -> bool:
    """Note that a delegation comes after ``others``, which then are in ``followed``; return whether this is new."""
    new = False
    for other in filter(delegation_folder.is_id, others):
        place = _after(root) / other / identifier
        if not (_after_queued(root) / other / identifier).exists() and not place.exists():
            _touch(place)
            new = True
    return new


def unmark(root: Path, other: str, identifier: str) -> None:
    """Note that a delegation no longer needs a look because of ``other``."""
    folder = _after(root) / other
    (folder / identifier).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it is not empty
        folder.rmdir()


def followed(root: Path) -> list[str]:
    """Return the delegations that others come after, without those that are known to have an entry."""
    return sorted(_ids(_after(root)))


def followers(root: Path, other: str) -> list[str]:
    """Return the delegations that come after ``other``, one of ``followed``, oldest first."""
    return sorted(_ids(_after(root) / other))


def set_queued(root: Path, other: str) -> None:
    """Take a delegation from ``followed`` until its entry is removed. The caller holds its lock and saw the entry."""
    _move_folder(_after(root) / other, _after_queued(root) / other)


def _after(root: Path) -> Path:
    return _queue(root) / "after"


def _after_queued(root: Path) -> Path:
    return _queue(root) / "after-queued"


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
    """Return whether the delegation has an entry. One that moves now may be missed."""
    return any(place.exists() for place in _places(root, identifier))


def position(root: Path, identifier: str, slots: int) -> int:
    """Return the place of a queued delegation among those with the same number of slots; the first is 1."""
    others = [other for other, its_slots in queued(root) if its_slots == max(1, slots)]
    return others.index(identifier) + 1 if identifier in others else len(others) + 1


def read(root: Path, identifier: str) -> Entry:
    """Return the content of an entry; a damaged one counts as new."""
    for place in _places(root, identifier):
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(durable.read_whole(place, _LIMIT), type=ready(Entry))
    return Entry()


def launch(root: Path, identifier: str, slots: int) -> None:
    """Move an entry from ``waiting`` to ``launched``, and count it."""
    entry = read(root, identifier)
    entry.launches += 1
    place = _queue(root) / EntryState.WAITING / str(slots) / identifier
    target = _queue(root) / EntryState.LAUNCHED / identifier
    with durable.named_failures(place):
        _make(target.parent)
        durable.replace(place, msgspec.json.encode(entry))
        place.replace(target)


def wait_again(root: Path, identifier: str, slots: int, *, was_started: bool = True) -> None:
    """Move an entry from ``launched`` back to ``waiting``; if no worker ``was_started``, this launch does not count."""
    place = _queue(root) / EntryState.LAUNCHED / identifier
    target = _queue(root) / EntryState.WAITING / str(max(1, slots)) / identifier
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


def remove(root: Path, identifier: str) -> None:
    """Remove the entry of a delegation that started or ended, if there is one."""
    keys = read(root, identifier).keys
    # First: without an entry, it may end at any time.
    _move_folder(_after_queued(root) / identifier, _after(root) / identifier)
    for place in [*_places(root, identifier), _queue(root) / "unrecorded" / identifier]:
        place.unlink(missing_ok=True)
    if keys is not None:
        (_queue(root) / "keys" / keys.digest / identifier).unlink(missing_ok=True)


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
    for left in reversed(range(_MOST_TRIES)):
        _make(place.parent)
        try:
            os.close(durable.open_regular(place, os.O_WRONLY | os.O_CREAT))
        except FileNotFoundError:  # another process moved the folder, or removed it while it was empty
            if not left:
                raise
        else:
            return


def _move_folder(source: Path, target: Path) -> None:
    """Move the files of a folder to another, which may have some; do nothing if it does not exist."""
    with durable.named_failures(target):
        for _ in range(_MOST_TRIES):
            if not source.exists():
                return
            _make(target)
            with contextlib.suppress(OSError):
                source.rename(target)
                return
            for name in _names(source):  # the target is not empty
                with contextlib.suppress(FileNotFoundError):
                    (source / name).replace(target / name)
            with contextlib.suppress(OSError):
                source.rmdir()
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(source))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - called for each start; a thousand Path objects would cost more
    except (FileNotFoundError, NotADirectoryError):
        return []


def _ids(folder: Path) -> list[str]:
    return [name for name in _names(folder) if delegation_folder.is_id(name)]
