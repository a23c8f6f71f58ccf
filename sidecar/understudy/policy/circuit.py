"""The state machine that pauses a delegator after failures of one kind (a circuit breaker). Pure: no clock, no files.

::

    closed ──(so many failures one after another, or one with a time to retry)──► open
    open ──(the pause is over, and an attempt begins)──► half-open: this attempt is the probe
    half-open ──(the probe fails in the same way)──► open, longer
    half-open ──(the probe ends otherwise, or its process dies)──► open, and the pause is over: the next one probes
    any ──(an attempt of the delegator succeeds, or a reset)──► closed

What passes by itself (a busy server, a broken connection) pauses for a quarter of the outage so far: one that recovers
is used again after at most a quarter more. What a person must fix (a login, an account without credit, a missing
model) pauses for minutes, each time twice as long.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from understudy.model.config.config_entries import CircuitState
from understudy.model.delegation.spec import PauseBounds
from understudy.model.errors import FailureClass
from understudy.process.identity import Identity

LONGEST_RETRY_SECONDS = 7 * 24 * 3600.0
"""A provider's time to retry that is further away is not believed."""
_MINUTE = 60.0
_SHARE_OF_OUTAGE = 0.25
_PASSES = frozenset({FailureClass.OVERLOAD, FailureClass.RATE_LIMIT, FailureClass.CRASH, FailureClass.STALL})
"""Failures that end without anyone's doing."""
_MOST = 1_000_000


class Circuit(msgspec.Struct, frozen=True):
    """One kind of failure of one delegator; times in seconds since 1970."""

    state: CircuitState = CircuitState.CLOSED
    failures: int = 0
    """How many there were one after another."""
    since: float = 0.0
    """When the first of these was."""
    pauses: int = 0
    """How many pauses there were since it last worked."""
    until: float = 0.0
    """The end of the pause."""
    probe: Identity | None = None
    """The process of the probe, while half-open."""
    message: str = ""
    """The last failure."""


def failed(
    circuit: Circuit,
    kind: FailureClass,
    *,
    now: float,
    message: str,
    bounds: PauseBounds,
    retry_at: float | None,
    by: Identity,
) -> Circuit:
    """Return the circuit after an attempt failed in this way.

    Attempts that were already running when the pause began do not make it longer, unless the provider says so.
    """
    if retry_at is not None and not now < retry_at <= now + LONGEST_RETRY_SECONDS:
        retry_at = None
    since = circuit.since if circuit.failures and circuit.since <= now else now
    circuit = msgspec.structs.replace(circuit, failures=min(circuit.failures + 1, _MOST), since=since, message=message)
    in_pause = circuit.state is CircuitState.OPEN and now < circuit.until
    other_probes = circuit.state is CircuitState.HALF_OPEN and circuit.probe != by
    if in_pause or other_probes:
        return circuit if retry_at is None else _open(circuit, max(circuit.until, retry_at))
    if circuit.state is CircuitState.CLOSED and circuit.failures < bounds.failures and retry_at is None:
        return circuit
    seconds = _pause_seconds(circuit, kind, now, bounds)
    circuit = msgspec.structs.replace(circuit, pauses=min(circuit.pauses + 1, _MOST))
    return _open(circuit, retry_at if retry_at is not None else now + seconds)


def _pause_seconds(circuit: Circuit, kind: FailureClass, now: float, bounds: PauseBounds) -> float:
    if kind in _PASSES:
        seconds = max(bounds.outage_pause_seconds, (now - circuit.since) * _SHARE_OF_OUTAGE)
    else:
        seconds = bounds.pause_minutes * _MINUTE * 2.0 ** min(circuit.pauses, 32)
    return min(seconds, bounds.longest_pause_minutes * _MINUTE)


def refuses(circuit: Circuit, *, now: float, by: Identity, alive: Callable[[Identity], bool]) -> bool:
    """Return whether an attempt of process ``by`` would have to wait."""
    match circuit.state:
        case CircuitState.CLOSED:
            return False
        case CircuitState.OPEN:
            # A clock that was set back must not make a pause longer than any that is ever set.
            return now < circuit.until <= now + LONGEST_RETRY_SECONDS
        case CircuitState.HALF_OPEN:
            return circuit.probe is not None and circuit.probe != by and alive(circuit.probe)


def admitted(circuit: Circuit, by: Identity) -> Circuit:
    """Return the circuit when an attempt begins that is not refused: it is the probe, unless closed."""
    if circuit.state is CircuitState.CLOSED:
        return circuit
    return msgspec.structs.replace(circuit, state=CircuitState.HALF_OPEN, probe=by)


def released(circuit: Circuit, by: Identity) -> Circuit:
    """Return the circuit when an attempt ends that shows nothing about this kind of failure."""
    if circuit.state is CircuitState.HALF_OPEN and circuit.probe == by:
        return _open(circuit, circuit.until)
    return circuit


def _open(circuit: Circuit, until: float) -> Circuit:
    return msgspec.structs.replace(circuit, state=CircuitState.OPEN, until=until, probe=None)
