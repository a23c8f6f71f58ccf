"""The attempts of one run, one at a time: who makes it, what may be spent, what the last one led to.

A retry, and an attempt that is asked for more, continue in the same worktree, and so does a candidate that takes the
work over: it gets notes of what was done. A candidate that begins again gets a new worktree: the one before is kept
under a rescue reference, and no change of it is in the result.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from understudy.engine.planning.prompt import tokens_of
from understudy.engine.queueing import day_budgets, launcher, start_conditions
from understudy.engine.queueing.start_conditions import Admission
from understudy.engine.running import preparation
from understudy.engine.running.attempts.agent_conversation import Conversation, UserMessages
from understudy.engine.running.run_context import RunContext
from understudy.engine.running.user_requests import PermissionRequests
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.files import durable, nofollow
from understudy.journal import reader
from understudy.journal.writing.writer import Writer
from understudy.model.config.delegators import Delegator, Limits, ModelServer
from understudy.model.delegation import events
from understudy.model.delegation.spec import Spec, SpecCandidate
from understudy.model.errors import ErrorKind, UnderstudyError, scope_of
from understudy.model.remedies import Remedy, RemedyKind
from understudy.model.text.path_quoting import quote
from understudy.policy.budget import Budget, Shortage, Spending, billed, spent_in
from understudy.policy.candidates import Option, Turn, next_turn, why_too_small
from understudy.policy.patience import Patience
from understudy.process.guardian import marked_processes
from understudy.runners.runner import Emit, McpServer, Outcome, Relay, Task, runner_for
from understudy.secrets import keys
from understudy.secrets.redaction import Redactor

if TYPE_CHECKING:
    from understudy.engine.running.relay.relay_host import RelayHost

_MOST_NAMED = 100
"""Of the files that one attempt changed."""
SNAPSHOT_SECONDS = 300.0
"""How long git may take to commit a worktree."""
_GivenRelay = tuple[Relay | None, list[McpServer], Path | None]
"""The relay tools of an attempt, and the MCP server that offers them to an agent CLI, with its configuration."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What one attempt is to do."""

    number: int
    candidate: SpecCandidate
    reason: str
    """Why it is made."""
    patience: Patience
    """How long its model server is waited for."""
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
        self._group_budget = start_conditions.GroupBudgetWatch(self._group_id)

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
        await self._run.in_thread(day_budgets.require, candidate.delegator, self._run.spec.per_day)
        if order.request is None:
            texts = self._conversation.begin_attempt(order.number, candidate)
            spec, request = self._conversation.told(texts), "\n\n".join(texts) or None
            messages: UserMessages | None = self._links.messages
            emit: Emit = self._emit_noting
        else:
            spec, request = self._conversation.asked_for(order.request, candidate), order.request
            messages, emit = None, self._emit_within_budget
        relay = await self._open_relay(candidate)
        task, redactor = await self._run.in_thread(self._prepare, order, spec, messages, request, relay)
        self._run.emit.redact_with(redactor)
        runner = runner_for(candidate.delegator, candidate.model_server, candidate.tool_definition)
        if candidate.delegator.tool is None or runner.capabilities.follows_instructions:
            self._run.emit(events.Prompt(tokens=tokens_of(len(task.prompt.encode()))))
        outcome = await runner.run(task, emit)
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

    async def _open_relay(self, candidate: SpecCandidate) -> _GivenRelay:
        relay = self._links.relay
        return (None, [], None) if relay is None or not candidate.has_relay else (relay, *await relay.open(candidate))

    def _prepare(
        self, order: Order, spec: Spec, messages: UserMessages | None, request: str | None, relay: _GivenRelay
    ) -> tuple[Task, Redactor | None]:
        """Build the task of an attempt and write ``prompt.md``; return it with the redactor of what is said about it.

        ``request`` is what the attempt is to do that its session does not know. Raises ``secret_withheld`` and
        ``config_invalid`` for keys and variables, and the errors of the prompt.
        """
        folder, worktree, candidate = self._run.folder, self._run.tree, order.candidate
        delegator, server = candidate.delegator, candidate.model_server
        text = preparation.prompt_of(self._run, spec, candidate)
        preparation.warn_of_withheld_proxies(self._run, candidate)
        environment, secrets = preparation.resolve_environment(delegator.env or {})
        key: str | None = None
        if server is not None and server.api_key is not None:
            key = keys.resolve(server.api_key, os.environ)
        # What one candidate is sent must not have the key of another one.
        of_all = preparation.secrets_of(spec.candidates) | secrets
        redactor = Redactor(of_all) if of_all else None
        if redactor is not None:
            text = redactor.redact(text)
            request = None if request is None else redactor.redact(request)
        durable.replace(folder.prompt, text.encode("utf-8", "replace"))
        relay_tools, mcp_servers, mcp_config = relay
        task = Task(
            delegation_id=folder.id,
            recipe=spec.recipe,
            prompt=text,
            prompt_file=folder.prompt,
            worktree=None if worktree is None else worktree.agent_path,
            delegator=delegator,
            model_server=server,
            files=preparation.paths(spec.files),
            target=preparation.target_of(spec),
            interpreter=None if worktree is None else partial(preparation.interpreter_of, spec, folder, worktree),
            limits=msgspec.structs.replace(candidate.limits, total_seconds=self._budget.of(candidate).seconds_left),
            patience=order.patience,
            program_limits=spec.program_limits,
            tools=candidate.tools,
            session_id=self._conversation.session(candidate),
            request=request,
            trusted=spec.trusted,
            ask=self._links.permissions.ask,
            messages=messages,
            checkpoint=self._checkpoints.save_turn if self._makes_result(order, spec) else None,
            relay=relay_tools,
            mcp_servers=mcp_servers,
            mcp_config=mcp_config,
            caller_pane=spec.caller_pane,
            environment=environment if worktree is None else {**preparation.path_of(spec), **environment},
            secrets=secrets,
            key=lambda: key,
            stdout_log=preparation.log_of(folder.stdout, order.number),
            stderr_log=preparation.log_of(folder.stderr, order.number),
        )
        return task, redactor

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


class CandidateChoice:
    """The candidates of one run, and the pauses of their delegators, which all runs share."""

    def __init__(self, run: RunContext, budget: RunBudget) -> None:
        """Choose nothing yet."""
        self._run = run
        self._budget = budget
        self._without_program: list[Delegator] = []
        """Those whose program was not found in this run."""
        self._overflowed: list[Delegator] = []
        """Those for which the prompt was too long."""

    async def choose(self, start: int, failure: UnderstudyError | None) -> Turn | None:
        """Return whose turn it is from ``start`` on, and tell the user about those that are left out.

        None if no candidate remains, or the earlier attempts have used up the limits. ``failure`` is that of the last
        attempt. A candidate that may begin may be the probe of a pause, so none after it is asked.
        """
        options: list[Option] = []
        for place, candidate in enumerate(self._run.spec.candidates[start:], start):
            option = await self._option(place, candidate, failure)
            options.append(option)
            if option.is_free:
                break
        turns = next_turn(options)
        for text in turns.warnings:
            self._run.emit(events.Note(level="warning", text=text))
        for text in turns.remarks:
            self._run.emit(events.Note(level="info", text=text))
        return turns.next

    async def _option(self, place: int, candidate: SpecCandidate, failure: UnderstudyError | None) -> Option:
        name = candidate.delegator.name
        reserved = self._budget.of(candidate, failure).reserve()
        if isinstance(reserved, Shortage):
            return Option(place=place, name=name, refused=reserved.why)
        for other in self._without_program:
            if _starts_alike(other, candidate.delegator):
                return Option(place=place, name=name, refused=f"it needs the program that {other.name} did not find")
        too_small = why_too_small(candidate.delegator, self._overflowed)
        if too_small is not None:
            return Option(place=place, name=name, refused=too_small)
        spent = await self._run.in_thread(day_budgets.shortage, candidate.delegator, self._run.spec.per_day)
        if spent is not None:
            return Option(place=place, name=name, refused=spent)
        limits = reserved.left()
        admission = await self._admission_of(candidate)
        pause = admission.pause
        if pause is None:
            return Option(place=place, name=name, limits=limits, is_probe=admission.is_probe)
        text = f"{name} is paused {start_conditions.described(pause)}"
        return Option(place=place, name=name, limits=limits, paused=text)

    async def count(self, candidate: SpecCandidate, failure: UnderstudyError | None) -> None:
        """Record how an attempt ended, for the pauses of its delegator."""
        run, delegator, server = self._run, candidate.delegator, candidate.model_server
        if failure is not None and failure.remedy is None:
            failure.remedy = _remedy(failure.kind, delegator, server)
        if failure is not None and failure.kind is ErrorKind.TOOL_MISSING:
            self._without_program.append(delegator)
        if failure is not None and failure.kind is ErrorKind.CONTEXT_TOO_LONG:
            self._overflowed.append(delegator)
        with contextlib.suppress(UnderstudyError):
            if failure is None:
                await run.in_thread(start_conditions.attempt_succeeded, run.state, delegator, server)
            else:
                bounds = run.spec.pauses
                pause = await run.in_thread(
                    start_conditions.attempt_failed, run.state, delegator, server, failure.info(), bounds
                )
                if pause is not None:
                    run.notifier.paused(run.writer.delegation, delegator.name, pause)

    async def _admission_of(self, candidate: SpecCandidate) -> Admission:
        """Let an attempt begin, which may be the probe of a candidate that was paused, unless a pause is against it."""
        with contextlib.suppress(UnderstudyError):  # a pause that cannot be read keeps no one from working
            return await self._run.in_thread(
                start_conditions.admit_attempt, self._run.state, candidate.delegator, candidate.model_server
            )
        return Admission()


def _remedy(kind: ErrorKind, delegator: Delegator, server: ModelServer | None) -> Remedy | None:
    """Return what helps a delegator that cannot work; None if nothing is known."""
    match kind:
        case ErrorKind.AUTH_FAILED if server is not None:
            return Remedy(kind=RemedyKind.SET_KEY, name=server.name)
        case ErrorKind.AUTH_FAILED if delegator.tool is not None:
            return Remedy(kind=RemedyKind.LOG_IN, name=delegator.tool)
        case ErrorKind.TOOL_MISSING if delegator.tool is not None:
            return Remedy(kind=RemedyKind.INSTALL_TOOL, name=delegator.tool)
        case ErrorKind.MODEL_NOT_FOUND:
            return Remedy(kind=RemedyKind.CHOOSE_MODEL, name=delegator.name)
    return None


def _starts_alike(first: Delegator, second: Delegator) -> bool:
    """Return whether two delegators start the same program, found in the same way."""
    commands = [delegator.launch.command if delegator.launch is not None else None for delegator in (first, second)]
    how = [(delegator.tool, delegator.mode, (delegator.env or {}).get("PATH")) for delegator in (first, second)]
    return first.tool is not None and how[0] == how[1] and commands[0] == commands[1]


class RunBudget:
    """The limits of one run: all of its attempts share them."""

    def __init__(self, writer: Writer) -> None:
        """Count the attempts in the journal of ``writer``, and the time from ``begin`` on."""
        self._writer = writer
        self._began = 0.0

    def begin(self) -> None:
        """Start the total time."""
        self._began = time.monotonic()

    def of(self, candidate: SpecCandidate, failure: UnderstudyError | None = None) -> Budget:
        """Return the limits of ``candidate``, with what all attempts so far have spent of them.

        With the ``failure`` of the last attempt, those that cost nothing do not count.
        """
        attempts = self._writer.delegation.attempts
        counted = attempts if failure is None else billed(attempts, failure.info())
        elapsed = Spending(seconds=time.monotonic() - self._began)
        return Budget(candidate.limits).charge(elapsed, spent_in(counted))


class Checkpoints:
    """The commits of one run."""

    def __init__(self, run: RunContext) -> None:
        """Commit nothing yet."""
        self.commit: str | None = None
        """The last checkpoint; None while the worktree has changes that no checkpoint contains."""
        self._began: str | None = None
        """What the last attempt started from."""
        self._run = run

    def begin(self) -> str | None:
        """Note that an attempt begins; return what it starts from, None without a worktree."""
        self._began, self.commit = self.start_commit, None
        return self._began

    @property
    def start_commit(self) -> str | None:
        """What the next attempt starts from; None without a worktree."""
        tree = self._run.tree
        return self.commit or (tree.record.start_commit if tree is not None else None)

    async def save(
        self, answer: str | None, limit_seconds: float = SNAPSHOT_SECONDS, *, keep_as: str | None = None
    ) -> str | None:
        """Commit the contents of the worktree, unless the last checkpoint has them; return the commit.

        ``answer`` is the text of an agent that finished: recipes that return a file write it there. ``keep_as`` names a
        rescue reference under which the whole worktree is kept, if its files changed.
        """
        run, tree = self._run, self._run.tree
        if tree is None:
            return None
        commit, reference = self.commit, None
        if commit is None:
            await run.in_thread(self._write_target, answer)
            commit = await run.in_thread(tree.checkpoint, run.tell, limit_seconds=limit_seconds)
        try:
            if keep_as is not None:
                reference = await run.in_thread(tree.keep_changed, commit, keep_as, limit_seconds=limit_seconds)
        finally:
            if (self.commit is None or reference is not None) and run.spec.recipe.returns != "text":
                files = await run.in_thread(self._changed, tree, commit)
                run.emit(events.Checkpoint(commit=commit, rescue_ref=reference, files=files))
            self.commit = commit
        return commit

    async def keep(self, name: str) -> None:
        """Keep the worktree under the rescue reference ``name``, if its files changed, without changing the head."""
        run, tree = self._run, self._run.tree
        if tree is None:
            return
        commit = await run.in_thread(tree.checkpoint, run.tell, limit_seconds=SNAPSHOT_SECONDS)
        reference = await run.in_thread(tree.keep_changed, commit, name, limit_seconds=SNAPSHOT_SECONDS)
        if reference is not None:
            run.emit(events.Note(level="info", text=f"The work of this attempt is kept as {reference}."))

    async def save_turn(self) -> None:
        """Record what a running attempt has done so far, for the case that this process is killed."""
        run, tree = self._run, self._run.tree
        if tree is None:
            return
        with contextlib.suppress(UnderstudyError, OSError):  # the last checkpoint reports what is wrong
            commit = await run.in_thread(tree.checkpoint, lambda _: None, limit_seconds=SNAPSHOT_SECONDS)
            run.emit(events.Checkpoint(commit=commit))

    def _changed(self, tree: DelegationWorktree, commit: str) -> list[str]:
        """Return what the last attempt changed, as quoted paths; nothing where no other delegator may take over."""
        if len(self._run.spec.candidates) == 1 or self._began is None:
            return []
        changed = tree.changed_paths(self._began, commit)
        return [quote(os.fsencode(path)) for _, path in changed[:_MOST_NAMED]]

    def _write_target(self, answer: str | None) -> None:
        """Write the answer of a recipe that returns a file."""
        target = preparation.target_of(self._run.spec)
        if self._run.spec.recipe.returns == "file" and answer and target is not None:
            self._run.worktree.write_target(target, answer)


class Attempts:
    """Makes the attempts of one run."""

    def __init__(self, run: RunContext, links: AgentLinks, *, worked: Callable[[str], Awaitable[None]]) -> None:
        """Start nothing; ``worked`` is called with the name of the delegator after each attempt, however it ended."""
        self.number = 0
        """That of the last attempt."""
        self.outcome: Outcome | None = None
        """What the last attempt led to, if its agent finished."""
        self.failure: UnderstudyError | None = None
        """Why the last attempt failed."""
        self._first_here = 1
        """The first attempt in the present worktree."""
        self._run = run
        self._links = links
        self._worked = worked
        self._budget = RunBudget(run.writer)
        self._choice = CandidateChoice(run, self._budget)
        self._conversation = Conversation(run.spec, run.writer, links.messages)
        self._checkpoints = Checkpoints(run)
        self._single = SingleAttempt(
            run, links, conversation=self._conversation, budget=self._budget, checkpoints=self._checkpoints
        )

    async def begin(self) -> Turn | None:
        """Start the total time; return whose turn it is first."""
        self._budget.begin()
        return await self.choose(0)

    async def choose(self, start: int) -> Turn | None:
        """Return whose turn it is from the place ``start`` on; see ``CandidateChoice.choose``."""
        return await self._choice.choose(start, self.failure)

    async def make(
        self,
        candidate: SpecCandidate,
        limits: Limits | None,
        reason: str,
        request: str | None = None,
        *,
        patience: Patience,
    ) -> None:
        """Make one attempt, within ``limits``: afterwards exactly one of ``outcome`` and ``failure`` is set.

        The user may say something meanwhile, except when there is a ``request``.
        """
        self.number += 1
        if limits is not None:
            candidate = msgspec.structs.replace(candidate, limits=limits)
        order = Order(number=self.number, candidate=candidate, reason=reason, patience=patience, request=request)
        start_commit = self._checkpoints.begin()
        self.outcome = self.failure = None
        self._single.announce(order, start_commit)
        try:
            self.outcome = await self._single.work(order)
        except UnderstudyError as failure:
            failure.scope = failure.scope or scope_of(failure.kind)
            self.failure = failure
        finally:
            await self._single.end(order, succeeded=self.outcome is not None)
        await self._choice.count(candidate, self.failure)
        await self._worked(candidate.delegator.name)

    def budget(self, candidate: SpecCandidate) -> Budget:
        """Return what all attempts so far have spent of the candidate's limits."""
        return self._budget.of(candidate, self.failure)

    @property
    def user_waits(self) -> bool:
        """Whether the user said something that no agent got."""
        return self._links.messages.waiting

    def can_continue(self, candidate: SpecCandidate) -> bool:
        """Return whether the agent of the last attempt, on ``candidate``, can be asked for more."""
        return self._conversation.can_continue(candidate)

    def close(self) -> None:
        """Keep what the user says from now on for the next reply."""
        self._links.messages.close()

    # -- the worktree ----------------------------------------------------------------------------------------

    async def checkpoint(self, limit_seconds: float = SNAPSHOT_SECONDS) -> str | None:
        """Commit what the attempts did; see ``Checkpoints.save``."""
        answer = self.outcome.text if self.outcome is not None else None
        return await self._checkpoints.save(answer, limit_seconds)

    async def set_aside(self, number: int, *, is_head: bool) -> None:
        """Keep the worktree, which attempt ``number`` has made, under a rescue reference; see ``Checkpoints``."""
        # The files of a recipe that returns a text are never part of a result.
        name = f"{self._run.folder.id}-attempt-{number}" if self._run.spec.recipe.returns != "text" else None
        if is_head:
            answer = self.outcome.text if self.outcome is not None else None
            await self._checkpoints.save(answer, keep_as=name)
        elif name is not None:
            await self._checkpoints.keep(name)

    def begin_afresh(self) -> None:
        """Note that the worktree was replaced: earlier sessions know files that are gone."""
        self._checkpoints.commit = None
        self._first_here = self.number + 1
        self._conversation.forget(self._first_here)

    async def hand_over(self) -> None:
        """Let the next attempt continue the worktree as it is, with notes of what was done to it."""
        run, tree = self._run, self._run.tree
        # No process of the attempt before may write to what the next one works on.
        await run.in_thread(marked_processes.kill_leftovers, run.folder.id)
        commit = await self.checkpoint()
        if tree is not None and commit is not None:
            notes = await run.in_thread(self._write_notes, tree, commit)
            self._conversation.forget(self.number + 1, notes)

    def _write_notes(self, tree: DelegationWorktree, commit: str) -> str:
        """Write what was done in this worktree for the next agent; return it."""
        from understudy.engine.planning import hand_over  # most runs have one agent

        run, notes = self._run, hand_over.Notes(self._first_here)
        after = 0
        while recorded := reader.read_events(run.folder, after):
            notes.read(recorded)
            after = recorded[-1].seq
        attempts = [attempt for attempt in run.writer.delegation.attempts if attempt.number >= self._first_here]
        text = notes.text(run.spec.asked().task or "", attempts, tree.changed_paths(tree.record.base_commit, commit))
        # The prompt has the notes, too, and the agent before may have left anything in this place.
        with contextlib.suppress(UnderstudyError, OSError):
            nofollow.write_over(tree.agent_path, hand_over.FILE, text.encode("utf-8", "replace"))
        return text

    def return_to(self, outcome: Outcome | None, commit: str | None) -> None:
        """Note that the worktree is that of an earlier result again, or of a later one that was kept."""
        self.outcome, self._checkpoints.commit = outcome, commit
