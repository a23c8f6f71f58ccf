"""Write changes into the user's files: all or nothing, and never over a byte that somebody saved meanwhile.

A journal is on disk before anything changes. Each file is made beside its place and exchanged with what is there in one
step of the file system; what came out must be what the change was computed from, else everything goes back. Whatever
happens at any instant, ``recover`` leaves all before or all after. Only files change: never the index, HEAD, a ref.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from understudy.git import disk
from understudy.git.diff import FILE_BYTES
from understudy.git.faults import point
from understudy.git.merge import OTHER, Change, Entry
from understudy.git.names import quote, refused
from understudy.git.recover import (
    PART,
    Step,
    changed_meanwhile,
    clean_up,
    escape,
    folders_of,
    put_back,
    recover,
    typed,
)
from understudy.git.store import SCRATCH, TEMPORARY
from understudy.git.undo import Image, UndoRecord, record, undo
from understudy.model.errors import ErrorKind, UnderstudyError

__all__ = ["Exchange", "Image", "UndoRecord", "read_entry", "record", "recover", "undo"]

READ_BYTES = 4 * FILE_BYTES
"""What ``read_entry`` reads of one file; results hold less (``tree.RESULT_FILE_BYTES``)."""


class Exchange:
    """One all-or-nothing change of files below ``top``.

    ::

        with Exchange(top, journal) as exchange:
            exchange.apply(plan.changes)  # the files are new now
            ...                           # whatever else must succeed, e.g. the editor's applyEdit
            exchange.commit()             # without it, leaving the block rolls everything back

    ``journal`` is a path in an existing folder of Understudy's own (the delegation's); one at a time in a workspace is
    wise. It exists from ``apply`` until ``commit`` or the roll-back is complete. A roll-back gives way to whatever the
    user saved in the meantime.
    """

    def __init__(self, top: Path, journal: Path) -> None:
        """Nothing happens yet."""
        self.top = Path(os.path.realpath(top))
        self.journal = journal
        self._active = False
        self._record: dict[str, Any] = {}
        self._steps: list[Step] = []
        self._uncertain: list[Step] = []

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Roll back unless committed."""
        if self._active:
            self._roll_back()

    def apply(self, changes: Iterable[Change]) -> None:
        """Put the changes in place; on any error everything is as before.

        Errors: ``apply_conflict`` (a file is not what it was merged with, or is being written), ``path_escape`` (a link
        on the way, a refused name), ``permission_denied``, ``store_full``, ``conflict`` (the journal exists:
        ``recover`` it first).
        """
        wanted = [change for change in changes if change.before != change.after]
        _check_names(wanted)
        if self._active or self.journal.exists():
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"Another change of {self.top} is not finished",
                hint="Try again; what a killed process left is finished first.",
            )
        if not wanted:
            return
        with typed(self.top):
            self._plan(wanted)
            try:
                _write_journal(self.journal, self._record)
            except OSError:
                self.journal.unlink(missing_ok=True)
                raise
            self._active = True
            point("journalled")
            try:
                self._stage(wanted)
                self._take_away()
                self._put_in_place()
            except BaseException:
                self._roll_back()
                raise

    def commit(self, then: Callable[[], None] | None = None) -> None:
        """Make it final (durable when this returns) and clean up.

        ``then`` is called when it is final and before the journal goes, to say so elsewhere: killed in between,
        ``recover`` calls it (again). An error of its own is raised, and what is left is for ``recover``, too.

        ``apply_conflict``, and everything as before, when a program went on writing a file that was replaced; only
        where the system cannot tell beforehand.
        """
        if not self._active:
            return
        with typed(self.top):
            try:
                self._recheck()
                self._sync()
                point("synced")
                with self.journal.open("ab") as stream:
                    stream.write(b'{"committed":true}\n')
                    stream.flush()
                    os.fsync(stream.fileno())
            except BaseException:
                self._take_commit_back()
                self._roll_back()
                raise
        self._active = False
        point("committed")
        if then is not None:
            then()
        with typed(self.top):
            clean_up(self.top, self._record, self._steps)
            point("cleaned")
            self.journal.unlink(missing_ok=True)

    def _take_commit_back(self) -> None:
        """Make the journal say again that nothing is final: a roll-back that is killed must not be taken for a commit.

        When not even that can be written, the files stay as they are, and ``recover`` decides by what is there.
        """
        self._active = False
        with contextlib.suppress(FileNotFoundError), self.journal.open("rb+") as stream:
            stream.truncate(len(stream.readline()))
            stream.flush()
            os.fsync(stream.fileno())
        point("uncommitted")

    def _plan(self, changes: list[Change]) -> None:
        """Look at every place and write down what will be done, in memory."""
        token = secrets.token_hex(6)
        coming = {change.path for change in changes if change.before is None}
        leaving = {change.path for change in changes if change.after is None}
        steps, made, removed = [], dict[bytes, None](), dict[bytes, int]()
        for number, change in enumerate(changes):
            if change.before is not None:
                self._check_before(change)
            if change.after is None:
                for folder in folders_of(change.path):
                    if folder in coming:
                        removed.update(self._folders_below(folder, change.path))
            folder, missing = self._existing_folder(change.path, coming, leaving)
            if change.after is not None:
                made.update(dict.fromkeys(missing))
            name = b"%s%s-%d" % (TEMPORARY.encode(), token.encode(), number)
            steps.append(
                Step(
                    change.path,
                    folder,
                    name + b".new",
                    name + b".old",
                    disk.signature(change.before),
                    disk.signature(change.after),
                )
            )
        self._steps = steps
        self._record = {
            "top": os.fsencode(self.top).hex(),
            "steps": [step.packed() for step in steps],
            "made": [each.hex() for each in made],
            "removed": [[each.hex(), mode] for each, mode in sorted(removed.items(), reverse=True)],
        }

    def _check_before(self, change: Change) -> None:
        folder, name = disk.parent_and_name(change.path)
        try:
            with disk.opened(self.top, folder) as descriptor:
                found = disk.signature_at(descriptor, name)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.ENOENT}:
                raise changed_meanwhile(change.path) from error
            raise
        if found != disk.signature(change.before):
            raise changed_meanwhile(change.path)

    def _existing_folder(self, path: bytes, coming: set[bytes], leaving: set[bytes]) -> tuple[bytes, list[bytes]]:
        """Return the deepest folder on the way that is there before and after, and those to be made."""
        folders = folders_of(path)
        reached = b""
        for number, folder in enumerate(folders):
            if folder in coming:  # it leaves, a file takes its place
                return reached, []
            parent, name = disk.parent_and_name(folder)
            with disk.opened(self.top, parent) as descriptor:
                try:
                    mode = os.lstat(name, dir_fd=descriptor).st_mode
                except FileNotFoundError:
                    return reached, folders[number:]
            if not stat.S_ISDIR(mode):
                if folder in leaving:  # a file that leaves makes room for the folder
                    return reached, folders[number:]
                raise escape(path)
            reached = folder
        return reached, []

    def _folders_below(self, folder: bytes, path: bytes) -> dict[bytes, int]:
        found = {}
        for each in folders_of(path):
            if each == folder or each.startswith(folder + b"/"):
                parent, name = disk.parent_and_name(each)
                with disk.opened(self.top, parent) as descriptor:
                    found[each] = stat.S_IMODE(os.lstat(name, dir_fd=descriptor).st_mode)
        return found

    def _stage(self, changes: list[Change]) -> None:
        """Write the new files under their temporary names, beside their places."""
        for step, change in zip(self._steps, changes, strict=True):
            if change.after is None:
                continue
            with disk.opened(self.top, step.folder) as folder:
                if change.after.mode == "120000":
                    os.symlink(change.after.content, step.new, dir_fd=folder)
                else:
                    self._write_new(folder, step, change, change.after)
                    point("written")
                    # A new file is there whole or not at all: recovery tells a step's progress by contents.
                    os.rename(step.new + PART, step.new, src_dir_fd=folder, dst_dir_fd=folder)
            point("staged")

    def _write_new(self, folder: int, step: Step, change: Change, after: Entry) -> None:
        executable = after.mode == "100755"
        # The person's umask decides about a new file; an existing one keeps its permissions and owner.
        descriptor = os.open(
            step.new + PART,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
            0o777 if executable else 0o666,
            dir_fd=folder,
        )
        with os.fdopen(descriptor, "wb") as stream:
            point("open")
            stream.write(after.content)
            if change.before is not None and change.before.mode != "120000":
                parent, name = disk.parent_and_name(change.path)
                with disk.opened(self.top, parent) as place:
                    known = os.lstat(name, dir_fd=place)
                mode = stat.S_IMODE(known.st_mode) & 0o777
                if after.mode != change.before.mode:
                    mode = mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
                if os.geteuid() == 0 and (known.st_uid, known.st_gid) != (0, 0):
                    with contextlib.suppress(OSError):
                        os.fchown(descriptor, known.st_uid, known.st_gid)
                os.fchmod(descriptor, mode)
            stream.flush()
            os.fsync(descriptor)

    def _take_away(self) -> None:
        for step in self._steps:
            if step.after is None:
                self._move_aside(step)
                point("aside")
        for packed, _ in self._record["removed"]:
            parent, name = disk.parent_and_name(bytes.fromhex(packed))
            with disk.opened(self.top, parent) as folder:
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError as error:
                    if error.errno == errno.ENOTEMPTY:
                        raise changed_meanwhile(bytes.fromhex(packed)) from error
                    raise
            point("emptied")

    def _put_in_place(self) -> None:
        for step in self._steps:
            if step.before is not None and step.after is not None:
                self._replace(step)
                point("replaced")
        for packed in self._record["made"]:
            parent, name = disk.parent_and_name(bytes.fromhex(packed))
            with disk.opened(self.top, parent) as folder, contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            point("folder")
        for step in self._steps:
            if step.before is None and step.after is not None:
                with self._places(step) as (folder, place, name):
                    try:
                        disk.move(folder, step.new, place, name)
                    except FileExistsError as error:
                        raise changed_meanwhile(step.path) from error
                point("created")

    def _replace(self, step: Step) -> None:
        with self._places(step) as (folder, place, name):
            try:
                disk.exchange(folder, step.new, place, name)
            except disk.UnsupportedError:
                # The file is missing for a moment, but nobody's save is lost: the new name must be free.
                self._move_aside(step)
                point("gap")
                try:
                    disk.move(folder, step.new, place, name)
                except FileExistsError as error:
                    raise changed_meanwhile(step.path) from error
                return
            except FileNotFoundError as error:
                raise changed_meanwhile(step.path) from error
            point("exchanged")
            self._judge(step, folder, step.new)

    def _move_aside(self, step: Step) -> None:
        with self._places(step) as (folder, place, name):
            try:
                disk.move(place, name, folder, step.old)
            except FileNotFoundError as error:
                raise changed_meanwhile(step.path) from error
            point("moved")
            self._judge(step, folder, step.old)

    def _judge(self, step: Step, folder: int, name: bytes) -> None:
        """Hold what came out against what must have been there."""
        quiet = disk.settled(folder, name)
        if disk.signature_at(folder, name) != step.before:
            raise changed_meanwhile(step.path)
        if quiet is False:
            raise UnderstudyError(
                ErrorKind.APPLY_CONFLICT,
                f"A program has {quote(step.path)} open for writing, so it was not changed",
                hint="Let that program finish or close the file, then try again: what it still writes would be lost.",
            )
        if quiet is None:
            self._uncertain.append(step)

    def _recheck(self) -> None:
        for step in self._uncertain:
            with disk.opened(self.top, step.folder) as folder:
                found = {disk.signature_at(folder, step.new), disk.signature_at(folder, step.old)}
            if step.before not in found:
                raise changed_meanwhile(step.path)

    def _sync(self) -> None:
        folders = {disk.parent_and_name(step.path)[0] for step in self._steps} | {step.folder for step in self._steps}
        folders |= {disk.parent_and_name(bytes.fromhex(each))[0] for each in self._record["made"]}
        for each in folders:
            with contextlib.suppress(OSError), disk.opened(self.top, each) as folder:
                disk.sync(folder)

    @contextlib.contextmanager
    def _places(self, step: Step) -> Iterator[tuple[int, int, bytes]]:
        """Give descriptors of the folder of the temporary names and of the file's folder, and the file's name."""
        parent, name = disk.parent_and_name(step.path)
        with disk.opened(self.top, step.folder) as folder, disk.opened(self.top, parent) as place:
            yield folder, place, name

    def _roll_back(self) -> None:
        # When it fails half-way the journal stays, and whoever comes next finishes it (``recover``).
        self._active = False
        with typed(self.top):
            put_back(self.top, self._record, self._steps)
            self.journal.unlink(missing_ok=True)


def read_entry(top: Path, path: bytes) -> Entry | None:
    """Return what lies at ``path`` below ``top`` on disk, without following any link; a ``Reader`` with ``partial``.

    Something that is neither file nor link, or lies behind a link or a file, has the mode ``merge.OTHER``.
    ``file_too_large`` above ``READ_BYTES``; ``permission_denied`` when it cannot be read; ``path_escape``.
    """
    if refused(path):
        raise escape(path)
    folder, name = disk.parent_and_name(path)
    try:
        with disk.opened(top, folder) as descriptor:
            return disk.read_at(descriptor, name, READ_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            return Entry(OTHER, b"")
        if error.errno == errno.EFBIG:
            raise UnderstudyError(
                ErrorKind.FILE_TOO_LARGE, f"{quote(path)} is too large to be merged", hint="Merge it by hand."
            ) from error
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            f"{quote(path)} in {top} cannot be read: {error.strerror}",
            hint="Check its permissions.",
        ) from error


def _check_names(changes: list[Change]) -> None:
    for change in changes:
        name = change.path.rpartition(b"/")[2]
        first = change.path.partition(b"/")[0]
        if refused(change.path) or first == SCRATCH.encode() or name.startswith(TEMPORARY.encode()):
            raise escape(change.path)
        if OTHER in {entry.mode for entry in (change.before, change.after) if entry is not None}:
            raise changed_meanwhile(change.path)
    if len({change.path for change in changes}) != len(changes):
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, "A file is named twice in one change")


def _write_journal(journal: Path, record: dict[str, Any]) -> None:
    """Write the journal and make it durable; while its first line has no end, nothing has happened (``recover``)."""
    with journal.open("xb") as stream:
        stream.write(json.dumps(record).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
    folder = os.open(journal.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        disk.sync(folder)
    finally:
        os.close(folder)
