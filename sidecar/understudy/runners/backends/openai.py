"""The runner for texts and files from model servers: one streamed request; ``model_loop`` changes worktrees.

``exchange`` sends the request, ``dialects`` know the protocols, and the driver enforces the limits: five seconds to
connect, ``firstEventSeconds`` to the first event of each try, ``idleSeconds`` between two events, and ``totalSeconds``
for everything, including pauses between tries.
"""

from __future__ import annotations

from understudy.model.backends.openai import CAPABILITIES
from understudy.runners.backends import direct
from understudy.runners.backends.exchange_source import ExchangeSource, in_background
from understudy.runners.driver import driver
from understudy.runners.runner import Emit, Outcome, Task


class Runner:
    """Sends one request to a model server and returns its answer, or writes the file in it."""

    capabilities = CAPABILITIES

    def __init__(self, *, retries: int | None = None, backoff_seconds: float = direct.BACKOFF_SECONDS) -> None:
        """Send a request again up to ``retries`` times; None: as the task says.

        The first pause is ``backoff_seconds`` long, and each one twice as long as the one before, up to 8 s.
        """
        self._retries = retries
        self._backoff = backoff_seconds

    async def run(self, task: Task, emit: Emit) -> Outcome:
        """Do ``task``; for the error kinds see ``http_errors``, ``http_client``, ``dialects`` and ``file_answers``."""
        reached = await in_background(lambda: direct.reach(task))
        for note in reached.notes:
            emit(note)
        sent = direct.exchange(task, reached, retries=self._retries, backoff_seconds=self._backoff)
        source = ExchangeSource(sent, lambda text: direct.deliver(task, text))
        return await driver.drive(task, emit, source)
