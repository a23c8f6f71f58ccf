"""Compute the digest of everything that trusting a workspace covers.

Trust covers files that start programs or instruct agents without a question to the user: Understudy's own folder, the
configuration of agent CLIs, whose hooks and servers an agent starts without asking, and the tracked programs that
checks and delegators start. Instructions for people and agents (CLAUDE.md) are not covered: they are text and do not
start anything.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from understudy.config.configuration import Configuration
from understudy.config.loading.loader import load
from understudy.config.trust import effects, programs
from understudy.model.text.sanitize import visible_line

SHARED = (
    ".understudy",
    ".worktreeinclude",  # lists what is copied into worktrees
    ".mcp.json",
    ".vscode/mcp.json",
)
"""Covered paths besides those that tools declare."""

MAX_FILES = 4000


MAX_BYTES = 64 * 1024 * 1024
"""Limits of the covered files; a workspace that exceeds them cannot be trusted."""


CHANGING = "The configuration files of agents keep changing while Understudy reads them."
"""Why a workspace cannot be trusted whose files another program keeps writing."""
_MOST_TRIES = 5
_TICK_SECONDS = 0.02
"""Longer than the clock of any usual file system needs to go on; Linux's goes on every 1 to 10 ms."""

_PIECE = 1024 * 1024
_SHOWN_CHARACTERS = 4000
"""The length of one line that describes what trust allows; far longer than any honest command."""


@dataclass(frozen=True)
class Allowed:
    """What trusting a workspace would allow now."""

    hash: str
    """Empty if the descriptions may belong to other contents."""
    allows: list[str]
    """Descriptions, the most far-reaching first; safe to print on a terminal."""
    files: dict[str, str]
    """Path inside the workspace → digest of its content."""
    excess: str | None = None
    """Why the workspace cannot be trusted at all."""


def watched(configuration: Configuration | None) -> list[str]:
    """Return the paths that are covered, relative to a workspace; a folder covers everything below it.

    Without a configuration, those of tools that files define are missing.
    """
    declared = (path.path.rstrip("/") for tool in effects.obeying(configuration) for path in tool.repository_paths)
    return list(dict.fromkeys([*SHARED, *declared]))


def digest(workspace: Path) -> Allowed:
    """Return what trusting ``workspace`` allows; starts nothing, and follows links inside the workspace only.

    The descriptions belong to the digest: no file changed from before they were made until after that.
    """
    root = Path(os.path.realpath(workspace))
    before = _settled(root, watched(None))
    for _ in range(_MOST_TRIES):
        configuration = load(root, trusted=True)  # what would apply; reading it starts no program
        names = watched(configuration)
        walk = _Walk(root, names)
        covered = walk.seen()
        for name in programs.tracked_programs(root, configuration):
            walk.add(name)
        words = [visible(line) for line in effects.describe_effects(root, sorted(walk.files), configuration)]
        if before.seen() == covered == _Walk(root, names).seen():
            return Allowed(digest_of(walk.files), words, walk.files, walk.excess)
        before = _settled(root, names)
    # No answer to a question with these descriptions may count for any content.
    return Allowed("", words, walk.files, walk.excess or CHANGING)


def _settled(root: Path, names: list[str]) -> _Walk:
    """Walk so that each later change shows: two changes in the same tick of the clock leave a file the same times."""
    began = time.time_ns()
    walk = _Walk(root, names)
    if began - walk.newest < _TICK_SECONDS * 1e9:
        time.sleep(_TICK_SECONDS)
        walk = _Walk(root, names)
    return walk


class _Walk:
    """Collect the digests of the covered files, within limits."""

    def __init__(self, root: Path, names: Iterable[str]) -> None:
        self.root = root
        self.files: dict[str, str] = {}
        self.excess: str | None = None
        self.newest = 0
        """When the last of them changed, in nanoseconds since 1970."""
        self._facts: dict[str, list[int]] = {}
        self._bytes = 0
        self._folders: set[tuple[int, int]] = set()
        for name in names:
            self.add(name)

    def seen(self) -> tuple[dict[str, str], dict[str, list[int]]]:
        """Return a copy of all contents, and of what differs after any change, even if it changed back afterwards."""
        return dict(self.files), {name: list(facts) for name, facts in self._facts.items()}

    def _note(self, name: str, facts: os.stat_result) -> None:
        self.newest = max(self.newest, facts.st_ctime_ns)
        self._facts.setdefault(name, []).extend(
            [facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]
        )

    def add(self, name: str) -> None:
        """Add a file, or a folder with all its contents, if it exists."""
        path = self.root / name
        try:
            facts = path.lstat()
        except OSError:
            return
        if self.excess is not None:
            return
        self._note(name, facts)
        if len(self.files) >= MAX_FILES:
            self.excess = f"More than {MAX_FILES} files configure agents here, which is too many to check."
            return
        if stat.S_ISLNK(facts.st_mode):
            self._link(name, path)
        elif stat.S_ISDIR(facts.st_mode):
            self._folder(name, path, facts)
        elif stat.S_ISREG(facts.st_mode):
            self.files[name] = self._content(path, executable=bool(facts.st_mode & 0o100))
        else:
            self.files[name] = f"special {stat.S_IFMT(facts.st_mode)}"

    def _link(self, name: str, path: Path) -> None:
        target = os.fsencode(path.readlink()).decode("utf-8", "surrogateescape")
        self.files[name] = f"link {target}"
        real = os.path.realpath(path)
        if not real.startswith(str(self.root).rstrip("/") + "/"):
            return
        try:
            facts = Path(real).stat()
        except OSError:
            return
        self._note(name, facts)
        if stat.S_ISDIR(facts.st_mode):
            self._folder(name, Path(real), facts)
        elif stat.S_ISREG(facts.st_mode):
            self.files[name] += f" {self._content(Path(real), executable=bool(facts.st_mode & 0o100))}"

    def _folder(self, name: str, path: Path, facts: os.stat_result) -> None:
        if (facts.st_dev, facts.st_ino) in self._folders:
            return  # a link in a circle, or to a folder already visited
        self._folders.add((facts.st_dev, facts.st_ino))
        try:
            inner = sorted(item.name for item in path.iterdir())
        except OSError as error:
            self.files[name] = f"unreadable {error.errno}"
            return
        for item in inner:
            self.add(f"{name}/{item}")

    def _content(self, path: Path, *, executable: bool) -> str:
        content = hashlib.sha256(b"x" if executable else b"-")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            return f"unreadable {error.errno}"
        with os.fdopen(descriptor, "rb") as file:
            while piece := file.read(_PIECE):
                self._bytes += len(piece)
                if self._bytes > MAX_BYTES:
                    self.excess = f"The agents' configuration here exceeds {MAX_BYTES // 2**20} MiB, too much to check."
                    break
                content.update(piece)
        return content.hexdigest()


def digest_of(files: dict[str, str]) -> str:
    """Return the digest of all files together."""
    whole = hashlib.sha256()
    for path, value in sorted(files.items()):
        whole.update(f"{path}\0{value}\0".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def visible(text: str) -> str:
    """Return ``text`` on one line, safe to print; beyond ``_SHOWN_CHARACTERS``, say how much is left out."""
    line = visible_line(text)
    left = len(line) - _SHOWN_CHARACTERS
    return line if left <= 0 else f"{line[:_SHOWN_CHARACTERS]}… and {left} more characters, WHICH ARE NOT SHOWN"
