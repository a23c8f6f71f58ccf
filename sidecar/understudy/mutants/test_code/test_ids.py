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
            self._moved.update((one.names[-1], before[one.start : one.end]) for one in earlier if before is not None)
            if path is not None and (content := _content(path, read)) is not None:
                self.contents[path] = content
                self.base[path] = None if before is None else frozenset(one.names for one in earlier)
                for one in definitions_of(path, content):
                    for key in _keys(path, one):
                        self._by_key.setdefault(key, []).append(LocatedTest(path, one))

    def find(self, test: str) -> LocatedTest | None:
        """Return the definition of a test; None if no definition, or more than one, can be meant."""
        found = self.fitting(test)
        return found[0] if len(found) == 1 else None

    def fitting(self, test: str) -> list[LocatedTest]:
        """Return all definitions that can be meant by the id of a test, and fit it equally well."""
        file, separator, rest = test.partition("::")
        if separator and file.endswith(".py"):
            keys = {f"{posixpath.basename(file)}::{rest.partition('[')[0].rpartition('::')[2]}"}
        elif (script := _SCRIPT_FILE.match(test)) is not None:
            keys = {script[1]}
        else:
            keys = {"", test.lstrip(" "), *_WORD.findall(test)}
        candidates = {one: None for key in sorted(keys) for one in self._by_key.get(key, ())}
        fitting = [(rank, one) for one in candidates if (rank := self._rank(one, test))]
        best = max((rank for rank, _ in fitting), default=0)
        found = [one for rank, one in fitting if rank == best]
        case = _RUST_CASE.fullmatch(test)
        return found or (self.fitting(case[1]) if case is not None else [])

    def is_new(self, one: LocatedTest) -> bool:
        """Return whether the base's file has no test of this name, and no file from which it was moved has it."""
        text = self.contents[one.path][one.definition.start : one.definition.end]
        names = one.definition.names
        return names not in (self.base[one.path] or ()) and (names[-1], text) not in self._moved

    def _rank(self, one: LocatedTest, test: str) -> int:
        """Return how well an id fits a definition; 0: not at all."""
        match posixpath.splitext(one.path)[1]:
            case ".py":
                return _python(one, test)
            case ".go":
                return self._go(one, test)
            case ".rs":
                return _rust(one, test)
            case _:
                return _script(one, test)

    def _go(self, one: LocatedTest, test: str) -> int:
        found, names = _GO_TEST.fullmatch(test), one.definition.names
        is_method = len(names) > 1
        if found is None or not one.path.endswith("_test.go"):
            return 0
        if names[-1] not in ((found[3] or "").split("/") if is_method else (found[2],)):
            return 0
        return 1 + is_method if found[1] is None or self._go_package(one.path) in {found[1], None} else 0

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


def _keys(path: str, one: DefinedTest) -> list[str]:
    """Return what leads from ids to a definition: its last name, alone and with its file.

    For a test in a script, it is the file, and the title or, if that is not known as a whole, nothing.
    """
    match posixpath.splitext(path)[1]:
        case ".py":
            return [one.names[-1], f"{posixpath.basename(path)}::{one.names[-1]}"]
        case ".go" | ".rs":
            return [one.names[-1]]
        case _:
            title = _PLAIN_TITLE.fullmatch(one.title)
            return [path, title[0].replace("\\", "") if title is not None else ""]


def _python(one: LocatedTest, test: str) -> int:
    names = one.definition.names
    file, separator, rest = test.partition("::")
    if separator:
        if tuple(rest.partition("[")[0].split("::")) != names or one.definition.group:
            return 0
        return 2 if file == one.path else int(one.path.endswith(f"/{file}"))
    parts = _PARAMETERS.split(test)[0].split(".")
    place = parts[: -len(names)]
    modules = one.path.removesuffix(".py").split("/")
    return int(tuple(parts[-len(names) :]) == names and place != [] and modules[-len(place) :] == place)


def _rust(one: LocatedTest, test: str) -> int:
    found = _CARGO_TEST.fullmatch(test)
    names = one.definition.names
    if found is None or one.definition.group:
        return 0
    parts = found[2].split("::")
    if tuple(parts[-len(names) :]) != names:
        return 0
    outside = parts[: -len(names)]
    if not outside:  # it is in the file that the target is built from
        return int(found[1] is None or f"/{one.path}".endswith(f"/{found[1]}"))
    modules = list(PurePosixPath(one.path).with_suffix("").parts)
    if modules[-1] == "mod":
        modules.pop()
    return int(modules[-len(outside) :] == outside)


def _script(one: LocatedTest, test: str) -> int:
    definition = one.definition
    if (named := _SCRIPT_FILE.match(test)) is not None:
        fits = named[1] == one.path and not definition.group and _fits(definition.pattern, test[named.end() :])
    else:  # Node's runner names no file, and shows groups by indentation.
        title = test.lstrip(" ")
        fits = (len(definition.names) > 1) == (title != test) and _fits(definition.title, title)
    # The more of a title is known, the better.
    return fits and 1 + len(definition.pattern.replace(".*", "")) + (".*" not in definition.pattern)


def _fits(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, name, re.DOTALL) is not None
