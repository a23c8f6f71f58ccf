"""Answers to questions from notifications: each button has a code that counts once.

``<state>/notifications/codes/<SHA-256 of the code>`` says which option of which question a code chooses, while the
question is open. Only the process that removes the file uses it, so that a code counts once: Telegram gives all answers
to a bot to one listener, which may be the worker of another delegation.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from understudy.engine.running import user_requests
from understudy.files import durable
from understudy.integrations.notifications import http_delivery, receivers, sent
from understudy.journal import delegation_folder, reader, worker_files
from understudy.journal.worker_files import Answer
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready, timestamp
from understudy.runners.backends.http.http_client import Ended, Line

POLL_SECONDS = 25.0
"""How long Telegram keeps a request that has no answer yet."""
STREAM_SECONDS = 600.0
"""How long a stream of ntfy is read before it is opened again."""
LOCK_SECONDS = 1.0
"""How often a worker tries to become the one that listens to a bot."""
PAUSE_SECONDS = 5.0
MOST_FAILURES = 20
"""One after another; then questions are only answered elsewhere."""
_MOST_BYTES = 64 * 1024

Log = Callable[[str], None]


class Code(msgspec.Struct, frozen=True):
    """What a code chooses."""

    receiver: str
    delegation: str
    request: str
    option: str
    until: str
    """The deadline of the question."""


class _Chat(msgspec.Struct):
    id: int


class _Sent(msgspec.Struct):
    chat: _Chat


class _Pressed(msgspec.Struct):
    id: str
    data: str = ""
    message: _Sent | None = None


class _Update(msgspec.Struct):
    """What Telegram reports: https://core.telegram.org/bots/api#update."""

    update_id: int
    callback_query: _Pressed | None = None


def issue(root: Path, code: Code) -> str:
    """Return a new code for an option, and forget those whose question is over."""
    folder = _folder(root)
    for file in folder.iterdir():
        kept = _read(file)
        if kept is None or kept.until < timestamp():
            file.unlink(missing_ok=True)
    text = secrets.token_urlsafe(24)
    durable.replace(folder / _name(text), msgspec.json.encode(code))
    return text


def forget(root: Path, delegation: str, request: str) -> None:
    """Forget the codes of a question, which no longer count."""
    for file in _folder(root).iterdir():
        kept = _read(file)
        if kept is not None and (kept.delegation, kept.request) == (delegation, request):
            file.unlink(missing_ok=True)


def use(root: Path, receiver: str, text: str) -> str:
    """Answer the question of a code that came from ``receiver``, and return what was done, without the code."""
    file = _folder(root) / _name(text)
    code = _read(file)
    if code is None or code.receiver != receiver:
        return f"ignored an answer from {receiver}: its code is wrong, was used, or came too late"
    try:
        file.unlink()
    except FileNotFoundError:
        return f"ignored an answer from {receiver}: its code was used"
    try:
        folder = delegation_folder.open_folder(code.delegation)
        request = user_requests.open_question(reader.load(folder).waiting_for, code.request, folder.id)
        if not any(option.id == code.option and option.kind.endswith("_once") for option in request.options):
            return f"ignored an answer from {receiver}: {code.option!r} may not be chosen there"
        answer = Answer(request_id=code.request, option=code.option, by=f"notification {receiver}")
        worker_files.append_answer(folder, answer, request)
    except UnderstudyError as error:
        return f"ignored an answer from {receiver}: {error.message}"
    return f"answered {code.request} of {code.delegation} with {code.option!r} from {receiver}"


def listen(root: Path, receiver: NotificationReceiver, topic: str, line: Line, log: Log) -> None:
    """Use the codes that come back from ``receiver`` until ``line`` is ended; ``topic`` is where ntfy gets them."""
    failures = 0
    while not line.is_ended and failures < MOST_FAILURES:
        try:
            if receiver.kind == "ntfy":
                _read_topic(root, receiver, topic, line, log)
            elif not _poll_bot(root, receiver, line, log):
                line.pause(LOCK_SECONDS)
            failures = 0
        except UnderstudyError as error:
            if line.is_ended or error.kind is ErrorKind.TIMED_OUT:
                continue
            failures += 1
            log(f"cannot hear answers from {receiver.name}: {error.message}")
            with contextlib.suppress(Ended):
                line.pause(PAUSE_SECONDS)
        except Ended:
            return


def _read_topic(root: Path, receiver: NotificationReceiver, topic: str, line: Line, log: Log) -> None:
    url = f"{receivers.ntfy_server(receiver)}/{topic}/json?since=all"
    options: dict[str, Any] = {"headers": receivers.bearer(receiver), "seconds": STREAM_SECONDS, "line": line}
    with http_delivery.opened(url, receiver.allow_private, **options) as response:
        for text in _lines(response.iter_raw()):
            with contextlib.suppress(msgspec.MsgspecError):
                event = msgspec.json.decode(text)
                if isinstance(event, dict) and event.get("event") == "message":
                    log(use(root, receiver.name, str(event.get("message", ""))))
            if line.is_ended:
                return
    line.pause(LOCK_SECONDS)  # a server that ends each stream at once is not asked in a loop


def _poll_bot(root: Path, receiver: NotificationReceiver, line: Line, log: Log) -> bool:
    """Ask a bot for answers once; return False if another process does, whose use of a code counts, too."""
    place = sent.folder_of(root) / f"{receiver.name}.offset"
    with durable.try_file_lock(place.with_suffix(".poll")) as is_mine:
        if not is_mine:
            return False
        try:
            offset = int(durable.read_whole(place, 64))
        except (OSError, ValueError):
            offset = 0
        asked = {"offset": offset, "timeout": int(POLL_SECONDS), "allowed_updates": ["callback_query"]}
        updates = receivers.call_telegram(
            receiver, "getUpdates", asked, seconds=POLL_SECONDS + receivers.TRY_SECONDS, line=line
        )
        try:
            decoded = msgspec.convert(updates, ready(list[_Update]))
        except msgspec.ValidationError as error:
            raise UnderstudyError(ErrorKind.MALFORMED_OUTPUT, f"The answer is not Telegram's: {error}.") from None
        for update in decoded:
            pressed = update.callback_query
            if pressed is not None and pressed.message is not None and str(pressed.message.chat.id) == receiver.chat:
                outcome = use(root, receiver.name, pressed.data)
                log(outcome)
                with contextlib.suppress(UnderstudyError):
                    words = "Answered." if outcome.startswith("answered") else "This question is no longer open."
                    confirmed = {"callback_query_id": pressed.id, "text": words}
                    receivers.call_telegram(receiver, "answerCallbackQuery", confirmed)
            durable.replace(place, str(update.update_id + 1).encode())
    return True


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *complete, rest = (rest + chunk).split(b"\n")
        yield from complete
        if len(rest) > _MOST_BYTES:
            raise UnderstudyError(ErrorKind.MALFORMED_OUTPUT, "A line of the answers is too long.")


def _folder(root: Path) -> Path:
    folder = sent.folder_of(root) / "codes"
    with durable.named_failures(folder):
        folder.mkdir(mode=durable.PRIVATE_FOLDER, exist_ok=True)
    return folder


def _name(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _read(file: Path) -> Code | None:
    try:
        return msgspec.json.decode(durable.read_whole(file, _MOST_BYTES), type=ready(Code))
    except (OSError, msgspec.MsgspecError):
        return None
