"""Any program as an agent: ``launch.command`` is its argument vector.

    command = ["my-agent", "--model", "{model}", "--prompt-file", "{promptFile}"]
    output = "events"

Slots: ``{model} {prompt} {promptFile} {worktree} {sessionId}``; see ``commands.fill``. The program runs in the
isolated tree.
With ``output = "text"`` (the default) what it prints is its answer and its exit is its end; with ``"events"`` it
speaks the line format of ``protocol``.
"""

from __future__ import annotations

from understudy.model.delegators import Launch
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.base import Emit, Outcome, Task
from understudy.runners.clis import commands, machinery
from understudy.runners.clis.protocol import EventLines
from understudy.runners.registry import ABILITIES


class Runner:
    """Runs a command of the user's own."""

    name = "generic"
    abilities = ABILITIES["generic"]

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Run the command; kinds of failure: see ``machinery`` and ``commands``."""
        launch = task.delegator.launch or Launch()
        if not launch.command:
            raise UnderstudyError(
                ErrorKind.CONFIG_INVALID,
                f"Delegator {task.delegator.name!r} has no `launch.command`.",
                hint="Set it to the argument vector of the program to run.",
            )
        lines = EventLines() if launch.output == "events" else None
        with commands.prepared(task, launch.command, launch.prompt_delivery) as command:
            return await machinery.drive(task, emit, command, lines)
