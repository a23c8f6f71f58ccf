"""Hold the layout of the sidecar: no import cycle, no crowded folder, no base name for two subjects."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "sidecar" / "understudy"

MOST_MODULES = 13
"""Modules in one folder, without ``__init__`` and ``__main__``. A folder above this holds more than one job."""

SHARED_NAMES = {
    "checks": "the structures, and the command that manages them",
    "configuration": "what configuration means, and its requests",
    "delegations": "the structures, and their requests",
    "delegators": "the structures, and the command that manages them",
    "diff": "the difference of two commits, and the command that prints it",
    "export": "writing a result to git, and the command that asks for it",
    "ghostwriter": "what the built-in test writer supports, and how it starts",
    "claude": "what the agent CLI supports, and how it starts",
    "codex": "what the agent CLI supports, and how it starts",
    "copilot": "what the agent CLI supports, and how it starts",
    "gemini": "what the agent CLI supports, and how it starts",
    "pi": "what the agent CLI supports, and how it starts",
    "opencode": "what the agent CLI supports, and how it starts",
    "qwen": "what the agent CLI supports, and how it starts",
    "generic": "what the user's own command supports, and how it starts",
    "go": "the language, and its test runner",
    "groups": "groups of delegations on disk, in requests and in commands",
    "ledger": "the entries, and the file that keeps them",
    "other_agents": "the structures, their requests, and the commands about them",
    "openai": "what the backend supports, and how it is called",
    "review": "the requests of a review, and the interactive command",
    "notifications": "the structures, their requests, the command that manages them, and the package that sends them",
    "schedules": "the structures, their requests, and the command that manages them",
    "session": "one client of a frontend",
    "start": "starting a delegation, and the command that asks for it",
}
"""Base names that two layers share, because the subject is the same."""

ONE_FILE_EACH = {"model/tools": "one declaration for each agent CLI"}
"""Folders that grow by one uniform file at a time and are never searched by job."""

KNOWN_CROWDED: set[str] = set()
"""Folders that are too large today. What is fixed must leave the set, and nothing may join it."""

KNOWN_DOUBLES: set[str] = set()
"""Base names with two subjects today. What is fixed must leave the set, and nothing may join it."""


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported(source: str, package: str, modules: Iterable[str]) -> Iterator[str]:
    """Yield the modules that ``source`` imports, also inside functions and for type checking only."""
    known = set(modules)
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                targets = [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                origin = ".".join([*base, *([module] if module else [])])
                targets = [f"{origin}.{alias.name}" for alias in names]
            case _:
                continue
        for target in targets:
            if target in known:
                yield target
            elif (parent := target.rpartition(".")[0]) in known:
                yield parent


def import_graph(sources: Mapping[str, Path]) -> dict[str, set[str]]:
    graph = {}
    for name, path in sources.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        graph[name] = set(imported(path.read_text(encoding="utf-8"), package, sources)) - {name}
    return graph


def cycles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Return the strongly connected components of more than one node (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()
    for root in graph:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = []
        enter = [root]
        while work or enter:
            if enter:
                node = enter.pop()
                index[node] = low[node] = len(index)
                stack.append(node)
                work.append((node, iter(sorted(graph.get(node, ())))))
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    enter.append(successor)
                    break
                if successor in stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = frozenset(stack[stack.index(node) :])
                    del stack[stack.index(node) :]
                    if len(component) > 1:
                        found.add(component)
    return found


def folder_graph(graph: Mapping[str, set[str]], package: str, folders: Iterable[str]) -> dict[str, set[str]]:
    """Join the modules below each folder of ``package``, and those that are directly in it, as ``package``."""
    inside = {folder for folder in folders if folder.startswith(f"{package}.")}
    length = package.count(".") + 2

    def place(name: str) -> str:
        first = ".".join(name.split(".")[:length])
        return first if first in inside else package

    joined: dict[str, set[str]] = defaultdict(set)
    for name in graph:
        if name != package and not name.startswith(f"{package}."):
            continue
        for target in graph[name]:
            if target.startswith(f"{package}.") and place(target) != place(name):
                joined[place(name)].add(place(target))
    return joined


def all_cycles() -> set[frozenset[str]]:
    graph = import_graph(SOURCES)
    found = cycles(graph)
    packages = {name for name, path in SOURCES.items() if path.name == "__init__.py"}
    for package in sorted(packages):
        found |= cycles(folder_graph(graph, package, packages))
    return found


def crowded() -> set[str]:
    counts = Counter(
        path.parent.relative_to(PACKAGE).as_posix()
        for path in SOURCES.values()
        if path.stem not in {"__init__", "__main__"}
    )
    return {folder for folder, count in counts.items() if count > MOST_MODULES} - set(ONE_FILE_EACH)


def doubles() -> set[str]:
    counts = Counter(path.stem for path in SOURCES.values() if path.stem not in {"__init__", "__main__"})
    return {stem for stem, count in counts.items() if count > 1} - set(SHARED_NAMES)


def test_no_modules_and_no_folders_import_each_other():
    assert sorted(map(sorted, all_cycles())) == []


def test_no_folder_holds_more_than_a_newcomer_can_scan():
    assert crowded() == KNOWN_CROWDED, "split the folder by job"


def test_no_base_name_stands_for_two_subjects():
    assert doubles() == KNOWN_DOUBLES, "qualify the name; two layers share one only for the same subject"


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": set()}, set()),
        ({"a": {"b"}, "b": {"a"}}, {frozenset("ab")}),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, {frozenset("abc")}),
        ({"a": {"b"}, "b": {"a"}, "c": {"d", "a"}, "d": {"c"}}, {frozenset("ab"), frozenset("cd")}),
    ],
)
def test_cycles_are_found(graph: dict[str, set[str]], expected: set[frozenset[str]]):
    assert cycles(graph) == expected


def test_imports_are_found_wherever_they_stand():
    source = """
from typing import TYPE_CHECKING
from p import one
from p.two import name
from .three import other
def later():
    from p import four
if TYPE_CHECKING:
    from p import five
else:
    from p import six
"""
    modules = ["p", "p.one", "p.two", "p.three", "p.four", "p.five", "p.six"]
    assert set(imported(source, "p", modules)) == set(modules) - {"p"}


def test_folders_are_joined():
    graph = {"p.a.x": {"p.b.y"}, "p.b.y": set(), "p.b.z": {"p.a.w"}, "p.a.w": set()}
    assert cycles(graph) == set()
    assert cycles(folder_graph(graph, "p", {"p", "p.a", "p.b"})) == {frozenset({"p.a", "p.b"})}


def test_a_package_may_not_be_above_and_below_its_own_folder():
    graph = {"p.low": set(), "p.a.x": {"p.low"}, "p.high": {"p.a.x"}}
    assert cycles(folder_graph(graph, "p", {"p", "p.a"})) == {frozenset({"p", "p.a"})}
    assert cycles(folder_graph({**graph, "p.high": set()}, "p", {"p", "p.a"})) == set()
