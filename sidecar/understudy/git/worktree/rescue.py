"""Keep a removed worktree so that it can be restored byte for byte.

There is one bare repository for each repository of the user, ``<state>/rescue/<key>.git``, with one reference for each
kept worktree. It borrows no objects. A kept worktree is stored as data that never runs: a list of paths, and the blobs
that the list names. The paths are not names in a git tree, because ``.git`` could not be one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.files import nofollow
from understudy.files.durable import failpoint
from understudy.git.command import git_output, run_git
from understudy.git.object_store import ObjectStore, borrowing_git_dir
from understudy.git.objects import object_id, pack_into, read_kept_blobs, write_object
from understudy.git.repository import Repository
from understudy.git.worktree.cleanup import delete_folder, repository_key
from understudy.git.worktree.worktree import Worktree
from understudy.model.errors import ErrorKind, UnderstudyError

IGNORED_FILE_BYTES = 5 * 1024 * 1024
"""A larger ignored file is not kept, just as a base does not include such an untracked file (``index.BaseLimits``)."""

IGNORED_TOTAL_BYTES = 200 * 1024 * 1024
"""Limit of all ignored files together; files that do not fit are left out and listed."""

_NAMED = 1000
"""How many left-out files are listed."""

_BATCH = 64 * 1024 * 1024
"""Bytes of contents read from the rescue repository in one call."""

_REFERENCES = "refs/heads/"


@dataclass(frozen=True, slots=True)
class Rescue:
    """A worktree that can be restored."""

    ref: str
    """``<key>/<name>``: what ``save`` returned."""
    time: float
    """Seconds since 1970 when it was kept, exact enough to order two that were kept in the same second."""
    path: Path
    """The path of the worktree."""
    top: Path
    """The user's workspace."""
    notes: list[str] = field(default_factory=list)
    """Notes about what could not be kept."""


def save(
    state: Path, repository: Repository, tree: Worktree, store: ObjectStore, name: str, *, also: Iterable[str] = ()
) -> str:
    """Save ``tree`` and its store, and return the rescue reference (``<key>/<name>``, or ``<key>/<name>-2`` and so on).

    This keeps every file, link and folder of the worktree with its permissions, with any name; its private ``.git``
    (index, HEAD, branches, commits); Understudy's store; and the objects that these borrow for the commits they are
    based on. Ignored files are kept within limits. Older history stays in the user's repository. ``also`` lists earlier
    bases of the same store, whose files are kept if they are complete. A name that is taken gets the next number, so no
    reference is ever overwritten.

    Errors: ``invalid_params`` (the name), ``base_unavailable`` (the worktree cannot be read, or
    objects that its base borrows are gone, so that it could not be restored), ``disk_full``, ``state_unavailable``.
    """
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.|lock\b|$)){0,127}", name):
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, f"{name!r} cannot be part of a reference's name.")
    key = repository_key(repository)
    place = state / "rescue" / f"{key}.git"
    with _typed_errors(place), _locked(place, store):
        name = _free_name(place, name)
        object_format = str(store.description["objectFormat"])
        borrowed = _borrowed(store, tree, repository, also)
        saver = _Saver(
            place, object_format, _copy_objects(store.path, place, [f"{commit}^{{tree}}" for commit in borrowed])
        )
        failpoint("borrowed copied")
        files = saver.folder(tree.path, _ignored(tree))
        # The store's own temporary folders hold no data to keep.
        kept_store = saver.folder(store.path, set(), skip=lambda path: path.startswith(b"understudy/tmp."))
        manifest = {
            "version": 1,
            "time": time.time(),
            "tree": os.fsencode(tree.path).hex(),
            "store": os.fsencode(store.path).hex(),
            "top": os.fsencode(repository.top).hex(),
            "notes": saver.finish(),
            "borrowed": {commit: store.git_output("cat-file", "commit", commit).hex() for commit in borrowed},
            "files": files,
            "storeFiles": kept_store,
        }
        failpoint("contents copied")
        saver.commit(_REFERENCES + name, manifest, store)
    return f"{key}/{name}"


def restore(state: Path, ref: str, path: Path) -> Worktree:
    """Restore a worktree at ``path`` (missing or empty), and its store at the old path if it is gone.

    Objects that the user's repository has lost since then are added to the store. Errors: ``unknown_delegation`` (no
    such reference), ``target_exists``, ``disk_full``, ``state_unavailable``.
    """
    place, reference = _place_of(state, ref)
    manifest = _manifest(place, reference)
    if manifest is None:
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATION,
            f"There is no rescue reference {ref!r}.",
            hint="`understudy worktrees list` shows what can be restored.",
            names=[rescue.ref for rescue in list_rescues(state)][:20],
        )
    path = Path(os.path.realpath(path))
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise UnderstudyError(ErrorKind.TARGET_EXISTS, f"{path} is not empty.", hint="Choose another folder.")
    old_path = Path(os.fsdecode(bytes.fromhex(manifest["tree"])))
    store_path = Path(os.fsdecode(bytes.fromhex(manifest["store"])))
    with _typed_errors(path):
        # Complete or not at all, even if this process is killed: the store first, then the worktree, each by one
        # rename.
        unfinished = path.with_name(f".{path.name}.restoring")
        delete_folder(unfinished)
        try:
            if not (store_path / "understudy" / "store.json").exists():
                _write_store(place, store_path, manifest)
            failpoint("store written")
            _write_folder(place, unfinished, manifest["files"])
        except BaseException:
            delete_folder(unfinished)
            raise
        failpoint("tree written")
        if path.exists():
            path.rmdir()
        mode = stat.S_IMODE(unfinished.lstat().st_mode)
        unfinished.chmod(0o700)  # a folder without write permission cannot be moved: its ".." changes
        unfinished.rename(path)
        path.chmod(mode)
        failpoint("tree moved")
        store = ObjectStore.open(store_path)
        _lend(place, store, manifest["borrowed"])
        tree = Worktree(store, path)
        _move_knowledge(place, Worktree(store, old_path), tree, manifest)
    return Worktree.open(store, path)


def list_rescues(state: Path) -> list[Rescue]:
    """Return all worktrees that can be restored, newest first."""
    rescues = []
    for place in sorted((state / "rescue").glob("*.git")):
        listing = git_output("for-each-ref", "--format=%(refname)", _REFERENCES, git_dir=place).decode().split()
        for reference in listing:
            manifest = _manifest(place, reference)
            if manifest is not None:
                rescues.append(
                    Rescue(
                        ref=f"{place.name.removesuffix('.git')}/{reference.removeprefix(_REFERENCES)}",
                        time=float(manifest["time"]),
                        path=Path(os.fsdecode(bytes.fromhex(manifest["tree"]))),
                        top=Path(os.fsdecode(bytes.fromhex(manifest["top"]))),
                        notes=list(manifest["notes"]),
                    )
                )
    return sorted(rescues, key=lambda rescue: (-rescue.time, rescue.ref))


class _Saver:
    """Writes the contents of one worktree to a rescue repository."""

    def __init__(self, place: Path, object_format: str, object_ids: set[str]) -> None:
        self.place = place
        self.object_format = object_format
        self.known = object_ids
        self.blobs: set[str] = set()
        self.notes: list[str] = []
        self.left_out: list[str] = []
        self.budget = IGNORED_TOTAL_BYTES

    def folder(self, root: Path, ignored: set[bytes], skip: Any = None) -> list[list[Any]]:
        """Write the contents below ``root``; return one line for each entry: path, kind, mode, time and blob."""
        top = os.fsencode(root)
        lines: list[list[Any]] = [[b"".hex(), "d", stat.S_IMODE(os.lstat(top).st_mode), 0, ""]]
        for current, folders, names in nofollow.walk_any_depth(top, onerror=_raise):
            inside = current[len(top) :].lstrip(b"/")
            for name in sorted([*folders, *names]):
                path = inside + b"/" + name if inside else name
                if skip is not None and skip(path):
                    if name in folders:
                        folders.remove(name)
                    continue
                line = self._line(os.path.join(current, name), path, ignored)  # noqa: PTH118 - a path of bytes
                if line is not None:
                    lines.append(line)
        return lines

    def finish(self) -> list[str]:
        """Return notes about what was not kept."""
        if self.left_out:
            named = ", ".join(self.left_out[:_NAMED])
            self.notes.append(f"{len(self.left_out)} files were not kept: {named}")
        return self.notes

    def commit(self, reference: str, manifest: dict[str, Any], store: ObjectStore) -> None:
        """Write the list and create the reference, which keeps every blob and every borrowed commit."""
        blob = self._write("blob", json.dumps(manifest, separators=(",", ":")).encode())
        entries = b"".join(b"100644 " + name.encode() + b"\0" + bytes.fromhex(name) for name in sorted(self.blobs))
        blobs = self._write("tree", entries)
        # Keep only the files of a borrowed commit, and its text in the list: as a parent it would need its whole
        # history.
        lines = [b"40000 blobs\0" + bytes.fromhex(blobs), b"100644 manifest\0" + bytes.fromhex(blob)]
        for number, commit in enumerate(manifest["borrowed"]):
            tree = store.git_output("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()
            lines.append(b"40000 tree-%04d\0" % number + bytes.fromhex(tree))
        lines.sort(key=_tree_order)
        top = self._write("tree", b"".join(lines))
        commit = git_output("commit-tree", top, "-m", "Kept by Understudy", git_dir=self.place).decode().strip()
        git_output("update-ref", reference, commit, "0" * len(commit), git_dir=self.place)

    def _line(self, full: bytes, path: bytes, ignored: set[bytes]) -> list[Any] | None:
        facts = os.lstat(full)
        mode = stat.S_IMODE(facts.st_mode)
        if stat.S_ISDIR(facts.st_mode):
            if mode & 0o500 != 0o500:
                os.chmod(full, mode | 0o500)  # noqa: PTH101 - a path of bytes
            return [path.hex(), "d", mode, 0, ""]
        if stat.S_ISLNK(facts.st_mode):
            return [path.hex(), "l", 0, 0, os.readlink(full).hex()]  # noqa: PTH115 - a path of bytes
        if not stat.S_ISREG(facts.st_mode):
            self.left_out.append(os.fsdecode(path).encode(errors="replace").decode() + " (neither file nor link)")
            return None
        if path in ignored:
            if facts.st_size > min(IGNORED_FILE_BYTES, self.budget):
                self.left_out.append(os.fsdecode(path).encode(errors="replace").decode())
                return None
            self.budget -= facts.st_size
        if not mode & 0o400:
            os.chmod(full, mode | 0o400)  # the list has the real mode; the worktree will be removed  # noqa: PTH101 - a path of bytes
        with open(full, "rb") as stream:  # noqa: PTH123 - a path of bytes
            content = stream.read()
        blob = self._write("blob", content)
        self.blobs.add(blob)
        return [path.hex(), "f", mode, facts.st_mtime_ns, blob, len(content)]

    def _write(self, kind: str, content: bytes) -> str:
        identifier = object_id(kind, content, self.object_format)
        return identifier if identifier in self.known else write_object(self.place, kind, content, self.object_format)


def _tree_order(line: bytes) -> bytes:
    mode, _, rest = line.partition(b" ")
    name = rest.partition(b"\0")[0]
    return name + b"/" if mode == b"40000" else name


def _raise(error: OSError) -> None:
    raise error


def _ignored(tree: Worktree) -> set[bytes]:
    """Return the files of the worktree that the base's rules ignore, without its `.git`."""
    output = git_output(
        "ls-files",
        "-z",
        "-o",
        "-i",
        f"--exclude-from={tree.rules}",
        git_dir=tree.store.path,
        work_tree=tree.path,
        index=tree.index,
    )
    return {path for path in output.split(b"\0") if path}


def _borrowed(store: ObjectStore, tree: Worktree, repository: Repository, also: Iterable[str]) -> list[str]:
    """Return the commits in the user's repository whose files the worktree or the store may need."""
    needed = {tree.base, store.base_commit() or tree.base}
    candidates = {*needed, *also}
    if repository.head_commit:
        candidates.add(repository.head_commit)
    for commit in sorted(candidates):
        parents = store.run_git("rev-parse", "--verify", "--quiet", f"{commit}^1")
        if parents.code == 0:
            candidates.add(parents.stdout.decode().strip())
    head = tree.path / ".git" / "HEAD"
    if not head.is_symlink() and head.is_file() and not (tree.path / ".git").is_symlink():
        text = head.read_bytes()[:80].decode(errors="replace").strip()
        if re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", text):
            candidates.add(text)
    present = {commit for commit in candidates if store.run_git("cat-file", "-e", f"{commit}^{{tree}}").code == 0}
    # A partial clone never had all files; those that are missing now will also be missing after a restore.
    if not repository.partial and _missing(store, present):
        present = {commit for commit in present if not _missing(store, [commit])}
    gone = sorted(needed - present)
    if gone:
        origin = store.missing_origin()
        if origin is not None:
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"{tree.path} could not be restored later: its repository no longer exists at {origin}.",
                hint="Nothing was removed. Move the repository back, or copy what you need from the worktree "
                f"and delete {tree.path.parent}.",
            )
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"{tree.path} could not be restored later: "
            f"objects of its base {gone[0][:12]} are gone from {repository.top}.",
            hint=f"Nothing was removed. Run `git fsck` in {repository.top}, and copy what you need from the worktree.",
        )
    return sorted(present)


def _missing(store: ObjectStore, commits: Iterable[str]) -> bool:
    """Return whether any object of these commits' trees is missing."""
    roots = [f"{commit}^{{tree}}" for commit in commits]
    if not roots:
        return False
    completed = store.run_git("rev-list", "--objects", "--no-object-names", "--missing=print", *roots)
    return completed.code != 0 or completed.stdout.startswith(b"?") or b"\n?" in completed.stdout


def _copy_objects(source: Path, target: Path, roots: list[str]) -> set[str]:
    """Copy all objects of some trees from one git directory to another; return their ids."""
    if not roots:
        return set()
    listed = (
        git_output("rev-list", "--objects", "--no-object-names", "--missing=allow-any", *roots, git_dir=source)
        .decode()
        .split()
    )
    asked = "".join(f"{identifier}\n" for identifier in listed).encode()
    answers = git_output("cat-file", "--batch-check", git_dir=target, stdin=asked).decode().splitlines()
    here = git_output("cat-file", "--batch-check", git_dir=source, stdin=asked).decode().splitlines()
    missing = [
        identifier
        for identifier, answer, local in zip(listed, answers, here, strict=True)
        if answer.endswith(" missing") and not local.endswith(" missing")
    ]
    if missing:
        names = "".join(f"{identifier}\n" for identifier in missing).encode()
        pack_into(target / "objects", git_dir=target, source=source / "objects", stdin=names)
    return set(listed)


def _lend(place: Path, store: ObjectStore, borrowed: dict[str, str]) -> None:
    """Add objects to the store that it needs and the user's repository no longer has."""
    missing = [commit for commit in borrowed if store.run_git("cat-file", "-e", commit).code != 0]
    if not missing:
        return
    object_format = str(store.description["objectFormat"])
    shallow = []
    for commit in missing:
        raw = bytes.fromhex(borrowed[commit])
        lines = raw.partition(b"\n\n")[0].decode(errors="replace").splitlines()
        _copy_objects(place, store.path, [lines[0].removeprefix("tree ")])
        write_object(store.path, "commit", raw, object_format)
        parents = [line.removeprefix("parent ") for line in lines if line.startswith("parent ")]
        if any(parent not in borrowed for parent in parents):
            shallow.append(commit)  # history ends there, as in a shallow clone
    shallow_file = store.path / "shallow"
    before = shallow_file.read_text().split() if shallow_file.exists() else []
    if shallow:
        shallow_file.write_text("".join(f"{commit}\n" for commit in sorted({*before, *shallow})))


def _free_name(place: Path, name: str) -> str:
    """Return ``name``, or with the number that follows the highest one in use. The caller holds the lock."""
    used = git_output("for-each-ref", "--format=%(refname:strip=2)", f"{_REFERENCES}{name}*", git_dir=place).decode()
    pattern = re.compile(re.escape(name) + r"(?:-([1-9][0-9]*))?")
    numbers = [int(match[1] or 1) for used_name in used.split() if (match := pattern.fullmatch(used_name))]
    return f"{name}-{max(numbers) + 1}" if numbers else name


def _manifest(place: Path, reference: str) -> dict[str, Any] | None:
    if not place.is_dir():
        return None
    completed = run_git("cat-file", "blob", f"{reference}:manifest", git_dir=place)
    if completed.code != 0:
        return None
    manifest: dict[str, Any] = json.loads(completed.stdout)
    return manifest


def _place_of(state: Path, ref: str) -> tuple[Path, str]:
    key, _, name = ref.partition("/")
    plain = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
    if not plain.fullmatch(key) or not plain.fullmatch(name) or ".." in ref:
        return Path("/nonexistent"), ""
    return state / "rescue" / f"{key}.git", _REFERENCES + name


def _write_folder(place: Path, target: Path, lines: list[list[Any]]) -> None:
    """Write the entries of a list below ``target``: folders, then files, then links, and permissions last."""
    top = os.fsencode(target)
    target.mkdir(parents=True, exist_ok=True, mode=0o700)

    def full(line: list[Any]) -> bytes:
        path = bytes.fromhex(line[0])
        return os.path.join(top, path) if path else top  # noqa: PTH118 - a path of bytes

    folders = [line for line in lines if line[1] == "d"]
    for line in folders:
        with contextlib.suppress(FileExistsError):
            os.mkdir(full(line), 0o700)  # noqa: PTH102 - a path of bytes
    for batch in _batches([line for line in lines if line[1] == "f"]):
        contents = read_kept_blobs(place, [line[4] for line in batch])
        for line in batch:
            descriptor = os.open(full(line), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(contents[line[4]])
                os.fchmod(descriptor, line[2])
            os.utime(full(line), ns=(line[3], line[3]))
    for line in lines:
        if line[1] == "l":
            os.symlink(bytes.fromhex(line[4]), full(line))  # noqa: PTH211 - a path of bytes
    for line in reversed(folders):
        os.chmod(full(line), line[2])  # noqa: PTH101 - a path of bytes


def _batches(lines: list[list[Any]]) -> Iterator[list[list[Any]]]:
    batch: list[list[Any]] = []
    size = 0
    for line in lines:
        if batch and size + line[5] > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += line[5]
    if batch:
        yield batch


def _write_store(place: Path, path: Path, manifest: dict[str, Any]) -> None:
    if path.exists() and any(path.iterdir()):
        raise UnderstudyError(
            ErrorKind.TARGET_EXISTS,
            f"The object store cannot be restored, because {path} exists.",
            hint="Move it elsewhere.",
        )
    unfinished = path.with_name(f".{path.name}.restoring")
    delete_folder(unfinished)
    unfinished.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_folder(place, unfinished, manifest["storeFiles"])
    if path.exists():
        path.rmdir()
    unfinished.rename(path)


def _move_knowledge(place: Path, old: Worktree, new: Worktree, manifest: dict[str, Any]) -> None:
    """Move the store's records about the worktree to where it searches them for the worktree's current path."""
    before, after = (os.fsencode(tree.state.stem) for tree in (old, new))
    folder = b"understudy/trees/"
    lines = []
    for line in manifest["storeFiles"]:
        path = bytes.fromhex(line[0])
        if path.startswith(folder + before):
            lines.append([(after + path[len(folder + before) :]).hex(), *line[1:]])
    for leftover in new.state.parent.glob(new.state.stem + "*"):
        delete_folder(leftover)
    _write_folder(place, new.state.parent, lines)


@contextlib.contextmanager
def _locked(place: Path, store: ObjectStore) -> Iterator[None]:
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _lock(place):
        if not (place / "info" / "attributes").exists():  # written last
            borrowing_git_dir(place, [], str(store.description["objectFormat"]))
        yield


@contextlib.contextmanager
def _lock(place: Path) -> Iterator[None]:
    descriptor = os.open(place.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _typed_errors(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise UnderstudyError(
                ErrorKind.DISK_FULL, f"The disk under {place} is full.", hint="Free some space there."
            ) from error
        what = error.filename if isinstance(error.filename, str) else os.fsdecode(error.filename or b"")
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"{what or place} cannot be read or written: {error.strerror}.",
            hint="Check the permissions there.",
        ) from error
