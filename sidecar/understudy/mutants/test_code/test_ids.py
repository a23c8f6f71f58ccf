"""Find the definition of the test that a runner names by an id."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.test_code.definitions import DefinedTest, definitions_of

Read = Callable[[str], bytes | None]

_PARAMETERS = re.compile(r"[\[( ]")
_GO_TEST = re.compile(r"(?:(.+?)\.)??((?:Test|Example|Fuzz)\w*)(?:/(.*))?", re.DOTALL)
"""The package, the function, and the names of subtests: in a suite, one of them is that of a method."""
_GO_MODULE = re.compile(rb"^\s*module\s+\"?([^\s\"]+)", re.MULTILINE)
_SCRIPT_FILE = re.compile(r"(.+?\.[cm]?[jt]sx?): ")
_RUST_CASE = re.compile(r"(.*\w)::case_?\w*", re.DOTALL)
"""A case of a test with a table: what ``rstest`` and ``test_case`` generate is a module of the test's name."""
_WORD = re.compile(r"\w+")
_PLAIN_TITLE = re.compile(r"(?:[^\\.*]|\\.)+", re.DOTALL)
"""A pattern that matches one text only."""
_CARGO_TEST = re.compile(r"(?:(?:unittests )?(\S+) )?((?:\w+::)*\w+)")


@dataclass(frozen=True, slots=True)
class LocatedTest:
    """A definition with its file, relative to the tree."""

    path: str
    definition: DefinedTest

    def may_be_inherited(self, test: str) -> bool:
        """Return whether a test without a definition may be a method that its class inherits from this one's."""
        names = self.definition.names
        if len(names) == 1 or not self.path.endswith(".py"):
            return False
        return re.split(r"::|\.", _PARAMETERS.split(test)[0])[-1] == names[-1]


class KnownTests:
    """The definitions in the files that a result changed."""

    def __init__(self, files: Iterable[tuple[str | None, str | None]], read: Read, read_base: Read) -> None:
        """Read the files: pairs of a path in the result and a path in the base, None where it is not there."""
        self._read = read
        self.contents: dict[str, bytes] = {}
        self.base: dict[str, frozenset[tuple[str, ...]] | None] = {}
        """File → the names of the definitions that it has in the base; None if the base has no such file."""
        self._moved: set[tuple[str, bytes]] = set()
        self._by_key: dict[str, list[LocatedTest]] = {}
        """See ``_keys``."""
        self._go_packages: dict[str, str | None] = {}
        for path, old in files:
            before = _content(old, read_base)
            earlier = definitions_of(old, before) if old is not None and before is not None else []
            self._moved.update(
                (test.names[-1], before[test.start : test.end]) for test in earlier if before is not None
            )
            if path is not None and (content := _content(path, read)) is not None:
                self.contents[path] = content
                self.base[path] = None if before is None else frozenset(test.names for test in earlier)
                for test in definitions_of(path, content):
                    for key in _keys(path, test):
                        self._by_key.setdefault(key, []).append(LocatedTest(path, test))

    def find(self, test: str) -> LocatedTest | None:
        """Return the definition of a test; None if no definition, or more than one, can be meant."""
        fitting = self.fitting(test)
        return fitting[0] if len(fitting) == 1 else None

    def fitting(self, test: str) -> list[LocatedTest]:
        """Return all definitions that can be meant by the id of a test, and fit it equally well."""
        file, separator, rest = test.partition("::")
        if separator and file.endswith(".py"):
            keys = {f"{posixpath.basename(file)}::{rest.partition('[')[0].rpartition('::')[2]}"}
        elif (script := _SCRIPT_FILE.match(test)) is not None:
            keys = {script[1]}
        else:
            keys = {"", test.lstrip(" "), *_WORD.findall(test)}
        candidates = {located: None for key in sorted(keys) for located in self._by_key.get(key, ())}
        fitting = [(rank, located) for located in candidates if (rank := self._rank(located, test))]
        best = max((rank for rank, _ in fitting), default=0)
        best_fitting = [located for rank, located in fitting if rank == best]
        case = _RUST_CASE.fullmatch(test)
        return best_fitting or (self.fitting(case[1]) if case is not None else [])

    def is_new(self, located: LocatedTest) -> bool:
        """Return whether the base's file has no test of this name, and no file from which it was moved has it."""
        text = self.contents[located.path][located.definition.start : located.definition.end]
        names = located.definition.names
        return names not in (self.base[located.path] or ()) and (names[-1], text) not in self._moved

    def _rank(self, located: LocatedTest, test: str) -> int:
        """Return how well an id fits a definition; 0: not at all."""
        match posixpath.splitext(located.path)[1]:
            case ".py":
                return _python(located, test)
            case ".go":
                return self._go(located, test)
            case ".rs":
                return _rust(located, test)
            case _:
                return _script(located, test)

    def _go(self, located: LocatedTest, test: str) -> int:
        match, names = _GO_TEST.fullmatch(test), located.definition.names
        is_method = len(names) > 1
        if match is None or not located.path.endswith("_test.go"):
            return 0
        if names[-1] not in ((match[3] or "").split("/") if is_method else (match[2],)):
            return 0
        return 1 + is_method if match[1] is None or self._go_package(located.path) in {match[1], None} else 0

    def _go_package(self, path: str) -> str | None:
        """Return the package of a file: its folder below the nearest ``go.mod``, after the name of the module."""
        name = posixpath.dirname(path)
        if name not in self._go_packages:
            self._go_packages[name] = self._find_go_package(PurePosixPath(name))
        return self._go_packages[name]

    def _find_go_package(self, folder: PurePosixPath) -> str | None:
        for top in (folder, *folder.parents):
            declared = _GO_MODULE.search(self._read(str(top / "go.mod")) or b"")
            if declared is not None:
                below = folder.relative_to(top)
                return str(PurePosixPath(declared[1].decode("utf-8", "replace")) / below)
        return None


def _content(path: str | None, read: Read) -> bytes | None:
    return read(path) if path is not None and language_of(path) is not None else None


def _keys(path: str, definition: DefinedTest) -> list[str]:
    """Return what leads from ids to a definition: its last name, alone and with its file.

    For a test in a script, it is the file, and the title or, if that is not known as a whole, nothing.
    """
    match posixpath.splitext(path)[1]:
        case ".py":
            return [definition.names[-1], f"{posixpath.basename(path)}::{definition.names[-1]}"]
        case ".go" | ".rs":
            return [definition.names[-1]]
        case _:
            title = _PLAIN_TITLE.fullmatch(definition.title)
            return [path, title[0].replace("\\", "") if title is not None else ""]


def _python(located: LocatedTest, test: str) -> int:
    names = located.definition.names
    file, separator, rest = test.partition("::")
    if separator:
        if tuple(rest.partition("[")[0].split("::")) != names or located.definition.group:
            return 0
        return 2 if file == located.path else int(located.path.endswith(f"/{file}"))
    parts = _PARAMETERS.split(test)[0].split(".")
    place = parts[: -len(names)]
    modules = located.path.removesuffix(".py").split("/")
    return int(tuple(parts[-len(names) :]) == names and place != [] and modules[-len(place) :] == place)


def _rust(located: LocatedTest, test: str) -> int:
    match = _CARGO_TEST.fullmatch(test)
    names = located.definition.names
    if match is None or located.definition.group:
        return 0
    parts = match[2].split("::")
    if tuple(parts[-len(names) :]) != names:
        return 0
    outside = parts[: -len(names)]
    if not outside:  # it is in the file that the target is built from
        return int(match[1] is None or f"/{located.path}".endswith(f"/{match[1]}"))
    modules = list(PurePosixPath(located.path).with_suffix("").parts)
    if modules[-1] == "mod":
        modules.pop()
    return int(modules[-len(outside) :] == outside)


def _script(located: LocatedTest, test: str) -> int:
    definition = located.definition
    if (named := _SCRIPT_FILE.match(test)) is not None:
        fits = named[1] == located.path and not definition.group and _fits(definition.pattern, test[named.end() :])
    else:  # Node's runner names no file, and shows groups by indentation.
        title = test.lstrip(" ")
        fits = (len(definition.names) > 1) == (title != test) and _fits(definition.title, title)
    # The more of a title is known, the better.
    return fits and 1 + len(definition.pattern.replace(".*", "")) + (".*" not in definition.pattern)


def _fits(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, name, re.DOTALL) is not None
