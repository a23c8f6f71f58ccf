"""Any agent that runs in a terminal, as a delegator with ``mode = "tmux"``.

    claude … -- "Read the file .understudy-run/task.md …"    a known tool, as its declaration says
    some-agent --task-file {promptFile}                      any other one: ``generic``, or a definition in a file

The agent works in the worktree, with the environment and the limits of every other mode; only its input and output are
a terminal. Its prompt is in a file, so it is in no command line. It ends its attempt by a report
(``terminal_source.DoneFile``).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from understudy.config.discovery import declarations, installed_tools
from understudy.files import nofollow
from understudy.model.capabilities import DONE_FILE, DONE_NOTE, START_PROMPT, TASK_FILE, Capabilities, Interactive
from understudy.model.config.delegators import Launch
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.delegation.events import Note
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.agent_clis.launching import find_program, invalid, refuse_flags, worktree_of
from understudy.runners.driver import driver
from understudy.runners.driver.command_line import RUN_FOLDER, Command, fill
from understudy.runners.runner import Emit, Outcome, Task, runner_for
from understudy.runners.tmux.terminal_source import TerminalSource

_FALLBACK = "tmux is not installed, so the agent runs without a terminal (`launch.without_tmux`)."


class Runner:
    """Runs any agent in a tmux pane."""

    capabilities = Capabilities(name="tmux", title="tmux")
    """Only its name: what an agent supports depends on the agent (see ``declarations.capabilities_of``)."""

    def __init__(self, defined: ToolDefinition | None = None) -> None:
        """Take the definition of a tool that a file defines; validation has checked it."""
        self._defined = defined

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Run the task to its end.

        Kinds besides those of ``driver``: ``tool_missing`` (the agent, or tmux), ``tool_no_result`` (its pane was
        closed, or it exited without a report), ``malformed_output`` and ``empty_output`` (its report),
        ``config_invalid``.
        """
        tool = declarations.require_capabilities(task.delegator, task.model_server, self._defined)
        tree = worktree_of(task, tool)
        launch = task.delegator.launch or Launch()
        tmux = installed_tools.find_tmux(task.environment.get("PATH"), avoid=[tree])
        if tmux is None:
            if launch.without_tmux == "headless":
                emit(Note(level="warning", text=_FALLBACK))
                return await self._headless(task, emit)
            offered = "without_tmux" in tool.launch
            raise UnderstudyError(
                ErrorKind.TOOL_MISSING,
                f"Delegator {task.delegator.name!r} runs in tmux, and tmux was not found on PATH.",
                hint="Install tmux (`apt install tmux`, `brew install tmux`)"
                + (', or set launch.without_tmux = "headless".' if offered else "."),
            )
        command = command_for(task, tool, tree)
        with _files(task, tree):
            return await driver.drive(task, emit, TerminalSource(task, command, tmux))

    async def _headless(self, task: Task, emit: Emit) -> Outcome:
        import msgspec

        launch = msgspec.structs.replace(task.delegator.launch or Launch(), without_tmux=None)
        delegator = msgspec.structs.replace(task.delegator, mode=None, launch=launch)
        runner = runner_for(delegator, task.model_server, self._defined)
        prompt = task.prompt.removesuffix(DONE_NOTE)
        return await runner.run(msgspec.structs.replace(task, delegator=delegator, prompt=prompt), emit)


def command_for(task: Task, tool: Capabilities, tree: Path) -> Command:
    """Return the command that starts the agent; raise ``config_invalid`` for what cannot apply."""
    launch, how = task.delegator.launch or Launch(), tool.interactive
    values = {
        "model": task.delegator.model,
        "prompt": START_PROMPT,
        "promptFile": str(tree / TASK_FILE),
        "worktree": str(tree),
        "sessionId": None,
        "mcpConfig": None if task.mcp_config is None else str(task.mcp_config),
    }
    if how is None:
        return Command(argv=fill(launch.command or [], values), cwd=tree, environment=tool.environment)
    refuse_flags(task, how.reserved_flags, {})
    variables: dict[str, str] = {}
    if how.prepare is not None:
        module, _, name = how.prepare.partition(":")
        variables = getattr(importlib.import_module(module), name)(task)
    argv = fill(list(how.command), values, _options(task, how))
    if tool.binaries:
        argv[0] = str(find_program(task, tool))
    return Command(argv=argv, cwd=tree, environment={**tool.environment, **variables})


def _options(task: Task, how: Interactive) -> list[str]:
    launch = task.delegator.launch or Launch()
    if launch.yolo and launch.permission_mode is not None:
        raise invalid(
            task, f"sets `launch.yolo` and asks for the mode {launch.permission_mode!r}", "Remove one of them."
        )
    mode = None if launch.yolo else launch.permission_mode or how.default_mode
    return [
        *(fill(list(how.model), {"model": task.delegator.model}) if task.delegator.model else ()),
        *(how.yolo if launch.yolo else ()),
        *(how.permission_modes.get(mode, ()) if mode is not None else ()),
        *(fill(list(how.relay), {"mcpConfig": str(task.mcp_config)}) if task.mcp_config is not None else ()),
        *(launch.flags or ()),
    ]


@contextmanager
def _files(task: Task, tree: Path) -> Iterator[None]:
    """Write the prompt for the agent, and remove an earlier report; remove these files again afterwards."""
    temporary = [TASK_FILE, DONE_FILE, f"{DONE_FILE}.tmp", f"{RUN_FOLDER}/.gitignore"]
    nofollow.remove(tree, DONE_FILE)
    nofollow.write_over(tree, f"{RUN_FOLDER}/.gitignore", b"*\n")
    nofollow.write_over(tree, TASK_FILE, task.prompt.encode("utf-8", "replace"))
    try:
        yield
    finally:
        with suppress(OSError, UnderstudyError):
            for name in temporary:
                nofollow.remove(tree, name)
            (tree / RUN_FOLDER).rmdir()
