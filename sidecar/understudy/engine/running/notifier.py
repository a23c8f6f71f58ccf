"""Send notifications of a run, in threads that no run waits for.

Only the process that wrote an event to the journal sends its notification, once and right after that: one that is
killed before is not made up for. A worker that has ended its runs waits for what is being sent, without its slot.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from understudy.config import locations
from understudy.integrations.notifications import message
from understudy.integrations.notifications.message import Button, Message
from understudy.journal.delegation_folder import Folder
from understudy.model.config.config_entries import Pause
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.delegation.delegations import Delegation, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import timestamp

if TYPE_CHECKING:  # a worker that sends nothing starts without it
    from understudy.runners.backends.http.http_client import Line

MOST_THREADS = 32
"""What is more than these at once is not sent."""
FINISH_SECONDS = 45.0
"""A little longer than all tries of one notification usually take."""

_threads: list[threading.Thread] = []
_ending = threading.Event()


class Notifier:
    """Sends the notifications of one delegation; ``redact`` removes known secrets from a text."""

    def __init__(self, folder: Folder, root: Path, redact: Callable[[str], str]) -> None:
        """Send nothing yet."""
        self._folder = folder
        self._root = root
        self._redact = redact

    def ended(self, delegation: Delegation) -> None:
        """Report how a run ended."""
        notification = message.of_end(delegation)
        if notification is not None:
            self._start(notification, delegation)

    def paused(self, delegation: Delegation, delegator: str, pause: Pause) -> None:
        """Report that a delegator is paused."""
        self._start(message.of_pause(delegation, delegator, pause.until, pause.failure), delegation)

    def asked(self, delegation: Delegation, request: PermissionRequest) -> Callable[[], None]:
        """Report a question, and hear answers to it until the function that is returned is called."""
        question = _Question(delegation.id, request)
        if not self._start(message.of_question(delegation, request), delegation, question):
            return lambda: None
        return lambda: question.close(self._root)

    def _start(self, notification: Message, delegation: Delegation, question: _Question | None = None) -> bool:
        if not locations.is_used(locations.FileKind.NOTIFICATION):
            return False
        notification = msgspec.structs.replace(
            notification, title=self._redact(notification.title), text=self._redact(notification.text)
        )
        return _run("notifications", lambda: self._send_all(notification, delegation.workspace, question))

    def _send_all(self, notification: Message, workspace: str, question: _Question | None) -> None:
        from understudy.config.loading import loader  # a worker that sends nothing starts without it

        for entry in loader.load(None, trusted=False).notifications.values():
            receiver = entry.receiver
            if not entry.usable or notification.event not in receiver.events or not _concerns(receiver, workspace):
                continue
            if not _run(receiver.name, functools.partial(self._send, receiver, notification, question)):
                self._failed(receiver.name, UnderstudyError(ErrorKind.OVERLOADED, "Too much is being sent at once."))

    def _send(self, receiver: NotificationReceiver, notification: Message, question: _Question | None) -> None:
        from understudy.engine.running import notified_answers
        from understudy.integrations.notifications import receivers, sent

        buttons: list[Button] = []
        topic = f"understudy-{secrets.token_urlsafe(24)}"
        try:
            if receiver.answer and question is not None:
                buttons = question.buttons(self._root, receiver.name)
            receivers.deliver(receiver, notification, buttons=buttons, reply_topic=topic, ended=_ending)
        except UnderstudyError as error:
            self._failed(receiver.name, error)
            return
        with contextlib.suppress(UnderstudyError):
            sent.record(self._root, receiver.name, None)
        if buttons and question is not None:
            notified_answers.listen(self._root, receiver, topic, question.line(), self._log)

    def _failed(self, name: str, error: UnderstudyError) -> None:
        from understudy.integrations.notifications import sent

        self._log(f"the notification to {name} was not sent: {error.message}")
        with contextlib.suppress(UnderstudyError):
            sent.record(self._root, name, error.info())

    def _log(self, text: str) -> None:
        with contextlib.suppress(OSError), (self._folder.path / "worker.log").open("a", encoding="utf-8") as log:
            log.write(f"{timestamp(precision='seconds')} {self._redact(text)}\n")


class _Question:
    """An open question, and the lines on which answers to it are heard."""

    def __init__(self, delegation: str, request: PermissionRequest) -> None:
        self._delegation = delegation
        self._request = request
        self._lock = threading.Lock()
        self._lines: list[Line] = []
        self._closed = False

    def buttons(self, root: Path, receiver: str) -> list[Button]:
        """Return the buttons with new codes; none once it is closed."""
        from understudy.engine.running.notified_answers import Code, issue

        with self._lock:
            if self._closed:
                return []
            until = self._request.deadline or ""
            return [
                msgspec.structs.replace(
                    button,
                    code=issue(root, Code(receiver, self._delegation, self._request.request_id, button.option, until)),
                )
                for button in message.buttons(self._request)
            ]

    def line(self) -> Line:
        """Return a line that ends when the question is closed."""
        from understudy.runners.backends.http.http_client import Line

        line = Line()
        with self._lock:
            self._lines.append(line)
            if self._closed:
                line.end()
        return line

    def close(self, root: Path) -> None:
        """Forget its codes and end its lines, in a thread: an open connection may take a moment to end."""
        _start_thread("notifications", lambda: self._close(root))

    def _close(self, root: Path) -> None:
        from understudy.engine.running import notified_answers

        with self._lock:
            self._closed = True
            for line in self._lines:
                line.end()
            with contextlib.suppress(UnderstudyError):
                notified_answers.forget(root, self._delegation, self._request.request_id)


def finish(root: Path, seconds: float = FINISH_SECONDS) -> None:
    """Wait until everything is sent, at most so long; what is left is recorded as not sent."""
    from understudy.integrations.notifications import sent

    deadline = time.monotonic() + seconds
    while alive := [thread for thread in _threads if thread.is_alive()]:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        alive[0].join(left)
    _ending.set()
    for thread in alive:
        with contextlib.suppress(UnderstudyError):
            error = UnderstudyError(ErrorKind.TIMED_OUT, "It was not sent before the worker ended.")
            sent.record(root, thread.name, error.info())


def _run(name: str, call: Callable[[], None]) -> bool:
    """Run ``call`` in a thread; return False if there are too many."""
    _threads[:] = [thread for thread in _threads if thread.is_alive()]
    if len(_threads) >= MOST_THREADS:
        return False
    _start_thread(name, call)
    return True


def _start_thread(name: str, call: Callable[[], None]) -> None:
    thread = threading.Thread(target=call, name=name, daemon=True)
    _threads.append(thread)
    thread.start()


def _concerns(receiver: NotificationReceiver, workspace: str) -> bool:
    if not receiver.workspaces:
        return True
    place = Path(workspace)
    folders = [Path(folder).expanduser() for folder in receiver.workspaces]
    return any(folder == place or folder in place.parents for folder in folders)
