"""Recover an interrupted transaction from its journal: roll back or complete it.

The journal's first line lists the steps; a second line commits them. The journal does not record which steps took
place: the files show it, so a step and its record can never disagree.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.git.apply import attributes, filesystem
from understudy.git.changes import folders_of
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import quote

PART = b".part"
"""Suffix of a temporary name while the file is being written."""

_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True, slots=True)
class Step:
    """The entry of one file in the journal. Temporary names are in ``folder``, which exists before and after."""

    path: bytes
    folder: bytes
    new: bytes
    """The temporary name of the new file; after an exchange, of the old one."""
    old: bytes
    """The temporary name of the old file, if it is moved aside."""
    before: str | None
    after: str | None
    in_place: int | None = None
    """The permission bits of a file that is written in place, with copies of both versions under temporary names."""

    def packed(self) -> list[str | int | None]:
        """Return the form for the journal."""
        names = (self.path, self.folder, self.new, self.old)
        return [*(name.hex() for name in names), self.before, self.after, self.in_place]

    @classmethod
    def unpacked(cls, fields: list[Any]) -> Step:
        """Return the step from its form in the journal."""
        path, folder, new, old = (bytes.fromhex(field) for field in fields[:4])
        return cls(path, folder, new, old, *fields[4:7])


class Staging:
    """Where new files wait until all are complete: those of a large new folder in a temporary one beside its place.

    The journal lists each such highest new folder with its temporary one. Both have the same parent, which exists.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        """Read it from the journal; an earlier version staged no folders."""
        self._roots = {bytes.fromhex(root): bytes.fromhex(staged) for root, staged in record.get("staged", ())}
        self._made = [bytes.fromhex(folder) for folder in record.get("made", ())]
        self._places: dict[bytes, bytes | None] = {}

    def folders(self) -> list[bytes]:
        """Return the temporary folders, parents first."""
        return [place for folder in self._made if (place := self.temporary(folder)) is not None]

    def roots(self) -> list[bytes]:
        """Return the highest temporary folders."""
        return list(self._roots.values())

    def place(self, step: Step) -> tuple[bytes, bytes]:
        """Return the folder and the name under which a new file waits."""
        parent, name = filesystem.parent_and_name(step.path)
        staged = self.temporary(parent) if step.before is None else None
        return (step.folder, step.new) if staged is None else (staged, name)

    def temporary(self, folder: bytes) -> bytes | None:
        """Return the temporary folder in which the files of a new folder wait; None if it has none."""
        if folder not in self._places:
            tops = (candidate for candidate in (*folders_of(folder), folder) if candidate in self._roots)
            top = next(tops, None)
            self._places[folder] = None if top is None else self._roots[top] + folder[len(top) :]
        return self._places[folder]


def recover(journal: Path, then: Callable[[], None] | None = None) -> Literal["nothing", "before", "after"]:
    """Recover the transaction of a killed process: complete it if it was committed, else roll it back. May be repeated.

    Files that the user saved in the meantime are kept. For a committed transaction, ``then`` is called before the
    journal is removed, as ``FileTransaction.commit`` would have.
    """
    try:
        first, end, rest = durable.read_whole(journal, sys.maxsize).partition(b"\n")
    except FileNotFoundError:
        return "nothing"
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"An interrupted change cannot be recovered, because {journal} cannot be read: {error.strerror}.",
            hint="Make that file readable, then try again.",
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
            ErrorKind.STATE_UNAVAILABLE,
            f"An interrupted change cannot be recovered, because {journal} is damaged.",
            hint="Compare your files with the result, then remove that file.",
        ) from error
    committed = rest.startswith(b'{"committed":true}\n')
    if committed and then is not None:
        then()
    with typed_errors(top):
        if committed:
            clean_up(top, record, steps)
        else:
            put_back(top, record, steps)
    journal.unlink(missing_ok=True)
    return "after" if committed else "before"


def put_back(top: Path, record: dict[str, Any], steps: list[Step]) -> dict[bytes, bytes]:
    """Roll back every step, except for files that the user changed in the meantime.

    Return the files that could not be put back, because something else took the place of their folder, each with the
    temporary path where it is kept.
    """
    kept = {}
    staging = Staging(record)
    for step in reversed(steps):
        if step.after is not None and step.before is None:
            _put_back_created(top, step, staging)
    _remove_staging(top, staging)
    for packed in reversed(record["made"]):
        _remove_folder(top, bytes.fromhex(packed))
    for packed, mode in reversed(record["removed"]):
        parent, name = filesystem.parent_and_name(bytes.fromhex(packed))
        with _reached(top, parent) as folder:
            if folder is not None and not filesystem.exists(folder, name):
                os.mkdir(name, mode, dir_fd=folder)
                os.chmod(name, mode, dir_fd=folder)
    for step in reversed(steps):
        if step.before is not None and (left := _put_back_old(top, step)) is not None:
            kept[step.path] = step.folder + b"/" + left if step.folder else left
        failpoint("put back")
    return kept


def clean_up(top: Path, record: dict[str, Any], steps: list[Step]) -> None:
    """After a commit, remove the old files and, as git does, folders that became empty."""
    _remove_staging(top, Staging(record))
    for step in steps:
        if step.before is None:
            continue  # its temporary file became the file before the commit
        with _reached(top, step.folder) as folder:
            if folder is not None:
                _remove(folder, step.new)
                _remove(folder, step.old)
        if step.after is None:
            for emptied in reversed(folders_of(step.path)):
                if not _remove_folder(top, emptied):
                    break
        failpoint("cleaning")


def changed_meanwhile(path: bytes) -> UnderstudyError:
    """Return the error for a file that changed after the change was computed."""
    return UnderstudyError(
        ErrorKind.MERGE_CONFLICT,
        f"{quote(path)} was changed at the same time, so nothing was applied.",
        hint="Save your edits and accept again.",
        names=[quote(path)],
    )


def escape(path: bytes) -> UnderstudyError:
    """Return the error for a path that cannot be a file of the workspace."""
    return UnderstudyError(
        ErrorKind.PATH_ESCAPE,
        f"{quote(path)} is not a valid path in the workspace: it passes through a link or a file, or belongs to git.",
        hint="Nothing was changed. Check that path.",
        names=[quote(path)],
    )


@contextlib.contextmanager
def typed_errors(top: Path) -> Iterator[None]:
    """Turn errors of the disk into errors that the user can act on."""
    try:
        yield
    except OSError as error:
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
        what = f"{error.strerror}{f' ({name})' if name else ''}"
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise UnderstudyError(
                ErrorKind.DISK_FULL,
                f"The disk under {top} is full, so nothing was applied.",
                hint="Free some space there, then try again.",
            ) from error
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise UnderstudyError(
                ErrorKind.PATH_ESCAPE,
                f"A link or a file blocks a folder in {top}, so nothing was applied: {what}.",
                hint="Move it away, then try again.",
            ) from error
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            f"Files in {top} cannot be changed, so nothing was applied: {what}.",
            hint="Check the permissions, and whether the disk is mounted read-only.",
        ) from error


@contextlib.contextmanager
def _reached(top: Path, path: bytes) -> Iterator[int | None]:
    """Open the folder, or yield None when it cannot be reached and so contains no temporary file."""
    with contextlib.ExitStack() as stack:
        descriptor = None
        try:
            descriptor = stack.enter_context(filesystem.opened(top, path))
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
        yield descriptor


def _remove_staging(top: Path, staging: Staging) -> None:
    """Remove the temporary folders and what other programs, such as watchers, wrote in them.

    One that was renamed to its place is gone. A program that writes meanwhile can prevent the removal, so try again.
    """
    for temporary in reversed(staging.folders()):  # of any depth
        _remove_folder(top, temporary)
    for root in staging.roots():
        parent, name = filesystem.parent_and_name(root)
        with _reached(top, parent) as folder:
            for _ in range(3):
                if folder is not None and filesystem.exists(folder, name):
                    filesystem.remove_tree(folder, name)


def _put_back_created(top: Path, step: Step, staging: Staging) -> None:
    parent, name = filesystem.parent_and_name(step.path)
    waiting, waiting_name = staging.place(step)
    with (
        _reached(top, step.folder) as folder,
        _reached(top, parent) as place,
        _reached(top, waiting) as beside,
    ):
        if folder is None:
            return
        if place is not None:
            _take_new_back(folder, place, name, step, (beside, waiting_name))
        if beside is not None:
            _remove(beside, waiting_name)
        _remove(folder, step.new)


def _take_new_back(folder: int, place: int, name: bytes, step: Step, waiting: tuple[int | None, bytes]) -> None:
    """Remove the new file, unless the user has saved it since. ``waiting``: where it was before it got to its place."""
    if filesystem.signature_at(place, name) != step.after:
        return
    beside, waiting_name = waiting
    if beside is not None and filesystem.exists(beside, waiting_name):
        # A move without system support creates a second link and then removes the first: between the two, both names
        # are one file. If they are not, the new file never got to its place.
        if filesystem.same_file(beside, waiting_name, place, name):
            os.unlink(name, dir_fd=place)
        return
    with contextlib.suppress(FileNotFoundError):
        filesystem.move(place, name, folder, step.new)
        if filesystem.signature_at(folder, step.new) != step.after:  # saved at this moment
            with contextlib.suppress(FileExistsError):
                filesystem.move(folder, step.new, place, name)


def _put_back_old(top: Path, step: Step) -> bytes | None:
    """Put the old file back; return the temporary name under which it is kept instead, if its folder is gone."""
    parent, name = filesystem.parent_and_name(step.path)
    with _reached(top, step.folder) as folder, _reached(top, parent) as place:
        if folder is None:
            return None
        if place is None and step.in_place is None:
            # Something else took the place of its folder: what was moved aside can be the only copy of the file.
            if filesystem.signature_at(folder, step.new) in {None, step.after}:
                _remove(folder, step.new)
            return next((candidate for candidate in (step.old, step.new) if filesystem.exists(folder, candidate)), None)
        if place is not None:
            if step.in_place is not None:
                _put_back_overwritten(folder, place, name, step, step.in_place)
            elif filesystem.exists(folder, step.old):
                _put_back_moved(folder, place, name, step)
            elif step.after is not None and filesystem.exists(folder, step.new):
                _put_back_exchanged(folder, place, name, step)
        _remove(folder, step.new)
        _remove(folder, step.old)
    return None


def _put_back_overwritten(folder: int, place: int, name: bytes, step: Step, mode: int) -> None:
    """Write the old content again, unless the user has saved another one since."""
    before, after = (filesystem.content_of(folder, copy) for copy in (step.old, step.new))
    current = filesystem.content_of(place, name)
    if before is None or after is None or current is None:
        return  # not all copies were made, so the file is unchanged; or the user removed it
    if current == before or not filesystem.is_torn(current, before, after):
        if current == before:
            filesystem.set_mode(place, name, mode)
        return
    with (
        filesystem.open_to_write(place, name) as descriptor,
        filesystem.alone(descriptor),
        # The content is back before a bit is found lost: the file changed hands meanwhile. The other steps must follow.
        contextlib.suppress(attributes.LostError),
    ):
        attributes.overwrite(descriptor, before, mode)


def _put_back_moved(folder: int, place: int, name: bytes, step: Step) -> None:
    if step.after is not None:
        _take_new_back(folder, place, name, step, (folder, step.new))
    with contextlib.suppress(FileExistsError):  # the user made a new one: theirs is the newest
        filesystem.move(folder, step.old, place, name)


def _put_back_exchanged(folder: int, place: int, name: bytes, step: Step) -> None:
    waiting = filesystem.signature_at(folder, step.new)
    standing = filesystem.signature_at(place, name)
    if waiting == step.after:
        return  # not exchanged yet
    if standing is None:
        # Both existed when they were exchanged, so another process removed the new file; leave the old one.
        if waiting == step.before:
            with contextlib.suppress(FileExistsError):
                filesystem.move(folder, step.new, place, name)
    elif standing == step.after:
        filesystem.exchange(folder, step.new, place, name)
        if filesystem.signature_at(folder, step.new) != step.after:
            # Saved between the check and the exchange: put the newest file back.
            filesystem.exchange(folder, step.new, place, name)


def _remove(folder: int, name: bytes) -> None:
    for path_name in (name, name + PART):
        # Check first: on a disk mounted read-only, even removing a missing file fails.
        if filesystem.exists(folder, path_name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path_name, dir_fd=folder)


def _remove_folder(top: Path, path: bytes) -> bool:
    parent, name = filesystem.parent_and_name(path)
    try:
        with filesystem.opened(top, parent) as folder:
            if not filesystem.exists(folder, name):
                return False
            os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in {*_NOT_THERE, errno.ENOTEMPTY, errno.EEXIST, errno.EACCES, errno.EPERM}:
            raise
        return False
    return True
