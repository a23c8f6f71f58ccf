"""How long a model server is waited for: shorter where another candidate can take over."""

from __future__ import annotations

import msgspec

from understudy.model.config.delegators import FIRST_EVENT_SECONDS, IDLE_SECONDS


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the requests of one attempt, where the delegator's own limits say nothing."""

    retries: int = 2
    """How often a request that was refused or not answered is sent again."""
    longest_wait_seconds: float = 120.0
    """The longest pause that a server may ask for; the attempt fails if it asks for more. The openai client's."""
    first_event_seconds: float = FIRST_EVENT_SECONDS
    idle_seconds: float = IDLE_SECONDS


_OF_FOLLOWED = Patience(retries=1, longest_wait_seconds=10.0, first_event_seconds=60.0)
_OF_FOLLOWED_TEXT = Patience(retries=1, longest_wait_seconds=10.0, first_event_seconds=15.0, idle_seconds=20.0)


def patience(*, followed: bool, is_probe: bool, returns_text: bool) -> Patience:
    """Return the bounds of an attempt on a model server.

    ``followed``: another candidate can take over. ``is_probe``: a pause has ended, and one request shows whether the
    server works again. ``returns_text``: the answer is all there is, so its first word comes soon.
    """
    if not followed:
        return Patience()
    bounds = _OF_FOLLOWED_TEXT if returns_text else _OF_FOLLOWED
    return msgspec.structs.replace(bounds, retries=0) if is_probe else bounds
