"""Any program as an agent: ``launch.command`` is its argument vector.

    command = ["my-agent", "--model", "{model}", "--prompt-file", "{promptFile}"]
    output = "events"

Slots: ``{model} {prompt} {promptFile} {worktree} {sessionId}``; see ``command_line.fill``. The program runs in the
isolated worktree. With ``output = "text"`` (the default) its output is the answer, complete when it exits; with
``"events"`` it prints the line format of ``event_stream``.
"""

from __future__ import annotations

from understudy.model.config.delegators import Launch
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.tools import declared
from understudy.runners.agent_clis.streams.event_stream import EventLines
from understudy.runners.driver import command_line, driver
from understudy.runners.driver.child_source import JsonLinesSource, TextSource
from understudy.runners.runner import Emit, Outcome, Task

CAPABILITIES = declared("generic")


class Runner:
    """Runs a custom command."""

    capabilities = CAPABILITIES

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Run the command; see ``driver`` and ``command_line`` for the error kinds."""
        launch = task.delegator.launch or Launch()
        if not launch.command:
            raise UnderstudyError(
                ErrorKind.CONFIG_INVALID,
                f"Delegator {task.delegator.name!r} has no `launch.command`.",
                hint="Set it to the program to run and its arguments, as a list.",
            )
        with command_line.prepared(task, launch.command, launch.prompt_delivery) as command:
            events = launch.output == "events"
            source = JsonLinesSource(task, command, EventLines()) if events else TextSource(task, command)
            return await driver.drive(task, emit, source)
