"""Requests about the terminals of agents."""

from __future__ import annotations

from understudy.api import messages
from understudy.api.caller import Caller
from understudy.api.handlers.delegations import folder_of
from understudy.config.discovery import installed_tools
from understudy.engine.running import supervision
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.terminals import tmux


def attach(caller: Caller, params: messages.AttachParams) -> messages.AttachResult:
    """Return the command that shows the terminal of an agent that runs in tmux."""
    _ = caller
    delegation = supervision.current(folder_of(params.id))
    if delegation.terminal is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"The agent of {delegation.id} has no terminal: it has finished, or does not run in tmux.",
            hint=f"`understudy show {delegation.id}` shows how it is or ended.",
        )
    program = installed_tools.find_tmux()
    if program is None:
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING, "tmux was not found on PATH.", hint="Start this where tmux is on PATH."
        )
    if not tmux.exists(program, delegation.terminal):
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The pane of delegation {delegation.id} was closed.",
            hint=f"`understudy show {delegation.id}` tells how it ended.",
        )
    server, _, pane = (params.tmux or "").rpartition(" ")
    return messages.AttachResult(argv=tmux.attach_command(program, delegation.terminal, tmux.pane_of(server, pane)))
