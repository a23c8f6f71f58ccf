"""Say something to the agent of a delegation that has not finished, from any process."""

from __future__ import annotations

import uuid

from understudy.config.discovery import declarations
from understudy.journal import change_notifications, delegation_folder, worker_requests
from understudy.journal.delegation_folder import Folder
from understudy.journal.summaries import summary
from understudy.model.delegation.delegations import Delegation, Delivery, SentMessage
from understudy.model.delegation.spec import SpecCandidate
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State

ANSWER_SECONDS = 5.0
"""How long the worker may take to say what it does with a message; it has it in any case."""
MOST_MESSAGES = 500
"""Fewer than a summary keeps, so that each is known to be delivered or not."""
_BEFORE = frozenset({State.PREPARING, State.QUEUED})


def say(folder: Folder, delegation: Delegation, text: str, *, by: str) -> tuple[str, Delivery]:
    """Give ``text`` to the worker of a ``delegation``; return the id of the message and what happens to it.

    Raises ``input_empty``, ``invalid_params`` (too long, too many, an agent that takes no words) and ``conflict`` when
    the agent has finished. When it finishes while this runs, the message is kept for the reply.
    """
    if not text.strip():
        raise UnderstudyError(ErrorKind.INPUT_EMPTY, "The message is empty.", hint="Write what the agent should know.")
    require_instructable(delegation_folder.read_spec(folder).candidates[0])
    _require_open(delegation)
    earlier = sum(isinstance(request, worker_requests.Say) for request in worker_requests.read_requests(folder))
    if earlier >= MOST_MESSAGES:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{delegation.id} already has {earlier} messages, as many as it can take.",
            hint=f"Wait for its end, then reply: understudy reply {delegation.id} TEXT",
        )
    item = worker_requests.Say(message_id=str(uuid.uuid4()), text=text, by=by)
    with change_notifications.ChangeListener() as listener:
        worker_requests.append_request(folder, item)
        if delegation.state in _BEFORE:
            return item.message_id, "waiting"

        def answered() -> bool:
            now = summary.load(folder)
            return _message(now, item.message_id) is not None or now.state is State.FINISHED

        change_notifications.wait_for(answered, listener, ANSWER_SECONDS)
    now = summary.load(folder)
    message = _message(now, item.message_id)
    if message is not None:
        return item.message_id, message.delivery
    return item.message_id, "kept" if now.state is State.FINISHED else "waiting"


def undelivered(folder: Folder, delegation: Delegation) -> list[worker_requests.Say]:
    """Return the messages that neither the agent nor a reply got, oldest first."""
    delivered = {message.id for message in delegation.messages if message.delivered}
    items = worker_requests.read_requests(folder)
    by_id = {item.message_id: item for item in items if isinstance(item, worker_requests.Say)}
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
