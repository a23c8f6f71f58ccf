"""Drive one attempt of any source: time limits, budget, redaction, bounds, and how it ended.

The rules follow from how agents behave:

- exit code 0 means little: some CLIs exit 0 on every failure, others report errors as successes with a flag;
- some hang after their result, so the result starts a short timer; an agent that is ended then has succeeded;
- some work on after their result, so what follows is counted and shown, limits apply to it, and the last result counts;
- some print log lines, keep-alives or spinners forever, so only real items count as progress;
- some ask questions while they work (``PermissionRelay``): the idle limit is suspended while the user thinks;
- those that can be interrupted are asked to end their turn before they are ended.

Success is an announced result *and* nothing to ``explain`` *and* no error flag *and* a text if one is required. Error
kinds: ``timed_out`` (no first event, or the total limit), ``stalled`` (no event for too long), ``tool_no_result``
(ended without a result), ``empty_output``, ``malformed_output`` (an answer that is too long), ``budget_exhausted``, and
whatever the source raises, explains or announces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress

import msgspec

from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import Event, Note, Permission, PermissionAnswered
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.driver.attempt import Attempt, add_key_or_logs
from understudy.runners.driver.source import AgentFinished, MessageTaken, QuestionWithdrawn, Source, SourceItem
from understudy.runners.runner import Ask, Emit, Outcome, Question, Task

INTERRUPT_SECONDS = 0.8
"""Seconds for an agent to end its turn when asked; agents that can, need a twentieth of that. A cancel may take five.
"""
MAX_OPEN_QUESTIONS = 32
"""An agent with more open questions is broken; further ones are rejected without asking."""
NOBODY = "policy"
"""The name recorded for the answer where no one can be asked."""
MAX_TITLE_CHARACTERS = 300
MAX_DETAIL_CHARACTERS = 20_000
MAX_COMMAND_CHARACTERS = 8000
MAX_PATHS = 100
MAX_PATH_CHARACTERS = 4096


async def drive(task: Task, emit: Emit, source: Source) -> Outcome:
    """Run ``source`` to its end and return the outcome; everything it started has ended when this returns or raises.

    Cancelling interrupts the agent and closes the source before the cancellation propagates.
    """
    attempt = _AgentAttempt(task, emit, source)
    try:
        async with asyncio.timeout(task.limits.total_seconds) as total:
            try:
                return await attempt.follow()
            except BaseException:
                # Also when cancelled: the agent gets its grace period, and has ended before the caller continues.
                try:
                    await attempt.interrupt()
                finally:
                    await attempt.close()
                raise
    except TimeoutError:
        if not total.expired():
            raise
        error = attempt.unfinished()
        add_key_or_logs(error, task)
        raise error from None
    except UnderstudyError as error:
        add_key_or_logs(error, task)
        raise


class _AgentAttempt(Attempt):
    """One attempt of an agent, which may ask the user and get messages."""

    def __init__(self, task: Task, emit: Emit, source: Source) -> None:
        super().__init__(task, emit, source.subject, source.redactor)
        self._source = source
        self._permissions = PermissionRelay(
            source,
            ask=task.ask,
            emit=self._emit,
            answered=self._answered,
            stop=self._stop,
            clean=self._clean_text,
        )
        self._stopped: UnderstudyError | None = None
        """Why the attempt must end now."""
        self._closed = False
        self._connected = False

    async def follow(self) -> Outcome:
        """Read the source to its end and decide how it ended."""
        limit = self._limit = asyncio.timeout(self._first)
        if self._task.relay is not None:
            self._task.relay.connect(self._relay_changed)
        hung = False
        try:
            async with limit, aclosing(self._source.items()) as items:  # type: ignore[type-var]
                async for item in items:
                    await self._take_asking(item)
        except TimeoutError:
            if not limit.expired():
                raise
            if self._stopped is not None:
                raise self._stopped from None
            if self._finished is None:
                raise self.too_slow() from None
            hung = True
        finally:
            self._limit = None
        await self._permissions.drop()
        self.flush()
        await self.close()
        if self._finished is not None and self._finished.error is not None:
            raise self._failure(self._finished.error)
        if hung:
            text = f"The agent had not exited {self._after_result:g} s after its result and was ended."
            self._emit(Note(level="warning", text=text))
        elif (failure := await self._source.explain()) is not None:
            raise self._failure(failure)
        return self.outcome()

    async def interrupt(self) -> None:
        """Ask the agent to end its turn, and read its last output; raise only when cancelled."""
        if self._finished is not None or self._closed:
            return
        with suppress(UnderstudyError, TimeoutError):
            async with asyncio.timeout(INTERRUPT_SECONDS):
                await self._permissions.drop()
                await self._source.interrupt()
                async with aclosing(self._source.items()) as items:  # type: ignore[type-var]
                    async for item in items:
                        if isinstance(item, AgentFinished):
                            break
                        if isinstance(item, Event):
                            self.take_event(item)
        self.flush()

    async def close(self) -> None:
        """Close the source, and pass on its last events."""
        if not self._closed:
            self._closed = True
            for event in await self._source.close():
                self.report(event)

    async def _take_asking(self, item: SourceItem) -> None:
        if self._finished is None:
            if not self._connected and self._task.messages is not None:  # it runs
                self._connected = True
                self._task.messages.connect(self._source.send)
            match item:
                case Question():
                    await self._permissions.take(item)
                case QuestionWithdrawn():
                    self._permissions.withdraw(item.question_id)
                case MessageTaken() if self._task.messages is not None:
                    self._task.messages.taken(item.message_id)
        self.take(item)

    def _waits_for_user(self) -> bool:
        return self._permissions.waiting or (self._task.relay is not None and self._task.relay.waiting)

    def _stop(self, error: UnderstudyError) -> None:
        self._move_limit(0)
        self._stopped = error

    def _move_limit(self, seconds: float | None) -> None:
        if self._stopped is None:
            super()._move_limit(seconds)

    def _relay_changed(self) -> None:
        self._items += 1  # an agent that calls a tool works
        if self._finished is None:
            with suppress(RuntimeError):  # the time has just run out
                self._restart_limit()

    def _answered(self) -> None:
        if self._limit is not None and self._limit.when() is None:
            self._restart_limit()


class PermissionRelay:
    """The questions of one attempt, asked one after another: to the user, and the answers back.

    While the user thinks, the driver keeps reading the source, so its pipe never fills, and suspends the idle limit.
    Any error with a question rejects it; ``permission_denied`` ends the attempt, too.
    """

    def __init__(
        self,
        source: Source,
        *,
        ask: Ask | None,
        emit: Callable[[Event], None],
        answered: Callable[[], None],
        stop: Callable[[UnderstudyError], None],
        clean: Callable[[str], str],
    ) -> None:
        """Start without questions; ``answered`` is called after each, ``clean`` redacts and sanitises a text.

        ``stop`` ends the attempt with an error.
        """
        self._source = source
        self._ask = ask
        self._emit = emit
        self._answered = answered
        self._stop = stop
        self._clean = clean
        self._open: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._unasked = 0

    @property
    def waiting(self) -> bool:
        """Whether the agent waits for the user's answer."""
        return bool(self._open)

    async def take(self, question: Question) -> None:
        """Start asking, without waiting for the answer."""
        if len(self._open) >= MAX_OPEN_QUESTIONS:
            await self._reply(question, rejecting(question), None)
        elif question.question_id not in self._open:
            task = asyncio.get_running_loop().create_task(self._settle(question))
            self._open[question.question_id] = task
            task.add_done_callback(lambda _: self._settled(question.question_id))

    def withdraw(self, question_id: str) -> None:
        """Stop asking: the agent cancelled the question."""
        task = self._open.get(question_id)
        if task is not None:
            task.cancel()

    async def drop(self) -> None:
        """Stop asking all open questions, and wait until they are closed in the journal."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _settle(self, question: Question) -> None:
        option, note = await self._decide(question)
        await self._reply(question, option, note)

    async def _reply(self, question: Question, option: PermissionOption, note: str | None) -> None:
        with suppress(UnderstudyError):  # the agent has ended, and its exit will say why
            await self._source.answer(question.question_id, option, note)

    async def _decide(self, question: Question) -> tuple[PermissionOption, str | None]:
        shown = self._shown(question)
        if self._ask is None:
            self._report_unasked(shown)
            return rejecting(question), "No user can be asked here."
        try:
            # A delegation shows one question at a time.
            async with self._turn:
                return await self._ask(shown)
        except UnderstudyError as error:
            if error.kind is ErrorKind.PERMISSION_DENIED:
                self._stop(error)
                return rejecting(question), None
            self._emit(Note(level="warning", text=f"A question could not be asked, so it was rejected: {error}"))
        except Exception as error:
            # An error while asking must never count as permission.
            self._emit(Note(level="error", text=f"A question could not be asked, so it was rejected: {error!r}"))
        return rejecting(question), None

    def _shown(self, question: Question) -> Question:
        """Return the question as it may be stored and shown: redacted, sanitised, bounded.

        A command or a list of paths that is too long is left out, never cut: a part is not enough to decide on.
        """
        clean = self._clean
        command = clean(question.command) if question.command is not None else None
        paths = [clean(path) for path in question.paths] if question.paths is not None else None
        if command is not None and len(command) > MAX_COMMAND_CHARACTERS:
            command = None
        if paths is not None and (len(paths) > MAX_PATHS or any(len(path) > MAX_PATH_CHARACTERS for path in paths)):
            paths = None
        return msgspec.structs.replace(
            question,
            altered=(command, paths) != (question.command, question.paths),
            tool=clean(question.tool)[:MAX_TITLE_CHARACTERS],
            title=clean(question.title)[:MAX_TITLE_CHARACTERS],
            detail=clean(question.detail)[:MAX_DETAIL_CHARACTERS],
            options=[
                msgspec.structs.replace(option, title=clean(option.title)[:MAX_TITLE_CHARACTERS])
                for option in question.options
            ],
            command=command,
            paths=paths,
        )

    def _report_unasked(self, shown: Question) -> None:
        self._unasked += 1
        name, chosen = f"q{self._unasked}", rejecting(shown).id
        self._emit(Permission(request_id=name, deadline_action=chosen, **shown.fields()))
        self._emit(PermissionAnswered(request_id=name, option=chosen, by=NOBODY))

    def _settled(self, question_id: str) -> None:
        del self._open[question_id]
        self._answered()


def rejecting(question: Question) -> PermissionOption:
    """Return the option that rejects; every question has one."""
    return next(option for option in question.options if option.kind.startswith("reject"))
