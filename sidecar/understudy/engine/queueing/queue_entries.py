"""The queue on disk: one small file for each delegation that has not started, in a folder that names its state.

::

    <state>/queue/waiting/<slots>/<id>    waits for a slot below <slots>
    <state>/queue/launched/<id>           a worker has a slot and is about to write ``started``
    <state>/queue/unrecorded/<id>         its base is not recorded yet; one byte for each try
    <state>/queue/held/<id>               it comes after others of its group, which have not all ended
    <state>/queue/keys/<digest>/<id>      it needs keys from the environment with this digest
    <state>/queue/paused                  nothing that waits starts while this file exists
    <state>/queue/order                   the order that the user gave to what waits; what is not in it comes after

An entry moves by one rename, so a killed process leaves it in one state or in the other. Except for ``add``, only the
process that holds the delegation's lock changes an entry; ``remove`` may also follow the end of a delegation.
"""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from understudy.files import durable
from understudy.journal import delegation_folder
from understudy.model.wire import ready

_LIMIT = 64 * 1024
_MOST_ORDERED = 10_000
_ORDER_BYTES = 1024 * 1024


class EntryState(enum.StrEnum):
    """The state of an entry: the folder that its file is in.

    .. code-block:: text

        (none) ─► waiting ⇄ launched ─► (none)
                     └────────────────────►┘
    """

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


def add(root: Path, identifier: str, slots: int, *, keys: NeededKeys | None, record: bool, held: bool = False) -> None:
    """Create an entry that waits. ``record``: its base must be recorded; ``held``: it comes after others.

    Raises the errors of ``durable.failure``.
    """
    place = _queue(root) / EntryState.WAITING / str(max(1, slots)) / identifier
    with durable.named_failures(place):
        if record:
            _touch(_queue(root) / "unrecorded" / identifier)
        if held:
            _touch(_queue(root) / "held" / identifier)
        if keys is not None:
            _touch(_queue(root) / "keys" / keys.digest / identifier)
        _make(place.parent)
        durable.replace(place, msgspec.json.encode(Entry(keys=keys)))


def waiting(root: Path) -> list[tuple[str, int]]:
    """Return the waiting delegations with their number of slots, in the order in which they start.

    That is oldest first (an id begins with its time), after those that ``reorder`` put in another order.
    """
    found: list[tuple[str, int]] = []
    for name in _names(_queue(root) / EntryState.WAITING):
        if name.isdecimal():
            found += [(identifier, int(name)) for identifier in _ids(_queue(root) / EntryState.WAITING / name)]
    places = _order(root)
    return sorted(found, key=lambda entry: (places.get(entry[0], len(places)), entry))


def reorder(root: Path, identifiers: Sequence[str]) -> None:
    """Let these delegations start in this order, before all others that wait, also those that are added later."""
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
    return sorted(_ids(_queue(root) / "held"))


def hold(root: Path, identifier: str) -> None:
    """Let a waiting delegation wait for those that it comes after."""
    place = _queue(root) / "held" / identifier
    with durable.named_failures(place):
        _touch(place)


def release(root: Path, identifier: str) -> None:
    """Let a delegation wait for a slot only: those that it comes after have ended."""
    (_queue(root) / "held" / identifier).unlink(missing_ok=True)


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
    """Return the place of a waiting delegation among those with the same number of slots; the first is 1."""
    others = [other for other, its_slots in waiting(root) if its_slots == max(1, slots)]
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
    for place in [
        *_places(root, identifier),
        _queue(root) / "unrecorded" / identifier,
        _queue(root) / "held" / identifier,
    ]:
        place.unlink(missing_ok=True)
    if keys is not None:
        (_queue(root) / "keys" / keys.digest / identifier).unlink(missing_ok=True)


def _places(root: Path, identifier: str) -> list[Path]:
    pools = _names(_queue(root) / EntryState.WAITING)
    return [
        *(_queue(root) / EntryState.WAITING / name / identifier for name in pools),
        _queue(root) / EntryState.LAUNCHED / identifier,
    ]


def _queue(root: Path) -> Path:
    return root / "queue"


def _make(folder: Path) -> None:
    folder.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)


def _touch(place: Path) -> None:
    _make(place.parent)
    os.close(durable.open_regular(place, os.O_WRONLY | os.O_CREAT))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - called for each start; a thousand Path objects would cost more
    except (FileNotFoundError, NotADirectoryError):
        return []


def _ids(folder: Path) -> list[str]:
    return [name for name in _names(folder) if delegation_folder.is_id(name)]
