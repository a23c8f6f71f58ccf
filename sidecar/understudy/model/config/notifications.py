"""Receivers of notifications: where a question, a verdict, a failure, a pause or a spent budget is reported."""

from __future__ import annotations

from typing import Literal

import msgspec

from understudy.model.config.delegators import KeyReference
from understudy.model.wire import Strict

NotificationEvent = Literal["question", "verdict", "failure", "pause", "budget"]
"""An agent waits for an answer; a delegation ended with a result; it ended without one; a delegator that keeps failing
is paused; a limit on tokens, turns or money was reached."""
EVENTS: tuple[NotificationEvent, ...] = ("question", "verdict", "failure", "pause", "budget")
ReceiverKind = Literal["desktop", "webhook", "ntfy", "slack", "telegram"]


class NotificationReceiver(Strict, kw_only=True):
    """A receiver of notifications: the desktop, a webhook, ntfy, Slack or Telegram."""

    name: str
    """Its name in lists, and the name of its file."""
    kind: ReceiverKind
    """The desktop of this machine, a URL that gets JSON, or one of the services."""
    url: str | None = None
    """Where a webhook gets its JSON; for ntfy and Telegram another server than `https://ntfy.sh` and
    `https://api.telegram.org`."""
    secret_url: KeyReference | None = None
    """Where the URL of a webhook that must be kept secret is stored; Slack's always is."""
    topic: str | None = None
    """The topic at ntfy."""
    chat: str | None = None
    """The chat at Telegram: its number."""
    token: KeyReference | None = None
    """Where the token of Telegram's bot is stored, or the one with which a webhook or ntfy is called."""
    events: list[NotificationEvent] = msgspec.field(default_factory=lambda: list(EVENTS))
    """The events that it gets; absent: all."""
    workspaces: list[str] = msgspec.field(default_factory=list)
    """The folders whose delegations it gets: absolute paths, or paths that begin with `~/`; absent: all."""
    allow_private: list[str] = msgspec.field(default_factory=list)
    """Hosts, addresses or networks (`192.168.1.0/24`) that may be connected to; without an entry, only
    public addresses are."""
    answer: bool = False
    """Whether a question can be answered from it: with the buttons of ntfy and Telegram."""
