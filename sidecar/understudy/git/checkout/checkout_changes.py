"""Notice what changes in the user's checkout that no result contains.

That is what is in the repository besides files (commits, branches, the stash, hooks, configuration), and files that are
ignored, or that the base left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from understudy.git import repository
from understudy.git.base.capture import REFERENCES
from understudy.git.command import git_output
from understudy.git.repository import Repository
from understudy.model.text import path_quoting
from understudy.model.text.sanitize import name_list, one_line

MOST_FILES = 50_000
LONGEST_SECONDS = 20.0
"""Time limit for one look."""
_CACHES = frozenset(
    {b"__pycache__", b".cache", b".vite", b".vitest", b".pytest_cache", b".mypy_cache", b".ruff_cache", b".git"}
)
"""Folders that programs write to whenever they run; the repository is compared as a whole (``look``)."""
Stamps = dict[bytes, tuple[int, int, int, int]]
"""Path → inode, mode, size and time of the last change of each file."""
_SMALL_FILE = 1024 * 1024
"""Bytes that are compared of a hook, or of a file with settings."""
_MOST_HOOKS = 200
_SETTINGS = ("config", "config.worktree", "info/exclude", "info/attributes", "info/grafts", "objects/info/alternates")
"""Files of the git directory that decide what git does, with its hooks."""


class RepositoryState(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared: everything that is not the content of a file of the checkout."""

    exists: bool
    """Whether the folder is in a repository."""
    place: str = ""
    """Its git directory."""
    head_ref: str | None = None
    """The branch; None when HEAD is detached."""
    head: str | None = None
    """The commit."""
    operation: str | None = None
    """`a merge`, `a rebase` …"""
    references: dict[str, str] = {}
    """Full name → object id, without those of Understudy."""
    staged: str = ""
    """Digest of the entries of the index: the modes, contents and paths that a commit would have."""
    settings: dict[str, str] = {}
    """Files that decide what git does → digest."""


def look(place: Path) -> RepositoryState:
    """Return the state of the repository that ``place`` is in. Raises the errors of ``repository.locate``."""
    located = repository.locate(place)
    if located.git_dir is None or located.common_dir is None:
        return RepositoryState(exists=False)
    return RepositoryState(
        exists=True,
        place=path_quoting.quote(os.fsencode(located.git_dir)),
        head_ref=located.head_ref,
        head=located.head_commit,
        operation=located.operation,
        references=_references(located, located.git_dir),
        staged=_staged(located.git_dir),
        settings=_settings(located.git_dir, located.common_dir),
    )


def differences(before: RepositoryState, after: RepositoryState) -> list[str]:
    """Return what changed, as sentences, with the command that reverts it where there is a simple one."""
    if before.exists != after.exists:
        return ["A repository was created." if after.exists else "The repository was removed."]
    if before.place != after.place:
        return [f"The checkout belongs to the repository {after.place} now, and did to {before.place}."]
    sentences = []
    if before.head_ref != after.head_ref:
        now = f"on {_short(after.head_ref)}" if after.head_ref else f"detached at {_commit(after.head)}"
        was = f"on {_short(before.head_ref)}" if before.head_ref else f"detached at {_commit(before.head)}"
        sentences.append(f"The checkout is {now}, and was {was}.")
    elif before.head != after.head:
        back = f" To revert that and keep the files: git reset --soft {before.head}" if before.head else ""
        sentences.append(f"HEAD is at {_commit(after.head)}, and was at {_commit(before.head)}.{back}")
    if before.operation != after.operation:
        sentences.append(f"The repository is in the middle of {after.operation or 'nothing any more'}.")
    changed = _differing(before.references, after.references) - {after.head_ref or "", before.head_ref or ""}
    if changed:
        names = name_list(one_line(_short(reference)) for reference in sorted(changed))
        sentences.append(f"These references changed: {names}.")
    if before.staged != after.staged:
        sentences.append("What is staged changed.")
    if changed := _differing(before.settings, after.settings):
        sentences.append(f"These files of the git directory changed: {name_list(map(one_line, sorted(changed)))}.")
    return sentences


def _references(located: Repository, git_dir: Path) -> dict[str, str]:
    if located.bare:
        return {}
    output = git_output("for-each-ref", "--format=%(objectname) %(refname)", git_dir=git_dir)
    listed = (line.partition(" ") for line in output.decode(errors="replace").splitlines())
    return {name: identifier for identifier, _, name in listed if not name.startswith(REFERENCES)}


def _staged(git_dir: Path) -> str:
    index = git_dir / "index"
    if not index.exists():
        return ""
    output = git_output("ls-files", "-z", "-s", git_dir=git_dir, index=index, output_limit=256 * 1024 * 1024)
    return hashlib.sha256(output).hexdigest()


def _settings(git_dir: Path, common: Path) -> dict[str, str]:
    digests = {}
    for folder in {common, git_dir}:
        for name in _SETTINGS:
            if (digest := _digest(folder / name)) is not None:
                digests[name if folder == common else f"{folder.name}/{name}"] = digest
    hooks = common / "hooks"
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(hooks))  # noqa: PTH208 - only names
    for name in names[:_MOST_HOOKS]:
        if (digest := _digest(hooks / name)) is not None:
            digests[f"hooks/{name}"] = digest
    return digests


def _digest(path: Path) -> str | None:
    """Return a digest of the beginning of a file and its type, size and permissions; None if there is no entry."""
    try:
        facts = path.stat()
    except OSError:
        return "link" if path.is_symlink() else None
    content = repository.read_regular(path, _SMALL_FILE)
    digest = hashlib.sha256(content).hexdigest() if content is not None else "unreadable"
    size = facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    return f"{digest} {size} {facts.st_mode & ~0o666:o}"


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _short(reference: str | None) -> str:
    name = reference or ""
    return next((name.removeprefix(prefix) for prefix in ("refs/heads/", "refs/") if name.startswith(prefix)), name)


def _commit(identifier: str | None) -> str:
    return identifier[:12] if identifier else "no commit"


def unrecorded_files(top: Path, recorded: Collection[bytes], seconds: float = LONGEST_SECONDS) -> Stamps | None:
    """Return the files below ``top`` that are not ``recorded``; None if there are too many to look at."""
    deadline = time.monotonic() + seconds
    prefix = os.fsencode(top) + b"/"
    stamps: Stamps = {}
    seen = 0
    waiting = [prefix]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        seen += len(entries)
        if seen > MOST_FILES + len(recorded) or time.monotonic() > deadline:
            return None
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(facts.st_mode):
                if entry.name not in _CACHES:
                    waiting.append(entry.path)
            elif entry.name != b".git" and not entry.name.endswith(b".pyc"):
                path = entry.path[len(prefix) :]
                if path not in recorded:
                    stamps[path] = (facts.st_ino, facts.st_mode, facts.st_size, facts.st_ctime_ns)
    return stamps


def differing(before: Stamps, after: Stamps) -> list[bytes]:
    """Return the files that were changed, added or removed."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
