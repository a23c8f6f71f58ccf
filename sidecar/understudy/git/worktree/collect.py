"""Decide which files of a worktree belong to a result, within the limits, and which tracked files differ from a commit.

An agent can write `.gitignore` files, so those in its worktree cannot decide what belongs to its result. The rules of
the base do: all `.gitignore` files of that commit are translated into one list of patterns relative to the top, for
`git ls-files --exclude-from`. The order preserves their meaning: a deeper file comes later and so overrides a higher
one (gitignore(5)).
"""

# pathlib has no paths of bytes:
# ruff: noqa: PTH115

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from understudy.files import nofollow
from understudy.git.command import check_not_aborted
from understudy.git.object_store import ObjectStore
from understudy.git.path_rules import collisions, refused, without_environments
from understudy.git.repository import is_true
from understudy.git.verification import require_tree
from understudy.model.text.path_quoting import quote

RESULT_FILE_BYTES = 50 * 1024 * 1024
"""A larger file is left out of a result and listed; GitHub warns about files of this size."""
RESULT_TOTAL_BYTES = 500 * 1024 * 1024
"""All new and changed files together; files that do not fit are left out and listed."""
RESULT_NEW_FILES = 50_000
"""Most new files in one result; further ones, in the order of paths, are left out and listed."""
_SHOWN_CHARACTERS = 200
GENERATED = b"""\
__pycache__/
*.pyc
.pytest_cache/
.mypy_cache/
.ruff_cache/
.hypothesis/
.tox/
.nox/
.venv/
node_modules/
.coverage
.DS_Store
"""
"""Caches and reports of test runs, which no one reviews. Files with these names that are not in the base are not part
of a result, and no check sees them, because it runs on exactly the result. Base rules may re-include them.
"""
_ESCAPES = {code: b"\\" + bytes([code]) for code in b"*?[\\"} | {0x0A: b"?"}
"""How a folder's name is escaped in a pattern; a line break cannot be escaped, so it becomes `?`."""
_RULES_LIMIT = 4 * 1024 * 1024
"""Most bytes read of one `.gitignore`."""
_SETTLED_NS = 50_000_000
"""A file that changed this recently can change again without a new time: clocks of file systems tick every 4 ms."""
_KEPT_COMMITS = 3
_Stamp = tuple[int, int, int, int, int, int]


class ResultCollector:
    """Decides which files of a worktree go into a result, within the limits."""

    def __init__(self, root: Path, excluded: list[bytes]) -> None:
        """Prepare to read the worktree at ``root``; ``excluded`` paths are never part of the result."""
        self.excluded = set(excluded)
        self.root = os.fsencode(root) + b"/"
        self.notes: list[str] = []
        self.left_out: list[bytes] = []
        self.budget = RESULT_TOTAL_BYTES

    def is_content(self, path: bytes) -> bool:
        """Return whether ``path`` is a file or a link."""
        try:
            mode = os.lstat(self.root + path).st_mode
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                self.left_out.append(path)
            return False
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode)

    def fits(self, path: bytes) -> bool:
        """Count ``path`` against the limits; return whether it is within them."""
        try:
            facts = os.lstat(self.root + path)
        except OSError:
            return False
        if stat.S_ISREG(facts.st_mode) and (facts.st_size > RESULT_FILE_BYTES or facts.st_size > self.budget):
            self.left_out.append(path)
            return False
        self.budget -= facts.st_size
        return True

    def new_files(self, listed: list[bytes], rules: bytes) -> list[bytes]:
        """Return the untracked files that belong to the result, nested repositories included."""
        taken: list[bytes] = []
        listed, environments = without_environments(listed)
        self.notes += [
            f"{quote(folder)} is a virtual environment, which is not part of the result." for folder in environments
        ]
        for path in listed:
            if path.rstrip(b"/") in self.excluded:
                continue
            if path.endswith(b"/"):
                inside = self._nested(path[:-1], rules)
                self.notes.append(
                    f"{quote(path[:-1])} is a nested repository: its {len(inside)} files are part of the result, "
                    "its history is not."
                )
            else:
                inside = [path]
            for file in inside:
                if len(taken) >= RESULT_NEW_FILES or refused(file):
                    self.left_out.append(file)
                elif self.is_content(file) and self.fits(file):
                    taken.append(file)
        return taken

    def finish(self) -> list[str]:
        """Return the notes for the user."""
        if self.left_out:
            named = ", ".join(_short(path) for path in self.left_out[:10]) + (" …" if len(self.left_out) > 10 else "")
            self.notes.append(
                f"{len(self.left_out)} files were left out, because of their size, number or name: {named}"
            )
        return self.notes

    def _nested(self, folder: bytes, rules: bytes) -> list[bytes]:
        import pathspec

        ignored = pathspec.GitIgnoreSpec.from_lines(rules.decode(errors="surrogateescape").splitlines())
        paths: list[bytes] = []
        for current, folders, names in nofollow.walk_any_depth(self.root + folder):
            below = current[len(self.root) :]
            # A link to a folder is content, not a folder to descend into.
            names += [name for name in folders if os.path.islink(os.path.join(current, name))]  # noqa: PTH114, PTH118
            folders[:] = [name for name in folders if name != b".git" and name not in names]
            paths += [below + b"/" + name for name in names if name != b".git"]
            if len(paths) > RESULT_NEW_FILES:
                break
        return sorted(path for path in paths if not ignored.match_file(os.fsdecode(path)))


def _short(path: bytes) -> str:
    shown = quote(path)
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"


def rules_of(store: ObjectStore, tree: str) -> bytes:
    """Return the ignore rules of a commit or tree, including the user's own excludes, as one list of patterns."""
    listing = store.git_output("ls-tree", "-r", "-z", "--full-tree", tree)
    rule_files = []
    for entry in listing.split(b"\0"):
        details, _, path = entry.partition(b"\t")
        if path == b".gitignore" or path.endswith(b"/.gitignore"):
            mode, _, identifier = details.split(b" ")
            if mode in {b"100644", b"100755"}:  # a link is not followed; git does not follow it either
                rule_files.append((path[: -len(b".gitignore")], identifier))
    parts = [GENERATED, (store.path / "info" / "exclude").read_bytes()]
    for folder, identifier in sorted(rule_files, key=lambda item: item[0].count(b"/")):
        text = store.git_output("cat-file", "blob", identifier, output_limit=_RULES_LIMIT)
        parts.append(translate(folder, text))
    return b"\n".join(parts) + b"\n"


def pattern_of(path: bytes) -> bytes:
    """Return the pattern that matches only this path."""
    plain = b"".join(_ESCAPES.get(code, bytes([code])) for code in path)
    return b"/" + (plain[:-1] + b"\\ " if plain.endswith(b" ") else plain)


def translate(folder: bytes, text: bytes) -> bytes:
    """Translate the patterns of a `.gitignore` in ``folder`` (empty, or ending with a slash) to patterns of the top."""
    prefix = b"/" + b"".join(_ESCAPES.get(code, bytes([code])) for code in folder)
    lines = []
    for raw in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = raw.removesuffix(b"\r")
        if not line or line.startswith(b"#"):
            continue
        negated = line.startswith(b"!")
        pattern = line[1:] if negated else line
        plain = _without_trailing_spaces(pattern)
        if not plain or plain == b"/":
            continue
        anchored = b"/" in plain.removesuffix(b"/")
        if not folder:
            # At the top the pattern means the same, and nothing can become a comment or a negation.
            moved = pattern
        elif anchored:
            moved = prefix + pattern.removeprefix(b"/")
        else:
            moved = (
                prefix + b"**/" + pattern.removeprefix(b"\\") if _escaped_start(pattern) else prefix + b"**/" + pattern
            )
        lines.append((b"!" if negated else b"") + moved)
    return b"\n".join(lines)


def _escaped_start(pattern: bytes) -> bool:
    # `\#x` and `\!x` need their backslash only at the start of a line.
    return pattern[:2] in {b"\\#", b"\\!"}


def _without_trailing_spaces(pattern: bytes) -> bytes:
    while pattern.endswith(b" ") and not pattern.endswith(b"\\ "):
        pattern = pattern[:-1]
    return pattern


class TrackedContent:
    """Hashes the files of one worktree. A file is hashed again only if its inode, size or times changed.

    No program can set the time of an inode's last change, so an edit that restores the modification time is noticed.
    """

    def __init__(self, store: ObjectStore, path: Path) -> None:
        """Read nothing yet."""
        self._store = store
        self._top = os.fsencode(path)
        self._hashed: dict[bytes, tuple[_Stamp, str]] = {}
        self._wanted: dict[str, dict[bytes, tuple[str, str]]] = {}

    def differing(self, commit: str, extra: Iterable[bytes] = ()) -> list[bytes]:
        """Return the tracked files that differ from ``commit`` in content, kind or executable bit, or are missing.

        Left out: submodules, files that the worktree does not show, ``extra``, and untracked files. Errors:
        ``base_unavailable`` if the commit or one of its trees is damaged and has no good copy.
        """
        files = self._files_of(commit)
        with_mode = self._setting("core.filemode", default=True)
        left_out = set(extra)
        folders: dict[bytes, bool] = {b"": True}
        differing = []
        for number, (path, (mode, identifier)) in enumerate(files.items()):
            if number % 256 == 0:
                check_not_aborted()
            if path in left_out:
                continue
            if not self._below_real_folders(path, folders) or not self._is(path, mode, identifier, with_mode=with_mode):
                differing.append(path)
        return differing

    def _files_of(self, commit: str) -> dict[bytes, tuple[str, str]]:
        if commit not in self._wanted:
            files = require_tree(self._store, commit)
            skipped: Collection[bytes] = self._store.hidden(commit)
            if self._setting("core.ignorecase", default=False):
                skipped = {*skipped, *(path for group in collisions(files) for path in group)}
            while len(self._wanted) >= _KEPT_COMMITS:
                self._wanted.pop(next(iter(self._wanted)))
            self._wanted[commit] = {
                path: entry for path, entry in files.items() if entry[0] != "160000" and path not in skipped
            }
        return self._wanted[commit]

    def _setting(self, name: str, *, default: bool) -> bool:
        return is_true(self._store.description["settings"].get(name), default=default)

    def _below_real_folders(self, path: bytes, folders: dict[bytes, bool]) -> bool:
        unknown: list[bytes] = []
        parent = path.rpartition(b"/")[0]
        while parent not in folders:
            unknown.append(parent)
            parent = parent.rpartition(b"/")[0]
        real = folders[parent]
        for folder in reversed(unknown):
            try:
                real = real and stat.S_ISDIR(os.lstat(self._top + b"/" + folder).st_mode)
            except OSError:
                real = False
            folders[folder] = real
        return real

    def _is(self, path: bytes, mode: str, identifier: str, *, with_mode: bool) -> bool:
        full = self._top + b"/" + path
        try:
            facts = os.lstat(full)
            link = stat.S_ISLNK(facts.st_mode)
            if not link and not stat.S_ISREG(facts.st_mode):
                return False
            # Without support for links, git writes a file that contains the target.
            if link != (mode == "120000") and (link or self._setting("core.symlinks", default=True)):
                return False
            if with_mode and not link and mode != "120000" and bool(facts.st_mode & 0o100) != (mode == "100755"):
                return False
            return self._hash(path, full, facts, link=link) == identifier
        except OSError:
            return False

    def _hash(self, path: bytes, full: bytes, facts: os.stat_result, *, link: bool) -> str:
        stamp = (facts.st_dev, facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        cached = self._hashed.get(path)
        if cached is not None and cached[0] == stamp:
            return cached[1]
        self._hashed.pop(path, None)
        now = time.time_ns()
        digest = hashlib.new(self._store.object_format, usedforsecurity=False)
        if link:
            target = os.readlink(full)
            digest.update(b"blob %d\0" % len(target) + target)
        else:
            descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb", buffering=0) as stream:
                size = os.fstat(descriptor).st_size
                digest.update(b"blob %d\0" % size)
                hashlib.file_digest(stream, lambda: digest)
        value = digest.hexdigest()
        if max(facts.st_ctime_ns, facts.st_mtime_ns) < now - _SETTLED_NS:
            self._hashed[path] = (stamp, value)
        return value
