"""What the declaration of a test runner holds, and how it reads the files of a project."""

from __future__ import annotations

import configparser
import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from understudy.files import durable
from understudy.judge.outcomes.observations import Counts
from understudy.judge.outcomes.probe import Probe
from understudy.judge.project.command_lines import Read

_FILE_BYTES = 1024 * 1024
_MOST_ENTRIES = 2000
"""Entries of a folder that are looked at."""
PYTHON_SLOT, TESTS_SLOT, REPORT_SLOT = "{python}", "{tests}", "{report}"
"""Slots of ``argv``; the report (a JSON file the runner writes) is for the built-in checks."""


class Project:
    """The files of one folder. Links are not followed, and nothing is started."""

    def __init__(self, root: Path) -> None:
        """Read the names in the folder; contents are read when they are asked for."""
        self.root = root
        self.files, self.folders = _entries(root)

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, None if there is none, it is too large, or a link leads to it."""
        with suppress(OSError):
            content = durable.read_whole(self.root / path, _FILE_BYTES + 1)
            return content if len(content) <= _FILE_BYTES else None
        return None

    def text(self, path: str) -> str:
        """Return the text of a file, empty if there is none."""
        return (self.read(path) or b"").decode("utf-8", "replace")

    def first(self, *names: str) -> str | None:
        """Return the first of these files that exists."""
        return next((name for name in names if name in self.files), None)

    def named(self, pattern: str, *folders: str) -> Iterator[str]:
        """Yield the paths of files in these folders (``""``: the folder itself) whose names match."""
        for folder in folders:
            names = self.files if not folder else _entries(self.root / folder)[0] if folder in self.folders else ()
            yield from (f"{folder}/{name}" if folder else name for name in sorted(names) if re.fullmatch(pattern, name))

    def section(self, file: str, name: str) -> dict[str, Any] | None:
        """Return a table of a TOML or INI file, None if there is none."""
        content = self.read(file) if file in self.files else None
        return None if content is None else settings_section(file, name, content.decode("utf-8", "replace"))

    def package(self) -> dict[str, Any]:
        """Return ``package.json``; empty if there is none."""
        with suppress(ValueError, RecursionError):
            document = json.loads(self.read("package.json") or b"{}")
            return document if isinstance(document, dict) else {}
        return {}


def file_shows(*names: str) -> Callable[[Project], str | None]:
    """Return what finds the first of these files."""
    return lambda project: project.first(*names)


def settings_section(file: str, section: str, text: str) -> dict[str, Any] | None:
    """Return a table of a configuration file; None if the file or the table cannot be read."""
    try:
        if file.endswith(".toml"):
            value: Any = tomllib.loads(text)
            for name in section.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            return value if isinstance(value, dict) else None
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read_string(text)
        return dict(parser[section]) if parser.has_section(section) else None
    except (ValueError, configparser.Error):
        return None


def _entries(folder: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the files and of the folders in a folder; links count as neither."""
    files, folders = set(), set()
    with suppress(OSError), os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= _MOST_ENTRIES:
                break
            if entry.is_file(follow_symlinks=False):
                files.add(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.add(entry.name)
    return frozenset(files), frozenset(folders)


@dataclass(frozen=True)
class ProposedCheck:
    """A check that the files of a project suggest."""

    name: str
    title: str
    argv: tuple[str, ...]
    shown_by: Callable[[Project], str | None]
    """Returns the file that shows that the project uses it."""
    _: KW_ONLY
    instead_of: Collection[str] = ()
    """Checks that are not proposed beside it, because it runs the same tests."""
    only_without: Collection[str] = ()
    """If not empty, it is proposed when neither the project nor one of its folders shows any of these."""
    folder: str = ""
    """A folder of installed packages that it needs."""
    without_folder: Callable[[Project], bool] = lambda _: False
    """Returns whether the project installs nothing there."""


@dataclass(frozen=True, kw_only=True)
class NewTests:
    """What a result added or changed, for the runner that can run its tests."""

    changed: Sequence[str]
    tree: Path
    read: Read
    """Reads files of the result."""
    read_base: Read
    project: str
    """The folder of the Python project."""
    has_python: bool
    """The project has an interpreter. The next ones: which can import it."""
    has_pytest: bool
    has_pytest_cov: bool


@dataclass(frozen=True, kw_only=True)
class NewTestsCheck:
    """The command that runs new tests."""

    argv: list[str]
    tests: Sequence[str]
    folder: str = ""
    """Where it runs, relative to the tree; the tests are relative to the tree, too."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """The output of one run, and its report."""

    stdout: bytes
    report: Path
    """The file in ``REPORT_SLOT``."""

    @property
    def text(self) -> str:
        """Return the standard output as text."""
        return self.stdout.decode("utf-8", "replace")


@dataclass(frozen=True, kw_only=True)
class ScriptCommand:
    """A JavaScript test runner with the arguments that a check gives it."""

    kind: str
    """The name of the test runner."""
    program: str
    """What the check starts, or the program in ``node_modules``."""
    arguments: tuple[str, ...]


def _without_tests(argv: Sequence[str]) -> list[str]:
    return [argument for argument in argv if TESTS_SLOT not in argument]


def _as_it_is(argv: list[str], _: Probe | None) -> list[str]:
    return argv


@dataclass(frozen=True, kw_only=True)
class TestRunner:
    """A test runner: how it is found, started and read, and what decides its outcome."""

    name: str
    order: int
    """Of two that run the same tests, the more specific one is first."""

    # Which projects and commands use it.
    proposals: tuple[ProposedCheck, ...] = ()
    command_lines: tuple[str, ...] = ()
    """Patterns of command lines that run tests with it."""
    starts: Callable[[Sequence[str], Path], bool] = lambda _, __: False
    """Returns whether a command starts it in a folder, in the end."""

    # New tests.
    language: str = ""
    """Of the runners of one language, the first that can run the new tests does."""
    test_files: Callable[[Sequence[str], Read], list[str]] = lambda _, __: []
    """Returns the test files among paths."""
    test_globs: Callable[[Read], Sequence[str]] = lambda _: ()
    """Returns the names of test files that a project configures."""
    check_new: Callable[[NewTests], NewTestsCheck | str | None] = lambda _: None
    """Returns the check for the new tests, or a message why they cannot be run; None if there are none."""
    names_select: bool = False
    """Its check selects new tests by name, so earlier tests of the same name run too."""

    # One run.
    started: Callable[[list[str], Probe | None], list[str]] = _as_it_is
    """Returns what is started for an argument vector."""
    caches: Mapping[str, str] = field(default_factory=dict)
    """Environment variable → a folder outside the tree that it names, for files that runs share."""
    order_options: tuple[str, ...] = ()
    """Options that shuffle the tests by ``{seed}``; none if a probe does that, or nothing can."""
    options_at: int | None = None
    """Where options belong in an argument vector; None: at its end."""
    whole_suite: Callable[[Sequence[str]], list[str]] = _without_tests
    """Returns the command for all tests, given that for the new ones."""
    suite_files: tuple[str, ...] = ()
    """Suffixes of the test files that the command for all tests has to name."""

    # Reports and outputs.
    reports: bool = True
    """A run of it that passes without a report is not believed."""
    counts: Callable[[Output], Counts | None] = lambda _: None
    """Returns the counts that the runner reports by itself."""
    outcomes: Callable[[Output, Path], dict[str, str]] = lambda _, __: {}
    """Returns test → outcome from its report; files are relative to the tree."""
    failed: Callable[[Output], Iterable[str]] = lambda _: ()
    """Returns the names of tests that failed, if no probe reported."""
    why_failed: Callable[[Output], str] = lambda _: ""
    """Returns the messages of tests that failed, from its report."""
    printed: Callable[[str], Iterable[tuple[str, str]]] = lambda _: ()
    """Returns test and outcome, in its own word, for each line about a test in an output."""
    totals: Callable[[str], Iterable[tuple[str, int]]] = lambda _: ()
    """Returns outcome, in its own word, and number for the summaries in an output."""
    unbuilt: tuple[str, ...] = ()
    """Patterns of outputs that say that tests could not be compiled or loaded."""
    died: tuple[str, ...] = ()
    """Texts in outputs that say that a signal ended the test process."""

    # Mutants.
    mutants: str = ""
    """``module:Class`` of the strategy that runs it on mutants; empty: its command once for each of them."""
    naming_tests: Callable[[list[str]], list[str]] = lambda argv: argv
    """Returns a command, where it starts this runner with what makes it print the names of its tests."""
    script: Callable[[Sequence[str], Path], ScriptCommand | None] = lambda _, __: None
    """Returns how a command starts it, in a folder, as a JavaScript runner."""
    plain_loader: str | None = None
    """A program of JavaScript that runs a file of its tests without it, or nothing if Node can; None: none can."""
    kept_by: str = ""
    """The file in ``PROBE_FOLDER`` that keeps it running for many mutants, and the next two are for it."""
    record_lines: Callable[[Path, Sequence[str], Path], list[str]] = lambda _, __, ___: []
    """Returns the options that record lines to a folder, given the files and the folder that the check runs in."""
    stop_early: tuple[str, ...] = ()
    """Options that end a run at the first failure; none if the runner then writes no report."""

    # What decides its outcome, as globs of ``.gitignore``.
    tests: tuple[str, ...] = ()
    """Names of test files, and of snapshots that tests compare with."""
    configuration: tuple[str, ...] = ()
    """Files and folders that configure it."""
    kept_sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """File name → what the result may change without changing a check; everything else is restored. Names of values are
    joined with dots, and ``!`` restores a part of something that is kept."""
    dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """File name → what its lock file follows; for other files, every change."""
    locks: Mapping[str, str] = field(default_factory=dict)
    """Lock file → the file beside it that declares the dependencies. A lock follows an honest change of that file."""
    completes: tuple[str, ...] = ()
    """Lock files that a run completes."""
    modules: tuple[str, ...] = ()
    """Top-level Python modules that it imports."""


WORDS = {
    **dict.fromkeys(("ok", "PASS", "pass", "passed", "✔"), "passed"),
    **dict.fromkeys(("FAILED", "FAIL", "ERROR", "fail", "failed", "✖"), "failed"),
    **dict.fromkeys(("ignored", "SKIP", "skip", "skipped", "expected failure", "﹣"), "skipped"),
    **dict.fromkeys(("pending", "todo", "disabled"), "skipped"),
}
"""Word of a runner → outcome."""


def add_outcome(outcomes: dict[str, str], test: str, word: str) -> None:
    """Add an outcome, in the word of a runner; of two of the same test, the worse one counts."""
    order = ("passed", "skipped", "failed")
    outcomes[test] = max(outcomes.get(test, "passed"), WORDS.get(word, "failed"), key=order.index)


def program_named(*names: str) -> str:
    """Return the pattern of a command line with one of these programs or modules."""
    return rf"(?:^|[/\s=])(?:{'|'.join(names)})(?:$|[\s@.])"


def task_of(*programs: str) -> str:
    """Return the pattern of a command line that makes one of these programs run tests or checks."""
    return rf"(?:^|\s)(?:{'|'.join(programs)})\s(?:\S+\s)*?\S*(?:test|check)"
