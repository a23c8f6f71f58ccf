"""The layers hold: a package imports only lower layers, and dangerous modules have one owner."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "sidecar" / "understudy"

LAYERS: dict[str, int] = {
    "model": 0,
    "process": 1,
    "files": 1,
    "secrets": 1,
    "mutants": 1,
    "journal": 2,
    "config": 2,
    "git": 2,
    "policy": 2,
    "store": 2,
    "runners": 3,
    "judge": 4,
    "integrations": 4,
    "reports": 4,
    "engine": 5,
    "api": 6,
    "frontends": 7,
    "__main__": 8,
}

OWN_MODULES = "."
FOLDERS: dict[str, list[str]] = {
    "engine": [
        "planning",
        "worktrees",
        "queueing",
        "review",
        "checkout_runs",
        "bases",
        "check_setup",
        "retention",
        "text_recipes",
        "running",
        "follow_ups",
    ],
    "judge": [
        "injected",
        "project",
        "outcomes",
        "test_runners",
        "runs",
        "deciding",
        "base_runs",
        "mutant_runners",
        "varied_tests",
        "mutation",
        "places",
        OWN_MODULES,
    ],
    "config": [
        OWN_MODULES,
        "builtin",
        "ready_made_tools",
        "discovery",
        "validation",
        "parsing",
        "reference",
        "loading",
        "trust",
        "editing",
        "importing",
        "exporting",
    ],
    "git": [OWN_MODULES, "base", "merge", "apply", "worktree", "checkout"],
}
"""Package → its folders, each of which imports only earlier ones; ``OWN_MODULES``: the modules in none of them."""

ALONE = {
    "testing": "replaces programs of other vendors: it imports no package, and no package imports it",
    "ghostwriter/inside": "is loaded into the project's interpreter, where there is no Understudy",
    "judge/injected": "is loaded into the project's interpreter, where there is no Understudy",
}
"""Code that ships with Understudy but runs without it: it must not import Understudy."""

PROGRAMS = {"ghostwriter": ({"judge", "mutants", "process", "model"}, "is an agent CLI, a program of its own")}
"""Packages that are programs → the packages that they import, and why. No package imports them."""

STARTS_PROCESSES = {
    "process": "the only way to start a program",
    "git/command.py": "the only way to call git",
    "frontends/cli/terminal/editor.py": "the user's editor needs the user's terminal and environment",
    "frontends/cli/delegate/watch.py": "so does tmux, which it becomes",
    **{name: why for name, (_, why) in PROGRAMS.items()},
    **ALONE,
}
SPEAKS_HTTP = {
    "runners": "model servers",
    "integrations/notifications/http_delivery.py": "receivers of notifications",
    "config/discovery/server_presets.py": "checks with the standard library whether a model server listens on this machine",
    "testing": "is a model server",
}
PROCESS_MODULES = {"subprocess", "pty", "multiprocessing", "concurrent.futures.process"}
PROCESS_CALLS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"}
PROCESS_PREFIXES = ("exec", "spawn")
PROCESS_WORDS = re.compile("|".join([*PROCESS_MODULES, *PROCESS_CALLS, *PROCESS_PREFIXES, "create_subprocess"]))
"""A source without these starts no process; the others are parsed."""
SHELL_WORDS = re.compile("shell|getoutput|getstatusoutput|system|popen")

MODULES = sorted(PACKAGE.rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def below(path: Path, places: dict[str, str] | set[str]) -> bool:
    name = relative(path)
    return any(name == place or name.startswith(f"{place}/") for place in places)


def imports(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of every import, including those in functions, relative ones and importlib."""
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
                    case _:  # from a table: any module name in the file may be meant
                        yield from module_names(source)


def module_names(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(name)) if re.fullmatch(r"understudy(\.\w+)+", name):
                yield node.lineno, name


@functools.cache
def imports_of(path: Path) -> list[tuple[int, str]]:
    package = ".".join(("understudy", *path.relative_to(PACKAGE).parent.parts))
    return list(imports(path.read_text(encoding="utf-8"), package))


def upward_imports(path: Path, found: list[tuple[int, str]]) -> list[str]:
    """Every import of ``path`` that does not go down."""
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    wrong = []
    # Code of one folder may be loaded together, under another name.
    siblings = tuple(f"understudy.{place.replace('/', '.')}." for place in ALONE if below(path, {place}))
    for line, name in found:
        head, _, rest = name.partition(".")
        package = rest.partition(".")[0]
        if head != "understudy" or package in {"", "__version__"}:
            continue
        if package == own == "testing" or name.startswith(siblings):
            continue
        if below(path, ALONE):
            wrong.append(f"{relative(path)}:{line} imports {name}, but it runs without Understudy")
        elif own in PROGRAMS:
            if package not in {own, *PROGRAMS[own][0]}:
                wrong.append(f"{relative(path)}:{line} imports {name}, but it is a program of its own")
        elif package not in LAYERS:
            wrong.append(f"{relative(path)}:{line} imports {name}, which no package may")
        elif package != own and LAYERS[package] >= LAYERS[own]:
            wrong.append(f"{relative(path)}:{line} (layer {LAYERS[own]}) imports {name} (layer {LAYERS[package]})")
    return wrong


def folder_of(package: str, name: str) -> str:
    """Return the folder of a module or name of a package, by its dotted name."""
    folder = name.removeprefix(f"understudy.{package}").lstrip(".").partition(".")[0]
    return folder if folder and (PACKAGE / package / folder).is_dir() else OWN_MODULES


def imports_of_later_folders(package: str, path: Path) -> list[str]:
    order = FOLDERS[package].index
    own = folder_of(package, ".".join(("understudy", *path.relative_to(PACKAGE).parts[:-1])))
    return [
        f"{relative(path)}:{line} imports {name}"
        for line, name in imports_of(path)
        if name.startswith(f"understudy.{package}.") and order(folder_of(package, name)) > order(own)
    ]


def starts_processes(source: str) -> list[int]:
    """Lines that import or call something that starts a process."""
    lines: list[int] = []
    if not PROCESS_WORDS.search(source):
        return lines
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


def folders_in(place: Path) -> set[str]:
    """The folders with files; one whose modules were moved keeps its caches in an existing clone."""
    files = (file.relative_to(place).parts for file in place.rglob("*") if file.is_file())
    return {parts[0] for parts in files if len(parts) > 1 and "__pycache__" not in parts}


def test_every_package_has_a_layer():
    packages = folders_in(PACKAGE)
    assert packages - {"testing", *PROGRAMS} <= set(LAYERS), (
        "add the new package here and to the table in sidecar/README.md"
    )


def test_the_readme_has_the_same_layers():
    page = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    documented = {package: int(layer) for layer, package in re.findall(r"^\| (\d) \| \[`(\w+)`\]", page, re.MULTILINE)}
    assert documented == {package: layer for package, layer in LAYERS.items() if package != "__main__"}


def test_imports_go_down():
    wrong: list[str] = []
    for path in MODULES:
        if path == PACKAGE / "__init__.py":
            assert not [name for _, name in imports_of(path) if name.startswith("understudy")]
        else:
            wrong += upward_imports(path, imports_of(path))
    assert wrong == []


def test_decisions_are_pure():
    """A policy reads no clock, file, process or configuration: what it needs are parameters."""
    allowed = ("understudy.model.", "understudy.policy.", "understudy.process.identity.Identity", "msgspec")
    harmless = ("__future__.", "collections.", "typing.", "decimal.", "dataclasses.", "enum.", "urllib.parse.", "re")
    wrong = [
        f"{relative(path)}:{line} imports {name}"
        for path in (PACKAGE / "policy").rglob("*.py")
        for line, name in imports_of(path)
        if not name.startswith((*allowed, *harmless))
    ]
    assert wrong == []


@pytest.mark.parametrize("package", FOLDERS)
def test_every_folder_has_a_place_in_the_order(package: str):
    assert folders_in(PACKAGE / package) == set(FOLDERS[package]) - {OWN_MODULES}


@pytest.mark.parametrize("package", FOLDERS)
def test_a_folder_imports_only_earlier_folders(package: str):
    wrong = [
        line for path in sorted((PACKAGE / package).rglob("*.py")) for line in imports_of_later_folders(package, path)
    ]
    assert wrong == []


@pytest.mark.parametrize("frontend", ["cli", "lsp", "rpc", "mcp", "acp"])
def test_frontends_use_the_api_and_the_model_only(frontend: str):
    wrong = [
        f"{relative(path)}:{line} imports {name}"
        for path in (PACKAGE / "frontends" / frontend).rglob("*.py")
        for line, name in imports_of(path)
        if name.startswith("understudy.")
        and name.split(".")[1]
        not in {"api", "model", "frontends", "__version__"}  # other frontends have a test of their own
    ]
    assert not wrong


@pytest.mark.parametrize("frontend", ["cli", "lsp", "rpc", "mcp", "acp"])
def test_no_two_modules_of_a_frontend_import_each_other(frontend: str):
    """Also not in a longer circle, in a function, or for types only."""
    modules = {
        ".".join(("understudy", *path.relative_to(PACKAGE).with_suffix("").parts)): path
        for path in (PACKAGE / "frontends" / frontend).rglob("*.py")
        if path.name != "__init__.py"
    }
    graph = {
        name: {
            found
            for _, one in imports_of(path)
            if (found := one if one in modules else one.rpartition(".")[0]) in modules
        }
        for name, path in modules.items()
    }
    graph = {name: found - {name} for name, found in graph.items()}
    while leaves := {name for name, found in graph.items() if not found}:
        graph = {name: found - leaves for name, found in graph.items() if name not in leaves}
    assert not graph


def test_frontends_do_not_use_each_other():
    """A frontend may start another (``understudy rpc`` is a command), but only through its package, not its modules."""
    wrong = []
    for path in (PACKAGE / "frontends").glob("*/**/*.py"):
        own = path.relative_to(PACKAGE / "frontends").parts[0]
        for line, name in imports_of(path):
            parts = name.split(".")
            if parts[:2] != ["understudy", "frontends"] or parts[2] == own or len(parts) < 4:
                continue
            if (PACKAGE / "frontends" / parts[2] / f"{parts[3]}.py").exists() or len(parts) > 4:
                wrong.append(f"{relative(path)}:{line} imports {name}")
    assert wrong == []


def test_processes_have_one_owner():
    wrong = [
        f"{relative(path)}:{line}"
        for path in MODULES
        if not below(path, STARTS_PROCESSES)
        for line in starts_processes(path.read_text(encoding="utf-8"))
    ]
    assert wrong == [], "start it through understudy.process, or git through understudy.git.command"


def test_there_is_no_shell():
    wrong = []
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        if below(path, {"testing"}) or not SHELL_WORDS.search(source):
            continue
        for node in ast.walk(ast.parse(source)):
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
        if not below(path, {"frontends/rpc"})
        for line, name in imports_of(path)
        if name.partition(".")[0] == "jsonrpcserver"
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from understudy.engine import follow_ups", "understudy.engine.follow_ups"),
        ("def later():\n    import understudy.engine.follow_ups", "understudy.engine.follow_ups"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from understudy import engine", "understudy.engine"),
        ("from ..engine import follow_ups", "understudy.engine.follow_ups"),
        ("import importlib\nimportlib.import_module('understudy.engine')", "understudy.engine"),
        ("import importlib\nimportlib.import_module(f'understudy.engine.{1}')", "understudy.engine."),
        (
            "import importlib\nT = {1: 'understudy.engine.follow_ups'}\nimportlib.import_module(T[1])",
            "understudy.engine.follow_ups",
        ),
    ],
)
def test_imports_finds_every_kind_of_import(source: str, expected: str):
    found = list(imports(source, "understudy.git"))
    assert expected in {name for _, name in found}
    assert len(upward_imports(PACKAGE / "git" / "example.py", found)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess",
        "def f():\n    from subprocess import run",
        "import os\nos.execv('a', [])",
        "import os\nos.system('a')",
    ],
)
def test_starts_processes_finds_every_kind_of_start(source: str):
    assert starts_processes(source)
