"""Create worktrees for agents and checks, and read results from them.

A worktree has its own `.git` folder that shares nothing writable with the user's repository, so an agent's changes to
the stash, branches, configuration and hooks stay in the worktree. Understudy treats that `.git` as data: it reads the
files with its own index in the store. The ignore rules of the base decide what belongs to a result, whatever the agent
wrote to `.gitignore`. Before a check judges a commit, the worktree is reset to exactly that commit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.git.base.index import Base
from understudy.git.changes import listing
from understudy.git.command import Completed, git_output, run_git
from understudy.git.object_store import (
    SCRATCH,
    ObjectStore,
    borrowing_git_dir,
    disk_full_errors,
    write_worktree_git_dir,
)
from understudy.git.path_rules import collisions
from understudy.git.verification import require_change, tree_of
from understudy.git.worktree.cleanup import delete_folder, make_readable, remove_other_files
from understudy.git.worktree.collect import ResultCollector, pattern_of, rules_of
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import quote

_WORKERS = {"checkout.workers": "0", "checkout.thresholdForParallelism": "100", "core.fsync": "none"}
"""Use as many workers as there are cores, and do not flush to disk: a worktree can be recreated."""

_WHOLE = {"core.sparseCheckout": "false"}
"""Hidden files are marked one by one (``Worktree._cover``), not by patterns."""

_UNREAD, _TOO_LONG = b"could not open directory ", b": File name too long"
"""In the warnings of git."""
_CUT_WARNING = 4000
"""Git cuts a longer warning, and then the reason at its end is missing."""
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of a worktree: a commit in the store, its tree, and notes about what it lacks."""

    commit: str
    tree: str
    notes: list[str] = field(default_factory=list)


def create_worktree(store: ObjectStore, base: Base | str, path: Path) -> Worktree:
    """Create a worktree of ``base`` (or of any commit of the store) at ``path``, which is missing or an empty folder.

    It contains the base's files, byte for byte, or those in the user's sparse cone, and the submodules whose commit is
    available. `git status` in it is clean. ``Worktree.notes`` lists what is special.

    Errors: ``target_exists``, ``base_unavailable`` (objects are missing), ``disk_full``, ``timed_out``.
    """
    commit = base if isinstance(base, str) else base.commit
    path = Path(os.path.realpath(path))
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(path.iterdir()):
            raise UnderstudyError(ErrorKind.TARGET_EXISTS, f"{path} is not empty.", hint="Choose another folder.")
    except FileExistsError as error:
        raise UnderstudyError(ErrorKind.TARGET_EXISTS, f"{path} is a file.", hint="Choose another folder.") from error
    tree = Worktree(store, path)
    tree.state.parent.mkdir(exist_ok=True, mode=0o700)
    tree.index.unlink(missing_ok=True)
    try:
        with disk_full_errors(path):
            tree.checkout(commit)
    except BaseException:
        for entry in list(path.iterdir()):
            delete_folder(entry)
        raise
    # A worktree of a result has the base's rules too: an agent wrote those of the result.
    start = store.base_commit() or commit
    tree.rules.write_bytes(rules_of(store, start))
    tree.state.write_text(json.dumps({"base": start, "excluded": []}))
    return tree


@dataclass(slots=True)
class Worktree:
    """A worktree and Understudy's records of it in the store, created by ``create_worktree``."""

    store: ObjectStore
    path: Path
    notes: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, store: ObjectStore, path: Path) -> Worktree:
        """Return the worktree at ``path``; raise ``state_unavailable`` when ``create_worktree`` made none there."""
        tree = cls(store, Path(os.path.realpath(path)))
        if not tree.state.exists():
            raise UnderstudyError(
                ErrorKind.STATE_UNAVAILABLE,
                f"{store.path} has no worktree at {path}.",
                hint="Start the delegation again.",
            )
        return tree

    @property
    def base(self) -> str:
        """The base of the store when the worktree was created; its ignore rules apply."""
        return str(json.loads(self.state.read_bytes())["base"])

    @property
    def state(self) -> Path:
        """The file in the store that describes the worktree."""
        return self._own(".json")

    @property
    def index(self) -> Path:
        """Understudy's index of the worktree."""
        return self._own(".index")

    @property
    def rules(self) -> Path:
        """The file with the base's ignore rules as one list."""
        return self._own(".ignore")

    @property
    def excluded(self) -> list[bytes]:
        """Files added to the worktree from outside (``extra_files``): never part of a result, and kept by resets."""
        return [bytes.fromhex(path) for path in json.loads(self.state.read_bytes())["excluded"]]

    def exclude(self, paths: Iterable[bytes]) -> None:
        """Add to ``excluded``, and hide the paths from git in the worktree as well."""
        every = sorted({*self.excluded, *paths})
        self.state.write_text(json.dumps({"base": self.base, "excluded": [path.hex() for path in every]}))
        self._hide(every)

    def snapshot(self, message: str, parent: str, *, repair: bool = True) -> Snapshot:
        """Commit the files of the worktree on ``parent``; return ``parent`` itself if nothing differs.

        Left out are files that the base's rules ignore, generated files (``collect.GENERATED``), the scratch
        folder, every `.git`, pipes and sockets, names that git refuses, files above the limits, and changes inside
        submodules; all but the first three are noted. Files of a repository that the agent created in the worktree are
        included. Links are recorded as links and not followed. With ``repair``, unreadable files are made readable.

        Errors: ``base_unavailable`` when the worktree cannot be read, ``disk_full``, ``timed_out``.
        """
        with self.store.temporary() as folder:
            for attempt in range(1, _TRIES + 1):
                index = folder / f"index.{attempt}"
                try:
                    with disk_full_errors(self.store.path):
                        self._check_root()
                        return self._read(index, message, parent)
                except (UnderstudyError, OSError) as error:
                    typed = error if isinstance(error, UnderstudyError) else None
                    if typed is not None and typed.kind is not ErrorKind.INTERNAL:
                        raise
                    if not self.store.top.is_dir():
                        raise UnderstudyError(
                            ErrorKind.BASE_UNAVAILABLE,
                            f"{self.store.top} was removed, and the worktree needs its repository.",
                            hint=f"Restore it. The work is kept in {self.path}.",
                        ) from error
                    if attempt == _TRIES:
                        raise UnderstudyError(
                            ErrorKind.BASE_UNAVAILABLE,
                            f"The files in {self.path} could not be read: {error}.",
                            hint="The folder is kept; open it to see the work.",
                        ) from error
                    if repair:
                        with contextlib.suppress(OSError):
                            make_readable(self.path)
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def materialise(self, commit: str, keep: Iterable[bytes] | None = None) -> None:
        """Reset the worktree to exactly ``commit`` plus ``keep`` (default: ``excluded``), with a new `.git`.

        Everything else is removed: ignored files, pipes, nested repositories, hard links, files with unusual
        permissions (they are written again). Raises an error if git finds a difference afterwards.
        """
        self._check_root()
        excluded = self.excluded
        self.checkout(commit, excluded if keep is None else keep)
        self._hide(excluded)

    def checkout(self, commit: str, keep: Iterable[bytes] = ()) -> None:
        """Reset or create the files, for ``materialise`` and ``create_worktree``."""
        modes = {path: details[:6].decode() for path, details in listing(self.store, commit).items()}
        hidden = self.store.hidden(commit)
        fresh = not self.index.exists()
        if not fresh:
            remove_other_files(self.path, {path: mode for path, mode in modes.items() if path not in hidden}, keep)
        with self.store.temporary() as folder:
            index = folder / "index"
            try:
                if fresh and not hidden:
                    # Nothing to verify: git writes to an empty folder, and fails if it cannot.
                    self._git("read-tree", "-m", "-u", commit, index=index, extra_config=_WORKERS | _WHOLE)
                else:
                    if not fresh:
                        shutil.copyfile(self.index, index)
                        shutil.copystat(self.index, index)
                    self._rewrite(commit, index, hidden)
                    self._verify(commit, index)
            except UnderstudyError as error:
                if error.kind is ErrorKind.INTERNAL:
                    raise UnderstudyError(
                        ErrorKind.BASE_UNAVAILABLE,
                        f"A worktree of {commit[:12]} could not be created at {self.path}: {error.message}",
                        hint="Run `git fsck` in your repository: objects may be missing.",
                    ) from error
                raise
            index.replace(self.index)
        for path, module in self._modules(modes).items():
            self._fill_module(path, module)
        self._note_collisions(modes)
        dot_git = self.path / ".git"
        delete_folder(dot_git)
        write_worktree_git_dir(self.store, dot_git, commit, self.index)

    def remove(self, trash: Path) -> None:
        """Move the worktree to ``trash`` (a folder on the same disk), delete it there, and remove it from the store."""
        trash.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside = trash / f"{self.path.name}-{secrets.token_hex(6)}"
        with contextlib.suppress(FileNotFoundError):
            try:
                self.path.rename(aside)
            except OSError:
                aside = self.path  # another disk: delete it where it is
            delete_folder(aside)
        for leftover in self.state.parent.glob(self.state.stem + "*"):
            leftover.unlink(missing_ok=True)

    def _own(self, suffix: str) -> Path:
        key = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        return self.store.own / "trees" / (key + suffix)

    def _hide(self, paths: list[bytes]) -> None:
        dot_git = self.path / ".git"
        if paths and stat.S_ISDIR(os.lstat(dot_git).st_mode):
            rules = (self.store.path / "info" / "exclude").read_bytes()
            rules += b"".join(pattern_of(path) + b"\n" for path in paths)
            target = dot_git / "info" / "exclude"
            target.unlink(missing_ok=True)  # an agent may have put anything there: do not follow a link
            target.write_bytes(rules)

    def _git(self, *arguments: str | bytes | Path, index: Path, **keywords: Any) -> bytes:
        return self.store.git_output(*arguments, work_tree=self.path, index=index, **keywords)

    def _check_root(self) -> None:
        try:
            mode = os.lstat(self.path).st_mode
        except OSError:
            mode = 0
        if not stat.S_ISDIR(mode):
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"The worktree {self.path} is no longer a folder.",
                hint="Earlier checkpoints can still be reviewed.",
            )

    def _changes(self, index: Path) -> list[tuple[str, str, bytes]]:
        """Return (mode in the index, status, path) for each file that differs from the index."""
        fields = self._git("diff-files", "-z", "--raw", "--ignore-submodules=all", index=index).split(b"\0")
        changes = []
        for details, path in zip(fields[::2], fields[1::2], strict=False):
            parts = details[1:].decode().split(" ")
            changes.append((parts[0], parts[4][:1], path))
        return changes

    def _read(self, index: Path, message: str, parent: str) -> Snapshot:
        shutil.copyfile(self.index, index)
        shutil.copystat(self.index, index)
        reader = ResultCollector(self.path, self.excluded)
        gone: list[bytes] = []
        take: list[bytes] = []
        for mode, status, path in self._changes(index):
            if mode == "160000":
                reader.notes.append(f"The submodule {quote(path)} was replaced, which is not part of the result.")
            elif status == "D" or not reader.is_content(path):
                gone.append(path)
            elif reader.fits(path):
                take.append(path)
        listed = self._listing(index, reader)
        take += reader.new_files(listed, self.rules.read_bytes())
        if gone:
            facts = b"".join(map(self.store.removal, gone))
            self._git("update-index", "-z", "--index-info", stdin=facts, index=index)
        if take:
            paths = b"".join(path + b"\0" for path in take)
            self._git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=paths, index=index)
        tree = self._git("write-tree", index=index).decode().strip()
        commit = parent
        if tree != tree_of(self.store, parent):
            commit = (
                self.store.git_output("commit-tree", tree, "-p", parent, "-F", "-", stdin=message.encode())
                .decode()
                .strip()
            )
            # git does not write an object whose id exists, so an agent can plant a false one. This removes it.
            try:
                require_change(self.store, parent, commit)
            except UnderstudyError as error:
                if error.kind is not ErrorKind.BASE_UNAVAILABLE:
                    raise
                raise UnderstudyError(ErrorKind.INTERNAL, error.message) from error  # write it again from the file
        index.replace(self.index)
        return Snapshot(commit, tree, reader.finish() + self._module_notes())

    def _listing(self, index: Path, reader: ResultCollector) -> list[bytes]:
        completed = self._run("ls-files", "-z", "-o", f"--exclude-from={self.rules}", index=index)
        unread = [line for line in completed.stderr.splitlines() if _UNREAD in line]
        # No program can open a path of that length, so nothing is wrong with the folder.
        too_deep = [line for line in unread if line.endswith(_TOO_LONG) or len(line) >= _CUT_WARNING]
        reader.left_out += [line.partition(_UNREAD)[2].removesuffix(_TOO_LONG).strip(b"'") for line in too_deep]
        if completed.code != 0 or completed.truncated or len(unread) > len(too_deep):
            raise UnderstudyError(
                ErrorKind.INTERNAL, completed.stderr.decode(errors="replace").strip()[-300:] or "too many files"
            )
        return completed.stdout.split(b"\0")[:-1]

    def _run(self, *arguments: str, index: Path) -> Completed:
        return run_git(*arguments, git_dir=self.store.path, work_tree=self.path, index=index)

    def _rewrite(self, commit: str, index: Path, hidden: set[bytes]) -> None:
        """Reset the index to ``commit``, keeping the cached state of unchanged files, and write the files that differ.

        Uses ``--reset``, because a plain merge fails while a file differs from the index.
        """
        self._git("read-tree", "--reset", commit, index=index, extra_config=_WHOLE)
        self._cover(index, hidden)
        paths = b"".join(path + b"\0" for mode, _, path in self._changes(index) if mode != "160000")
        if paths:
            self._git(
                "checkout-index", "-f", "-u", "-z", "--stdin", stdin=paths, index=index, extra_config=_WORKERS | _WHOLE
            )

    def _cover(self, index: Path, hidden: set[bytes]) -> None:
        """Mark exactly the hidden files as missing from the worktree."""
        if not self.store.sparse:
            return
        listing = self._git("ls-files", "-z", "-t", index=index, extra_config=_WHOLE).split(b"\0")
        shown = [line[2:] for line in listing if line.startswith(b"S ") and line[2:] not in hidden]
        for option, paths in (("--no-skip-worktree", shown), ("--skip-worktree", sorted(hidden))):
            if paths:
                names = b"".join(path + b"\0" for path in paths)
                self._git("update-index", option, "-z", "--stdin", stdin=names, index=index, extra_config=_WHOLE)

    def _verify(self, commit: str, index: Path) -> None:
        left = [path for mode, _, path in self._changes(index) if mode != "160000"]
        if left and not _insensitive(self.path):
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"{len(left)} files of {commit[:12]}, such as {quote(left[0])}, could not be written to {self.path}.",
                hint="Check the disk, and whether another process writes to the folder.",
            )

    def _modules(self, modes: dict[bytes, str]) -> dict[bytes, dict[str, Any]]:
        record = self.store.own / "submodules.json"
        if not record.exists() or "160000" not in modes.values():
            return {}
        modules = json.loads(record.read_bytes())
        return {path: modules[path.hex()] for path in modes if modes[path] == "160000" and path.hex() in modules}

    def _fill_module(self, path: bytes, module: dict[str, Any]) -> None:
        """Check out a submodule's recorded commit, with its own `.git` that borrows the objects."""
        folder = self.path / os.fsdecode(path)
        objects = [Path(os.fsdecode(bytes.fromhex(folder_path))) for folder_path in module["objects"]]
        kind = self.store.description["objectFormat"]
        git_dir = self._module_dir(path)
        delete_folder(git_dir)
        borrowing_git_dir(git_dir, objects, kind)
        folder.mkdir(parents=True, exist_ok=True)
        index = git_dir / "own.index"
        git_output(
            "read-tree",
            "-m",
            "-u",
            module["commit"],
            git_dir=git_dir,
            work_tree=folder,
            index=index,
            extra_config=_WORKERS,
        )
        borrowing_git_dir(folder / ".git", objects, kind, commit=module["commit"])
        shutil.copyfile(index, folder / ".git" / "index")
        shutil.copystat(index, folder / ".git" / "index")

    def _module_dir(self, path: bytes) -> Path:
        return self._own(".modules") / hashlib.sha256(path).hexdigest()[:16]

    def _module_notes(self) -> list[str]:
        """Return notes about submodules that the agent changed; their files are not part of the result."""
        notes = []
        record = self.store.own / "submodules.json"
        modules = json.loads(record.read_bytes()) if record.exists() else {}
        for name in modules:
            path = bytes.fromhex(name)
            folder, git_dir = self.path / os.fsdecode(path), self._module_dir(path)
            if not git_dir.is_dir() or os.path.realpath(folder) != str(folder) or not folder.is_dir():
                continue
            place: dict[str, Any] = {"git_dir": git_dir, "work_tree": folder, "index": git_dir / "own.index"}
            changed = git_output("diff-files", "-z", "--name-only", "--ignore-submodules=all", **place)
            added = git_output("ls-files", "-z", "-o", f"--exclude-from={self.rules}", **place)
            inside = (changed + added).split(b"\0")[:-1]
            if inside:
                shown = ", ".join(quote(file) for file in inside[:5]) + (" …" if len(inside) > 5 else "")
                what = "A changed file" if len(inside) == 1 else f"{len(inside)} changed files"
                verb = "is" if len(inside) == 1 else "are"
                notes.append(f"{what} in the submodule {quote(path)} {verb} not part of the result: {shown}")
        return notes

    def _note_collisions(self, paths: dict[bytes, str]) -> None:
        if not _insensitive(self.path):
            return
        for group in collisions(paths)[:20]:
            self.notes.append(
                "On this disk, these names are the same file: " + ", ".join(quote(path) for path in group)
            )


def _insensitive(folder: Path) -> bool:
    """Return whether names that differ only in case are the same file here, tested on the folder itself."""
    name = folder.name
    other = name.swapcase()
    if name == other:
        probe = folder / f".{SCRATCH}-Case"
        try:
            probe.touch(exist_ok=True)
            return (folder / probe.name.swapcase()).exists()
        except OSError:
            return False
        finally:
            probe.unlink(missing_ok=True)
    try:
        return (folder.parent / other).samefile(folder)
    except OSError:
        return False
