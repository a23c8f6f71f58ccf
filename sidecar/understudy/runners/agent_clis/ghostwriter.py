"""The built-in agent that needs no model and no key: it writes tests that record what a module does.

The agent itself is the program ``understudy.ghostwriter``, which is driven like any other agent CLI.
"""

from __future__ import annotations

import asyncio
import sys

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.tools import declared
from understudy.runners.agent_clis.streams.event_stream import EventLines
from understudy.runners.driver import driver
from understudy.runners.driver.child_source import JsonLinesSource
from understudy.runners.driver.command_line import Command
from understudy.runners.runner import Emit, Outcome, ProjectPython, Task

CAPABILITIES = declared("ghostwriter")
AGENT = "understudy.ghostwriter"


class Runner:
    """Starts the ghostwriter on the files under test."""

    capabilities = CAPABILITIES

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Write tests for ``task.files``; kinds: ``tool_missing``, ``input_empty``, those of ``driver``."""
        if task.worktree is None or not task.files:
            raise UnderstudyError(
                ErrorKind.INPUT_EMPTY,
                "The ghostwriter was given no file to write tests for.",
                hint="Name a Python file, for example `understudy start tests path/to/module.py`.",
            )
        project_python = await asyncio.to_thread(task.interpreter) if task.interpreter is not None else None
        python = project_python or ProjectPython(sys.executable)
        paths = [f"--import-path={folder}" for folder in python.import_path]
        argv = [sys.executable, "-I", "-m", AGENT, "--python", python.executable, *paths]
        argv += [*([f"--project={python.folder}"] if python.folder else []), *(["--on-path"] if python.on_path else [])]
        argv += [*([f"--checkout={python.checkout}"] if python.checkout else []), "--", *task.files]
        source = JsonLinesSource(task, Command(argv=argv, cwd=task.worktree), EventLines(is_ours=True))
        return await driver.drive(task, emit, source)
