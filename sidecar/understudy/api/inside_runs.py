"""Refuse what only the user decides to processes that belong to a run: to agents, checks, and what they start.

A process that an agent starts can call the API as the user's own programs do. ``Method.effect`` says what a method
does; those that decide answer only outside of runs, in every frontend. This keeps an agent from deciding with
Understudy's own programs. It does not confine the agent: without a sandbox, it can write to the same files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.guardian.marked_processes import surrounding_run as surrounding_run  # noqa: PLC0414 - for frontends
from understudy.process.identity import peer_pid as peer_pid  # noqa: PLC0414 - for frontends
from understudy.process.identity import peer_uid as peer_uid  # noqa: PLC0414 - for frontends

if TYPE_CHECKING:
    from collections.abc import Iterable

    from understudy.api.caller import Caller


def refuse(caller: Caller, what: str, *, except_in: Iterable[str] = ()) -> None:
    """Raise ``permission_denied`` if this process, or the one that ``caller`` stands for, belongs to a run.

    It may belong to a run in ``except_in``, which is read only inside a run.
    """
    run = surrounding_run()
    if run is None:
        run = caller.surrounding_run()
    if run is None or run in except_in:
        return
    where, hint = f"the run {run!r} of Understudy", ""
    if not run:
        where = "a run of Understudy, is in a container, or has already ended"
        hint = " The client of a socket must run outside containers until it has the answer."
    raise UnderstudyError(
        ErrorKind.PERMISSION_DENIED,
        f"{what} is for the user: the process that asks belongs to {where}.",
        hint="Finish the work; the user decides about it. If you are the user, do it in your editor, or in a terminal "
        "that no agent opened and that has no variable UNDERSTUDY_DELEGATION." + hint,
    )
