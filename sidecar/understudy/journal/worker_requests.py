"""What faces ask of a worker: ``cancel`` and ``answer``, one line each in ``control.jsonl``.

Any process may append, one at a time, under a flock of the file itself. The worker reads in order and
takes the first valid one; whoever appends a second answer is told so.
"""

from __future__ import annotations

import os
import time

import msgspec

from understudy.journal import bell, disk
from understudy.journal.reader import Lines
from understudy.journal.store import Folder
from understudy.model.delegations import PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready

LONGEST_LINE = 64 * 1024
LARGEST_FILE = 4 * 1024 * 1024
"""More than any person writes in a delegation's life."""
LOCK_SECONDS = 5.0


class Cancel(msgspec.Struct, tag="cancel", tag_field="type", rename="camel", omit_defaults=True, kw_only=True):
    """Stop, and keep what is there. ``by`` names the face (``cli``, ``lsp`` …)."""

    by: str
    at: str = ""


class Answer(msgspec.Struct, tag="answer", tag_field="type", rename="camel", omit_defaults=True, kw_only=True):
    """A person's answer to a permission request; ``option`` is the id of one of its options."""

    request_id: str
    option: str
    note: str | None = None
    by: str
    at: str = ""


Item = Cancel | Answer

_decoder = msgspec.json.Decoder(ready(Item))


def bell_of(identifier: str) -> str:
    """Return the name that rings for the worker of a delegation alone, when it is asked for something."""
    return f"{identifier}:control"


def append_control(folder: Folder, item: Item) -> None:
    """Append a wish and ring; ``at`` is filled in.

    Raises ``store_full``, ``store_unavailable``, ``unknown_delegation``.

    For an answer to a question that is known, use ``append_answer``.
    """
    _append(folder, item, request=None)


def append_answer(folder: Folder, answer: Answer, request: PermissionRequest) -> None:
    """Append the answer to ``request``.

    ``invalid_params`` when it is no answer to it (``names`` lists the options), ``conflict`` when a valid one is there.
    """
    if not _is_valid(answer, request):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{answer.option!r} is no answer to request {answer.request_id!r}.",
            hint="Give the id of one of its options.",
            names=[option.id for option in request.options],
        )
    _append(folder, answer, request=request)


def first_answer(items: list[Item], request: PermissionRequest) -> Answer | None:
    """Return the answer that counts: the first valid one."""
    for item in items:
        if isinstance(item, Answer) and _is_valid(item, request):
            return item
    return None


def first_cancel(items: list[Item]) -> Cancel | None:
    """Return the first cancel."""
    for item in items:
        if isinstance(item, Cancel):
            return item
    return None


class ControlTail:
    """The wishes for one delegation, each once and in order."""

    def __init__(self, folder: Folder) -> None:
        """Begin with the first one."""
        self._lines = Lines(folder.control)

    def read(self) -> list[Item]:
        """Return what came since the last call; lines that are no wish are passed over."""
        items: list[Item] = []
        while lines := self._lines.read(1000):
            for line in lines:
                if len(line) <= LONGEST_LINE:
                    try:
                        items.append(_decoder.decode(line))
                    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
                        continue
        return items


def read_control(folder: Folder) -> list[Item]:
    """Return all wishes so far."""
    return ControlTail(folder).read()


def _is_valid(answer: Answer, request: PermissionRequest) -> bool:
    return answer.request_id == request.request_id and any(option.id == answer.option for option in request.options)


def _append(folder: Folder, item: Item, *, request: PermissionRequest | None) -> None:
    if not folder.path.is_dir():
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATION,
            f"The folder of delegation {folder.id} is gone.",
            hint="`understudy list` shows the ids.",
        )
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
    try:
        line = msgspec.json.encode(msgspec.structs.replace(item, at=stamp)) + b"\n"
    except UnicodeEncodeError:
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, "The text is no valid Unicode.") from None
    if len(line) > LONGEST_LINE:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"The note has {len(line)} bytes.", hint=f"Keep it below {LONGEST_LINE}."
        )
    with disk.named_failures(folder.control):
        descriptor = disk.open_regular(folder.control, os.O_RDWR | os.O_CREAT)
        try:
            disk.flock_within(descriptor, LOCK_SECONDS, folder.control)
            end = disk.cut_torn_tail(descriptor)
            if end + len(line) > LARGEST_FILE:
                raise UnderstudyError(
                    ErrorKind.STORE_FULL,
                    f"{folder.control} has reached {LARGEST_FILE} bytes.",
                    hint="Something appends to it in a loop; end that, then cancel again.",
                )
            if request is not None and first_answer(read_control(folder), request) is not None:
                raise UnderstudyError(
                    ErrorKind.CONFLICT,
                    f"Request {request.request_id!r} was already answered.",
                    hint="The first answer counts.",
                )
            try:
                disk.write_at(descriptor, line, end)
            except OSError:
                os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)
    bell.ring(bell_of(folder.id))
    bell.ring(folder.id)
