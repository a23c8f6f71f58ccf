"""Verify that objects of a store have the contents that their ids stand for, and recover those that do not.

git trusts names: it never hashes an object that it reads. So a program that can write to a store can replace a loose
object or add a pack with a false index, and every diff, checkout and merge uses the other content. Ids are digests of
contents, so a chain of digests from the id of a commit (which the journal has) proves every tree and file below it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from understudy.files import durable
from understudy.git.command import Completed, git_output, run_git
from understudy.git.object_store import ObjectStore
from understudy.model.errors import ErrorKind, UnderstudyError

COPY_BYTES = 512 * 1024 * 1024
"""Largest pack that is written as a copy; larger results have none."""

_FULL_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FOLDER = "040000"
_TRIES = 5
_MOST_RESTARTS = 200
"""Most objects that make git give up while it reads: each costs a start of git."""
_SMALL_BYTES = 1 << 28
"""Largest commit or tree that is read; a folder with a million entries is smaller."""


def damaged_objects(git_dir: Path, identifiers: Iterable[str], object_format: str) -> list[str]:
    """Return the objects that are missing, unreadable, or whose content does not match the id."""
    waiting = list(dict.fromkeys(identifiers))
    damaged: list[str] = []
    for _ in range(_MOST_RESTARTS):
        if not waiting:
            break
        hashing = _Hashing(object_format)
        completed = run_git(
            "cat-file",
            "--batch",
            "--buffer",  # without it, git writes each object by itself
            git_dir=git_dir,
            stdin="".join(f"{identifier}\n" for identifier in waiting).encode(),
            sink=hashing.feed,
        )
        answers = hashing.answers
        damaged += [asked for asked, answer in zip(waiting, answers, strict=False) if asked != answer]
        if completed.code == 0 and len(answers) >= len(waiting):
            return damaged
        # git ends at an object that it cannot unpack.
        damaged += waiting[len(answers) : len(answers) + 1]
        waiting = waiting[len(answers) + 1 :]
    return damaged + waiting


def require_objects(store: ObjectStore, identifiers: Iterable[str]) -> None:
    """Verify objects of a store and recover the damaged ones; raise ``base_unavailable`` if one has no good copy."""
    damaged = damaged_objects(store.path, identifiers, store.object_format)
    if damaged:
        repair(store, damaged)


def require_change(store: ObjectStore, base: str, head: str) -> None:
    """Verify every object that a diff of two commits or trees reads: the roots, the changed folders and files.

    Unchanged files are not read. Errors: ``base_unavailable``, as for ``require_objects``.
    """

    def verify() -> list[str]:
        names = _roots(store, [base, head])
        completed = store.run_git(
            "diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--full-index", "--end-of-options", base, head
        )
        if completed.code != 0 and not damaged_objects(store.path, names, store.object_format):
            error_text = completed.stderr.decode(errors="replace").strip()[-300:]
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"{base[:12]} and {head[:12]} cannot be compared: {error_text}",
                hint="Their object store may have been removed.",
            )
        # If git met a false tree, the tree is in this list: each folder is listed before what is in it.
        return [*names, *_ids_in(completed.stdout)]

    _until_unchanged(store, verify)


def require_tree(store: ObjectStore, commit: str) -> dict[bytes, tuple[str, str]]:
    """Verify a commit and all its trees; return path → (mode, object id) of every file and submodule.

    Files are not verified. Errors: ``base_unavailable``, as for ``require_objects``.
    """
    listing = b""

    def verify() -> list[str]:
        nonlocal listing
        names = _roots(store, [commit])
        listing = store.run_git("ls-tree", "-r", "-t", "-z", "--full-tree", "--end-of-options", names[-1]).stdout
        return [
            *names,
            *(entry[12:].partition(b"\t")[0].decode() for entry in _entries(listing) if entry[:6] == b"040000"),
        ]

    _until_unchanged(store, verify)
    entries = {}
    for entry in _entries(listing):
        details, _, path = entry.partition(b"\t")
        mode, _, identifier = details.decode().split(" ")
        if mode != "040000":
            entries[path] = (mode, identifier)
    return entries


def tree_of(store: ObjectStore, commit: str) -> str:
    """Return the id of a commit's tree as the verified commit names it; for a tree, the tree itself."""
    return _roots(store, [commit])[-1]


def find_path(store: ObjectStore, commit: str, path: bytes) -> TreeEntry | None:
    """Return the entry of a path in a commit, from verified trees; None if the commit has no such path.

    The object of the entry is not read. Errors: ``base_unavailable``.
    """
    for _ in range(_TRIES):
        listing = store.run_git("ls-tree", "-z", "-t", "-l", "--full-tree", "--end-of-options", commit, path)
        listed = {entry.identifier: entry for entry in map(_entry, _entries(listing.stdout))}
        trees = [entry.identifier for entry in listed.values() if entry.kind == "tree"]
        start, root, *below = read_objects(store, [commit, f"{commit}^{{tree}}", *trees])
        contents = {identifier: content for identifier, _, content in (root, *below)}
        identifier = _tree_in(start[2]) if start[1] == "commit" else start[0]
        *folders, name = path.split(b"/")
        for folder in folders:
            mode, identifier = _parse_tree(contents.get(identifier, b""), store.object_format).get(folder, ("", ""))
            if identifier not in contents:
                break
        if identifier in contents:
            mode, identifier = _parse_tree(contents[identifier], store.object_format).get(name, ("", ""))
            if not identifier or identifier in listed:
                return listed.get(identifier) and dataclasses.replace(listed[identifier], mode=mode, path=path)
        elif not identifier or mode != _FOLDER:
            return None
        # git listed other entries than the trees have that were repaired since.
    raise _changes_while_read(store)


class VerifiedTrees:
    """Finds paths in commits of one store like ``find_path``, and keeps the verified trees that it read."""

    _MOST_ENTRIES = 200_000

    def __init__(self, store: ObjectStore) -> None:
        """Read nothing yet."""
        self._store = store
        self._trees: dict[str, dict[bytes, tuple[str, str]]] = {}

    def find(self, commit: str, path: bytes) -> tuple[str, str] | None:
        """Return mode and object id of a path; None if the commit has no such path. Errors: ``base_unavailable``."""
        mode, identifier = _FOLDER, tree_of(self._store, commit)
        for name in path.split(b"/"):
            if mode != _FOLDER:
                return None
            mode, identifier = self._tree(identifier).get(name, ("", ""))
        return (mode, identifier) if identifier else None

    def _tree(self, identifier: str) -> dict[bytes, tuple[str, str]]:
        if identifier not in self._trees:
            [(_, _, content)] = read_objects(self._store, [identifier])
            self._keep(identifier, content)
        return self._trees[identifier]

    def _keep(self, identifier: str, content: bytes) -> None:
        if sum(map(len, self._trees.values())) > self._MOST_ENTRIES:
            self._trees.clear()
        self._trees[identifier] = _parse_tree(content, self._store.object_format)


def repair(store: ObjectStore, damaged: Iterable[str]) -> None:
    """Replace damaged objects of a store by good copies; raise ``base_unavailable`` if there is none.

    Good copies come from the store's other packs, from ``store.copies``, and from the repository that it borrows from.
    The user's repository is never written.
    """
    identifiers = list(dict.fromkeys(damaged))
    objects = store.path / "objects"
    with store.writing():
        for identifier in identifiers:
            with suppress(FileNotFoundError):
                (objects / identifier[:2] / identifier[2:]).unlink()
        for name in ("info/commit-graph", "pack/multi-pack-index"):
            with suppress(FileNotFoundError):
                (objects / name).unlink()
    for index in sorted((objects / "pack").glob("*.idx")):
        if _lists(store, index, set(identifiers)):
            _unpack_own(store, index)
    for copy in store.copies:
        with suppress(OSError):
            _unpack(store, copy.read_bytes())
    left = damaged_objects(store.path, identifiers, store.object_format)
    if left:
        gone = store.missing_origin()
        if gone is not None:
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"The repository that this delegation started from no longer exists at {gone}.",
                hint="Move it back to that path. `understudy diff` still shows the change as text.",
            )
        which = f"{left[0][:12]} in {store.path}"
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            (
                f"The object {which}, which this delegation needs, is missing or damaged, and no intact copy exists."
                if len(left) == 1
                else f"{len(left)} objects of this delegation are missing or damaged, such as {which}, "
                "and no intact copy exists."
            ),
            hint="The result is not used. Delegate the work again with `understudy retry`.",
        )


def write_copy(store: ObjectStore, target: Path, revision: str, unwanted: str | None) -> None:
    """Write the objects of ``revision`` that ``unwanted`` lacks to the pack ``target``, for ``ObjectStore.copies``.

    Writes nothing if the pack would be larger than ``COPY_BYTES``. Raises the disk's OSError.
    """
    revisions = f"{revision}\n" + (f"^{unwanted}\n" if unwanted else "")
    completed = store.run_git(
        "pack-objects", "-q", "--revs", "--stdout", stdin=revisions.encode(), output_limit=COPY_BYTES
    )
    if completed.code != 0 or completed.truncated:
        return
    durable.replace(target, completed.stdout, several_writers=True)


def digest(kind: str, content: bytes, object_format: str) -> str:
    """Return the id that git gives an object: the digest of ``<kind> <size>``, a NUL, and the content."""
    hashing = hashlib.new(object_format, usedforsecurity=False)
    hashing.update(f"{kind} {len(content)}\0".encode())
    hashing.update(content)
    return hashing.hexdigest()


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One line of ``ls-tree``; the size of a folder is 0."""

    mode: str
    kind: str
    identifier: str
    size: int
    path: bytes


def _entry(line: bytes) -> TreeEntry:
    details, _, path = line.partition(b"\t")
    mode, kind, identifier, size = details.decode().split()
    return TreeEntry(mode, kind, identifier, int(size) if size.isdigit() else 0, path)


class _Hashing:
    """Hashes the output of ``git cat-file --batch`` while it arrives; one answer per object asked for."""

    def __init__(self, object_format: str) -> None:
        self.answers: list[str | None] = []
        """The id computed from the content; None for a missing object."""
        self._format = object_format
        self._header = bytearray()
        self._left = -1
        """Bytes of the current object that are still to come, and the line feed after it; -1 before a header."""
        self._digest = hashlib.new(object_format, usedforsecurity=False)

    def feed(self, chunk: bytes) -> None:
        position = 0
        while position < len(chunk):
            if self._left < 0:
                end = chunk.find(b"\n", position)
                if end < 0:
                    self._header += chunk[position:]
                    return
                self._header += chunk[position:end]
                position = end + 1
                self._begin()
                continue
            taken = min(self._left, len(chunk) - position)
            self._digest.update(memoryview(chunk)[position : position + min(taken, self._left - 1)])
            self._left -= taken
            position += taken
            if self._left == 0:
                self._left = -1
                self.answers.append(self._digest.hexdigest())

    def _begin(self) -> None:
        words = bytes(self._header).split(b" ")
        self._header.clear()
        if len(words) != 3 or not words[2].isdigit():
            self.answers.append(None)
            return
        self._digest = hashlib.new(self._format, usedforsecurity=False)
        self._digest.update(words[1] + b" " + words[2] + b"\0")
        self._left = int(words[2]) + 1


def _roots(store: ObjectStore, revisions: list[str]) -> list[str]:
    """Return each commit and its tree, or a tree alone, as the verified commits name them; ``revisions`` are full ids.

    A commit that this process has verified before is not read again: its id stands for the same content everywhere.
    """
    trees = {revision: _trees[revision] for revision in revisions if revision in _trees}
    unknown = [revision for revision in revisions if revision not in trees]
    for identifier, kind, content in read_objects(store, unknown) if unknown else ():
        trees[identifier] = [_tree_in(content)] if kind == "commit" else []
        if len(_trees) >= _MOST_TREES:
            _trees.clear()
        _trees[identifier] = trees[identifier]
    return [name for revision in revisions for name in (revision, *trees[revision])]


_MOST_TREES = 4096
_trees: dict[str, list[str]] = {}
"""Verified commit → its tree; a tree → nothing."""


def _tree_in(commit: bytes) -> str:
    return commit[5:].split(b"\n", 1)[0].decode(errors="replace")


def read_objects(
    store: ObjectStore, names: Sequence[str], *, limit: int = _SMALL_BYTES
) -> list[tuple[str, str, bytes]]:
    """Return (id, kind, content) of objects with one call of git, verified and if necessary recovered.

    Errors: ``base_unavailable``; ``file_too_large`` above ``limit`` bytes.
    """
    for _ in range(_TRIES):
        stdin = "".join(f"{revision}\n" for revision in names).encode(errors="replace")
        completed = store.run_git("cat-file", "--batch", "--buffer", stdin=stdin, output_limit=limit)
        objects, damaged = parse_objects(names, completed, store.path, store.object_format)
        if not damaged:
            return objects
        identifiers = [name for name in damaged if _FULL_ID.fullmatch(name)]
        if not identifiers:
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"{damaged[0][:60]} is not in {store.path}.",
                hint="The object store may have been removed.",
            )
        repair(store, identifiers)
    raise _changes_while_read(store)


def parse_objects(
    names: Sequence[str], completed: Completed, place: Path, object_format: str
) -> tuple[list[tuple[str, str, bytes]], list[str]]:
    """Return the (id, kind, content) in the output of ``cat-file --batch``, and what is missing or damaged of it.

    The exit code tells nothing: git ends with an error at a damaged object, but prints those before it.
    Errors: ``file_too_large``.
    """
    if completed.truncated:
        raise UnderstudyError(
            ErrorKind.FILE_TOO_LARGE,
            f"{len(names)} objects of {place} have over {len(completed.stdout) >> 20} MiB.",
            hint="Work in a smaller folder, or have git ignore generated files.",
        )
    output = completed.stdout
    objects: list[tuple[str, str, bytes]] = []
    damaged: list[str] = []
    position = 0
    for name in names:
        end = output.find(b"\n", position)
        words = output[position:end].decode(errors="replace").split(" ") if end >= 0 else []
        if len(words) != 3 or not words[2].isdigit():
            damaged.append(name)
            position = end + 1 if end >= 0 else len(output)
            continue
        size = int(words[2])
        content = output[end + 1 : end + 1 + size]
        position = end + 2 + size
        if digest(words[1], content, object_format) == words[0]:
            objects.append((words[0], words[1], content))
        else:
            damaged.append(words[0])
    return objects, damaged


def _parse_tree(content: bytes, object_format: str) -> dict[bytes, tuple[str, str]]:
    """Return name → (mode with six digits, id)."""
    length = hashlib.new(object_format, usedforsecurity=False).digest_size
    entries = {}
    position = 0
    while position < len(content):
        end = content.index(b"\0", position)
        mode, _, name = content[position:end].partition(b" ")
        position = end + 1 + length
        entries[name] = (mode.decode().zfill(6), content[end + 1 : position].hex())
    return entries


def _until_unchanged(store: ObjectStore, find: Callable[[], list[str]]) -> None:
    """Verify what ``find`` lists; after a repair, list again, because damaged trees may have hidden others."""
    for _ in range(_TRIES):
        damaged = damaged_objects(store.path, find(), store.object_format)
        if not damaged:
            return
        repair(store, damaged)
    raise _changes_while_read(store)


def _changes_while_read(store: ObjectStore) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.BASE_UNAVAILABLE,
        f"The objects in {store.path} change while they are read.",
        hint="Another program writes there. End it, then try again.",
    )


def _entries(listing: bytes) -> list[bytes]:
    return listing.split(b"\0")[:-1]


def _ids_in(raw: bytes) -> list[str]:
    """Return the objects on both sides of a raw diff, without those of submodules and of missing sides."""
    identifiers: list[str] = []
    for details in raw.split(b"\0")[:-1:2]:
        old_mode, new_mode, old, new, _ = details[1:].decode().split(" ")
        identifiers += [
            identifier for mode, identifier in ((old_mode, old), (new_mode, new)) if mode not in {"160000", "000000"}
        ]
    return identifiers


def _lists(store: ObjectStore, index: Path, identifiers: set[str]) -> bool:
    try:
        content = index.read_bytes()
        listing = git_output("show-index", f"--object-format={store.object_format}", git_dir=store.path, stdin=content)
    except (OSError, UnderstudyError):
        return True  # unreadable, so it proves nothing about its pack
    return any(line.split(b" ")[1].decode() in identifiers for line in listing.splitlines())


def _unpack_own(store: ObjectStore, index: Path) -> None:
    """Replace a pack of the store by loose objects, whose ids git computes from their contents."""
    pack = index.with_suffix(".pack")
    try:
        content = pack.read_bytes()
    except OSError:
        content = b""
    with store.writing():
        for entry in index.parent.glob(f"{index.stem}.*"):
            entry.unlink(missing_ok=True)
    if content:
        _unpack(store, content)


def _unpack(store: ObjectStore, pack: bytes) -> None:
    # An exit code other than 0 means that a part was unreadable: the caller verifies what it needs.
    store.run_git("unpack-objects", "-q", "-r", stdin=pack)
