"""What a journal of ``apply`` means, and how to get from any instant to all before or all after.

The journal's first line says what is going to happen; a second line makes it final. Which steps took place is not
written down: the files themselves show it, so that no instant lies between a step and its record.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.git import disk
from understudy.git.faults import point
from understudy.git.names import quote
from understudy.model.errors import ErrorKind, UnderstudyError

PART = b".part"
"""Added to a temporary name while the file is being written."""

_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True, slots=True)
class Step:
    """One file's part of the journal. Temporary names lie in ``folder``, which is there before and after."""

    path: bytes
    folder: bytes
    new: bytes
    """The name under which the new file waits; after an exchange, the old one."""
    old: bytes
    """The name under which the old file waits where it is moved aside."""
    before: str | None
    after: str | None

    def packed(self) -> list[str | None]:
        """Return what goes into the journal."""
        return [self.path.hex(), self.folder.hex(), self.new.hex(), self.old.hex(), self.before, self.after]

    @classmethod
    def unpacked(cls, fields: list[Any]) -> Step:
        """Return the step of a journal."""
        path, folder, new, old = (bytes.fromhex(each) for each in fields[:4])
        return cls(path, folder, new, old, fields[4], fields[5])


def recover(journal: Path, then: Callable[[], None] | None = None) -> Literal["nothing", "before", "after"]:
    """Finish what a killed process left: all before, or, when it was committed, all after. May be repeated.

    Where the user saved something in the meantime, that stays. When it was committed, ``then`` is called before the
    journal goes, as ``Exchange.commit`` would have.
    """
    try:
        first, end, rest = _whole(journal).partition(b"\n")
    except FileNotFoundError:
        return "nothing"
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.STORE_UNAVAILABLE,
            f"{journal} cannot be read, so an unfinished change cannot be finished: {error.strerror}",
            hint="Look at that file.",
        ) from error
    if not end:  # killed while it was written: nothing was done yet
        journal.unlink(missing_ok=True)
        return "nothing"
    try:
        record = json.loads(first)
        top = Path(os.fsdecode(bytes.fromhex(record["top"])))
        steps = [Step.unpacked(fields) for fields in record["steps"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UnderstudyError(
            ErrorKind.STORE_UNAVAILABLE,
            f"{journal} is damaged, so an unfinished change cannot be finished",
            hint="Compare your files with the result by hand, then remove that file.",
        ) from error
    committed = rest.startswith(b'{"committed":true}\n')
    if committed and then is not None:
        then()
    with typed(top):
        if committed:
            clean_up(top, record, steps)
        else:
            put_back(top, record, steps)
    journal.unlink(missing_ok=True)
    return "after" if committed else "before"


def put_back(top: Path, record: dict[str, Any], steps: list[Step]) -> None:
    """Make everything as before; what the user wrote in the meantime goes first."""
    for step in reversed(steps):
        if step.after is not None and step.before is None:
            _put_back_created(top, step)
    for packed in reversed(record["made"]):
        _remove_folder(top, bytes.fromhex(packed))
    for packed, mode in reversed(record["removed"]):
        parent, name = disk.parent_and_name(bytes.fromhex(packed))
        with _reached(top, parent) as folder:
            if folder is not None and not disk.exists(folder, name):
                os.mkdir(name, mode, dir_fd=folder)
                os.chmod(name, mode, dir_fd=folder)
    for step in reversed(steps):
        if step.before is not None:
            _put_back_old(top, step)
        point("put back")


def clean_up(top: Path, record: dict[str, Any], steps: list[Step]) -> None:
    """Remove the old files after a commit, and the folders that became empty, as git does."""
    del record
    for step in steps:
        with _reached(top, step.folder) as folder:
            if folder is not None:
                _remove(folder, step.new)
                _remove(folder, step.old)
        if step.after is None:
            for each in reversed(folders_of(step.path)):
                if not _remove_folder(top, each):
                    break
        point("cleaning")


def folders_of(path: bytes) -> list[bytes]:
    """Return the folders on the way to a path, the highest first."""
    parts = path.split(b"/")[:-1]
    return [b"/".join(parts[: number + 1]) for number in range(len(parts))]


def changed_meanwhile(path: bytes) -> UnderstudyError:
    """Return the error for a file that is not what the change was computed from."""
    return UnderstudyError(
        ErrorKind.APPLY_CONFLICT,
        f"{quote(path)} was changed at the same moment, so nothing was applied",
        hint="Save what you are editing and accept again.",
        names=[quote(path)],
    )


def escape(path: bytes) -> UnderstudyError:
    """Return the error for a path that is no place for a file of the workspace."""
    return UnderstudyError(
        ErrorKind.PATH_ESCAPE,
        f"{quote(path)} does not lead to a file of the workspace: a link or a file is on the way, or the name is git's",
        hint="Nothing was changed. Look at that path.",
        names=[quote(path)],
    )


@contextlib.contextmanager
def typed(top: Path) -> Iterator[None]:
    """Turn faults of the disk into errors a person can act on."""
    try:
        yield
    except OSError as error:
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
        what = f"{error.strerror}{f' ({name})' if name else ''}"
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise UnderstudyError(
                ErrorKind.STORE_FULL,
                f"The disk under {top} is full; nothing was applied",
                hint="Free some space there.",
            ) from error
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise UnderstudyError(
                ErrorKind.PATH_ESCAPE,
                f"A link or a file is in the way of a folder in {top}; nothing was applied: {what}",
                hint="Look at that path.",
            ) from error
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            f"Files in {top} cannot be changed; nothing was applied: {what}",
            hint="Check the permissions there, and whether its disk is mounted read-only.",
        ) from error


def _whole(journal: Path) -> bytes:
    # Whatever else was put there must not hold anybody up: a pipe would, without an end.
    descriptor = os.open(journal, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return stream.read()


@contextlib.contextmanager
def _reached(top: Path, path: bytes) -> Iterator[int | None]:
    """Give the folder, or None when it cannot be reached: then nothing of ours can be there either."""
    with contextlib.ExitStack() as stack:
        descriptor = None
        try:
            descriptor = stack.enter_context(disk.opened(top, path))
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
        yield descriptor


def _put_back_created(top: Path, step: Step) -> None:
    parent, name = disk.parent_and_name(step.path)
    with _reached(top, step.folder) as folder, _reached(top, parent) as place:
        if folder is None:
            return
        if place is not None:
            _take_new_back(folder, place, name, step)
        _remove(folder, step.new)


def _take_new_back(folder: int, place: int, name: bytes, step: Step) -> None:
    """Remove the new file from its place, unless the user saved it since."""
    if disk.signature_at(place, name) != step.after:
        return
    if disk.exists(folder, step.new):
        # A move without the system's help is a second link and then the removal of the first: between the two, both
        # names are one file. If they are not, the new file never got to its place.
        if disk.same_file(folder, step.new, place, name):
            os.unlink(name, dir_fd=place)
        return
    with contextlib.suppress(FileNotFoundError):
        disk.move(place, name, folder, step.new)
        if disk.signature_at(folder, step.new) != step.after:  # saved at this very moment
            with contextlib.suppress(FileExistsError):
                disk.move(folder, step.new, place, name)


def _put_back_old(top: Path, step: Step) -> None:
    parent, name = disk.parent_and_name(step.path)
    with _reached(top, step.folder) as folder, _reached(top, parent) as place:
        if folder is None:
            return
        if place is not None:
            if disk.exists(folder, step.old):
                _put_back_moved(folder, place, name, step)
            elif step.after is not None and disk.exists(folder, step.new):
                _put_back_exchanged(folder, place, name, step)
        _remove(folder, step.new)
        _remove(folder, step.old)


def _put_back_moved(folder: int, place: int, name: bytes, step: Step) -> None:
    if step.after is not None:
        _take_new_back(folder, place, name, step)
    with contextlib.suppress(FileExistsError):  # the user made a new one: theirs is the newest
        disk.move(folder, step.old, place, name)


def _put_back_exchanged(folder: int, place: int, name: bytes, step: Step) -> None:
    waiting = disk.signature_at(folder, step.new)
    standing = disk.signature_at(place, name)
    if waiting == step.after:
        return  # not exchanged yet
    if standing is None:
        # Both were there when they changed places, so somebody removed the new file; the old one does no harm.
        if waiting == step.before:
            with contextlib.suppress(FileExistsError):
                disk.move(folder, step.new, place, name)
    elif standing == step.after:
        disk.exchange(folder, step.new, place, name)
        if disk.signature_at(folder, step.new) != step.after:
            # Saved between the look and the exchange: the newest goes back.
            disk.exchange(folder, step.new, place, name)


def _remove(folder: int, name: bytes) -> None:
    for each in (name, name + PART):
        # Looked for first: on a disk mounted read-only even the removal of nothing fails.
        if disk.exists(folder, each):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(each, dir_fd=folder)


def _remove_folder(top: Path, path: bytes) -> bool:
    parent, name = disk.parent_and_name(path)
    try:
        with disk.opened(top, parent) as folder:
            if not disk.exists(folder, name):
                return False
            os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in {*_NOT_THERE, errno.ENOTEMPTY, errno.EEXIST, errno.EACCES, errno.EPERM}:
            raise
        return False
    return True
