"""The circuits of every delegator, for all processes, in the ``store``.

They are stored for its name, program, server and key: after a change of these, nothing is known about it.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.config.config_entries import Pause
from understudy.model.config.delegators import Delegator, ModelServer
from understudy.model.delegation.spec import PauseBounds
from understudy.model.errors import ErrorInfo, ErrorKind, FailureClass, class_of
from understudy.model.wire import ready, retry_time
from understudy.policy import circuit as circuits
from understudy.policy.circuit import Circuit
from understudy.process import identity
from understudy.store import store

_MOST_MESSAGE = 300
_ByClass = dict[FailureClass, Circuit]
_NO_PROCESS = identity.Identity(-1, -1, "")
_NOT_ITS_FAULT = frozenset({ErrorKind.TIMED_OUT})
"""A limit of one request says nothing about the next one."""


def admit(state: Path, delegator: Delegator, server: ModelServer | None) -> Pause | None:
    """Let an attempt of this process begin: return None, or the pause that is against it."""
    me, now = identity.current(), time.time()
    with _changing(state, delegator, server) as by_kind:
        for kind, circuit in by_kind.items():
            if circuits.refuses(circuit, now=now, by=me, alive=identity.alive):
                return _pause(kind, circuit)
        for kind, circuit in by_kind.items():
            by_kind[kind] = circuits.admitted(circuit, me)
    return None


def succeeded(state: Path, delegator: Delegator, server: ModelServer | None) -> None:
    """Close every circuit of a delegator, after an attempt finished or when the user asks for it."""
    with _changing(state, delegator, server) as by_kind:
        by_kind.clear()


def failed(
    state: Path, delegator: Delegator, server: ModelServer | None, error: ErrorInfo, bounds: PauseBounds
) -> None:
    """Record that an attempt of this process failed, or was stopped, with ``error``."""
    kind = class_of(error.kind) if error.kind not in _NOT_ITS_FAULT else None
    me, now = identity.current(), time.time()
    with _changing(state, delegator, server) as by_kind:
        for other in by_kind.keys() - {kind}:
            by_kind[other] = circuits.released(by_kind[other], me)
        if kind is not None:
            by_kind[kind] = circuits.failed(
                by_kind.get(kind, Circuit()),
                now=now,
                message=" ".join(error.message.split())[:_MOST_MESSAGE],
                bounds=bounds,
                retry_at=_epoch(error.retry_at),
                by=me,
            )


def pauses(state: Path, delegator: Delegator, server: ModelServer | None) -> list[Pause]:
    """Return the circuits of a delegator that would refuse an attempt of another process now."""
    by_kind, now = _decoded(store.circuits(state, _key(delegator, server))), time.time()
    return [
        _pause(kind, circuit)
        for kind, circuit in sorted(by_kind.items())
        if circuits.refuses(circuit, now=now, by=_NO_PROCESS, alive=identity.alive)
    ]


def _key(delegator: Delegator, server: ModelServer | None) -> str:
    launch = delegator.launch
    parts: list[Any] = [delegator.tool, delegator.mode, launch.command if launch is not None else None, delegator.env]
    parts.append(None if server is None else [server.base_url, server.api_key, server.headers])
    return f"{delegator.name}/{hashlib.sha256(msgspec.json.encode(parts, order='sorted')).hexdigest()[:16]}"


@contextlib.contextmanager
def _changing(state: Path, delegator: Delegator, server: ModelServer | None) -> Iterator[_ByClass]:
    """Yield the circuits to change; no other process changes them meanwhile."""
    with store.circuits_to_change(state, _key(delegator, server)) as kept:
        by_kind = _decoded(kept.content)
        yield by_kind
        kept.content = msgspec.json.encode(by_kind) if by_kind else None


def _decoded(content: bytes | None) -> _ByClass:
    """Return the circuits that are stored; none if they are of another version."""
    try:
        by_kind: _ByClass = msgspec.json.decode(content or b"{}", type=ready(_ByClass))
    except msgspec.MsgspecError:
        return {}
    return by_kind


def _pause(kind: FailureClass, circuit: Circuit) -> Pause:
    return Pause(
        failure=kind,
        state=circuit.state,
        failures=circuit.failures,
        until=retry_time(circuit.until) or "",
        message=circuit.message,
    )


def _epoch(moment: str | None) -> float | None:
    if moment is None:
        return None
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return (parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)).timestamp()
