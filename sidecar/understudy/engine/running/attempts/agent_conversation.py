"""What the agent of an attempt knows: the session that it continues, and what the user said meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from understudy.config.discovery import declarations
from understudy.engine.messages.message_delivery import UserMessages
from understudy.journal.writing.writer import Writer
from understudy.model.capabilities import Capabilities
from understudy.model.delegation.spec import Spec, SpecCandidate, session_owner

_FOLLOWING = "# What is asked for now"
_SAID = "# What the user said after that"


class Conversation:
    """The sessions and messages of one run."""

    def __init__(self, spec: Spec, writer: Writer, messages: UserMessages) -> None:
        """Continue the sessions of the attempts in the journal of ``writer``, and those of a parent."""
        self._spec = spec
        self._writer = writer
        self._messages = messages
        self._fresh_from = 1

    def forget(self, number: int) -> None:
        """Start new sessions from the attempt ``number`` on: those of earlier ones know files that are gone."""
        self._fresh_from = number

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
        """Return what the agent is asked, with the ``messages`` of the user after that."""
        return _with(self._spec, _SAID, messages)

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
