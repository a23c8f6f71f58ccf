"""The life of one delegation, from its folder to its verdict. One ``Run`` lives in one worker process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import signal
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from understudy.config import trust
from understudy.engine import limits, queue, resolve
from understudy.engine.checks import verdict as verdicts
from understudy.engine.checks.run import Judgement, JudgeRequest, judge
from understudy.engine.emitter import Emitter
from understudy.engine.ground import Ground
from understudy.engine.questions import Questions
from understudy.git import call
from understudy.git.names import unquote
from understudy.journal import locks, store, summary
from understudy.journal.bell import EVERYTHING, Bell, ring
from understudy.journal.control import Cancel, ControlTail, bell_of
from understudy.journal.writer import Writer
from understudy.model import events
from understudy.model.delegations import Delegation, FileStat
from understudy.model.delegators import EnvReference, Limits
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.spec import Spec
from understudy.model.states import Reservation, Verdict
from understudy.process import children, identity, sweep
from understudy.runners.base import Outcome, Task
from understudy.runners.registry import runner_for
from understudy.secrets import keys
from understudy.secrets.redaction import Redactor

CANCEL_SNAPSHOT_SECONDS = 2.0
"""A cancel is answered within five seconds; so much of them is there to keep the partial work as a commit."""
SNAPSHOT_SECONDS = 300.0
SLOT_POLL_SECONDS = 1.0
"""A worker that waits for a slot itself looks so often, should a bell be lost."""

ENDED_EARLY = frozenset(
    {Verdict.CANCELLED, Verdict.INTERRUPTED, Verdict.TIMED_OUT, Verdict.BUDGET_EXHAUSTED, Verdict.FAILED}
)
"""How the work itself ended; checks that run again later do not change that."""

_T = TypeVar("_T")


class Run:
    """One delegation in this process."""

    def __init__(self, folder: store.Folder, spec: Spec, lock: int, slot: int | None) -> None:
        """Take over the folder whose flock is held by ``lock``; ``slot`` is a slot taken for this run."""
        self.folder = folder
        self.spec = spec
        self.root = store.state_root()
        self._lock = lock
        self._slot = slot
        self._children: dict[int, identity.Identity] = {}
        locks.write_holder(lock, identity.current(), [])
        self._writer = Writer(folder, lock)
        self._emit = Emitter(self._writer)
        self._control = ControlTail(folder)
        self._questions = Questions(folder, self._emit, limits.merged(spec.params.limits).answer_seconds or 0.0)
        self._work: asyncio.Task[None] | None = None
        self._cancelled_by: str | None = None
        self._interrupted = False
        self._failure: UnderstudyError | None = None
        self._ground: Ground | None = None
        self._outcome: Outcome | None = None
        self._result: events.Result | None = None
        self._judgement: Judgement | None = None
        self._before: Delegation | None = None
        self._queued = False
        self._threads = _Threads()
        self._slot_may_be_free = asyncio.Event()
        self._ended_before = ""

    @property
    def needs_tree(self) -> bool:
        """Tell whether the work happens in a tree: for every recipe that changes files, and for every agent CLI."""
        return self.spec.recipe.returns != "text" or self.spec.delegator.tool is not None

    @staticmethod
    def _paths(quoted: list[str]) -> list[str]:
        return [os.fsdecode(unquote(path)) for path in quoted]

    @property
    def _target(self) -> str | None:
        return None if self.spec.target is None else self._paths([self.spec.target])[0]

    async def live(self, *, only_check: bool = False) -> None:
        """Do everything up to the verdict. Never raises for what happens to the work; only the journal can fail it."""
        loop = self._loop = asyncio.get_running_loop()
        if only_check:
            self._before = summary.load(self.folder)
            self._ended_before = self._before.finished_at or ""
        children.observe(self._child_changed)
        call.mark_calls(sweep.MARK, self.folder.id)
        loop.set_default_executor(self._threads)
        with Bell(only=(bell_of(self.folder.id), queue.BELL)) as bell:
            loop.add_reader(bell.fileno(), self._look_at_control, bell)
            ticking = asyncio.create_task(self._tick())
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                loop.add_signal_handler(number, self._interrupt)
            try:
                await self._guarded(self._check_again() if only_check else self._work_through())
                if not self._queued:
                    await self._end(only_check=only_check)
            finally:
                ticking.cancel()
                loop.remove_reader(bell.fileno())
                self._let_go()

    # -- being stopped ---------------------------------------------------------------------------------------

    async def _guarded(self, work: Awaitable[None]) -> None:
        """Run ``work`` so that a cancel, a signal or a failure ends it, and remember which."""
        self._work = asyncio.ensure_future(work)
        self._look_at_control(None)
        try:
            await self._work
        except asyncio.CancelledError:
            if self._cancelled_by is None and not self._interrupted:
                raise
        except UnderstudyError as failure:
            self._failure = failure
        except Exception as error:
            # Any fault of ours must still end in one terminal state that says so.
            self._failure = _fault(self.folder, error)

    def _look_at_control(self, bell: Bell | None) -> None:
        if bell is not None and bell.drain() & {queue.BELL, EVERYTHING}:
            self._slot_may_be_free.set()
        items = self._control.read()
        self._questions.take(items)
        for item in items:
            # A cancel of before an earlier end was meant for that one, not for the checks that run again.
            if isinstance(item, Cancel) and self._cancelled_by is None and item.at > self._ended_before:
                self._cancelled_by = item.by
                self._stop()

    async def _tick(self) -> None:
        # A lost bell costs a second, not the cancel.
        while True:
            await asyncio.sleep(1)
            self._look_at_control(None)

    def _interrupt(self) -> None:
        self._interrupted = True
        self._stop()

    def _stop(self) -> None:
        if self._ground is not None:
            self._ground.abort()
        if self._work is not None:
            self._work.cancel()

    def _let_go(self) -> None:
        """Close the journal and free the folder's lock: others may record decisions, or check again, from here on."""
        if self._lock >= 0:
            self._writer.close()
            os.close(self._lock)
            self._lock = -1
            ring(self.folder.id)

    def _child_changed(self, child: identity.Identity, alive: bool) -> None:
        if alive:
            self._children[child.pid] = child
        else:
            self._children.pop(child.pid, None)
        if self._lock < 0:
            return
        locks.write_holder(self._lock, identity.current(), list(self._children.values()))

    # -- the work --------------------------------------------------------------------------------------------

    async def _work_through(self) -> None:
        for text in self.spec.notes:
            self._emit(events.Note(level="warning", text=text))
        if self.needs_tree:
            self._ground = Ground(self.folder, self.spec, self.root)
            await self._in_thread(self._ground.make_base, self._tell)
        if not await self._take_slot():
            return
        self._check_trust()
        if self._ground is not None:
            await self._in_thread(self._ground.make_tree, self._tell)
            await self._set_up(self._ground)
        await self._attempt(1)
        await self._keep()
        await self._judge()

    def _check_trust(self) -> None:
        """Refuse to go on when trust was withdrawn, or what it covers changed, since the click."""
        workspace = Path(self.spec.workspace)
        if self.spec.trusted and not trust.status(workspace, self.root).trusted:
            raise UnderstudyError(
                ErrorKind.UNTRUSTED_WORKSPACE,
                f"{workspace} is not trusted any more: what it allows has changed since this was started.",
                hint=f"Look at what it allows now: understudy trust {workspace}",
            )

    async def _take_slot(self) -> bool:
        """Take a slot; without a free one wait for it, or leave the queue's mark and return False."""
        if self._slot is not None:
            return True
        # What is referred to by name is in this process's environment and, perhaps, in no other's.
        waits = _needs_environment(self.spec)
        while True:
            lock = await self._in_thread(queue.acquire, self.root)
            try:
                if self._queued:
                    self._slot = queue.turn(self.root, self.folder.id)
                elif not queue.waiting(self.root):
                    self._slot = queue.take_slot(self.root, self.spec.slots)
                if self._slot is not None:
                    self._queued = False
                    return True
                if not self._queued:
                    self._queued = True
                    self._emit(events.Queued(position=queue.mark(self.root, self.folder.id, waits=waits)))
                    self._writer.flush_summary()
                if not waits:
                    # Leave while the queue's lock is held: who frees a slot from now on sees a queued
                    # delegation with a free lock.
                    self._let_go()
                    return False
            finally:
                os.close(lock)
            self._slot_may_be_free.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._slot_may_be_free.wait(), SLOT_POLL_SECONDS)

    async def _set_up(self, ground: Ground) -> None:
        argv = self.spec.bootstrap.setup
        if not argv:
            return
        self._emit(events.Phase(text=f"Setting up the tree: {argv[0]}"))
        done = await children.run(
            argv,
            cwd=ground.tree_path,
            env=ground.environment(),
            mark=self.folder.id,
            timeout_seconds=self.spec.bootstrap.setup_timeout_seconds,
            output_limit=64 * 1024,
        )
        if done.timed_out or done.code != 0:
            how = "did not end in time" if done.timed_out else f"ended with exit code {done.code}"
            tail = (done.stderr or done.stdout)[-400:].decode("utf-8", "replace").strip()
            raise UnderstudyError(
                ErrorKind.TIMED_OUT if done.timed_out else ErrorKind.TOOL_CRASHED,
                f"The set-up command {argv[0]!r} {how}: {tail}",
                hint="Correct `setup` under [worktrees] in the configuration.",
            )

    async def _attempt(self, number: int) -> None:
        spec, delegator = self.spec, self.spec.delegator
        self._emit.attempt = number
        task, secrets = await self._in_thread(self._task)
        self._emit.redact_with(Redactor(secrets) if secrets else None)
        started = events.Started(
            delegator=delegator.name,
            tool=delegator.tool,
            model_server=delegator.model_server,
            model=delegator.model,
            why=spec.explain.because,
            # Nothing of a delegator without a tool runs in the tree; no sandbox confines what a tool starts.
            confined=delegator.tool is None,
        )
        self._emit(started)
        queue.unmark(self.root, self.folder.id)
        self._emit(events.Prompt(tokens=-(-len(task.prompt.encode()) // 4)))
        total = task.limits.total_seconds
        try:
            async with asyncio.timeout(total) as limit:
                self._outcome = await runner_for(delegator).run(task, self._emit)
            self._emit.close()
            self._answer_due()
        except TimeoutError:
            if not limit.expired():
                raise
            self._fail(
                UnderstudyError(
                    ErrorKind.TIMED_OUT,
                    f"{delegator.name} was still at work after {total:g} s, the limit `totalSeconds`.",
                    hint="Raise the limit, or delegate a smaller piece; the work so far is kept.",
                )
            )
        except UnderstudyError as failure:
            self._fail(failure)

    def _fail(self, failure: UnderstudyError) -> None:
        self._failure = failure
        self._emit(events.AttemptFailed(
            kind=failure.kind, message=failure.message, hint=failure.hint, will_retry=False
        ))  # fmt: skip

    def _answer_due(self) -> None:
        """Raise ``empty_output`` where a text is due and none came."""
        outcome = self._outcome
        if outcome is None:
            return
        if self.spec.recipe.returns == "text" and not (outcome.text and outcome.text.strip()):
            raise UnderstudyError(
                ErrorKind.EMPTY_OUTPUT,
                f"{self.spec.delegator.name} ended well and answered nothing.",
                hint="Try again, or choose another model.",
            )

    def _task(self) -> tuple[Task, dict[str, str]]:
        spec, delegator, ground = self.spec, self.spec.delegator, self._ground
        prompt = resolve.prompt_for(
            recipe=spec.recipe,
            params=spec.asked(),
            delegator=delegator,
            model_server=spec.model_server,
            files=self._paths(spec.files),
            context=self._paths(spec.context),
            target=self._target,
            read=self._seen if ground is None else ground.read_base,
        )
        for item in prompt.files:
            if item.withheld:
                self._tell(events.Note(level="warning", text=f"{item.path} was not sent: {item.withheld}."))
        environment, secrets = _environment(delegator.env or {})
        key: str | None = None
        if spec.model_server is not None and spec.model_server.api_key is not None:
            key = keys.resolve(spec.model_server.api_key, os.environ)
            secrets[spec.model_server.name] = key
        text = Redactor(secrets).redact(prompt.text) if secrets else prompt.text
        _write_private(self.folder.prompt, text.encode("utf-8", "replace"))
        task = Task(
            delegation_id=self.folder.id,
            recipe=spec.recipe,
            prompt=text,
            prompt_file=self.folder.prompt,
            worktree=None if ground is None else ground.tree_path,
            delegator=delegator,
            model_server=spec.model_server,
            files=self._paths(spec.files),
            target=self._target,
            interpreter=self._interpreter(),
            limits=spec.params.limits or Limits(),
            session_id=spec.origin.session_id if spec.origin is not None else None,
            ask=self._questions.ask,
            environment=environment,
            key=lambda: key,
            stdout_log=self.folder.stdout,
            stderr_log=self.folder.stderr,
        )
        return task, secrets

    def _interpreter(self) -> str | None:
        from understudy.engine.checks.environment import find_interpreter  # noqa: PLC0415 - not for every run

        found = find_interpreter(Path(self.spec.workspace), self.spec.interpreter)
        return str(found.path) if found is not None else None

    def _seen(self, path: str) -> bytes | None:
        """Return what the person saw in a file when they asked."""
        for quoted, name in self.spec.buffers.items():
            if self._paths([quoted])[0] == path:
                return (self.folder.buffers / name).read_bytes()
        file = Path(self.spec.workspace) / path
        return file.read_bytes() if file.is_file() else None

    # -- what came of it -------------------------------------------------------------------------------------

    async def _keep(self, limit_seconds: float = SNAPSHOT_SECONDS) -> None:
        """Make what is in the tree a commit, or the answer a result."""
        if self._result is not None:
            return
        outcome, ground = self._outcome, self._ground
        text = outcome.text if outcome is not None else None
        summary = outcome.summary if outcome is not None else None
        if ground is None or not ground.has_tree:
            if text is not None:
                self._result = events.Result(files=[], text=text, summary=summary)
                self._emit(self._result)
            return
        if self.spec.recipe.returns == "file" and self._failure is None and text and self._target is not None:
            await self._in_thread(ground.write_target, self._target, text)
        kept = await self._in_thread(ground.keep, self._tell, limit_seconds=limit_seconds)
        files: list[FileStat] = []
        head, hunks = None, 0
        if self.spec.recipe.returns == "text":
            if kept.commit != ground.base_commit:
                self._emit(
                    events.Note(level="warning", text="The recipe answers with text; changes to files were dropped.")
                )
        else:
            head, files, hunks = kept.commit, kept.files, kept.hunks
            self._emit(events.Checkpoint(commit=kept.commit))
        self._result = events.Result(head=head, files=files, text=text, summary=summary, hunks=hunks)
        self._emit(self._result)

    async def _judge(self) -> None:
        ground, result = self._ground, self._result
        if self._failure is not None or ground is None or result is None or result.head is None:
            return
        if not await self._in_thread(self._changed):
            return
        self._judgement = await judge(
            JudgeRequest(
                delegation_id=self.folder.id,
                recipe=self.spec.recipe,
                tree=ground.judged(),
                base=ground.base_commit,
                head=result.head,
                workspace=Path(self.spec.workspace),
                files=self._paths(self.spec.files),
                checks=self.spec.checks,
                interpreter=self.spec.interpreter,
                scratch=self.folder.path / "checks",
            ),
            self._emit,
        )

    async def _check_again(self) -> None:
        before = self._before or summary.load(self.folder)
        self._ground = Ground(self.folder, self.spec, self.root)
        self._ground.reopen(before)
        if before.head is None:
            await self._keep()
        else:
            self._result = events.Result(head=before.head, files=[])
        await self._judge()

    async def _end(self, *, only_check: bool) -> None:
        """Keep what there is, say the verdict, free the slot; whatever goes wrong with it, there is an end."""
        await self._threads_are_out()
        if self._ground is not None:
            self._ground.resume()
        try:
            await self._keep(CANCEL_SNAPSHOT_SECONDS if self._stopped else SNAPSHOT_SECONDS)
        except UnderstudyError as failure:
            self._failure = self._failure or failure
        except Exception as error:
            self._failure = self._failure or _fault(self.folder, error)
        # Nothing of this delegation may live now, not even what git was made to run.
        await self._in_thread(sweep.sweep, self.folder.id)
        changed = False
        try:
            self._emit.close()
            changed = await self._in_thread(self._changed)
        except UnderstudyError as failure:
            self._failure = self._failure or failure
        self._writer.verify()
        if only_check and self._before is not None and (self._stopped or self._failure is not None):
            self._emit(events.Note(level="warning", text=f"The checks did not run to their end: {self._why()}."))
            verdict, reservations, info = _end_of(self._before)
        else:
            verdict, reservations = self._verdict(changed=changed)
            info = self._failure.info() if self._failure is not None else None
            if only_check:
                verdict, reservations, info = self._same_end(verdict, reservations, info)
        self._emit(events.Finished(verdict=verdict, reservations=reservations, error=info))
        self._let_go()
        if self._slot is not None:
            os.close(self._slot)
            self._slot = None

    @property
    def _stopped(self) -> bool:
        return self._cancelled_by is not None or self._interrupted

    def _why(self) -> str:
        if self._cancelled_by is not None:
            return "they were cancelled"
        return self._failure.message.rstrip(".") if self._failure is not None else "they were interrupted"

    async def _threads_are_out(self) -> None:
        """Wait for threads whose work was stopped: only then may git be called again."""
        busy = [asyncio.wrap_future(future) for future in self._threads.busy()]
        if busy:
            await asyncio.wait(busy, timeout=CANCEL_SNAPSHOT_SECONDS)

    def _changed(self) -> bool:
        ground, result = self._ground, self._result
        if ground is None or result is None or result.head is None:
            return False
        return ground.tree_of(result.head) != ground.tree_of(ground.base_commit)

    def _verdict(self, *, changed: bool) -> tuple[Verdict, list[Reservation]]:
        failure, result = self._failure, self._result
        limit: verdicts.LimitReached | None = None
        if failure is not None and failure.kind in {ErrorKind.TIMED_OUT, ErrorKind.STALLED}:
            limit = "timed_out"
        elif failure is not None and failure.kind is ErrorKind.BUDGET_EXHAUSTED:
            limit = "budget_exhausted"
        reservations = frozenset(self._judgement.reservations if self._judgement is not None else ())
        if self._writer.tampered:
            reservations |= {Reservation.TAMPERED}
        return verdicts.verdict_of(verdicts.Facts(
            cancelled=self._cancelled_by is not None,
            interrupted=self._interrupted,
            limit=limit,
            failed=failure is not None,
            answer=((result and result.text) or "") if self.spec.recipe.returns == "text" else None,
            changed=changed,
            results=tuple(self._judgement.results) if self._judgement is not None else (),
            reservations=reservations,
        ))  # fmt: skip

    def _same_end(
        self, verdict: Verdict, reservations: list[Reservation], info: ErrorInfo | None
    ) -> tuple[Verdict, list[Reservation], ErrorInfo | None]:
        """After checks ran again: how the work itself ended stays as it was."""
        before = self._before
        if before is None:
            return verdict, reservations, info
        if before.verdict in ENDED_EARLY and self._failure is None:
            return before.verdict, before.reservations, before.error
        if Reservation.TAMPERED in before.reservations and Reservation.TAMPERED not in reservations:
            reservations = [*reservations, Reservation.TAMPERED]
            if verdict is Verdict.VERIFIED:
                verdict = Verdict.UNVERIFIED
        return verdict, reservations, info

    async def _in_thread(self, call: Callable[..., _T], *args: object, limit_seconds: float | None = None) -> _T:
        """Run blocking git work beside the loop; a cancel aborts the git process, so the thread ends at once."""
        future = asyncio.get_running_loop().run_in_executor(None, functools.partial(call, *args))
        # Somebody may have stopped waiting for this thread; then nobody asks for what it raised.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(limit_seconds):
                return await asyncio.shield(future)
        except TimeoutError:
            if self._ground is not None:
                self._ground.abort()
            raise UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"Git was still at work on the tree after {limit_seconds} s.",
                hint="The work is still in the tree; look for a slow or full disk.",
            ) from None

    def _tell(self, event: events.Event) -> None:
        """Emit from another thread: the event is appended by the loop, in order, before the thread's result is seen."""
        self._loop.call_soon_threadsafe(self._emit_if_open, event)

    def _emit_if_open(self, event: events.Event) -> None:
        if self._lock >= 0:  # a thread that was left behind has nobody to tell any more
            self._emit(event)


class _Threads(ThreadPoolExecutor):
    """The loop's threads; tells which of them are busy."""

    def __init__(self) -> None:
        super().__init__(max_workers=4, thread_name_prefix="understudy")
        self._futures: set[Future[Any]] = set()

    def submit(self, call: Callable[..., _T], /, *args: Any, **keywords: Any) -> Future[_T]:
        """Run ``call`` in a thread."""
        future = super().submit(call, *args, **keywords)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def busy(self) -> list[Future[Any]]:
        """Return what has not ended."""
        return list(self._futures)


def _end_of(before: Delegation) -> tuple[Verdict, list[Reservation], ErrorInfo | None]:
    return before.verdict or Verdict.INTERRUPTED, before.reservations, before.error


def _needs_environment(spec: Spec) -> bool:
    """Tell whether a delegation refers to environment variables by name."""
    named = any(isinstance(value, EnvReference) for value in (spec.delegator.env or {}).values())
    key = spec.model_server.api_key if spec.model_server is not None else None
    return named or (key is not None and key.from_env is not None)


def _environment(declared: dict[str, str | EnvReference]) -> tuple[dict[str, str], dict[str, str]]:
    """Return a delegator's variables with their values, and those among them that are secret, by name."""
    values: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for name, value in declared.items():
        if isinstance(value, str):
            values[name] = value
            continue
        found = os.environ.get(value.from_env)
        if found is None:
            raise UnderstudyError(
                ErrorKind.SECRET_WITHHELD,
                f"The environment variable {value.from_env} is not set, and the delegator passes it on as {name}.",
                hint=f"Set {value.from_env} where the editor or the shell starts, then start again.",
            )
        values[name] = secrets[name] = found
    return values, secrets


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _fault(folder: store.Folder, error: Exception) -> UnderstudyError:
    import traceback  # noqa: PLC0415 - only when it goes wrong

    with contextlib.suppress(OSError), (folder.path / "worker.log").open("a", encoding="utf-8") as log:
        log.write(time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()))
        log.writelines(traceback.format_exception(error))
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return UnderstudyError(
            ErrorKind.STORE_FULL,
            "The disk became full while the work was going on.",
            hint="Free some space; then retry.",
        )
    return UnderstudyError(
        ErrorKind.INTERNAL,
        f"The worker met a fault: {type(error).__name__}: {error}",
        hint=f"This is a fault of Understudy; the details are in {folder.path / 'worker.log'}.",
    )
