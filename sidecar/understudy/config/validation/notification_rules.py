"""Rules for receivers of notifications: what keeps one from getting any, and fields that its kind does not use."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from understudy.config.findings import Finding
from understudy.config.validation.delegator_rules import check_name
from understudy.config.validation.server_rules import check_key, check_url
from understudy.model.config.delegators import Scope
from understudy.model.config.notifications import NotificationReceiver, ReceiverKind

_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}")  # https://docs.ntfy.sh/publish/
_CHAT = re.compile(r"-?[0-9]{1,20}|@[A-Za-z0-9_]{1,64}")  # https://core.telegram.org/bots/api#sendmessage
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}")
_NEEDED: dict[ReceiverKind, tuple[str, ...]] = {
    "desktop": (),
    "webhook": (),
    "ntfy": ("topic",),
    "slack": ("secret_url",),
    "telegram": ("token", "chat"),
}
_OPTIONAL: dict[ReceiverKind, tuple[str, ...]] = {
    "desktop": (),
    "webhook": ("url", "secret_url", "token", "allow_private"),
    "ntfy": ("url", "token", "allow_private", "answer"),
    "slack": ("allow_private",),
    "telegram": ("url", "allow_private", "answer"),
}
_FIELDS = ("url", "secret_url", "topic", "chat", "token", "allow_private", "answer")
"""The fields that not every kind uses."""


def check_receiver(receiver: NotificationReceiver, scope: Scope) -> Iterator[Finding]:
    """Find everything that keeps ``receiver``, of a file of ``scope``, from getting notifications."""
    yield from check_name(receiver.name)
    if scope is Scope.WORKSPACE:
        message = "A workspace cannot send notifications."
        yield Finding((), message, "Add the receiver to your own configuration: understudy notifications add")
    needed, used = _NEEDED[receiver.kind], {*_NEEDED[receiver.kind], *_OPTIONAL[receiver.kind]}
    for name in _FIELDS:
        if getattr(receiver, name) and name not in used:
            message = f"`{name}` has no effect on a receiver of the kind `{receiver.kind}`."
            yield Finding((name,), message, "Remove it.", code="no_effect")
        elif name in needed and not getattr(receiver, name):
            yield Finding((), f"A receiver of the kind `{receiver.kind}` needs `{name}`.", f"Add `{name}`.")
    if receiver.kind == "webhook" and (receiver.url is None) == (receiver.secret_url is None):
        message = "A webhook needs either `url` or `secret_url`."
        yield Finding((), message, "Use `secret_url` if knowing the URL is enough to post to it.")
    if receiver.topic is not None and not _TOPIC.fullmatch(receiver.topic):
        message = "A topic has at most 64 letters, digits, hyphens and underscores."
        yield Finding(("topic",), message, "Use a name that no one guesses: who knows it can read along.")
    if receiver.chat is not None and not _CHAT.fullmatch(receiver.chat):
        yield Finding(("chat",), "`chat` must be the number of a chat, or `@` and the name of a channel.")
    if receiver.answer and (receiver.chat or "").startswith("@"):
        message = "Everyone in a channel could press the buttons."
        yield Finding(("answer",), message, "Name the number of a chat, or remove `answer`.")
    for field in ("secret_url", "token"):
        yield from check_key(getattr(receiver, field), field)
    yield from _check_url(receiver)
    for number, host in enumerate(receiver.allow_private):
        if not _HOST.fullmatch(host) and network(host) is None:
            yield Finding(("allow_private", number), f"`{host}` is not a host, an address or a network.")
    for number, folder in enumerate(receiver.workspaces):
        if not PurePosixPath(folder).is_absolute() and not folder.startswith("~/"):
            message = f"`{folder}` is not an absolute path."
            yield Finding(("workspaces", number), message, "Write the whole path, or begin it with `~/`.")
    if not receiver.events:
        yield Finding(("events",), "`events` is empty, so nothing is ever sent.", "Name one, or leave it out for all.")


def network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return the network that an entry of `allow_private` names, of one address or many; None for a host name."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _check_url(receiver: NotificationReceiver) -> Iterator[Finding]:
    if receiver.url is None:
        return
    findings = list(check_url(receiver.url, "url", instead="`token` or `secret_url`"))
    yield from findings
    if not findings and urlsplit(receiver.url).scheme == "http" and not receiver.allow_private:
        message = "`url` is not encrypted, so everyone on the way can read along."
        yield Finding(("url",), message, "Use https, or list your own host in `allow_private`.")
