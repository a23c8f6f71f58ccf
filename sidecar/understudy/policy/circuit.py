"""The state machine that pauses a delegator after failures of one kind (a circuit breaker). Pure: no clock, no files.

::

    closed ──(so many failures one after another, or one with a time to retry)──► open
    open ──(the pause is over, and an attempt begins)──► half-open: this attempt is the probe
    half-open ──(the probe fails in the same way)──► open, twice as long
    half-open ──(the probe ends otherwise, or its process dies)──► open, and the pause is over: the next one probes
    any ──(an attempt of the delegator succeeds, or a reset)──► closed
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from understudy.model.config.config_entries import CircuitState
from understudy.model.delegation.spec import PauseBounds
from understudy.process.identity import Identity

LONGEST_RETRY_SECONDS = 7 * 24 * 3600.0
"""A provider's time to retry that is further away is not believed."""
_MINUTE = 60.0
_MOST = 1_000_000


class Circuit(msgspec.Struct, frozen=True):
    """One kind of failure of one delegator; times in seconds since 1970."""

    state: CircuitState = CircuitState.CLOSED
    failures: int = 0
    """How many there were one after another."""
    pauses: int = 0
    """How many pauses there were since it last worked."""
    until: float = 0.0
    """The end of the pause."""
    probe: Identity | None = None
    """The process of the probe, while half-open."""
    message: str = ""
    """The last failure."""


def failed(
    circuit: Circuit, *, now: float, message: str, bounds: PauseBounds, retry_at: float | None, by: Identity
) -> Circuit:
    """Return the circuit after an attempt failed in this way.

    Attempts that were already running when the pause began do not make it longer, unless the provider says so.
    """
    if retry_at is not None and not now < retry_at <= now + LONGEST_RETRY_SECONDS:
        retry_at = None
    circuit = msgspec.structs.replace(circuit, failures=min(circuit.failures + 1, _MOST), message=message)
    in_pause = circuit.state is CircuitState.OPEN and now < circuit.until
    other_probes = circuit.state is CircuitState.HALF_OPEN and circuit.probe != by
    if in_pause or other_probes:
        return circuit if retry_at is None else _open(circuit, max(circuit.until, retry_at))
    if circuit.state is CircuitState.CLOSED and circuit.failures < bounds.failures and retry_at is None:
        return circuit
    minutes = min(bounds.pause_minutes * 2.0 ** min(circuit.pauses, 32), bounds.longest_pause_minutes)
    circuit = msgspec.structs.replace(circuit, pauses=min(circuit.pauses + 1, _MOST))
    return _open(circuit, retry_at if retry_at is not None else now + minutes * _MINUTE)


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
