"""The built-in agent that needs no model and no key: property tests by the real ``hypothesis write``.

The agent itself is ``ghostwriter_agent``, a program of its own that is driven like any other agent CLI.
"""

from __future__ import annotations

import sys
from pathlib import Path

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.base import Emit, Outcome, Task
from understudy.runners.clis import machinery
from understudy.runners.clis.commands import Command
from understudy.runners.clis.protocol import EventLines
from understudy.runners.registry import ABILITIES

AGENT = Path(__file__).with_name("ghostwriter_agent.py")


class Runner:
    """Starts the ghostwriter on the files under test."""

    name = "ghostwriter"
    abilities = ABILITIES["ghostwriter"]

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Write property tests for ``task.files``; kinds: ``tool_missing``, ``input_empty``, those of ``machinery``."""
        if task.worktree is None or not task.files:
            raise UnderstudyError(
                ErrorKind.INPUT_EMPTY,
                "The ghostwriter was given no file to write tests for.",
                hint="Name a Python file: `understudy start tests path/to/module.py`.",
            )
        argv = [sys.executable, "-I", str(AGENT), "--python", task.interpreter or sys.executable, "--", *task.files]
        return await machinery.drive(task, emit, Command(argv=argv, cwd=task.worktree), EventLines())
