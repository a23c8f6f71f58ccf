"""Requests about groups of delegations: create, get, wait, cancel."""

from __future__ import annotations

import contextlib
import time

from understudy.api import messages as m
from understudy.api.caller import Caller
from understudy.api.handlers import delegations
from understudy.engine.running import supervision
from understudy.journal import groups
from understudy.model.delegations import Group
from understudy.model.errors import ErrorKind, UnderstudyError


def create(caller: Caller, params: m.GroupCreateParams) -> Group:
    """Create an empty group."""
    return groups.create(params.kind, caller.asked_by(), delegations.now())


def get(caller: Caller, params: m.IdParams) -> Group:
    """Return a group."""
    _ = caller
    return groups.read(params.id)


def wait(caller: Caller, params: m.GroupWaitParams) -> m.GroupResult:
    """Wait for all members, including those that join meanwhile."""
    seconds = delegations.wait_seconds(params.timeout_seconds)
    deadline = time.monotonic() + seconds
    waited: set[str] = set()
    while left := [member for member in groups.read(params.id).delegations if member not in waited]:
        for member in left:
            waited.add(member)
            remaining = max(0.0, deadline - time.monotonic())
            with _skip_removed():
                delegations.wait(caller, m.WaitParams(id=member, timeout_seconds=remaining))
        if time.monotonic() >= deadline:
            break
    return _result(params.id)


def cancel(caller: Caller, params: m.IdParams) -> m.GroupResult:
    """Cancel all members, including those that join meanwhile; afterwards raise the first error that one caused."""
    tried: set[str] = set()
    failure: UnderstudyError | None = None
    while left := [member for member in groups.read(params.id).delegations if member not in tried]:
        for member in left:
            tried.add(member)
            try:
                with _skip_removed():
                    delegations.cancel(caller, m.IdParams(id=member))
            except UnderstudyError as error:
                failure = failure or error
    if failure is not None:
        raise failure
    return _result(params.id)


def _result(group: str) -> m.GroupResult:
    found = []
    for member in groups.read(group).delegations:
        with _skip_removed():
            found.append(supervision.current(delegations.folder_of(member)))
    return m.GroupResult(delegations=found)


@contextlib.contextmanager
def _skip_removed():  # type: ignore[no-untyped-def]  # noqa: ANN202 - a generator behind the decorator
    """Skip a member whose journal has expired."""
    try:
        yield
    except UnderstudyError as error:
        if error.kind is not ErrorKind.UNKNOWN_DELEGATION:
            raise
