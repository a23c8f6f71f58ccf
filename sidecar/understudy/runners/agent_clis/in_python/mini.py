"""mini-swe-agent, run by its own Python: ``inside/host.py`` calls it and prints its commands and answers as events.

Everything that it does is a shell command, and it asks about none. It takes no configuration from a repository.
With a model server, the user's own settings are not read either.
"""

from __future__ import annotations

from pathlib import Path

from understudy.model.tools.mini import CAPABILITIES
from understudy.runners.agent_clis.in_python import hosted_agent
from understudy.runners.driver.command_line import Command
from understudy.runners.runner import Emit, Outcome, Task


class Runner:
    """Drives mini-swe-agent."""

    capabilities = CAPABILITIES

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Run the task to its end; the errors are those of ``hosted_agent.run``."""
        return await hosted_agent.run(task, emit, CAPABILITIES, command_for)


def command_for(task: Task, program: Path, scratch: Path) -> Command:
    """Return the command that starts mini-swe-agent for ``task``; raise ``config_invalid`` for what cannot apply."""
    return hosted_agent.command_for(task, program, scratch, CAPABILITIES, mode="all", more={})
