"""Write changes to the user's files, all or nothing, without overwriting what the user saves meanwhile.

A journal is on disk before anything changes. Each new file is written beside the old one, then the two are exchanged
in one step of the file system. If the old file is not the one that the change was computed from, everything is rolled
back. A new folder with many files is written beside its place, then renamed. After an interruption at any moment,
``recover`` rolls back or completes everything. Only files change, never the index, HEAD or a ref.

Files keep their owner, permissions, extended attributes and hard links (``attributes``). A file that only keeps them if
it is written in place is not exchanged: first both versions are on disk beside it, then it is overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.git.apply import attributes, filesystem
from understudy.git.apply.rollback import (
    PART,
    Staging,
    Step,
    changed_meanwhile,
    clean_up,
    escape,
    put_back,
    typed_errors,
)
from understudy.git.changes import OTHER, Change, Entry, folders_of
from understudy.git.diff import FILE_BYTES
from understudy.git.object_store import SCRATCH, TEMPORARY
from understudy.git.path_rules import refused
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import quote

_FILES = frozenset({"100644", "100755"})

READ_BYTES = 4 * FILE_BYTES
"""Largest file that ``read_entry`` reads; results contain smaller ones (``collect.RESULT_FILE_BYTES``)."""

MANY_FILES = 2_000
"""Most files that wait in a folder under temporary names for new folders to be made in it.

If there are more, the largest new folders are written whole under a temporary name and renamed: in a crowded folder,
the file system needs milliseconds for each new file. Below it, the files are moved one by one, because a watcher gets
one event for a renamed folder, which no glob of files matches; above it, watchers lose events and must rescan anyway.
"""

_NAMED = 5
"""Most files that could not be put back that an error names."""


class FileTransaction:
    """One all-or-nothing change of files below ``top``.

    ::

        with FileTransaction(top, journal) as exchange:
            exchange.apply(plan.changes)  # the files are new now
            ...                           # whatever else must succeed, e.g. the editor's applyEdit
            exchange.commit()             # without it, leaving the block rolls everything back

    ``journal`` is a path in an existing folder of Understudy (the delegation's); run one transaction at a time in a
    workspace. It exists from ``apply`` until ``commit`` or the rollback is complete. A rollback keeps files that the
    user saved in the meantime.
    """

    def __init__(self, top: Path, journal: Path) -> None:
        """Store the arguments; nothing is written yet."""
        self.top = Path(os.path.realpath(top))
        self.journal = journal
        self._active = False
        self._record: dict[str, Any] = {}
        self._steps: list[Step] = []
        self._staging = Staging({})
        self._contents: dict[bytes, bytes] = {}
        """New contents of the files that are written in place."""
        self._modes: dict[bytes, int] = {}
        """Their new permission bits."""
        self._uncertain: list[Step] = []
        self._kept: dict[bytes, bytes] = {}
        """Files that the rollback could not put back, with the paths where they are kept."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Roll back unless committed."""
        if self._active:
            self._roll_back()
            if isinstance(error, UnderstudyError):
                self._name_kept(error)

    def apply(self, changes: Iterable[Change]) -> None:
        """Write the changes; on any error, roll all of them back.

        Errors: ``merge_conflict`` (a file has changed since the merge, or is being written), ``path_escape`` (a link in
        the path, a refused name), ``permission_denied`` (also when a file would lose an attribute), ``disk_full``,
        ``conflict`` (the journal exists: ``recover`` it first).
        """
        effective = [change for change in changes if change.before != change.after]
        _check_names(effective)
        if self._active or self.journal.exists():
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                f"Another change to {self.top} is not finished.",
                hint="Try again: an interrupted change is completed or rolled back first.",
            )
        if not effective:
            return
        with self._errors():
            self._plan(effective)
            with typed_errors(self.journal.parent):  # often on another disk
                try:
                    _write_journal(self.journal, self._record)
                except OSError:
                    self.journal.unlink(missing_ok=True)
                    raise
            self._active = True
            failpoint("journalled")
            try:
                self._stage(effective)
                self._take_away()
                self._put_in_place()
            except BaseException:
                self._roll_back()
                raise

    def commit(self, then: Callable[[], None] | None = None) -> None:
        """Commit (durably once this returns) and clean up.

        ``then`` records the commit elsewhere: it is called after the commit and before the journal is removed. If the
        process is killed in between, ``recover`` calls it, possibly again. If ``then`` raises, the error is passed on
        and ``recover`` does the rest.

        Raises ``merge_conflict`` and rolls back if a program was still writing to a file that was replaced; this
        happens only where the system cannot detect it beforehand.
        """
        if not self._active:
            return
        with self._errors():
            try:
                self._recheck()
                self._sync()
                failpoint("synced")
                with typed_errors(self.journal.parent), self.journal.open("ab") as stream:
                    stream.write(b'{"committed":true}\n')
                    stream.flush()
                    os.fsync(stream.fileno())
            except BaseException:
                self._revoke_commit()
                self._roll_back()
                raise
        self._active = False
        failpoint("committed")
        if then is not None:
            then()
        with typed_errors(self.top):
            clean_up(self.top, self._record, self._steps)
            failpoint("cleaned")
            self.journal.unlink(missing_ok=True)

    def _revoke_commit(self) -> None:
        """Remove the commit from the journal, so that an interrupted rollback is not taken for a commit.

        If that cannot be written either, the files stay unchanged, and ``recover`` decides by their contents.
        """
        self._active = False
        with contextlib.suppress(FileNotFoundError), self.journal.open("rb+") as stream:
            stream.truncate(len(stream.readline()))
            stream.flush()
            os.fsync(stream.fileno())
        failpoint("uncommitted")

    def _plan(self, changes: list[Change]) -> None:
        """Check every path and return the steps, in memory."""
        token = secrets.token_hex(6)
        coming = {change.path for change in changes if change.before is None}
        leaving = {change.path for change in changes if change.after is None}
        steps, made, removed = [], dict[bytes, None](), dict[bytes, int]()
        places: dict[bytes, tuple[bytes, list[bytes]]] = {}
        for number, change in enumerate(changes):
            in_place = None if change.before is None else self._check_before(change)
            if in_place is not None and change.after is not None:
                self._contents[change.path] = change.after.content
                self._modes[change.path] = _mode_after(change, in_place)
            if change.after is None:
                for folder in folders_of(change.path):
                    if folder in coming:
                        removed.update(self._folders_below(folder, change.path))
            parent = filesystem.parent_and_name(change.path)[0]
            if parent not in places:
                places[parent] = self._existing_folder(change.path, coming, leaving)
            folder, missing = places[parent]
            if change.after is not None:
                made.update(dict.fromkeys(missing))
            name = b"%s%s-%d" % (TEMPORARY.encode(), token.encode(), number)
            steps.append(
                Step(
                    change.path,
                    folder,
                    name + b".new",
                    name + b".old",
                    filesystem.signature(change.before),
                    filesystem.signature(change.after),
                    in_place,
                )
            )
        self._steps = steps
        staged: list[list[str]] = []
        for root in _large_folders(steps, made):
            parent = filesystem.parent_and_name(root)[0]
            name = b"%s%s-%d.folder" % (TEMPORARY.encode(), token.encode(), len(staged))
            staged.append([root.hex(), (parent + b"/" + name if parent else name).hex()])
        self._record = {
            "top": os.fsencode(self.top).hex(),
            "steps": [step.packed() for step in steps],
            "made": [new_folder.hex() for new_folder in made],
            "removed": [[old_folder.hex(), mode] for old_folder, mode in sorted(removed.items(), reverse=True)],
            "staged": staged,
        }
        self._staging = Staging(self._record)

    def _check_before(self, change: Change) -> int | None:
        """Check that a file is as it was merged; return its permission bits if it must be written in place."""
        folder, name = filesystem.parent_and_name(change.path)
        in_place = None
        try:
            with filesystem.opened(self.top, folder) as descriptor:
                current = filesystem.signature_at(descriptor, name)
                if _is_edit(change) and current == filesystem.signature(change.before):
                    in_place = _mode_in_place(descriptor, name, change.path)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.ENOENT}:
                raise changed_meanwhile(change.path) from error
            raise
        if current != filesystem.signature(change.before):
            raise changed_meanwhile(change.path)
        return in_place

    def _existing_folder(self, path: bytes, coming: set[bytes], leaving: set[bytes]) -> tuple[bytes, list[bytes]]:
        """Return the deepest parent folder that exists before and after, and the folders to create."""
        folders = folders_of(path)
        reached = b""
        for number, folder in enumerate(folders):
            if folder in coming:  # the folder is removed, a file replaces it
                return reached, []
            parent, name = filesystem.parent_and_name(folder)
            with filesystem.opened(self.top, parent) as descriptor:
                try:
                    mode = os.lstat(name, dir_fd=descriptor).st_mode
                except FileNotFoundError:
                    return reached, folders[number:]
            if not stat.S_ISDIR(mode):
                if folder in leaving:  # a file is removed, the folder replaces it
                    return reached, folders[number:]
                raise escape(path)
            reached = folder
        return reached, []

    def _folders_below(self, folder: bytes, path: bytes) -> dict[bytes, int]:
        modes = {}
        for below in folders_of(path):
            if below == folder or below.startswith(folder + b"/"):
                parent, name = filesystem.parent_and_name(below)
                with filesystem.opened(self.top, parent) as descriptor:
                    modes[below] = stat.S_IMODE(os.lstat(name, dir_fd=descriptor).st_mode)
        return modes

    def _stage(self, changes: list[Change]) -> None:
        """Write the new files under their temporary names, beside their targets, and make them durable."""
        for temporary in self._staging.folders():
            self._make_folder(temporary)
            failpoint("staging folder")
        written = []
        with filesystem.KeptFolder(self.top) as kept:
            for step, change in zip(self._steps, changes, strict=True):
                if change.after is None:
                    continue
                place, name = self._staging.place(step)
                folder = kept.opened(place)
                if change.after.mode == "120000":
                    os.symlink(change.after.content, name, dir_fd=folder)
                elif not self._link_renamed(folder, name, change):
                    self._write_new(folder, name, step, change, change.after)
                    written.append((place, name))
                if step.in_place is not None and change.before is not None:
                    self._write_new(folder, step.old, step, change, change.before)
                    written.append((place, step.old))
                failpoint("staged")
        filesystem.sync_files(self.top, written)
        failpoint("all staged")

    def _write_new(self, folder: int, name: bytes, step: Step, change: Change, entry: Entry) -> None:
        # The user's umask applies to a new file; the copies of one that is written in place are only for recovery.
        mode = 0o600 if step.in_place is not None else 0o777 if entry.mode == "100755" else 0o666
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        # The old file must be exchanged with a complete one: recovery detects a step's progress by contents. A file
        # that has no old one is at its place only after all are complete; until then, recovery removes it.
        written = name if step.before is None else name + PART
        descriptor = os.open(written, flags, mode, dir_fd=folder)
        try:
            failpoint("open")
            durable.write_at(descriptor, entry.content, 0)
            if step.in_place is None and (_is_edit(change) or change.source is not None):
                self._keep_attributes(descriptor, change)
            elif step.in_place is None and change.permissions is not None:
                _restore_attributes(descriptor, change, change.permissions)
        finally:
            os.close(descriptor)
        failpoint("written")
        if written != name:
            os.rename(written, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _make_folder(self, path: bytes) -> None:
        parent, name = filesystem.parent_and_name(path)
        with filesystem.opened(self.top, parent) as folder:
            os.mkdir(name, dir_fd=folder)

    def _link_renamed(self, folder: int, new: bytes, change: Change) -> bool:
        """Link the new name of a file that has further names; return whether it has. Its content must not change."""
        if change.source is None or change.after is None:
            return False
        parent, name = filesystem.parent_and_name(change.source)
        try:
            with filesystem.opened(self.top, parent) as place:
                if os.lstat(name, dir_fd=place).st_nlink == 1:
                    return False
                if filesystem.signature_at(place, name) != filesystem.signature(change.after):
                    raise _would_lose(change.source, "other names (hard links)")
                os.link(name, new, src_dir_fd=place, dst_dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError as error:
            raise changed_meanwhile(change.source) from error
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EPERM, errno.EMLINK}:
                raise
            raise _would_lose(change.source, "other names (hard links)") from error
        return True

    def _keep_attributes(self, descriptor: int, change: Change) -> None:
        parent, name = filesystem.parent_and_name(change.source or change.path)
        try:
            with filesystem.opened(self.top, parent) as place, filesystem.open_to_read(place, name) as source:
                mode = stat.S_IMODE(os.fstat(source).st_mode)
                attributes.copy(source, descriptor, _mode_after(change, mode))
        except FileNotFoundError as error:
            raise changed_meanwhile(change.path) from error
        except attributes.LostError as error:
            raise _would_lose(change.path, str(error)) from error

    def _take_away(self) -> None:
        for step in self._steps:
            if step.after is None:
                self._move_aside(step)
                failpoint("aside")
        for packed, _ in self._record["removed"]:
            parent, name = filesystem.parent_and_name(bytes.fromhex(packed))
            with filesystem.opened(self.top, parent) as folder:
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError as error:
                    if error.errno == errno.ENOTEMPTY:
                        raise changed_meanwhile(bytes.fromhex(packed)) from error
                    raise
            failpoint("emptied")

    def _put_in_place(self) -> None:
        for step in self._steps:
            if step.before is not None and step.after is not None:
                if step.in_place is None:
                    self._replace(step)
                else:
                    self._overwrite(step)
                failpoint("replaced")
        moved = self._move_folders()
        for packed in self._record["made"]:
            if moved.temporary(path := bytes.fromhex(packed)) is None:
                with contextlib.suppress(FileExistsError):
                    self._make_folder(path)
                failpoint("folder")
        with filesystem.KeptFolder(self.top) as beside, filesystem.KeptFolder(self.top) as parents:
            for step in self._steps:
                if step.before is None and step.after is not None:
                    parent, name = filesystem.parent_and_name(step.path)
                    if moved.temporary(parent) is not None:
                        continue
                    place, waiting = self._staging.place(step)
                    try:
                        filesystem.move(beside.opened(place), waiting, parents.opened(parent), name)
                    except FileExistsError as error:
                        raise changed_meanwhile(step.path) from error
                    failpoint("created")

    def _move_folders(self) -> Staging:
        """Rename complete new folders to their places, and return those.

        Where that name is taken meanwhile, or the system cannot check that it is free, the files follow one by one: a
        rename that fails changes nothing, and then the files say what is wrong.
        """
        moved = []
        for packed in self._record["staged"]:
            root, temporary = (bytes.fromhex(path) for path in packed)
            parent, name = filesystem.parent_and_name(root)
            with filesystem.opened(self.top, parent) as folder:
                try:
                    filesystem.move_folder(folder, filesystem.parent_and_name(temporary)[1], name)
                except (OSError, filesystem.UnsupportedError):
                    continue
            moved.append(packed)
            failpoint("folder")
        return Staging(self._record | {"staged": moved})

    def _replace(self, step: Step) -> None:
        with self._places(step) as (folder, place, name):
            try:
                filesystem.exchange(folder, step.new, place, name)
            except filesystem.UnsupportedError:
                # The file is missing for a moment, but no save is lost: the new name must be free.
                self._move_aside(step)
                failpoint("gap")
                try:
                    filesystem.move(folder, step.new, place, name)
                except FileExistsError as error:
                    raise changed_meanwhile(step.path) from error
                return
            except FileNotFoundError as error:
                raise changed_meanwhile(step.path) from error
            failpoint("exchanged")
            self._judge(step, folder, step.new)

    def _overwrite(self, step: Step) -> None:
        with self._places(step) as (_, place, name):
            if filesystem.settled(place, name) is False:
                raise _is_written(step.path)
            try:
                with filesystem.open_to_write(place, name) as descriptor, filesystem.alone(descriptor):
                    if filesystem.signature_of(descriptor) != step.before:
                        raise changed_meanwhile(step.path)
                    attributes.overwrite(descriptor, self._contents[step.path], self._modes[step.path])
            except FileNotFoundError as error:
                raise changed_meanwhile(step.path) from error
            except attributes.LostError as error:
                raise _would_lose(step.path, str(error)) from error

    def _move_aside(self, step: Step) -> None:
        with self._places(step) as (folder, place, name):
            try:
                filesystem.move(place, name, folder, step.old)
            except FileNotFoundError as error:
                raise changed_meanwhile(step.path) from error
            failpoint("moved")
            self._judge(step, folder, step.old)

    def _judge(self, step: Step, folder: int, name: bytes) -> None:
        """Compare the old file, now exchanged, with the one that the change was computed from."""
        quiet = filesystem.settled(folder, name)
        if filesystem.signature_at(folder, name) != step.before:
            raise changed_meanwhile(step.path)
        if quiet is False:
            raise _is_written(step.path)
        if quiet is None:
            self._uncertain.append(step)

    def _recheck(self) -> None:
        for step in self._uncertain:
            with filesystem.opened(self.top, step.folder) as folder:
                signatures = {filesystem.signature_at(folder, step.new), filesystem.signature_at(folder, step.old)}
            if step.before not in signatures:
                raise changed_meanwhile(step.path)

    def _sync(self) -> None:
        folders = {filesystem.parent_and_name(step.path)[0] for step in self._steps} | {
            step.folder for step in self._steps
        }
        folders |= {filesystem.parent_and_name(bytes.fromhex(made))[0] for made in self._record["made"]}
        filesystem.sync_folders(self.top, folders)

    @contextlib.contextmanager
    def _places(self, step: Step) -> Iterator[tuple[int, int, bytes]]:
        """Yield descriptors of the folder of the temporary names and of the file's folder, and the file's name."""
        parent, name = filesystem.parent_and_name(step.path)
        with filesystem.opened(self.top, step.folder) as folder, filesystem.opened(self.top, parent) as place:
            yield folder, place, name

    def _roll_back(self) -> None:
        # If it fails halfway, the journal stays, and the next ``recover`` completes it.
        self._active = False
        with typed_errors(self.top):
            self._kept = put_back(self.top, self._record, self._steps)
            self.journal.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with typed_errors(self.top):
                yield
        except UnderstudyError as error:
            self._name_kept(error)
            raise

    def _name_kept(self, error: UnderstudyError) -> None:
        """Add to the hint where the files are that the rollback could not put back."""
        kept, self._kept = self._kept, {}
        named = [f"{quote(path)} is kept as {quote(place)}." for path, place in list(kept.items())[:_NAMED]]
        more = [f"{len(kept) - _NAMED} more files are kept under such names."] if len(kept) > _NAMED else []
        if named:
            error.hint = " ".join([error.hint or "", *named, *more]).strip()


def _large_folders(steps: list[Step], made: Container[bytes]) -> list[bytes]:
    """Return the highest new folders to write whole, largest first, so that few files wait for the others."""
    sizes: Counter[tuple[bytes, bytes]] = Counter()
    waiting: Counter[bytes] = Counter()
    for step in steps:
        root = next((parent for parent in folders_of(step.path) if parent in made), None)
        if step.before is None and root is not None:
            sizes[step.folder, root] += 1
            waiting[step.folder] += 1
    roots = []
    for (folder, root), size in sizes.most_common():
        if waiting[folder] > MANY_FILES:
            roots.append(root)
            waiting[folder] -= size
    return roots


def read_entry(top: Path, path: bytes) -> Entry | None:
    """Return the entry at ``path`` below ``top`` on disk, without following links; a ``Reader`` with ``partial``.

    An entry that is neither a file nor a link, or is behind a link or a file, has the mode ``changes.OTHER``. Raises
    ``file_too_large`` above ``READ_BYTES``, ``permission_denied`` when it cannot be read, ``path_escape``.
    """
    if refused(path):
        raise escape(path)
    folder, name = filesystem.parent_and_name(path)
    try:
        with filesystem.opened(top, folder) as descriptor:
            return filesystem.read_at(descriptor, name, READ_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            return Entry(OTHER, b"")
        if error.errno == errno.EFBIG:
            raise UnderstudyError(
                ErrorKind.FILE_TOO_LARGE,
                f"{quote(path)} is too large to be merged.",
                hint="Merge it by hand, then mark it as merged manually.",
            ) from error
        raise UnderstudyError(
            ErrorKind.PERMISSION_DENIED,
            f"{quote(path)} in {top} cannot be read: {error.strerror}.",
            hint="Check its permissions.",
        ) from error


def _is_edit(change: Change) -> bool:
    """Return whether a regular file stays one."""
    return all(entry is not None and entry.mode in _FILES for entry in (change.before, change.after))


def _mode_after(change: Change, mode: int) -> int:
    before = change.before.mode if change.before is not None else attributes.git_mode(mode)
    return mode if change.after is None else attributes.mode_after(mode, before, change.after.mode)


def with_attributes(top: Path, change: Change) -> Change:
    """Return a change that removes or replaces a regular file with the file's attributes, so that undo restores them.

    An edit keeps them by itself.
    """
    if change.before is None or change.before.mode not in _FILES or _is_edit(change):
        return change
    folder, name = filesystem.parent_and_name(change.path)
    extended = None
    try:
        with filesystem.opened(top, folder) as descriptor:
            mode = os.lstat(name, dir_fd=descriptor).st_mode
            with contextlib.suppress(OSError), filesystem.open_to_read(descriptor, name) as file:
                extended = attributes.extended(file)
    except OSError:
        return change
    return replace(change, permissions=stat.S_IMODE(mode), extended=extended) if stat.S_ISREG(mode) else change


def _restore_attributes(descriptor: int, change: Change, permissions: int) -> None:
    try:
        if change.extended is None:  # removed by an earlier version
            attributes.set_mode(descriptor, permissions)
        else:
            attributes.restore(descriptor, change.extended, permissions)
    except attributes.LostError as error:
        raise _would_lose(change.path, str(error)) from error


def _mode_in_place(folder: int, name: bytes, path: bytes) -> int | None:
    """Return the permission bits of a file that must be written in place; None for one that is replaced."""
    facts = os.lstat(name, dir_fd=folder)
    if not attributes.is_kept_in_place(facts):
        return None
    with filesystem.open_to_read(folder, name) as descriptor:
        try:
            attributes.refuse_in_place(descriptor, facts)
        except attributes.LostError as error:
            raise _would_lose(path, str(error)) from error
    return stat.S_IMODE(facts.st_mode)


def _would_lose(path: bytes, what: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.PERMISSION_DENIED,
        f"{quote(path)} would lose its {what}, so nothing was applied.",
        hint="Make this change yourself, then accept it as merged manually.",
        names=[quote(path)],
    )


def _is_written(path: bytes) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.MERGE_CONFLICT,
        f"A program has {quote(path)} open for writing, so it was not changed.",
        hint="Let that program finish or close the file, then try again: its later writes would be lost.",
        names=[quote(path)],
    )


def _check_names(changes: list[Change]) -> None:
    for change in changes:
        name = change.path.rpartition(b"/")[2]
        first = change.path.partition(b"/")[0]
        if refused(change.path) or first == SCRATCH.encode() or name.startswith(TEMPORARY.encode()):
            raise escape(change.path)
        if OTHER in {entry.mode for entry in (change.before, change.after) if entry is not None}:
            raise changed_meanwhile(change.path)
    if len({change.path for change in changes}) != len(changes):
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, "A change names a file twice.")


def _write_journal(journal: Path, record: dict[str, Any]) -> None:
    """Write the journal durably; while its first line is incomplete, nothing has happened (``recover``)."""
    with journal.open("xb") as stream:
        stream.write(json.dumps(record).encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
    folder = os.open(journal.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        filesystem.sync(folder)
    finally:
        os.close(folder)
