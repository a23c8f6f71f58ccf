"""The picture of the house stays true: a room imports only rooms on lower floors, and dangerous tools have one owner."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "sidecar" / "understudy"

FLOORS: dict[str, int] = {
    "model": 0,
    "process": 1,
    "secrets": 1,
    "journal": 2,
    "config": 2,
    "git": 2,
    "runners": 3,
    "engine": 4,
    "api": 5,
    "faces": 6,
    "__main__": 7,
}

ALONE = {
    "testing": "stands for programs of other people: it imports no room, and no room imports it",
    "runners/clis/ghostwriter_agent.py": "is an agent CLI, run as a child in the project's interpreter",
    "engine/checks/probe": "is loaded into the project's interpreter, where there is no Understudy",
}
"""Code that is shipped but runs outside the house: it may import nothing of it."""

STARTS_PROCESSES = {
    "process": "the one spawn",
    "git/call.py": "the one way to call git",
    "faces/cli/pager.py": "the person's own pager needs the person's own terminal and environment",
    "faces/cli/editor.py": "so does their editor",
    **ALONE,
}
SPEAKS_HTTP = {
    "runners": "model servers",
    "config/servers.py": "looks whether a model server listens on this machine, by the standard library",
    "testing": "is a model server",
}
PROCESS_MODULES = {"subprocess", "pty", "multiprocessing", "concurrent.futures.process"}
PROCESS_CALLS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"}
PROCESS_PREFIXES = ("exec", "spawn")

MODULES = sorted(PACKAGE.rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def below(path: Path, places: dict[str, str] | set[str]) -> bool:
    name = relative(path)
    return any(name == place or name.startswith(f"{place}/") for place in places)


def imports(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of every import: in functions and under TYPE_CHECKING, relative and by importlib too."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = ".".join(package.split(".")[: len(package.split(".")) - level + 1]) if level else ""
                origin = ".".join(part for part in (base, module) if part)
                yield from ((node.lineno, f"{origin}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"), args=[first, *_]
            ):
                match first:
                    case ast.Constant(value=str(name)) | ast.JoinedStr(values=[ast.Constant(value=str(name)), *_]):
                        yield node.lineno, name
                    case _:  # from a table: whatever the module spells may be meant
                        yield from spelled(source)


def spelled(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(name)) if re.fullmatch(r"understudy(\.\w+)+", name):
                yield node.lineno, name


def imports_of(path: Path) -> list[tuple[int, str]]:
    package = ".".join(("understudy", *path.relative_to(PACKAGE).parent.parts))
    return list(imports(path.read_text(encoding="utf-8"), package))


def wrong_floors(path: Path, found: list[tuple[int, str]]) -> list[str]:
    """Every import of ``path`` that does not go down."""
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    wrong = []
    for line, name in found:
        head, _, rest = name.partition(".")
        room = rest.partition(".")[0]
        if head != "understudy" or room in {"", "__version__"}:
            continue
        if room == own == "testing":
            continue
        if below(path, ALONE):
            wrong.append(f"{relative(path)}:{line} imports {name}, but it runs outside the house")
        elif room not in FLOORS:
            wrong.append(f"{relative(path)}:{line} imports {name}, which no room may")
        elif room != own and FLOORS[room] >= FLOORS[own]:
            wrong.append(f"{relative(path)}:{line} (floor {FLOORS[own]}) imports {name} (floor {FLOORS[room]})")
    return wrong


def starts_processes(source: str) -> list[int]:
    """Lines that import or call something that starts a process."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names) if any(alias.name in PROCESS_MODULES for alias in names):
                lines.append(node.lineno)
            case ast.ImportFrom(module=module) if module in PROCESS_MODULES:
                lines.append(node.lineno)
            case ast.Attribute(value=ast.Name(id="os"), attr=attr) if attr in PROCESS_CALLS or attr.startswith(
                PROCESS_PREFIXES
            ):
                lines.append(node.lineno)
            case ast.ImportFrom(module="os", names=names) if any(
                alias.name in PROCESS_CALLS or alias.name.startswith(PROCESS_PREFIXES) for alias in names
            ):
                lines.append(node.lineno)
            case ast.Attribute(attr="create_subprocess_exec" | "create_subprocess_shell"):
                lines.append(node.lineno)
    return lines


def test_every_room_has_a_floor():
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms - {"testing"} <= set(FLOORS), "give the new room a floor here and in sidecar/README.md"


def test_the_page_draws_the_same_floors():
    page = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    drawn = {room: int(floor) for floor, room in re.findall(r"^\| (\d) \| \[`(\w+)`\]", page, re.MULTILINE)}
    assert drawn == {room: floor for room, floor in FLOORS.items() if room != "__main__"}


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_imports_go_down(path: Path):
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if own == "__init__":
        assert not [name for _, name in imports_of(path) if name.startswith("understudy")]
        return
    assert wrong_floors(path, imports_of(path)) == []


def test_faces_do_not_use_each_other():
    """One face may start another (``understudy rpc`` is a command), through what its package itself offers."""
    wrong = []
    for path in (PACKAGE / "faces").glob("*/**/*.py"):
        own = path.relative_to(PACKAGE / "faces").parts[0]
        for line, name in imports_of(path):
            parts = name.split(".")
            if parts[:2] == ["understudy", "faces"] and parts[2] != own and len(parts) > 4:
                wrong.append(f"{relative(path)}:{line} imports {name}")
    assert wrong == []


def test_processes_have_one_owner():
    wrong = [
        f"{relative(path)}:{line}"
        for path in MODULES
        if not below(path, STARTS_PROCESSES)
        for line in starts_processes(path.read_text(encoding="utf-8"))
    ]
    assert wrong == [], "start it through understudy.process, or git through understudy.git.call"


def test_there_is_no_shell():
    wrong = []
    for path in MODULES:
        if below(path, {"testing"}):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.keyword(arg="shell", value=ast.Constant(value=False)):
                    pass
                case (
                    ast.keyword(arg="shell")
                    | ast.Attribute(attr="create_subprocess_shell" | "getoutput" | "getstatusoutput")
                ):
                    wrong.append(f"{relative(path)}:{node.value.lineno}")
                case ast.Attribute(value=ast.Name(id="os"), attr="system" | "popen"):
                    wrong.append(f"{relative(path)}:{node.lineno}")
    assert wrong == []


def test_http_has_one_owner():
    wrong = [
        f"{relative(path)}:{line} imports {name}"
        for path in MODULES
        if not below(path, SPEAKS_HTTP)
        for line, name in imports_of(path)
        if name.partition(".")[0] in {"httpx", "requests", "aiohttp"}
        or name.startswith(("urllib.request", "http.client"))
    ]
    assert wrong == []


def test_jsonrpcserver_has_one_owner():
    wrong = [
        f"{relative(path)}:{line}"
        for path in MODULES
        if not below(path, {"faces/rpc"})
        for line, name in imports_of(path)
        if name.partition(".")[0] == "jsonrpcserver"
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from understudy.engine import run", "understudy.engine.run"),
        ("def later():\n    import understudy.engine.run", "understudy.engine.run"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from understudy import engine", "understudy.engine"),
        ("from ..engine import run", "understudy.engine.run"),
        ("import importlib\nimportlib.import_module('understudy.engine')", "understudy.engine"),
        ("import importlib\nimportlib.import_module(f'understudy.engine.{1}')", "understudy.engine."),
        ("import importlib\nT = {1: 'understudy.engine.run'}\nimportlib.import_module(T[1])", "understudy.engine.run"),
    ],
)
def test_the_look_itself_sees_every_kind_of_import(source: str, expected: str):
    found = list(imports(source, "understudy.git"))
    assert expected in {name for _, name in found}
    assert len(wrong_floors(PACKAGE / "git" / "example.py", found)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess",
        "def f():\n    from subprocess import run",
        "import os\nos.execv('a', [])",
        "import os\nos.system('a')",
    ],
)
def test_the_look_itself_sees_every_kind_of_start(source: str):
    assert starts_processes(source)
