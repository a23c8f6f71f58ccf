"""What belongs to the worker of a delegation: its lock, the requests to it, and files that a killed one leaves.

The lock is a flock on a file that contains the holder's identity. The kernel releases it with the last descriptor of
its open file, however the process ended. The content of the file only helps to find the worker; it may be missing or
name a dead process.

Requests (``cancel``, ``answer``, ``say``, ``peer``) are one line each in ``requests.jsonl``. Any process may append,
one at a time, under a flock of the file itself. The worker reads in order and uses the first valid answer; appending a
second answer raises ``conflict``.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from understudy.files import durable, nofollow
from understudy.journal import change_notifications
from understudy.journal.delegation_folder import Folder
from understudy.journal.reader import Lines
from understudy.model.delegation.delegations import PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready, timestamp
from understudy.process.identity import Identity

MAX_CHILDREN = 64
"""The most guardians recorded with a holder; usually there is one."""
_HOLDER_LIMIT = 64 * 1024
_HOLDER_TRIES = 20
LONGEST_LINE = 64 * 1024
LONGEST_MESSAGE = 64 * 1024
"""Bytes of one message; its line may be six times as long, because JSON escapes control characters."""
LARGEST_REQUESTS = 4 * 1024 * 1024
"""Far more than users write for one delegation."""
_LARGEST_WITH_MESSAGES = LARGEST_REQUESTS // 2
"""Messages may not fill the file: a cancel must always fit."""
LOCK_SECONDS = 5.0
SCRATCH_PREFIX = "judge-"
"""How the names of scratch folders in the folder of a delegation's checks begin."""
_RECORD_LIMIT = 16 * 1024 * 1024


class Holder(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The worker that holds a lock, and the processes that must end with it."""

    pid: int
    start_time: int
    boot_id: str
    children: list[Identity] = []

    @property
    def identity(self) -> Identity:
        """Return the worker's own identity."""
        return Identity(pid=self.pid, start_time=self.start_time, boot_id=self.boot_id)


def try_lock(folder: Folder) -> int | None:
    """Lock a folder without waiting; return the close-on-exec descriptor that holds the lock, or None.

    Raises ``unknown_delegation`` when the folder is gone.
    """
    try:
        return durable.try_lock(folder.lock)
    except OSError as error:
        if not isinstance(error, FileNotFoundError) or folder.path.is_dir():
            raise durable.failure(error, folder.lock) from error
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATION,
            f"The folder of delegation {folder.id} is gone.",
            hint="`understudy list` shows the IDs.",
        ) from None


def lock_within(folder: Folder, seconds: float, *, give_up: Callable[[], bool] = lambda: False) -> int | None:
    """Lock a folder, and wait for it while another process holds the lock; return None after ``seconds``."""
    deadline = time.monotonic() + seconds
    while (lock := try_lock(folder)) is None:
        if time.monotonic() > deadline or give_up():
            return None
        time.sleep(0.01)
    return lock


def in_use(identifier: str) -> UnderstudyError:
    """Return the error of a delegation whose lock another process holds."""
    return UnderstudyError(ErrorKind.CONFLICT, f"Another process is using {identifier}.", hint="Try again in a moment.")


def holds(folder: Folder, descriptor: int) -> bool:
    """Return whether ``descriptor`` is the folder's lock file and holds the lock (taking it if it was free)."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return _is_the_file_of(folder, descriptor)


def is_held(folder: Folder) -> bool:
    """Return whether some process holds the lock now."""
    return durable.is_locked(folder.lock)


def write_holder(descriptor: int, identity: Identity, children: list[Identity]) -> None:
    """Write the holder into its lock file. A concurrent reader or a kill in the middle does no harm.

    The file must keep its inode (the lock is on it), so it is overwritten in place: one write of one line, padded with
    blanks to the previous length.
    """
    holder = Holder(identity.pid, identity.start_time, identity.boot_id, children[:MAX_CHILDREN])
    line = msgspec.json.encode(holder) + b"\n"
    length = os.fstat(descriptor).st_size
    durable.write_at(descriptor, line.ljust(length, b" "), 0)
    os.ftruncate(descriptor, len(line))


def read_holder(folder: Folder) -> Holder | None:
    """Return the current or last holder that the lock file names; None if the file is empty or damaged."""
    # A read during a write may see parts of both contents (the kernel locks neither). Holders are written only
    # two or three times per delegation, so the next read succeeds.
    for _ in range(_HOLDER_TRIES):
        try:
            content = durable.read_whole(folder.lock, _HOLDER_LIMIT)
        except OSError:
            return None
        line, newline, _rest = content.partition(b"\n")
        if not content:
            return None
        try:
            holder = msgspec.json.decode(line if newline else b"", type=ready(Holder))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        # For kill(2), 0 and negative numbers are process groups, and 1 is the init process.
        return holder if all(process.pid > 1 for process in (holder.identity, *holder.children)) else None
    return None


def _is_the_file_of(folder: Folder, descriptor: int) -> bool:
    """Return whether the locked file is still at its path; a lock on a moved or replaced file protects nothing."""
    try:
        return os.path.samestat(os.fstat(descriptor), folder.lock.stat(follow_symlinks=False))
    except OSError:
        return False


class Cancel(msgspec.Struct, tag="cancel", tag_field="type", rename="camel", omit_defaults=True, kw_only=True):
    """A request to stop and keep partial work. ``by`` names the frontend (``cli``, ``lsp`` …)."""

    by: str
    at: str = ""
    only_checks: bool = False
    """Stop the checks of a result, which the delegation then ends with; without effect while its agent works."""


class Answer(msgspec.Struct, tag="answer", tag_field="type", rename="camel", omit_defaults=True, kw_only=True):
    """The user's answer to a permission request; ``option`` is the id of one of its options."""

    request_id: str
    option: str
    note: str | None = None
    remember: bool = False
    """Whether the proposed rule decides on later requests of this run, too."""
    by: str
    at: str = ""


class Say(msgspec.Struct, tag="say", tag_field="type", rename="camel", omit_defaults=True, kw_only=True):
    """A message of the user to the agent."""

    message_id: str
    text: str
    by: str
    at: str = ""


class PeerMessage(msgspec.Struct, tag="peer", tag_field="type", rename="camel", omit_defaults=True, kw_only=True):
    """A message of the agent of another delegation; its worker writes it."""

    message_id: str
    sender: str
    """The id of its delegation."""
    kind: Literal["message", "ask", "reply", "broadcast"]
    text: str
    reply_to: str | None = None
    at: str = ""


Item = Cancel | Answer | Say | PeerMessage


_LONGEST_SAY = 8 * LONGEST_MESSAGE


_decoder = msgspec.json.Decoder(ready(Item))


def worker_topic(identifier: str) -> str:
    """Return the name of the change notification that is sent to the worker of a delegation with a request."""
    return f"{identifier}:control"


def append_request(folder: Folder, item: Item) -> None:
    """Append a request and notify the worker; ``at`` is filled in.

    Raises ``disk_full``, ``state_unavailable``, ``unknown_delegation``.

    For an answer to a known permission request, use ``append_answer``.
    """
    _append(folder, item, request=None)


def append_answer(folder: Folder, answer: Answer, request: PermissionRequest) -> None:
    """Append the answer to ``request``.

    Raises ``invalid_params`` when it is not one of the options (``names`` lists them), ``conflict`` when the request
    has a valid answer already.
    """
    if _lacks_text(answer, request):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            "This answer is a text, and none was given.",
            hint="Write it as the note of the answer.",
            parameter="note",
        )
    if not _is_valid(answer, request):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{answer.option!r} is not an option of request {answer.request_id!r}.",
            hint="Give the ID of one of its options.",
            names=[option.id for option in request.options],
        )
    _append(folder, answer, request=request)


def first_answer(items: list[Item], request: PermissionRequest) -> Answer | None:
    """Return the first valid answer, the one that counts."""
    for item in items:
        if isinstance(item, Answer) and _is_valid(item, request):
            return item
    return None


class RequestTail:
    """Read the requests for one delegation, each once and in order."""

    def __init__(self, folder: Folder) -> None:
        """Begin with the first request."""
        self._lines = Lines(folder.control)

    def read(self) -> list[Item]:
        """Return the requests since the last call; skip invalid lines."""
        items: list[Item] = []
        while lines := self._lines.read(1000):
            for line in lines:
                if len(line) <= _LONGEST_SAY:
                    try:
                        items.append(_decoder.decode(line))
                    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
                        continue
        return items


def read_requests(folder: Folder) -> list[Item]:
    """Return all requests so far."""
    return RequestTail(folder).read()


def _is_valid(answer: Answer, request: PermissionRequest) -> bool:
    is_offered = answer.request_id == request.request_id and any(
        option.id == answer.option for option in request.options
    )
    return is_offered and not _lacks_text(answer, request)


def _lacks_text(answer: Answer, request: PermissionRequest) -> bool:
    written = bool(answer.note and answer.note.strip())
    return not written and any(option.id == answer.option and option.takes_text for option in request.options)


def _append(folder: Folder, item: Item, *, request: PermissionRequest | None) -> None:
    if not folder.path.is_dir():
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATION,
            f"The folder of delegation {folder.id} is gone.",
            hint="`understudy list` shows the IDs.",
        )
    try:
        line = msgspec.json.encode(msgspec.structs.replace(item, at=timestamp())) + b"\n"
    except UnicodeEncodeError:
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, "The text is not valid Unicode.") from None
    if isinstance(item, Say | PeerMessage):
        if (size := len(item.text.encode())) > LONGEST_MESSAGE:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"The message has {size} bytes; at most {LONGEST_MESSAGE} can be sent.",
                hint="Put the text into a file of the project, and name the file.",
            )
    elif len(line) > LONGEST_LINE:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"The note has {len(line)} bytes.", hint=f"Keep it below {LONGEST_LINE} bytes."
        )
    with durable.named_failures(folder.control):
        descriptor = durable.open_regular(folder.control, os.O_RDWR | os.O_CREAT)
        try:
            durable.flock_within(descriptor, folder.control, LOCK_SECONDS)
            end = durable.cut_torn_tail(descriptor)
            if isinstance(item, Say | PeerMessage) and end + len(line) > _LARGEST_WITH_MESSAGES:
                raise UnderstudyError(
                    ErrorKind.INVALID_PARAMS,
                    f"{folder.id} already has as many messages as it can take.",
                    hint=f"Wait for its end, then reply: understudy reply {folder.id} TEXT",
                )
            if end + len(line) > LARGEST_REQUESTS:
                raise UnderstudyError(
                    ErrorKind.DISK_FULL,
                    f"{folder.control} has reached {LARGEST_REQUESTS} bytes.",
                    hint="A process is appending to it in a loop. Stop that process, then cancel again.",
                )
            if request is not None and first_answer(read_requests(folder), request) is not None:
                raise UnderstudyError(
                    ErrorKind.CONFLICT,
                    f"Request {request.request_id!r} was already answered.",
                    hint="The first answer counts.",
                )
            try:
                durable.write_at(descriptor, line, end)
            except OSError:
                os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)
    change_notifications.notify(worker_topic(folder.id))
    change_notifications.notify(folder.id)


def hidden_files_record(checks: Path) -> Path:
    """Return the file in the folder of a delegation's checks that lists the files in the worktree."""
    return checks / "hidden.json"


def remove_check_scratch(checks: Path) -> None:
    """Remove the scratch folders, among them copies of the result with small changes. No check may be running."""
    for path in checks.glob(f"{SCRATCH_PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)


def remove_check_leftovers(folder: Folder) -> None:
    """Remove the scratch folders, the recorded hidden files and their record. The delegation's processes are dead."""
    remove_check_scratch(folder.path / "checks")
    record = hidden_files_record(folder.path / "checks")
    try:
        paths = json.loads(durable.read_whole(record, _RECORD_LIMIT))
        tree = Path(json.loads(durable.read_whole(folder.path / "worktree.json", _RECORD_LIMIT))["tree"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    for path in paths if isinstance(paths, list) else []:
        with suppress(OSError, UnderstudyError):
            nofollow.remove(tree, str(path))
    with suppress(OSError):
        record.unlink()
