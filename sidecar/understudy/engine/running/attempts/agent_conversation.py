"""What the agent of an attempt knows: the session that it continues, and what the user said meanwhile.

A message is durable in ``requests.jsonl`` before the worker reads it (``say``). ``user_message`` records what the
worker does with it, ``message_delivered`` that the agent got it. An agent that takes messages during its turn gets it
at once; if the attempt ends before the agent got it, a follow-up attempt in the same session has it in its prompt. What
is not delivered at the end of the run is part of the next reply.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from understudy.config.discovery import declarations
from understudy.journal import change_notifications, delegation_folder, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.journal.worker_files import Item, Say
from understudy.journal.writing.writer import Writer
from understudy.model.capabilities import Capabilities, MessageTime
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation, Delivery, SentMessage
from understudy.model.delegation.spec import Spec, SpecCandidate, session_owner
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.runners.runner import Message, Send

_FOLLOWING = "# What is asked for now"
_SAID = "# What the user said after that"
_HANDED_OVER = "# The work so far"
HAND_OVER_SECONDS = 2.0
"""After this, a message that the agent does not read waits for the end of its turn."""
_WORKS = (events.Text, events.Thinking, events.ToolCall, events.Plan, events.File)
"""Events that show that an agent has read its prompt."""
ANSWER_SECONDS = 5.0
"""How long the worker may take to say what it does with a message; it has it in any case."""
MOST_MESSAGES = 500
"""Fewer than a summary keeps, so that each is known to be delivered or not."""
_BEFORE = frozenset({State.PREPARING, State.QUEUED})


class Conversation:
    """The sessions and messages of one run."""

    def __init__(self, spec: Spec, writer: Writer, messages: UserMessages) -> None:
        """Continue the sessions of the attempts in the journal of ``writer``, and those of a parent."""
        self._spec = spec
        self._writer = writer
        self._messages = messages
        self._fresh_from = 1
        self._notes = ""

    def forget(self, number: int, notes: str = "") -> None:
        """Start new sessions from the attempt ``number`` on: those of earlier ones know files that are gone.

        Where they are not gone, ``notes`` say what was done to them: the sessions are those of another agent.
        """
        self._fresh_from, self._notes = number, notes

    def session(self, candidate: SpecCandidate) -> str | None:
        """Return the last session of the candidate's tool: from an earlier attempt, else from the parent."""
        owner = session_owner(candidate.delegator.tool, candidate.delegator.name)
        for attempt in reversed(self._writer.delegation.attempts):
            if attempt.number < self._fresh_from:
                break
            # Our own loop has no owner: its conversations are in this process, one for each delegator.
            same = owner is not None or attempt.delegator == candidate.delegator.name
            if attempt.session_id and same and session_owner(attempt.tool, attempt.delegator) == owner:
                return attempt.session_id
        origin = self._spec.origin
        return origin.sessions.get(owner) if origin is not None and owner is not None else None

    def can_continue(self, candidate: SpecCandidate) -> bool:
        """Return whether the last attempt, which was one on ``candidate``, has a session that can be continued."""
        attempts = self._writer.delegation.attempts
        # A tool may name its session, and not be able to continue it.
        if not self._has_next_turn(candidate, _declared(candidate)):
            return False
        return bool(attempts) and attempts[-1].session_id is not None and self.session(candidate) is not None

    def begin_attempt(self, number: int, candidate: SpecCandidate) -> list[str]:
        """Return what the user said that belongs in the prompt of an attempt."""
        declared, session = _declared(candidate), self.session(candidate)
        attempts = self._writer.delegation.attempts
        return self._messages.begin_attempt(
            number,
            declared.messages,
            continues=self._has_next_turn(candidate, declared),
            known_to=[attempt.number for attempt in attempts if session is not None and attempt.session_id == session],
        )

    def told(self, messages: Sequence[str]) -> Spec:
        """Return what the agent is asked, with the ``messages`` of the user after that, and what others have done."""
        return _with(_with(self._spec, _SAID, messages), _HANDED_OVER, [self._notes] if self._notes else [])

    def asked_for(self, request: str, candidate: SpecCandidate) -> Spec:
        """Return what the agent is asked when ``request`` follows; a new session gets everything from before."""
        before = self._spec if self.session(candidate) is not None else self.told(self._messages.delivered)
        return _with(before, _FOLLOWING, [request])

    def _has_next_turn(self, candidate: SpecCandidate, declared: Capabilities) -> bool:
        """Return whether an agent can be asked for more after its turn: our own loop only where files change."""
        return declared.sessions and (candidate.delegator.tool is not None or self._spec.recipe.returns == "tree")


def _declared(candidate: SpecCandidate) -> Capabilities:
    return declarations.require_capabilities(candidate.delegator, candidate.model_server, candidate.tool_definition)


def _with(spec: Spec, title: str, messages: Sequence[str]) -> Spec:
    """Return ``spec`` with further texts of the user in its task."""
    if not messages:
        return spec
    params = spec.asked()
    before = (params.task or "").strip()
    asked = "\n\n".join([before, title, *messages] if before else messages)
    return msgspec.structs.replace(spec, params=msgspec.structs.replace(params, task=asked), origin=None)


@dataclass
class _Held:
    """A message of this run."""

    message: Message
    by: str
    recorded: bool = False
    attempt: int | None = None
    """The attempt whose agent got it."""


class UserMessages:
    """The messages of one run, for one event loop; the ``Messages`` of each of its attempts."""

    def __init__(self, emit: Callable[[events.Event], None], recorded: Iterable[SentMessage]) -> None:
        """Take the messages that an earlier worker of the same run ``recorded``, before its first attempt."""
        self._emit = emit
        self._known = {message.id for message in recorded}
        self._held: dict[str, _Held] = {}
        self._in_prompt: list[_Held] = []
        self._outgoing: asyncio.Queue[_Held] = asyncio.Queue()
        self._handing: asyncio.Task[None] | None = None
        self._attempt = 0
        self._time: MessageTime = "next_attempt"
        self._has_next_turn = True

    def take(self, items: Iterable[Item]) -> None:
        """Read new lines of ``requests.jsonl``."""
        for item in items:
            if not isinstance(item, Say) or item.message_id in self._held:
                continue
            held = _Held(Message(message_id=item.message_id, text=item.text), item.by, item.message_id in self._known)
            self._held[item.message_id] = held
            if self._handing is not None:
                self._outgoing.put_nowait(held)
            else:
                self._record(held)

    # -- around an attempt -----------------------------------------------------------------------------------

    def begin_attempt(self, number: int, time: MessageTime, *, continues: bool, known_to: Iterable[int]) -> list[str]:
        """Return the texts that belong in the prompt: of all messages that the agent has not got in its session.

        ``known_to`` are the attempts whose session is continued; ``continues`` says whether the agent can be asked for
        more after its turn.
        """
        self._attempt, self._time = number, time
        self._has_next_turn = continues or time == "after_turn"
        sessions = set(known_to)
        self._in_prompt = [held for held in self._held.values() if held.attempt is None or held.attempt not in sessions]
        return [held.message.text for held in self._in_prompt]

    def saw(self, event: events.Event) -> None:
        """Note that the agent has read its prompt, if ``event`` shows it."""
        if self._in_prompt and isinstance(event, _WORKS):
            for held in self._in_prompt:
                self._delivered(held)
            self._in_prompt = []

    def connect(self, send: Send) -> None:
        """Hand messages over with ``send`` from now on, first those that came after the prompt was written."""
        if self._handing is None and self._time in {"during_turn", "after_turn"}:
            for held in self._held.values():
                if held.attempt is None and held not in self._in_prompt:
                    self._outgoing.put_nowait(held)
            self._handing = asyncio.get_running_loop().create_task(self._hand_over(send))

    def taken(self, message_id: str) -> None:
        """Record that the agent got a message."""
        held = self._held.get(message_id)
        if held is not None and held.attempt is None:
            self._delivered(held)

    async def end_attempt(self, *, succeeded: bool) -> None:
        """Hand over no more; an agent that succeeded has read its prompt."""
        handing, self._handing = self._handing, None
        if handing is not None:
            handing.cancel()
            await asyncio.wait([handing])
        while not self._outgoing.empty():
            self._record(self._outgoing.get_nowait())
        for held in self._in_prompt if succeeded else ():
            self._delivered(held)
        self._in_prompt = []

    @property
    def waiting(self) -> bool:
        """Whether there is a message that no agent got."""
        return any(held.attempt is None for held in self._held.values())

    @property
    def delivered(self) -> list[str]:
        """The texts that an agent got."""
        return [held.message.text for held in self._held.values() if held.attempt is not None]

    def close(self) -> None:
        """Keep everything that comes from now on for the next reply."""
        self._has_next_turn = False

    # -- parts -----------------------------------------------------------------------------------------------

    async def _hand_over(self, send: Send) -> None:
        while True:
            held = await self._outgoing.get()
            delivery: Delivery | None = None
            try:
                async with asyncio.timeout(HAND_OVER_SECONDS):
                    await send(held.message)
                if self._time == "during_turn":
                    delivery = "sent"
            except (UnderstudyError, TimeoutError):
                pass
            finally:
                self._record(held, delivery)

    def _record(self, held: _Held, delivery: Delivery | None = None) -> None:
        if not held.recorded:
            held.recorded = True
            message = held.message
            default: Delivery = "waiting" if self._has_next_turn else "kept"
            self._emit(
                events.UserMessage(
                    message_id=message.message_id, text=message.text, by=held.by, delivery=delivery or default
                )
            )

    def _delivered(self, held: _Held) -> None:
        self._record(held, "sent")
        if held.attempt is None:
            self._emit(events.MessageDelivered(message_id=held.message.message_id))
        held.attempt = self._attempt


def say(folder: Folder, delegation: Delegation, text: str, *, by: str) -> tuple[str, Delivery]:
    """Give ``text`` to the worker of a ``delegation``; return the id of the message and what happens to it.

    Raises ``input_empty``, ``invalid_params`` (too long, too many, an agent that takes no words) and ``conflict`` when
    the agent has finished. When it finishes while this runs, the message is kept for the reply.
    """
    if not text.strip():
        raise UnderstudyError(ErrorKind.INPUT_EMPTY, "The message is empty.", hint="Write what the agent should know.")
    require_instructable(delegation_folder.read_spec(folder).candidates[0])
    _require_open(delegation)
    earlier = sum(isinstance(request, worker_files.Say) for request in worker_files.read_requests(folder))
    if earlier >= MOST_MESSAGES:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{delegation.id} already has {earlier} messages, as many as it can take.",
            hint=f"Wait for its end, then reply: understudy reply {delegation.id} TEXT",
        )
    item = worker_files.Say(message_id=str(uuid.uuid4()), text=text, by=by)
    with change_notifications.ChangeListener() as listener:
        worker_files.append_request(folder, item)
        if delegation.state in _BEFORE:
            return item.message_id, "waiting"

        def answered() -> bool:
            now = reader.load(folder)
            return _message(now, item.message_id) is not None or now.state is State.FINISHED

        change_notifications.wait_for(answered, listener, ANSWER_SECONDS)
    now = reader.load(folder)
    message = _message(now, item.message_id)
    if message is not None:
        return item.message_id, message.delivery
    return item.message_id, "kept" if now.state is State.FINISHED else "waiting"


def undelivered(folder: Folder, delegation: Delegation) -> list[worker_files.Say]:
    """Return the messages that neither the agent nor a reply got, oldest first."""
    delivered = {message.id for message in delegation.messages if message.delivered}
    items = worker_files.read_requests(folder)
    by_id = {item.message_id: item for item in items if isinstance(item, worker_files.Say)}
    return [item for item in by_id.values() if item.message_id not in delivered]


def _message(delegation: Delegation, message_id: str) -> SentMessage | None:
    return next((message for message in delegation.messages if message.id == message_id), None)


def _require_open(delegation: Delegation) -> None:
    if delegation.state is State.FINISHED:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{delegation.id} has finished; its agent no longer works.",
            hint=f"Reply to its result: understudy reply {delegation.id} TEXT",
        )
    if delegation.state is State.CHECKING:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The agent of {delegation.id} has finished its work; the checks run.",
            hint=f"Wait for their end (understudy wait {delegation.id}), then: understudy reply {delegation.id} TEXT",
        )


def require_instructable(
    candidate: SpecCandidate, *, hint: str = "Use another delegator for work that needs instructions."
) -> None:
    """Raise ``invalid_params`` for an agent that follows no words, such as the ghostwriter."""
    declared = declarations.capabilities_of(candidate.delegator, candidate.model_server, candidate.tool_definition)
    if declared is not None and not declared.follows_instructions:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{declared.title} works without a model, so it follows no instructions.",
            hint=hint,
        )
