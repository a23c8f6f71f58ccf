"""Wait for a delegation or a group within one call: report progress, and pass permission requests on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread

from understudy.frontends.mcp.tools import tool_functions
from understudy.frontends.mcp.tools.tool_answers import Answer, brief, of_group, status_of
from understudy.frontends.mcp.tools.tool_caller import ToolCaller
from understudy.model.delegation.delegations import Delegation, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError

REPORT_SECONDS = 5.0
"""The longest time between two reports of progress."""
_Result = TypeVar("_Result")


class Progress(Protocol):
    """Reports that the call makes progress."""

    def __call__(self, progress: float, total: float | None, message: str | None) -> Awaitable[None]:
        """Report ``progress``, of ``total`` if that is known."""
        ...


Asks = Callable[[str, PermissionRequest, float], Awaitable[tuple[str, str | None] | None]]


async def in_thread(caller: ToolCaller, function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Call a function that blocks; a cancelled call lets it end by itself."""
    try:
        return await anyio.to_thread.run_sync(partial(function, *arguments), abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        caller.cancel()
        raise


async def follow(
    caller: ToolCaller, target: tool_functions.Follow, deadline: float, progress: Progress, asks: Asks
) -> Answer:
    """Wait until the deadline (of ``anyio.current_time``) at the latest, and answer with the state then."""
    deadline = min(deadline, anyio.current_time() + target.seconds)
    seen = 0
    answered: set[str] = set()
    while True:
        members = await in_thread(caller, _members, caller, target)
        finished = sum(status_of(member) == "finished" for member in members)
        if finished == len(members):
            break
        seen = max(seen + 1, sum(member.last_seq for member in members))
        await progress(seen, None, _activity(members, finished))
        left = deadline - anyio.current_time()
        if left <= 0:
            break
        # The worker needs a moment to pass an answer on; until then the question is still there.
        questions = [(member.id, member.waiting_for) for member in members if member.waiting_for is not None]
        new = next(
            ((id_, request) for id_, request in questions if f"{id_} {request.request_id}" not in answered), None
        )
        if new is not None:
            if not await _answered(caller, *new, asks, left):
                break
            answered.add(f"{new[0]} {new[1].request_id}")
            continue
        await in_thread(caller, _next_change, caller, target, members, min(left, REPORT_SECONDS))
    if target.render is not None:
        return target.render(members)
    return of_group(target.id, members) if target.group else brief(members[0])


def _members(caller: ToolCaller, target: tool_functions.Follow) -> list[Delegation]:
    if target.group:
        return list(caller.call("groups/wait", id=target.id, timeoutSeconds=0).delegations)
    return [caller.call("delegations/get", id=target.id)]


def _next_change(caller: ToolCaller, target: tool_functions.Follow, members: list[Delegation], seconds: float) -> None:
    """Wait for an event of a delegation, or for the end of a group."""
    try:
        if target.group:
            caller.call("groups/wait", id=target.id, timeoutSeconds=seconds)
        else:
            caller.call("delegations/events", id=target.id, after=members[0].last_seq, waitSeconds=seconds)
    except UnderstudyError as error:
        if error.kind is not ErrorKind.CANCELLED:
            raise


async def _answered(
    caller: ToolCaller, delegation: str, request: PermissionRequest, asks: Asks, seconds: float
) -> bool:
    """Return whether the user answered a permission request through the client, or someone did elsewhere."""
    chosen = await asks(delegation, request, seconds)
    if chosen is None:
        return False
    params = {"requestId": request.request_id, "option": chosen[0], "note": chosen[1]}
    answer = partial(caller.call, "delegations/answer", id=delegation, **params)
    try:
        await in_thread(caller, answer)
    except UnderstudyError as error:
        return error.kind is ErrorKind.CONFLICT
    return True


def _activity(members: list[Delegation], finished: int) -> str:
    if len(members) > 1:
        return f"{finished} of {len(members)} finished"
    return members[0].activity or str(members[0].state)
