"""The runner for model servers: a loop of tool calls where files change, otherwise one request."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.config import locality
from understudy.git import path_rules
from understudy.model.backends.openai import CAPABILITIES
from understudy.model.delegation.events import Event, File
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.backends import direct, file_answers, openai
from understudy.runners.backends.dialects import dialect_of
from understudy.runners.backends.exchange_source import Deliver, in_background
from understudy.runners.driver import driver
from understudy.runners.driver.source import AgentFinished
from understudy.runners.runner import Emit, Outcome, Task

if TYPE_CHECKING:
    from understudy.runners.model_loop.toolbox import Toolbox


class Runner:
    """Lets a model work in a worktree with tools, or asks it for a text or a file."""

    capabilities = CAPABILITIES

    def __init__(self, *, retries: int | None = None, backoff_seconds: float = direct.BACKOFF_SECONDS) -> None:
        """Send each request again up to ``retries`` times; None: as the task says.

        The first pause is ``backoff_seconds`` long, and each one twice as long as the one before, up to 8 s.
        """
        self._retries = retries
        self._backoff = backoff_seconds

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Do ``task``; for the error kinds see ``http_errors``, ``http_client``, ``dialects`` and ``file_answers``."""
        if task.recipe.returns != "tree":
            return await openai.Runner(retries=self._retries, backoff_seconds=self._backoff).run(task, emit)
        # Only here: texts start without the modules of the loop.
        from understudy.runners.model_loop.loop_source import LoopSource

        reached = await in_background(lambda: direct.reach(task))
        for note in reached.notes:
            emit(note)
        toolbox = _toolbox(task)
        source = LoopSource(
            task,
            dialect_of(reached.server),
            direct.exchange(task, reached, retries=self._retries, backoff_seconds=self._backoff),
            deliver=_deliver_tests(task)
            if task.recipe.judged_by == "new_tests" and toolbox.may("write_file")
            else None,
            toolbox=toolbox,
        )
        return await driver.drive(task, emit, source)


def _toolbox(task: Task) -> Toolbox:
    """Return the tools for a task: commands only where the user trusts the workspace."""
    from understudy.runners.driver.child_source import environment_of
    from understudy.runners.driver.command_line import Command
    from understudy.runners.model_loop.file_tools import FileTools
    from understudy.runners.model_loop.toolbox import Toolbox

    tree = _tree_of(task)
    local = locality.is_local(task.delegator, task.model_server)
    variables = environment_of(task, Command(argv=[], cwd=tree))[0] if task.trusted else None
    return Toolbox(
        tree=tree,
        files=FileTools(tree, _withheld if not local else lambda _: None),
        environment=variables,
        mark=task.delegation_id,
        confinement=task.sandbox,
        limits=task.program_limits,
        relay=task.relay,
        only=None if task.tools is None else frozenset(task.tools),
    )


def _withheld(path: str) -> str | None:
    if path_rules.looks_secret(os.fsencode(path)):
        return "its name suggests that it contains secrets, and the model server is not on this machine"
    return None


def _tree_of(task: Task) -> Path:
    if task.worktree is None:
        raise UnderstudyError(
            ErrorKind.INTERNAL, f"Recipe {task.recipe.name!r} needs a worktree, but this task has none."
        )
    return task.worktree


def _deliver_tests(task: Task) -> Deliver:
    """Return what writes the test files in an answer, for a model that shows them instead of calling a tool."""

    def deliver(text: str) -> tuple[AgentFinished, Sequence[Event]]:
        written = file_answers.write_tests(_tree_of(task), text, task.files)
        files = [File(path=path, change="added") for path in written]
        return AgentFinished(text=text, summary=f"Wrote {', '.join(written)}."), files

    return deliver
