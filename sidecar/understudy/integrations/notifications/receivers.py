"""Send a notification to a receiver, each kind in its own way; try again where it was certainly not received."""

from __future__ import annotations

import html
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from understudy.integrations.notifications import http_delivery
from understudy.integrations.notifications.message import Button, Message
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.program_spec import OWN, Program
from understudy.process.unguarded import run_unguarded
from understudy.runners.backends.http.http_client import Line
from understudy.secrets import keys

TRY_SECONDS = 10.0
PAUSES = (1.0, 4.0)
"""The seconds before each further try."""
LONGEST_PAUSE = 15.0
"""A receiver that wants to be left alone for longer does not get the notification."""
NTFY = "https://ntfy.sh"
TELEGRAM = "https://api.telegram.org"
_NOT_RECEIVED = frozenset({ErrorKind.CONNECTION_FAILED, ErrorKind.RATE_LIMITED, ErrorKind.OVERLOADED})
_PRIORITY = {"question": 4, "failure": 4, "budget": 4}
"""ntfy's priorities; the usual one is 3."""
_SCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)


def deliver(
    receiver: NotificationReceiver,
    message: Message,
    *,
    buttons: Sequence[Button] = (),
    reply_topic: str = "",
    ended: threading.Event | None = None,
    pauses: Sequence[float] = PAUSES,
) -> None:
    """Send ``message``; ``buttons`` have codes, which ntfy sends to ``reply_topic``. Block for at most a minute.

    It is tried again, after ``pauses``, only where it was certainly not received, and not after ``ended``. Raises
    what ``http_delivery.send`` and ``secrets.keys.resolve`` do, and for the desktop what ``run_unguarded`` does.
    """
    ended = ended or threading.Event()
    for pause in (*pauses, None):
        try:
            _send(receiver, message, buttons, reply_topic)
        except UnderstudyError as error:
            if pause is None or error.kind not in _NOT_RECEIVED or error.status not in {None, 429, 503}:
                raise
            retry_seconds = _seconds_until(error.retry_at)
            if retry_seconds > LONGEST_PAUSE or ended.wait(max(pause, retry_seconds)):
                raise
        else:
            return


def call_telegram(
    receiver: NotificationReceiver,
    method: str,
    parameters: Mapping[str, Any],
    *,
    seconds: float = TRY_SECONDS,
    line: Line | None = None,
) -> Any:
    """Call a method of Telegram's bot API and return its result; raises what ``deliver`` does."""
    # The one service that wants its key in the URL: it is never logged, and not in any message.
    url = f"{(receiver.url or TELEGRAM).rstrip('/')}/bot{_secret(receiver, 'token')}/{method}"
    body = _post(receiver, url, parameters, seconds=seconds, line=line)
    try:
        return msgspec.json.decode(body)["result"]
    except (msgspec.MsgspecError, KeyError, TypeError):
        raise UnderstudyError(
            ErrorKind.MALFORMED_OUTPUT, f"The receiver {receiver.name} gave an answer that is not Telegram's."
        ) from None


def ntfy_server(receiver: NotificationReceiver) -> str:
    """Return the URL of the server of a topic."""
    return (receiver.url or NTFY).rstrip("/")


def bearer(receiver: NotificationReceiver) -> dict[str, str]:
    """Return the header with the token of a receiver, if it has one."""
    return {"Authorization": f"Bearer {_secret(receiver, 'token')}"} if receiver.token is not None else {}


def _send(receiver: NotificationReceiver, message: Message, buttons: Sequence[Button], reply_topic: str) -> None:
    text = f"{message.title}\n{message.text}"
    match receiver.kind:
        case "desktop":
            _show(message)
        case "webhook":
            url = receiver.url or _secret(receiver, "secret_url")
            _post(receiver, url, message, headers=bearer(receiver) | {"Idempotency-Key": message.key})
        case "slack":
            _post(receiver, _secret(receiver, "secret_url"), {"text": html.escape(text, quote=False)})
        case "ntfy":
            server = ntfy_server(receiver)
            actions = [
                {
                    "action": "http",
                    "label": button.title,
                    "url": f"{server}/{reply_topic}",
                    "method": "POST",
                    "body": button.code,
                    "clear": True,
                }
                for button in buttons
            ]
            published = {
                "topic": receiver.topic,
                "title": message.title,
                "message": message.text,
                "priority": _PRIORITY.get(message.event, 3),
                "actions": actions,
            }
            _post(receiver, f"{server}/", published, headers=bearer(receiver))
        case "telegram":
            keyboard = [[{"text": button.title, "callback_data": button.code}] for button in buttons]
            content: dict[str, Any] = {"chat_id": receiver.chat, "text": text}
            if keyboard:
                content["reply_markup"] = {"inline_keyboard": keyboard}
            call_telegram(receiver, "sendMessage", content)


def _post(
    receiver: NotificationReceiver,
    url: str,
    content: Any,
    *,
    headers: Mapping[str, str] | None = None,
    seconds: float = TRY_SECONDS,
    line: Line | None = None,
) -> bytes:
    return http_delivery.send(
        url,
        receiver.allow_private,
        content=msgspec.json.encode(content),
        headers={"Content-Type": "application/json", **(headers or {})},
        seconds=seconds,
        line=line,
    )


def _show(message: Message) -> None:
    if sys.platform == "darwin":
        script = [word for line in _SCRIPT for word in ("-e", line)]
        argv = ["osascript", *script, "--", message.title, message.text]
    else:
        argv = ["notify-send", "--app-name=Understudy", "--", message.title, message.text]
    completed = run_unguarded(Program(argv, Path("/"), dict(os.environ), OWN), timeout_seconds=TRY_SECONDS)
    if completed.code != 0:
        how = "did not end in time" if completed.timed_out else f"exited with code {completed.code}"
        raise UnderstudyError(
            ErrorKind.TOOL_CRASHED, f"{argv[0]} {how}.", hint="Is there a desktop that shows notifications?"
        )


def _secret(receiver: NotificationReceiver, field: str) -> str:
    reference = getattr(receiver, field)
    if reference is None:
        raise UnderstudyError(ErrorKind.CONFIG_INVALID, f"The receiver {receiver.name} has no `{field}`.")
    secret = keys.resolve(reference, os.environ)
    if not secret.isascii() or not secret.isprintable():
        raise UnderstudyError(
            ErrorKind.AUTH_FAILED, f"The `{field}` of the receiver {receiver.name} has characters that cannot be sent."
        )
    return secret


def _seconds_until(moment: str | None) -> float:
    from datetime import datetime

    return datetime.fromisoformat(moment).timestamp() - time.time() if moment is not None else 0.0
