"""What a user asks of a run in ``requests.jsonl``: answers to the agent's questions, and its stop.

A question is answered by the user's rules, or forwarded: one at a time, with a default after a deadline. ``permission``
is appended (the state is then ``waiting``), any process answers, the first valid answer wins, and
``permission_answered`` records which. The deadline answers through the same file as the user, so they cannot both win.

A rule that allows is read narrowly, one that rejects or asks broadly: when in doubt, the user is asked. A rule allows
nothing outside the worktree or in ``.git``, and no command line that may run more than its first words say.

A run is stopped by a cancel, a signal, or the end of the delegation whose agent asked for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shlex
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from understudy.git import command
from understudy.journal import delegation_folder, worker_files
from understudy.journal.change_notifications import ChangeListener
from understudy.journal.delegation_folder import Folder
from understudy.journal.worker_files import Answer, Cancel, Item, RequestTail, worker_topic
from understudy.model.config.delegators import Delegator, PermissionRule
from understudy.model.delegation import events
from understudy.model.delegation.delegations import PermissionOption, PermissionRequest
from understudy.model.delegation.spec import RELAY
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import timestamp
from understudy.runners.runner import Question

DEADLINE = "deadline"
"""The value of ``by`` when the deadline passed."""
POLICY = "policy"
"""The value of ``by`` when a rule answered."""
WITHDRAWN = "withdrawn"  # english: allow withdrawn - a value in journals
"""The value of ``by`` when the agent cancelled the question."""
_MORE_THAN_ONE = frozenset(";&|<>()$`\n\r\\{}*?[]~!#")
"""Characters that a shell may read as more than words; quoting is not interpreted."""
_LONGEST_RULE = 500
LOOK_SECONDS = 1.0
"""How much later a cancel is noticed when its change notification is lost."""


class PermissionRequests:
    """The questions of one run; for one event loop."""

    def __init__(
        self,
        folder: Folder,
        emit: Callable[[events.Event], None],
        seconds: float = 0.0,
        asked: Callable[[PermissionRequest], Callable[[], None]] = lambda _: lambda: None,
    ) -> None:
        """Ask through ``emit``; wait at most ``seconds`` for each answer.

        ``asked`` is called with each question that waits for the user, and what it returns when it waits no more.
        """
        self._asked = asked
        self._folder = folder
        self._emit = emit
        self._seconds = seconds
        self._rules: list[PermissionRule] = []
        self._unanswered = "reject"
        self._tree: Path | None = None
        self._turn = asyncio.Lock()
        self._number = 0
        self._open: PermissionRequest | None = None
        self._answer: asyncio.Future[Answer] | None = None

    def begin_attempt(self, delegator: Delegator, seconds: float, tree: Path | None) -> None:
        """Use the delegator's rules, and wait at most ``seconds`` for each answer; ``tree`` is the worktree."""
        self._seconds, self._tree = seconds, tree
        self._rules = list(delegator.permissions or ())
        self._unanswered = (delegator.launch.unanswered if delegator.launch is not None else None) or "reject"

    async def ask(self, question: Question) -> tuple[PermissionOption, str | None]:
        """Decide by the rules, or ask the user; return the chosen option and the note with it.

        Concurrent questions are asked one after another. One of the options must reject: it is chosen
        when no one answers in time, unless the delegator says otherwise. Raises ``permission_denied`` if it says that
        the attempt ends then.
        """
        options = question.options
        rejecting = next((option for option in options if option.kind.startswith("reject")), None)
        if rejecting is None or len({option.id for option in options}) != len(options):
            raise UnderstudyError(
                ErrorKind.INTERNAL,
                f"The question {question.title!r} has no option that rejects, or two options with the same ID.",
            )
        allowing = next((option for option in options if option.kind == "allow_once"), None)
        async with self._turn:
            self._number += 1
            asks_user = question.kind == "question"  # no rule answers it, and nothing is allowed with it
            decision = None if asks_user else decide(self._rules, question, self._tree)
            deadline = timestamp(time.time() + self._seconds)
            request = PermissionRequest(
                # The agent's own ids may repeat after a restart; these do not. They cannot be guessed either: an answer
                # that an agent wrote into `requests.jsonl` beforehand answers no question.
                request_id=f"q{self._number}-{secrets.token_hex(3)}",
                attempt=0,  # the event is stamped with it
                deadline=deadline.replace("+00:00", "Z"),
                deadline_action=(
                    allowing if allowing and self._unanswered == "allow" and not asks_user else rejecting
                ).id,
                rule=rule_for(question, self._tree) if allowing and not asks_user else None,
                **question.fields(),
            )
            if decision == "reject":
                return self._decided(request, rejecting), "A rule of the user rejects this."
            if decision == "allow" and allowing is not None:
                return self._decided(request, allowing), None
            return await self._put(request)

    def _decided(self, request: PermissionRequest, option: PermissionOption) -> PermissionOption:
        """Record what a rule decided."""
        self._emit(_asked(request))
        self._emit(events.PermissionAnswered(request_id=request.request_id, option=option.id, by=POLICY))
        return option

    def take(self, items: Iterable[Item]) -> None:
        """Read new lines of ``requests.jsonl``; the first valid answer to the open question counts."""
        waiting, request = self._answer, self._open
        if waiting is None or request is None or waiting.done():
            return
        answer = worker_files.first_answer(list(items), request)
        if answer is not None:
            waiting.set_result(answer)

    async def _put(self, request: PermissionRequest) -> tuple[PermissionOption, str | None]:
        self._open, self._answer = request, asyncio.get_running_loop().create_future()
        closed: Callable[[], None] = lambda: None  # noqa: E731
        try:
            self._emit(_asked(request))
            closed = self._asked(request)
            try:
                async with asyncio.timeout(self._seconds):
                    answer = await asyncio.shield(self._answer)
            except TimeoutError:
                answer = self._on_deadline(request)
            except asyncio.CancelledError:
                # The agent cancelled its question: it can no longer be answered.
                taken_back = self._on_deadline(request, by=WITHDRAWN)
                self._emit(
                    events.PermissionAnswered(
                        request_id=request.request_id, option=taken_back.option, by=taken_back.by or WITHDRAWN
                    )
                )
                raise
            self._emit(
                events.PermissionAnswered(
                    request_id=request.request_id, option=answer.option, by=answer.by or "unknown"
                )
            )
        finally:
            self._open = self._answer = None
            closed()
        if answer.by == DEADLINE and self._unanswered == "stop" and request.kind != "question":
            raise UnderstudyError(
                ErrorKind.PERMISSION_DENIED,
                f"No one answered within {self._seconds:g} s: {request.title}",
                hint="Retry and answer it, raise `answer_seconds`, or add a rule to the delegator's `permissions`.",
            )
        chosen = next(option for option in request.options if option.id == answer.option)
        if answer.remember and request.rule is not None and chosen.kind.startswith("allow"):
            self._rules.append(request.rule)
        return chosen, answer.note

    def _on_deadline(self, request: PermissionRequest, by: str | None = None) -> Answer:
        """Answer with the default, unless the user has just answered."""
        default = Answer(request_id=request.request_id, option=request.deadline_action, by=by or DEADLINE)
        try:
            worker_files.append_answer(self._folder, default, request)
        except UnderstudyError as error:
            if error.kind is ErrorKind.CONFLICT:
                return worker_files.first_answer(worker_files.read_requests(self._folder), request) or default
            # The default applies even if it cannot be written: a full disk must not grant a permission.
        return default


def _asked(request: PermissionRequest) -> events.Permission:
    return events.Permission(
        **{name: getattr(request, name) for name in request.__struct_fields__ if name != "attempt"}
    )


def open_question(waiting: PermissionRequest | None, request_id: str, identifier: str) -> PermissionRequest:
    """Return the question ``request_id``; raise ``conflict`` if it is not open."""
    if waiting is None or waiting.request_id != request_id:
        now = f"it asks {waiting.request_id!r}" if waiting is not None else "it was answered, or its deadline passed"
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{identifier} is not waiting for an answer to {request_id!r}: {now}.",
            hint=f"See what it asks now: understudy show {identifier}",
        )
    return waiting


def decide(
    rules: Sequence[PermissionRule], question: Question, tree: Path | None
) -> Literal["allow", "reject", "ask"] | None:
    """Return what the first matching rule says, None if none matches; ``tree`` is the worktree."""
    for rule in rules:
        if rule.kind is not None and rule.kind != question.kind:
            continue
        if rule.decision == "allow":
            # What is shown of a question may not be all that would run.
            if not question.altered and _allows(rule, question, tree):
                return "allow"
        elif _concerns(rule, question):
            return rule.decision
    return None


def rule_for(question: Question, tree: Path | None) -> PermissionRule | None:
    """Return a rule that allows exactly what ``question`` asks; None if there is none."""
    if question.altered:
        return None
    if question.kind == "execute":
        words = _simple_words(question.command)
        if not words:
            return None
        # Further words may be further files: `rm -r build` says nothing about `rm -r build src`.
        rule = PermissionRule(decision="allow", kind="execute", command=shlex.join(words), exact=True)
    elif question.kind in {"read", "edit"} and question.paths is not None and len(question.paths) == 1:
        [path] = question.paths
        if tree is None or Path(tree, path).is_dir():
            return None  # the pattern of a folder means everything in it
        rule = PermissionRule(decision="allow", kind=question.kind, path=f"/{_escaped(path)}")
    else:
        return None
    too_long = len(rule.command or rule.path or "") > _LONGEST_RULE
    return rule if not too_long and _allows(rule, question, tree) else None


def _allows(rule: PermissionRule, question: Question, tree: Path | None) -> bool:
    names_files = question.kind in {"read", "edit"} or bool(question.paths)
    if names_files and not _all_inside(question.paths, tree):
        return False
    if rule.command is not None:
        first, words = _simple_words(rule.command), _simple_words(question.command)
        if not first or words[: None if rule.exact else len(first)] != first:
            return False
    if rule.path is not None:
        paths = question.paths or []
        return bool(paths) and len(_matching(rule.path, paths)) == len(paths)
    return True


def _concerns(rule: PermissionRule, question: Question) -> bool:
    if rule.command is not None:
        words = rule.command.split()
        anywhere = r"\s+".join(map(re.escape, words))
        line = question.command or ""
        # Quotes and backslashes inside a word hide it from a shell's reader, not from the shell.
        plain = re.sub(r"[\"'\\]", "", line)
        if not words or not any(re.search(rf"(?<![\w.-]){anywhere}(?![\w-])", text) for text in (line, plain)):
            return False
    return rule.path is None or bool(_matching(rule.path, question.paths or []))


def _simple_words(line: str | None) -> list[str]:
    """Return the words of a command line that is nothing but words; an empty list for every other."""
    if line is None or _MORE_THAN_ONE & set(line):
        return []
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    # NAME=value before a command changes what it runs.
    return words if words and "=" not in words[0] else []


def _all_inside(paths: Sequence[str] | None, tree: Path | None) -> bool:
    """Return whether all paths are known and lead into the worktree, links resolved, and none into ``.git``."""
    if not paths or tree is None:
        return False
    top = os.path.realpath(tree)
    for path in paths:
        real = os.path.realpath(Path(top, path))
        if real != top and not real.startswith(f"{top}/"):
            return False
        if ".git" in os.path.relpath(real, top).lower().split("/"):
            return False
    return True


def _matching(pattern: str, paths: Sequence[str]) -> list[str]:
    import pathspec

    spec = pathspec.GitIgnoreSpec.from_lines([pattern])
    return [path for path in paths if spec.match_file(os.path.normpath(path))]


def _escaped(path: str) -> str:
    return re.sub(r"([*?\[\]\\! #])", r"\\\1", path)


class StopRequests:
    """Reads ``requests.jsonl`` and hears signals while the work runs, and stops it."""

    def __init__(
        self,
        folder: Folder,
        *,
        take: Callable[[Sequence[Item]], None],
        checking: Callable[[], bool],
        parent: str | None,
        since: str,
    ) -> None:
        """Hear nothing yet.

        ``take`` gets every new line, ``checking`` says whether checks run, ``parent`` is the delegation with which this
        one ends, and cancels from before ``since`` were meant for something else.
        """
        self.cancelled_by: str | None = None
        """Who cancelled."""
        self.only_checks = False
        """Whether only the checks of the result were stopped."""
        self.interrupted = False
        """Whether a signal came."""
        self._folder = folder
        self._requests = RequestTail(folder)
        self._take = take
        self._checking = checking
        self._parent = parent
        self._since = since
        self._work: asyncio.Future[None] | None = None

    @property
    def stopped(self) -> bool:
        """Whether the work was stopped."""
        return self.cancelled_by is not None or self.interrupted

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hear cancels and signals in this block."""
        loop = asyncio.get_running_loop()
        with ChangeListener(only=[worker_topic(self._folder.id)]) as bell:
            loop.add_reader(bell.fileno(), self._rung, bell)
            ticking = asyncio.create_task(self._tick())
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                loop.add_signal_handler(number, self._interrupt)
            try:
                yield
            finally:
                ticking.cancel()
                loop.remove_reader(bell.fileno())

    async def guard(self, work: Awaitable[None]) -> None:
        """Run ``work`` until it ends or is stopped; its errors are raised."""
        self._work = asyncio.ensure_future(work)
        self.look()
        try:
            await self._work
        except asyncio.CancelledError:
            if not self.stopped:
                raise

    def look(self) -> None:
        """Read new requests."""
        items = self._requests.read()
        self._take(items)
        for item in items:
            if not isinstance(item, Cancel) or self.cancelled_by is not None or item.at <= self._since:
                continue
            if not item.only_checks or self._checking():
                self.only_checks = item.only_checks
                self._cancel(item.by)

    def _rung(self, bell: ChangeListener) -> None:
        bell.drain()
        self.look()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()
            if self.cancelled_by is None and self._parent is not None and _has_ended(self._parent):
                self._cancel(RELAY)

    def _cancel(self, by: str) -> None:
        self.cancelled_by = by
        self._stop()

    def _interrupt(self) -> None:
        self.interrupted = True
        self._stop()

    def _stop(self) -> None:
        command.abort()  # a thread may be waiting for git
        if self._work is not None:
            self._work.cancel()


def _has_ended(parent: str) -> bool:
    """Return whether the delegation ``parent`` has finished, or its worker was killed."""
    try:
        return not worker_files.is_held(delegation_folder.open_folder(parent))
    except UnderstudyError:
        return True  # it was removed
