"""Messages between the agents of one group.

A message is a line in ``requests.jsonl`` of its recipient, written by the worker of its sender. The recipient's worker
records it in the journal, where the user sees it, and keeps it until its agent reads it. Only agents with relay tools
that still work are peers.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from understudy.journal import delegation_folder, groups, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.journal.worker_files import Item, PeerMessage
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.text.sanitize import strip_controls

MOST_RECEIVED = 200
"""The most messages that one delegation gets."""
MOST_READ = 50
"""The most messages in one answer."""
MOST_TEXT = 60_000
"""Characters of the messages in one answer, unless the first alone is longer: its reader is a model."""
MOST_PEERS = 100

_AT_WORK = frozenset({State.PREPARING, State.QUEUED, State.RUNNING, State.WAITING})


class PeerMessages:
    """The messages of one delegation, for one event loop; what blocks is said to."""

    def __init__(self, folder: Folder, spec: Spec, emit: Callable[[events.Event], None]) -> None:
        """Start without messages."""
        self._folder = folder
        self._spec = spec
        self._emit = emit
        self._seen: dict[str, PeerMessage] = {}
        self._unread: list[PeerMessage] = []
        self._replies: dict[str, PeerMessage] = {}
        """Answers to questions of this agent, by the id of the question."""
        self._asked: dict[tuple[str, str], str] = {}
        """Recipient and text → id of a question that is not answered, so that an equal call attaches to it."""
        self._arrived = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def unread(self) -> int:
        """How many messages the agent has not read."""
        return len(self._unread)

    def take(self, items: Iterable[Item]) -> None:
        """Read new lines of ``requests.jsonl``."""
        came = False
        for received in items:
            if (
                not isinstance(received, PeerMessage)
                or received.message_id in self._seen
                or len(self._seen) >= MOST_RECEIVED
            ):
                continue
            came = True
            item = msgspec.structs.replace(received, text=strip_controls(received.text))
            self._seen[item.message_id] = item
            self._emit(
                events.AgentMessage(
                    message_id=item.message_id,
                    sender=item.sender,
                    kind=item.kind,
                    text=item.text,
                    reply_to=item.reply_to,
                )
            )
            if item.reply_to in self._asked.values():
                self._replies[item.reply_to or ""] = item
            else:
                self._unread.append(item)
        if came:
            task = asyncio.get_running_loop().create_task(self._announce())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def read(self, seconds: float) -> list[dict[str, Any]]:
        """Return the unread messages; wait up to ``seconds`` for the first."""
        await self._wait_for(lambda: bool(self._unread), seconds)
        lengths = itertools.accumulate(len(message.text) for message in self._unread[:MOST_READ])
        count = max(sum(length <= MOST_TEXT for length in lengths), 1)
        read, self._unread = self._unread[:count], self._unread[count:]
        return [_shown(message) for message in read]

    async def answer_to(self, to: str, text: str, seconds: float, send: Callable[[str], Any]) -> str | None:
        """Ask a peer, unless the same was asked before; return its answer, None if there is none yet.

        ``send`` sends the question with the id that it is given, and returns when that is done.
        """
        key = (to, text)
        if key not in self._asked:
            self._asked[key] = str(uuid.uuid4())
            try:
                await send(self._asked[key])
            except BaseException:
                del self._asked[key]
                raise
        question = self._asked[key]
        await self._wait_for(lambda: question in self._replies, seconds)
        reply = self._replies.pop(question, None)
        if reply is None:
            return None
        del self._asked[key]
        return reply.text

    async def _announce(self) -> None:
        async with self._arrived:
            self._arrived.notify_all()

    async def _wait_for(self, came: Callable[[], bool], seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._arrived:
                await self._arrived.wait_for(came)

    # -- these block -----------------------------------------------------------------------------------------

    def peers(self, group_id: str | None) -> list[Delegation]:
        """Return the delegations of a group whose agents can be talked to; blocks."""
        peers: list[Delegation] = []
        for member in groups.read(group_id).delegations if group_id is not None else ():
            if member == self._folder.id or len(peers) >= MOST_PEERS:
                continue
            with contextlib.suppress(UnderstudyError):  # one that was removed
                folder = delegation_folder.open_folder(member)
                peer = reader.peek(folder)
                if peer.state in _AT_WORK and delegation_folder.read_spec(folder).has_relay:
                    peers.append(peer)
        return peers

    def describe(self, peer: Delegation) -> dict[str, Any]:
        """Return what an agent reads about a peer."""
        parent, own_parent = peer.asked_by.parent, self._spec.relay_parent
        relation = "child" if parent == self._folder.id else "parent" if peer.id == own_parent else "peer"
        return {
            "id": peer.id,
            "title": peer.title,
            "delegator": peer.delegator,
            "is": relation,
            "state": str(peer.state),
        }

    def send(
        self,
        group_id: str | None,
        to: str,
        text: str,
        kind: Literal["message", "ask", "broadcast"],
        message_id: str | None = None,
    ) -> list[str]:
        """Send a message to the peer ``to``, or for a broadcast to all; return the ids of the recipients; blocks.

        Errors: ``unknown_delegation``, ``conflict`` (the peer has as many messages as it can take).
        """
        peers = [one.id for one in self.peers(group_id)]
        chosen = peers if kind == "broadcast" else [one for one in peers if one == to or one.endswith(f"-{to}")]
        if kind != "broadcast" and len(chosen) != 1:
            raise UnderstudyError(
                ErrorKind.UNKNOWN_DELEGATION,
                f"{to[:64]!r} is not one of your peers, or has finished.",
                hint="Call `peers` to see them.",
                names=peers[:20] or None,
            )
        reached = []
        for peer in chosen:
            item = PeerMessage(message_id=message_id or str(uuid.uuid4()), sender=self._folder.id, kind=kind, text=text)
            try:
                _append(delegation_folder.open_folder(peer), item)
            except UnderstudyError:
                if kind != "broadcast":
                    raise
                continue
            reached.append(peer)
        return reached

    def reply(self, group_id: str | None, message_id: str, text: str) -> str:
        """Answer a message; return the id of the peer that sent it; blocks.

        Errors: ``invalid_params`` (there is no such message), ``conflict`` (the peer has finished).
        """
        asked = self._seen.get(message_id)
        if asked is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"You got no message {message_id[:64]!r}.",
                hint="Use the `message_id` of a message that you read.",
                parameter="message_id",
            )
        if asked.sender not in {peer.id for peer in self.peers(group_id)}:
            raise UnderstudyError(
                ErrorKind.CONFLICT, f"{asked.sender} has finished.", hint="No one reads your reply: leave it out."
            )
        answer = PeerMessage(
            message_id=str(uuid.uuid4()), sender=self._folder.id, kind="reply", text=text, reply_to=message_id
        )
        _append(delegation_folder.open_folder(asked.sender), answer)
        return asked.sender


def _append(folder: Folder, item: PeerMessage) -> None:
    received = sum(isinstance(request, PeerMessage) for request in worker_files.read_requests(folder))
    if received >= MOST_RECEIVED:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{folder.id} has {received} messages, as many as it can take.",
            hint="Continue without it.",
        )
    worker_files.append_request(folder, item)


def _shown(message: PeerMessage) -> dict[str, Any]:
    shown = {"message_id": message.message_id, "from": message.sender, "kind": message.kind, "text": message.text}
    return shown if message.reply_to is None else shown | {"reply_to": message.reply_to}
