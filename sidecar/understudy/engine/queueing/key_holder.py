"""Keep keys that exist only in the environment of a process that asked, until the delegations that wait have started.

Keys are never written to disk. A process whose own environment has the values that a delegation needs starts its
worker. For any other process there is one *holder* for each set of values: ``understudy worker --hold-keys``, which has
the environment of the process that asked and exits when no entry needs it. If it was killed, the environment of the
process that starts the worker is all there is, and the worker reports a missing key.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from understudy.files import durable
from understudy.journal import change_notifications
from understudy.model.config.delegators import EnvReference
from understudy.model.delegation.spec import Spec
from understudy.store import store
from understudy.store.store import Entry

TOPIC = "queue"
"""The change notification that asks holders to start what waits for their keys."""

HANGS_SECONDS = 10.0
"""A holder that has not touched its file for this long hangs; others no longer wait for it."""


def needed_keys(spec: Spec, environment: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Return the variables that a candidate needs from the environment of the process that asked, with their digest.

    The digest identifies their values without revealing them; it is empty if there are none.
    """
    names: set[str] = set()
    for candidate in spec.candidates:
        values = (candidate.delegator.env or {}).values()
        names |= {value.from_env for value in values if isinstance(value, EnvReference)}
        key = candidate.model_server.api_key if candidate.model_server is not None else None
        if key is not None and key.from_env is not None:
            names.add(key.from_env)
    return tuple(sorted(names)), _digest(sorted(names), environment) if names else ""


def has(entry: Entry, environment: Mapping[str, str]) -> bool:
    """Return whether an environment has the values that were there when the delegation was asked for."""
    return _digest(entry.key_names, environment) == entry.key_digest


def is_held(root: Path, digest: str) -> bool:
    """Return whether a holder that does not hang has these values."""
    place = _place(root, digest)
    try:
        hangs = time.time() - place.stat().st_mtime > HANGS_SECONDS
    except OSError:
        return False
    return not hangs and durable.is_locked(place)


def lock_holder(root: Path, digest: str) -> int | None:
    """Return the descriptor of the lock that a new holder inherits; None when there is a holder."""
    place = _place(root, digest)
    with durable.named_failures(place):
        place.parent.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
        descriptor = durable.try_lock(place)
        if descriptor is not None:
            os.utime(descriptor)
        return descriptor


def hold(root: Path, digest: str, lock: int, start_waiting: Callable[[], object]) -> None:
    """Start what waits for these keys, with ``start_waiting()``, until nothing does; ``lock`` is the holder's."""
    held: int | None = lock
    while held is not None:
        with change_notifications.ChangeListener(only=[TOPIC]) as listener:
            while store.needs_keys(root, digest):
                os.utime(held)
                start_waiting()
                listener.wait(change_notifications.POLL_SECONDS)
        _place(root, digest).unlink(missing_ok=True)
        os.close(held)
        # An entry that was added just now found this holder.
        held = lock_holder(root, digest) if store.needs_keys(root, digest) else None


def _digest(names: Iterable[str], environment: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        value = environment.get(name)
        digest.update(repr((name, value)).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _place(root: Path, digest: str) -> Path:
    return root / "queue" / "holders" / digest
