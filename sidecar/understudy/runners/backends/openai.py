"""The runner for texts and files from model servers: one streamed request; ``model_loop`` changes worktrees.

``exchange`` sends the request, ``dialects`` know the protocols, and the driver enforces the limits: five seconds to
connect, ``firstEventSeconds`` to the first event of each try, ``idleSeconds`` between two events, and ``totalSeconds``
for everything, including pauses between tries.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.config import locality
from understudy.model.backends.openai import CAPABILITIES
from understudy.model.config.delegators import ModelServer
from understudy.model.delegation.events import Event, File, Note
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.backends import file_answers, protocol_choice
from understudy.runners.backends.dialects import dialect_of
from understudy.runners.backends.exchange import Exchange
from understudy.runners.backends.http import http_client
from understudy.runners.driver import clock, driver
from understudy.runners.driver.source import AgentFinished
from understudy.runners.runner import Emit, Outcome, Task
from understudy.secrets import Redactor


class Runner:
    """Sends one request to a model server and returns its answer, or writes the file in it."""

    capabilities = CAPABILITIES

    def __init__(self, *, retries: int = 2, backoff_seconds: float = 0.5) -> None:
        """Retry up to ``retries`` times, first after ``backoff_seconds``, doubling up to 8 s."""
        self._retries = retries
        self._backoff = backoff_seconds

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Do ``task``; for the error kinds see ``http_errors``, ``sse``, ``dialects`` and ``file_answers``."""
        server, where, redactor = await reach(task, emit)
        source = Exchange(
            task,
            dialect_of(server),
            where,
            redactor,
            lambda text: _deliver(task, text),
            retries=self._retries,
            backoff_seconds=self._backoff,
        )
        return await driver.drive(task, emit, source)


async def reach(task: Task, emit: Emit) -> tuple[ModelServer, http_client.Endpoint, Redactor]:
    """Return the server of a task with its protocol, how it is reached, and what replaces its key."""
    server = task.model_server
    if server is None:
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"Delegator {task.delegator.name!r} has no model server.",
            hint="Set `model_server` to the name of a configured model server.",
        )
    # A keyring may be slow, and must not block the event loop.
    key = await clock.in_thread(task.key) if task.key is not None else None
    # What a delegator's variables contain must not reach the server in a command's output either.
    redactor = Redactor({**task.secrets, **({f"model server {server.name}": key} if key else {})})
    where = await http_client.endpoint(server, local=locality.is_bound(task.delegator, server), key=key)
    if protocol_choice.is_open(server):
        choice = await protocol_choice.decide(server, task.delegator.model, where)
        if choice.asked:
            text = f"Model server {server.name!r} is used with `{choice.protocol}`: {choice.why}."
            emit(Note(level="info", text=text))
        server = protocol_choice.with_protocol(server, choice.protocol)
    return server, where, redactor


def _deliver(task: Task, text: str) -> tuple[AgentFinished, Sequence[Event]]:
    """Turn the model's answer into the result, and write the files that the recipe asks for."""
    if task.recipe.returns == "text":
        return AgentFinished(text=text), []
    content = file_answers.file_content(text)
    if task.worktree is None or task.target is None:
        return AgentFinished(text=content), []
    existed = file_answers.write_target(task.worktree, task.target, content)
    return AgentFinished(text=content), [File(path=task.target, change="modified" if existed else "added")]
