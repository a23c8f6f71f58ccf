"""Make one attempt: say who tries and why, build the task, and let the runner work on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from understudy.engine.messages.message_delivery import UserMessages
from understudy.engine.planning.prompt import tokens_of
from understudy.engine.queueing import group_budget, launcher
from understudy.engine.running import task
from understudy.engine.running.attempts.agent_conversation import Conversation
from understudy.engine.running.attempts.checkpoints import Checkpoints
from understudy.engine.running.attempts.run_budget import RunBudget
from understudy.engine.running.permission_requests import PermissionRequests
from understudy.engine.running.run_context import RunContext
from understudy.model.delegation import events
from understudy.model.delegation.spec import Spec, SpecCandidate
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.registry import runner_for
from understudy.runners.runner import Emit, Outcome

if TYPE_CHECKING:  # imported only for a delegation whose agents have relay tools
    from understudy.engine.running.relay.relay_host import RelayHost


@dataclass(frozen=True, kw_only=True)
class Order:
    """What one attempt is to do."""

    number: int
    candidate: SpecCandidate
    reason: str
    """Why it is made."""
    request: str | None = None
    """What is asked for besides the task, by Understudy itself; meanwhile the user can say nothing."""


@dataclass(frozen=True, kw_only=True)
class AgentLinks:
    """What an agent is connected with while it works."""

    permissions: PermissionRequests
    messages: UserMessages
    relay: RelayHost | None
    """None: no agent of the delegation has relay tools."""


class SingleAttempt:
    """Makes the attempts of one run, each when it is told to."""

    def __init__(
        self,
        run: RunContext,
        links: AgentLinks,
        *,
        conversation: Conversation,
        budget: RunBudget,
        checkpoints: Checkpoints,
    ) -> None:
        """Start nothing."""
        self._run = run
        self._links = links
        self._conversation = conversation
        self._budget = budget
        self._checkpoints = checkpoints
        self._group_budget = group_budget.Watch(self._group_id)

    def announce(self, order: Order, start_commit: str | None) -> None:
        """Record that an attempt begins."""
        run, delegator = self._run, order.candidate.delegator
        run.emit.attempt = order.number
        tree = run.tree.agent_path if run.tree is not None else None
        self._links.permissions.begin_attempt(delegator, order.candidate.limits.answer_seconds or 0.0, tree)
        run.emit(
            events.Started(
                delegator=delegator.name,
                tool=delegator.tool,
                model_server=delegator.model_server,
                model=delegator.model,
                reason=order.reason,
                commit=start_commit,
            )
        )
        launcher.leave(run.state, run.folder.id)

    async def work(self, order: Order) -> Outcome:
        """Let the agent work, and return its outcome.

        Errors: those of the task and of the runner, ``empty_output``, ``budget_exhausted``.
        """
        candidate = order.candidate
        if order.request is None:
            said = self._conversation.begin_attempt(order.number, candidate)
            spec, request = self._conversation.told(said), "\n\n".join(said) or None
            messages: UserMessages | None = self._links.messages
            emit: Emit = self._emit_noting
        else:
            spec, request = self._conversation.asked_for(order.request, candidate), order.request
            messages, emit = None, self._emit_within_budget
        relay = await self._open_relay(candidate)
        prepared = await self._run.in_thread(
            partial(self._prepare, order, spec, messages, request=request, relay=relay)
        )
        self._run.emit.redact_with(prepared.redactor)
        self._run.emit(events.Prompt(tokens=tokens_of(len(prepared.task.prompt.encode()))))
        runner = runner_for(candidate.delegator, candidate.model_server, candidate.tool_definition)
        outcome = await runner.run(prepared.task, emit)
        self._run.emit.close()
        if spec.recipe.returns == "text" and not (outcome.text and outcome.text.strip()):
            raise UnderstudyError(
                ErrorKind.EMPTY_OUTPUT,
                f"{candidate.delegator.name} finished without an answer.",
                hint="Try again, or choose another model.",
            )
        return outcome

    async def end(self, order: Order, *, succeeded: bool) -> None:
        """Disconnect the agent, which has ended."""
        if self._links.relay is not None:
            await self._links.relay.end_attempt()
        if order.request is None:
            await self._links.messages.end_attempt(succeeded=succeeded)

    async def _open_relay(self, candidate: SpecCandidate) -> task.GivenRelay | None:
        relay = self._links.relay
        if relay is None or not candidate.has_relay:
            return None
        return task.GivenRelay(relay, *await relay.open(candidate))

    def _prepare(
        self,
        order: Order,
        spec: Spec,
        messages: UserMessages | None,
        *,
        request: str | None,
        relay: task.GivenRelay | None,
    ) -> task.PreparedTask:
        run = self._run
        return task.build_task(
            run.folder,
            spec,
            order.candidate,
            number=order.number,
            worktree=run.tree,
            total_seconds=self._budget.of(order.candidate).seconds_left,
            session_id=self._conversation.session(order.candidate),
            request=request,
            ask=self._links.permissions.ask,
            messages=messages,
            checkpoint=self._checkpoints.save_turn if self._makes_result(order, spec) else None,
            relay=relay,
            note=run.tell,
        )

    def _makes_result(self, order: Order, spec: Spec) -> bool:
        """Return whether the files of this attempt are the result so far: not where another one may be kept."""
        first = self._run.writer.delegation.result is None
        return first and order.request is None and spec.recipe.returns == "tree"

    def _emit_noting(self, event: events.Event) -> None:
        self._links.messages.saw(event)
        self._emit_within_budget(event)

    def _emit_within_budget(self, event: events.Event) -> None:
        """Write an event of the agent; raise ``budget_exhausted`` when the group has spent its budget."""
        self._run.emit(event)
        if isinstance(event, events.UsageReport):
            self._group_budget.check(self._run.writer.delegation)

    def _group_id(self) -> str | None:
        """Return the group of the delegation; it may get one when its agent delegates."""
        relay = self._links.relay
        return self._run.spec.group_id if relay is None else relay.group_id
