"""Notice, for one delegation, changes outside its worktree: in the checkout, in links, in the environment, in programs.

Agents and checks without a sandbox can write wherever the user can. The state of these files is compared before and
after they run. Who changed a file cannot be seen, only when; what the user's editor saved is known
(``journal.editor_saves``).
"""

from __future__ import annotations

import hashlib
import operator
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from understudy.engine.planning.prompt import python_folder
from understudy.engine.running.run_context import RunContext
from understudy.journal import editor_saves
from understudy.judge.project.interpreter import find_interpreter
from understudy.model.delegation import events
from understudy.model.errors import UnderstudyError
from understudy.model.evidence.checks import CheckResult
from understudy.model.text.sanitize import name_list
from understudy.process.call_checks import base_environment, expand_home

MOST_FILES = 50_000
"""Most files of one place (the checkout, one linked item, one environment); a larger place is not compared."""
LONGEST_SECONDS = 20.0
"""Time limit for one look at all places."""
_CACHES = frozenset({b"__pycache__", b".cache", b".vite", b".vitest", b".pytest_cache", b".mypy_cache", b".ruff_cache"})
"""Folders that programs write to while they run, and from which they do not take code unseen."""
_Stamp = tuple[int, int, int, int, int, int, int]
Look = dict[bytes, _Stamp]
"""The files of one place: absolute path → what changes with a file."""
_facts: Callable[[os.stat_result], _Stamp] = operator.attrgetter(
    "st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_nlink"
)


class OutsideWatch:
    """Looks at the files before an agent runs, and compares them whenever a program has ended. Raises nothing."""

    def __init__(self, run: RunContext) -> None:
        """Look at nothing yet."""
        self._run = run
        self._spec = run.spec
        self._worktree = run.worktree
        self._emit = run.tell
        self._files: OutsideFiles | None = None
        self._environment: list[Path] | None = None
        """The folders of the project's Python environment, once they were searched."""
        self._looked: dict[Path, Look] = {}
        self.changed = False
        """Whether a comparison found a change that the user's editor did not make."""

    def look_early(self) -> None:
        """Look at the project's environment, which may have tens of thousands of files, before there is a worktree.

        Blocks. A problem is left to ``start``, which meets it again.
        """
        with suppress(OSError, UnderstudyError):
            self._environment = self._find_environment(None)
            looks = ((folder, look_at(folder)) for folder in self._environment)
            self._looked = {folder: look for folder, look in looks if look is not None}

    async def start(self) -> None:
        """Look at the files, unless they are watched already."""
        await self._run.in_thread(self._start)

    async def after_attempt(self, delegator: str) -> None:
        """Compare after an agent has ended."""
        if not self._run.writer.delegation.confined:
            in_checkout = self._run.checkout is not None
            await self._run.in_thread(self._compare, f"the agent {delegator}", f"{delegator} worked", in_checkout)

    async def after_check(self, result: CheckResult) -> None:
        """Compare after a check has ended, unless a sandbox made changes impossible."""
        if result.sandbox is None or not result.sandbox.reached.restricts_access:
            await self._run.in_thread(self._compare, f"the check {result.name}", f"the check {result.name} ran", False)

    def _start(self) -> None:
        if self._files is not None:
            return
        try:
            self._files = OutsideFiles(self._places(), self._looked)
            self._looked = {}
        except (OSError, UnderstudyError) as error:
            self._note(f"Changes outside the worktree are not noticed: {error}")
            return
        self._tell()

    def _compare(self, who: str, doing: str, in_checkout: bool) -> None:
        """Report what changed since the last look, while ``who`` was ``doing``.

        ``in_checkout``: it worked in the checkout, whose changes are its result.
        """
        if self._files is None:
            return
        try:
            change = self._files.changed()
        except OSError as error:
            self._note(f"Changes outside the worktree could not be compared: {error}")
            return
        self._tell()
        if in_checkout:
            change = OutsideChange(other=change.other)
        if not change:
            return
        self.changed = True
        if change.checkout:
            self._note(
                f"Files of your checkout changed while {doing}: {name_list(change.checkout)}. You or {who} changed "
                "them; no editor reported to Understudy that it saved them. To see what a file was: "
                + self._worktree.show_command(change.checkout[0])
            )
        if change.other:
            self._note(
                f"Files outside the worktree changed while {doing}: {name_list(change.other)}. You or {who} changed "
                "them."
            )

    def _tell(self) -> None:
        """Report places that are not compared, each once."""
        if self._files is not None:
            for text in self._files.notes:
                self._note(text)
            self._files.notes.clear()

    def _places(self) -> Places:
        spec = self._spec
        if self._environment is None:
            self._environment = self._find_environment(self._worktree.tree_path)
        search = base_environment({}).get("PATH", "")
        return Places(
            checkout=self._worktree.store.top,
            tracked=self._worktree.base_files(),
            object_format=self._worktree.store.object_format,
            trees=(*self._worktree.linked(), *self._environment),
            programs=tuple(programs_of((check.argv for check in [*spec.checks, *spec.fallback_checks]), search)),
        )

    def _find_environment(self, tree: Path | None) -> list[Path]:
        spec = self._spec
        interpreter = find_interpreter(Path(spec.workspace), spec.interpreter, tree=tree, folder=python_folder(spec))
        return environment_of(interpreter.path if interpreter is not None else None)

    def _note(self, text: str) -> None:
        self._emit(events.Note(level="warning", text=text.encode("utf-8", "backslashreplace").decode()))


@dataclass(frozen=True, kw_only=True)
class Places:
    """What to compare."""

    checkout: Path
    tracked: Mapping[bytes, tuple[str, str]]
    """Path → (mode, object id) of the files of the base, as the user saw them."""
    object_format: str
    trees: tuple[Path, ...] = ()
    """Linked items, and the folders of the environment: programs and installed packages."""
    programs: tuple[Path, ...] = ()


@dataclass(frozen=True)
class OutsideChange:
    """What changed since the last look."""

    checkout: list[str] = field(default_factory=list)
    """Paths relative to the checkout that differ from the base."""
    other: list[str] = field(default_factory=list)
    """Absolute paths."""

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self.checkout or self.other)


class OutsideFiles:
    """The state of the places at the last look. Methods block; call them from a thread, one at a time."""

    def __init__(self, places: Places, looked: Mapping[Path, Look] | None = None) -> None:
        """Look at the places for the first time; ``looked`` has those of its trees that were looked at just now."""
        self._places = places
        self.notes: list[str] = []
        """What is not compared, and why."""
        self._left_out: set[Path] = set()
        self._state = self._look(looked or {})

    def changed(self) -> OutsideChange:
        """Return what changed since the last look, without what the user's editor saved; look again."""
        places_before, self._state = self._state, self._look({})
        differing: set[bytes] = set()
        # A place that could not be looked at to the end this time says nothing about its files.
        for place in places_before.keys() & self._state.keys():
            before, after = places_before[place], self._state[place]
            if before != after:
                paths = before.keys() | after.keys()
                differing.update(path for path in paths if _differs(before.get(path), after.get(path)))
        change = OutsideChange()
        saved = editor_saves.read() if differing else frozenset()
        for path in sorted(differing):
            relative = self._relative(path)
            if relative is None:
                change.other.append(os.fsdecode(path))
            elif not (
                self._is_base(path, relative)
                or editor_saves.is_known(Path(os.fsdecode(path)), saved)
                or _is_open_in_an_editor(path)
            ):
                change.checkout.append(os.fsdecode(relative))
        return change

    def _relative(self, path: bytes) -> bytes | None:
        top = os.fsencode(self._places.checkout) + b"/"
        relative = path[len(top) :] if path.startswith(top) else None
        return relative if relative in self._places.tracked else None

    def _is_base(self, path: bytes, relative: bytes) -> bool:
        """Return whether a file of the checkout is what the base has, however often it was written."""
        try:
            facts = os.lstat(path)
            if stat.S_ISLNK(facts.st_mode):
                content = os.readlink(path)  # noqa: PTH115 - a path of bytes
            else:
                content = Path(os.fsdecode(path)).read_bytes() if facts.st_size <= editor_saves.FILE_BYTES else b""
        except OSError:
            return False
        digest = hashlib.new(self._places.object_format, usedforsecurity=False)
        digest.update(b"blob %d\0" % len(content) + content)
        return digest.hexdigest() == self._places.tracked[relative][1]

    def _look(self, looked: Mapping[Path, Look]) -> dict[Path, Look]:
        """Return the files of each place that could be looked at to the end."""
        deadline = time.monotonic() + LONGEST_SECONDS
        looks: dict[Path, Look] = {}
        top = os.fsencode(self._places.checkout)
        sources: list[tuple[Path, Iterator[tuple[bytes, _Stamp]]]] = [
            (self._places.checkout, _stamps(top + b"/" + path for path in self._places.tracked)),
            *((tree, _files_below(tree)) for tree in self._places.trees),
        ]
        for place, files in sources:
            if place in self._left_out:
                continue
            part = looked.get(place) or _within_limits(files, deadline)
            if part is None:
                self._left_out.add(place)
                self.notes.append(f"{place} has too many files to look at in time, so changes there are not noticed.")
            else:
                looks[place] = part
        for program in self._places.programs:
            looks.setdefault(program, {}).update(_stamps([os.fsencode(program)]))
        return looks


def look_at(tree: Path) -> Look | None:
    """Return the files of a tree, None if there are too many."""
    return _within_limits(_files_below(tree), time.monotonic() + LONGEST_SECONDS)


def environment_of(interpreter: Path | None) -> list[Path]:
    """Return the folders of a Python environment that the user can write: its programs and installed packages."""
    if interpreter is None:
        return []
    prefix = interpreter.parent.parent
    folders = sorted({folder.resolve() for folder in prefix.glob("lib*/python*/site-packages")})
    if (prefix / "pyvenv.cfg").is_file():
        folders.append(interpreter.parent)
    return [folder for folder in folders if os.access(folder, os.W_OK)]


def programs_of(commands: Iterable[list[str]], search: str) -> list[Path]:
    """Return the files that the commands start, links resolved."""
    programs = []
    for argv in commands:
        program = shutil.which(expand_home(argv[0]), path=search) if argv and "{" not in argv[0] else None
        if program is not None:
            programs.append(Path(os.path.realpath(program)))
    return sorted(set(programs))


def _within_limits(files: Iterator[tuple[bytes, _Stamp]], deadline: float) -> Look | None:
    stamps: Look = {}
    for path, facts in files:
        if len(stamps) >= MOST_FILES or time.monotonic() > deadline:
            return None
        stamps[path] = facts
    return stamps


def _files_below(tree: Path) -> Iterator[tuple[bytes, _Stamp]]:
    if not tree.is_dir():
        yield from _stamps([os.fsencode(tree)])
        return
    waiting = [os.path.realpath(os.fsencode(tree))]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _CACHES:
                    waiting.append(entry.path)
            elif not entry.name.endswith(b".pyc"):
                try:
                    yield entry.path, _facts(entry.stat(follow_symlinks=False))
                except OSError:
                    continue


def _stamps(paths: Iterable[bytes]) -> Iterator[tuple[bytes, _Stamp]]:
    for path in paths:
        try:
            yield path, _facts(os.lstat(path))
        except OSError:
            continue


def _differs(before: _Stamp | None, after: _Stamp | None) -> bool:
    if before is None or after is None:
        return before is not after
    # A package manager that makes or removes another hard link changes the inode's time, but not the file.
    return before != after and not (before[:5] == after[:5] and before[6] != after[6])


def _is_open_in_an_editor(path: bytes) -> bool:
    """Return whether Vim, Emacs or LibreOffice keeps a lock or swap file beside it."""
    folder, _, name = path.rpartition(b"/")
    return any(
        os.path.lexists(folder + b"/" + lock_name)
        for lock_name in (b"." + name + b".swp", b".#" + name, b".~lock." + name + b"#")
    )
