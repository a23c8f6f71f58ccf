"""Run a task on a model server in the process of the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from understudy.model.config.delegators import AppliesTo, Delegator, Limits, ModelServer, Recipe, Scope
from understudy.model.delegation.events import Event
from understudy.model.errors import UnderstudyError
from understudy.runners.backends import direct
from understudy.runners.backends.openai import Runner
from understudy.runners.model_loop.loop_runner import Runner as LoopRunner
from understudy.runners.runner import Outcome, Task

PATIENT = Limits(total_seconds=60, idle_seconds=60, first_event_seconds=60)


def model_task(server: ModelServer, folder: Path, *, model: str = "good", returns: str = "text", **more: Any) -> Task:
    """Return a task for ``server``; ``more`` are fields of the task."""
    values: dict[str, Any] = {
        "delegation_id": "d1",
        "recipe": Recipe(
            name="ask", title="Ask", returns=returns, applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN
        ),
        "prompt": "What is this?",
        "prompt_file": folder / "prompt.md",
        "worktree": None,
        "delegator": Delegator(name="cheap", model=model, model_server=server.name),
        "model_server": server,
        "limits": PATIENT,
        "key": lambda: "sk-test",
    }
    return Task(**(values | more))


def waited_outcome_of(task: Task, *, retries: int = 2) -> tuple[Outcome | UnderstudyError, list[Event]]:
    """Do what ``outcome_of`` does without an event loop, as a text request does."""
    events: list[Event] = []
    try:
        return direct.answer(task, events.append, retries=retries, backoff_seconds=0.01), events
    except UnderstudyError as error:
        return error, events


async def outcome_of(
    task: Task, *, retries: int = 2, backoff: float = 0.01, runner: type[Runner | LoopRunner] = Runner
) -> tuple[Outcome | UnderstudyError, list[Event]]:
    """Run ``task``; return its outcome or its error, and its events."""
    events: list[Event] = []
    try:
        return await runner(retries=retries, backoff_seconds=backoff).run(task, events.append), events
    except UnderstudyError as error:
        return error, events
