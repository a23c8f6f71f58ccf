"""Working trees for agents and checks, and reading them back.

A tree has a `.git` folder of its own that shares nothing writable with the user's repository, so what an agent does to
stash, branches, configuration and hooks stays in the tree. For Understudy that `.git` is data: it reads the files with
its own index in the store. A result holds what the base's ignore rules let through, whatever the agent wrote into
`.gitignore`; and before a check judges a commit, the tree is made exactly that commit.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.git.base import Base
from understudy.git.call import Completed, git, try_git
from understudy.git.excludes import pattern_of, rules_of
from understudy.git.names import collisions, quote, refused
from understudy.git.repository import Repository
from understudy.git.store import SCRATCH, Store, borrowing_git_dir, naming_a_full_disk, write_tree_git_dir
from understudy.git.sweep import make_readable, remove_tree, sweep
from understudy.model.errors import ErrorKind, UnderstudyError

RESULT_FILE_BYTES = 50 * 1024 * 1024
"""A changed or new file above this is left out of a result and named; GitHub warns about files from this size on."""

RESULT_TOTAL_BYTES = 500 * 1024 * 1024
"""New and changed files together; what does not fit is left out and named."""

RESULT_NEW_FILES = 50_000
"""New files in one result; what comes later in the order of paths is left out and named."""

_WORKERS = {"checkout.workers": "0", "checkout.thresholdForParallelism": "100", "core.fsync": "none"}
"""As many workers as there are cores; a tree can be made again, so it is not flushed to disk."""

_WHOLE = {"core.sparseCheckout": "false"}
"""Which files are hidden is said file by file (``Tree._cover``), not by patterns: a base may have files outside."""

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a tree held: a commit in the store, its tree, and sentences about what is not in it."""

    commit: str
    tree: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Claim:
    """A place for a tree that nobody else uses. The place stays taken while the folder exists."""

    path: Path
    descriptor: int

    def release(self) -> None:
        """Give the lock back; the folder keeps the place."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)


def repository_key(repository: Repository) -> str:
    """Return the name of a repository's folder under `<state>/trees`: its own name and 10 hex digits of its path."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", repository.top.name).strip(".")[:40] or "root"
    return f"{name}-{hashlib.sha256(os.fsencode(repository.top)).hexdigest()[:10]}"


def claim_tree_path(trees_root: Path, key: str) -> Claim:
    """Return a fresh, empty folder `<trees_root>/<key>/<n>`, ``n`` as low as possible, claimed by a lock.

    Low numbers come back after ``Tree.remove``, so that tools which remember paths find the same ones. A folder that
    exists is never handed out, whoever made it.
    """
    root = trees_root / key
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in range(1, 100_000):
            descriptor = os.open(root / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (root / str(number)).mkdir(mode=0o700)
            except (BlockingIOError, FileExistsError):
                os.close(descriptor)
                continue
            return Claim(root / str(number), descriptor)
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.STORE_UNAVAILABLE, f"{root} cannot be used: {error.strerror}", hint="Check its permissions."
        ) from error
    raise UnderstudyError(ErrorKind.STORE_UNAVAILABLE, f"{root} holds too many trees", hint="Remove some.")


def create_tree(store: Store, base: Base | str, path: Path) -> Tree:
    """Make a tree of ``base`` (or of any commit of the store) at ``path``, which is missing or an empty folder.

    The files are the base's, byte for byte; inside the sparse cone if the user has one; submodules whose commit is here
    are filled. `git status` in it is clean. ``Tree.notes`` says what is special.

    Errors: ``target_exists``, ``base_unavailable`` (objects are missing), ``store_full``, ``timed_out``.
    """
    commit = base if isinstance(base, str) else base.commit
    path = Path(os.path.realpath(path))
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(path.iterdir()):
            raise UnderstudyError(ErrorKind.TARGET_EXISTS, f"{path} is not empty", hint="Choose another folder.")
    except FileExistsError as error:
        raise UnderstudyError(ErrorKind.TARGET_EXISTS, f"{path} is a file", hint="Choose another folder.") from error
    tree = Tree(store, path)
    tree.state.parent.mkdir(exist_ok=True, mode=0o700)
    tree.index.unlink(missing_ok=True)
    try:
        with naming_a_full_disk(path):
            tree.checkout(commit)
    except BaseException:
        for entry in list(path.iterdir()):
            remove_tree(entry)
        raise
    # A tree made of a result has the base's rules all the same: the result's were written by an agent.
    start = store.base_commit() or commit
    tree.rules.write_bytes(rules_of(store, start))
    tree.state.write_text(json.dumps({"base": start, "excluded": []}))
    return tree


@dataclass(slots=True)
class Tree:
    """A working tree and Understudy's knowledge of it, which lies in the store. Made by ``create_tree``."""

    store: Store
    path: Path
    notes: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, store: Store, path: Path) -> Tree:
        """Return the tree that ``create_tree`` made at ``path``; ``store_unavailable`` when there is none."""
        tree = cls(store, Path(os.path.realpath(path)))
        if not tree.state.exists():
            raise UnderstudyError(
                ErrorKind.STORE_UNAVAILABLE, f"{store.path} has no tree at {path}", hint="Start anew."
            )
        return tree

    @property
    def base(self) -> str:
        """The base of the store when the tree was made: its ignore rules hold."""
        return str(json.loads(self.state.read_bytes())["base"])

    @property
    def state(self) -> Path:
        """The file in the store that describes the tree."""
        return self._own(".json")

    @property
    def index(self) -> Path:
        """Understudy's index of the tree."""
        return self._own(".index")

    @property
    def rules(self) -> Path:
        """The base's ignore rules as one list."""
        return self._own(".ignore")

    @property
    def excluded(self) -> list[bytes]:
        """What was brought into the tree from outside (``bootstrap``): never part of a result, and kept."""
        return [bytes.fromhex(path) for path in json.loads(self.state.read_bytes())["excluded"]]

    def exclude(self, paths: Iterable[bytes]) -> None:
        """Add to ``excluded``, and hide the paths from git in the tree as well."""
        every = sorted({*self.excluded, *paths})
        self.state.write_text(json.dumps({"base": self.base, "excluded": [path.hex() for path in every]}))
        self._hide(every)

    def snapshot(self, message: str, parent: str) -> Snapshot:
        """Read the tree as files and write them as a commit on ``parent``; the same files as ``parent``'s: ``parent``.

        Not part of it: what the base's rules ignore, generated files (``excludes.GENERATED``), the scratch folder,
        every `.git`, pipes and sockets, names that git refuses, files above the limits, changes inside submodules;
        each but the first three is noted. Files of a repository that the agent made inside the tree are part of it.
        Links are recorded as links; nothing behind them is read.

        Errors: ``base_unavailable`` when the tree cannot be read, ``store_full``, ``timed_out``.
        """
        with self.store.temporary() as folder:
            for attempt in range(1, _TRIES + 1):
                index = folder / f"index.{attempt}"
                try:
                    self._check_root()
                    return self._read(index, message, parent)
                except (UnderstudyError, OSError) as error:
                    typed = error if isinstance(error, UnderstudyError) else None
                    if typed is not None and typed.kind is not ErrorKind.INTERNAL:
                        raise
                    if attempt == _TRIES:
                        raise UnderstudyError(
                            ErrorKind.BASE_UNAVAILABLE,
                            f"The work in {self.path} could not be read: {error}",
                            hint="The folder is kept; look at it there.",
                        ) from error
                    with contextlib.suppress(OSError):
                        make_readable(self.path)
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def materialise(self, commit: str, keep: Iterable[bytes] | None = None) -> None:
        """Make the tree exactly ``commit``, plus what ``keep`` names (absent: ``excluded``), with a fresh `.git`.

        Removed is everything else: ignored files, pipes, nested repositories, hard links, files with odd permissions
        (they are written anew). Ends in an error unless git finds no difference afterwards.
        """
        self._check_root()
        excluded = self.excluded
        self.checkout(commit, excluded if keep is None else keep)
        self._hide(excluded)

    def checkout(self, commit: str, keep: Iterable[bytes] = ()) -> None:
        """Do the work of ``materialise`` and of ``create_tree``."""
        wanted = self._wanted(commit)
        hidden = self.store.hidden(commit)
        fresh = not self.index.exists()
        if not fresh:
            sweep(self.path, {path: mode for path, mode in wanted.items() if path not in hidden}, keep)
        with self.store.temporary() as folder:
            index = folder / "index"
            try:
                if fresh and not hidden:
                    # Nothing to verify: git writes into an empty folder and fails when it cannot.
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
                        f"A tree of {commit[:12]} could not be made at {self.path}: {error.message}",
                        hint="Run `git fsck` in your repository; objects may be missing.",
                    ) from error
                raise
            index.replace(self.index)
        for path, module in self._modules(wanted).items():
            self._fill_module(path, module)
        self._note_collisions(wanted)
        dot_git = self.path / ".git"
        remove_tree(dot_git)
        write_tree_git_dir(self.store, dot_git, commit, self.index)

    def remove(self, trash: Path) -> None:
        """Move the tree to ``trash`` (a folder on the same disk) and delete it there; the store forgets it."""
        trash.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside = trash / f"{self.path.name}-{secrets.token_hex(6)}"
        with contextlib.suppress(FileNotFoundError):
            try:
                self.path.rename(aside)
            except OSError:
                aside = self.path  # another disk: delete it where it is
            remove_tree(aside)
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
            target.unlink(missing_ok=True)  # whatever an agent put there: a link is not followed
            target.write_bytes(rules)

    def _git(self, *arguments: str | bytes | Path, index: Path, **keywords: Any) -> bytes:
        return self.store.git(*arguments, work_tree=self.path, index=index, **keywords)

    def _check_root(self) -> None:
        try:
            mode = os.lstat(self.path).st_mode
        except OSError:
            mode = 0
        if not stat.S_ISDIR(mode):
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"The tree {self.path} is not a folder any more",
                hint="What was recorded before can still be reviewed.",
            )

    def _wanted(self, commit: str) -> dict[bytes, str]:
        wanted = {}
        for entry in self.store.git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
            details, _, path = entry.partition(b"\t")
            wanted[path] = details[:6].decode()
        return wanted

    def _changes(self, index: Path) -> list[tuple[str, str, bytes]]:
        """Return (mode in the index, status, path) for each file that differs from the index."""
        fields = self._git("diff-files", "-z", "--raw", "--ignore-submodules=all", index=index).split(b"\0")
        found = []
        for details, path in zip(fields[::2], fields[1::2], strict=False):
            parts = details[1:].decode().split(" ")
            found.append((parts[0], parts[4][:1], path))
        return found

    def _read(self, index: Path, message: str, parent: str) -> Snapshot:
        shutil.copyfile(self.index, index)
        shutil.copystat(self.index, index)
        reader = _Reader(self.path, self.excluded)
        null = "0" * len(self.store.empty_tree)
        gone: list[bytes] = []
        take: list[bytes] = []
        for mode, status, path in self._changes(index):
            if mode == "160000":
                reader.notes.append(f"The submodule {quote(path)} was replaced; that is not part of the result.")
            elif status == "D" or not reader.is_content(path):
                gone.append(path)
            elif reader.fits(path):
                take.append(path)
        listed = self._listing(index)
        take += reader.new_files(listed, self.rules.read_bytes())
        if gone:
            facts = b"".join(f"0 {null}\t".encode() + path + b"\0" for path in gone)
            self._git("update-index", "-z", "--index-info", stdin=facts, index=index)
        if take:
            paths = b"".join(path + b"\0" for path in take)
            self._git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=paths, index=index)
        tree = self._git("write-tree", index=index).decode().strip()
        before = self.store.git("rev-parse", "--verify", "--end-of-options", parent + "^{tree}").decode().split()[-1]
        commit = parent
        if tree != before:
            commit = (
                self.store.git("commit-tree", tree, "-p", parent, "-F", "-", stdin=message.encode()).decode().strip()
            )
        index.replace(self.index)
        return Snapshot(commit, tree, reader.finish() + self._module_notes())

    def _listing(self, index: Path) -> list[bytes]:
        done = self._try("ls-files", "-z", "-o", f"--exclude-from={self.rules}", index=index)
        if done.code != 0 or done.truncated or b"could not open directory" in done.stderr:
            raise UnderstudyError(
                ErrorKind.INTERNAL, done.stderr.decode(errors="replace").strip()[-300:] or "too many files"
            )
        return done.stdout.split(b"\0")[:-1]

    def _try(self, *arguments: str, index: Path) -> Completed:
        return try_git(*arguments, git_dir=self.store.path, work_tree=self.path, index=index)

    def _rewrite(self, commit: str, index: Path, hidden: set[bytes]) -> None:
        """Bring the index to ``commit``, keeping what is known of files that stay, and write the files that differ.

        ``--reset``, because a plain merge refuses while a file differs from the index.
        """
        self._git("read-tree", "--reset", commit, index=index, extra_config=_WHOLE)
        self._cover(index, hidden)
        paths = b"".join(path + b"\0" for mode, _, path in self._changes(index) if mode != "160000")
        if paths:
            self._git(
                "checkout-index", "-f", "-u", "-z", "--stdin", stdin=paths, index=index, extra_config=_WORKERS | _WHOLE
            )

    def _cover(self, index: Path, hidden: set[bytes]) -> None:
        """Mark exactly the hidden files as not in the tree."""
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
                f"{quote(left[0])} and {len(left) - 1} more files of {commit[:12]} could not be written to {self.path}",
                hint="Check the disk under it, and whether another process writes there.",
            )

    def _modules(self, wanted: dict[bytes, str]) -> dict[bytes, dict[str, Any]]:
        record = self.store.own / "submodules.json"
        if not record.exists() or "160000" not in wanted.values():
            return {}
        known = json.loads(record.read_bytes())
        return {path: known[path.hex()] for path in wanted if wanted[path] == "160000" and path.hex() in known}

    def _fill_module(self, path: bytes, module: dict[str, Any]) -> None:
        """Check a submodule's recorded commit out, with a `.git` of its own that borrows the objects."""
        folder = self.path / os.fsdecode(path)
        objects = [Path(os.fsdecode(bytes.fromhex(each))) for each in module["objects"]]
        kind = self.store.description["objectFormat"]
        git_dir = self._module_dir(path)
        remove_tree(git_dir)
        borrowing_git_dir(git_dir, objects, kind)
        folder.mkdir(parents=True, exist_ok=True)
        index = git_dir / "own.index"
        git(
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
        """Say which submodules the agent changed; their files are not part of the result."""
        notes = []
        record = self.store.own / "submodules.json"
        known = json.loads(record.read_bytes()) if record.exists() else {}
        for name in known:
            path = bytes.fromhex(name)
            folder, git_dir = self.path / os.fsdecode(path), self._module_dir(path)
            if not git_dir.is_dir() or os.path.realpath(folder) != str(folder) or not folder.is_dir():
                continue
            place: dict[str, Any] = {"git_dir": git_dir, "work_tree": folder, "index": git_dir / "own.index"}
            changed = git("diff-files", "-z", "--name-only", "--ignore-submodules=all", **place)
            added = git("ls-files", "-z", "-o", f"--exclude-from={self.rules}", **place)
            inside = (changed + added).split(b"\0")[:-1]
            if inside:
                shown = ", ".join(quote(each) for each in inside[:5]) + (" …" if len(inside) > 5 else "")
                notes.append(
                    f"{len(inside)} files changed in the submodule {quote(path)}, not part of the result: {shown}"
                )
        return notes

    def _note_collisions(self, wanted: dict[bytes, str]) -> None:
        if not _insensitive(self.path):
            return
        for group in collisions(wanted)[:20]:
            self.notes.append("On this disk these are one file: " + ", ".join(quote(path) for path in group))


class _Reader:
    """Decide which files of a tree go into a result, within the limits."""

    def __init__(self, root: Path, excluded: list[bytes]) -> None:
        self.excluded = set(excluded)
        self.root = os.fsencode(root) + b"/"
        self.notes: list[str] = []
        self.left_out: list[bytes] = []
        self.budget = RESULT_TOTAL_BYTES

    def is_content(self, path: bytes) -> bool:
        try:
            mode = os.lstat(self.root + path).st_mode
        except OSError:
            return False
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode)

    def fits(self, path: bytes) -> bool:
        try:
            found = os.lstat(self.root + path)
        except OSError:
            return False
        if stat.S_ISREG(found.st_mode) and (found.st_size > RESULT_FILE_BYTES or found.st_size > self.budget):
            self.left_out.append(path)
            return False
        self.budget -= found.st_size
        return True

    def new_files(self, listed: list[bytes], rules: bytes) -> list[bytes]:
        taken: list[bytes] = []
        for path in listed:
            if path.rstrip(b"/") in self.excluded:
                continue
            if path.endswith(b"/"):
                inside = self._nested(path[:-1], rules)
                self.notes.append(
                    f"{quote(path[:-1])} is a repository of its own: its {len(inside)} files are part of the result, "
                    "its history is not."
                )
            else:
                inside = [path]
            for each in inside:
                if len(taken) >= RESULT_NEW_FILES or refused(each):
                    self.left_out.append(each)
                elif self.is_content(each) and self.fits(each):
                    taken.append(each)
        return taken

    def finish(self) -> list[str]:
        if self.left_out:
            named = ", ".join(quote(path) for path in self.left_out[:10]) + (" …" if len(self.left_out) > 10 else "")
            self.notes.append(
                f"{len(self.left_out)} files are too large, too many or badly named and were left out: {named}"
            )
        return self.notes

    def _nested(self, folder: bytes, rules: bytes) -> list[bytes]:
        import pathspec  # noqa: PLC0415 - for the rare repository inside a tree

        ignored = pathspec.GitIgnoreSpec.from_lines(rules.decode(errors="surrogateescape").splitlines())
        found: list[bytes] = []
        for current, folders, names in os.walk(self.root + folder):
            below = current[len(self.root) :]
            # A link to a folder is content, not a folder to walk into.
            names += [name for name in folders if os.path.islink(os.path.join(current, name))]  # noqa: PTH114, PTH118
            folders[:] = [name for name in folders if name != b".git" and name not in names]
            found += [below + b"/" + name for name in names if name != b".git"]
            if len(found) > RESULT_NEW_FILES:
                break
        return sorted(path for path in found if not ignored.match_file(os.fsdecode(path)))


def _insensitive(folder: Path) -> bool:
    """Say whether names that differ in case only are one file here; the folder itself tells."""
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
