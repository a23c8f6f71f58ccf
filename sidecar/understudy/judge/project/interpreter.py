"""Find the project's interpreter, its import locations, and the environment variables of checks.

With an *editable* install of the project, the environment imports the user's checkout wherever a program runs, so a
check in another worktree would test the wrong files and pass. There are two mechanisms: lines of ``.pth`` files that
are paths (added to ``sys.path``), and lines that import a module which maps names to files (setuptools'
``__editable___*_finder``, hatchling's and pdm's ``_editable_impl_*``, meson-python's and scikit-build-core's loaders).
Paths are mapped and come first. Modules are *shadowed*: ``PYTHONPATH`` applies before ``.pth`` lines run, so Python
imports a copy of the module from there, in which every path inside the checkout is replaced by the same path in the
worktree. Every process that the check starts inherits this.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from understudy.git import repository
from understudy.git.command import git_output
from understudy.judge.project.missing_modules import NAME_PYTHON
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.call_checks import base_environment
from understudy.process.program_spec import OWN, Program
from understudy.process.unguarded import run_unguarded

PROBE_FOLDER = Path(__file__).parents[1] / "injected"

Origin = Literal["configured", ".venv", "venv", "uv", "poetry", "pdm", "hatch", "PATH"]

_ASK_SECONDS = 30.0
"""Time limit for a project tool or an interpreter to print its path; poetry needs 2 s on a slow disk."""
_ASK_BYTES = 8 * 1024 * 1024
"""The output of an interpreter contains its editable finders, a few kilobytes each."""

_ELF = b"\x7fELF"
_ENVIRONMENTS: tuple[Literal[".venv", "venv"], ...] = (".venv", "venv")
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "hatch.toml")
"""Files that show that a tool makes the environment of the folder."""
_PYTEST_SETTINGS = {
    **dict.fromkeys(("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"), b""),
    "pyproject.toml": b"[tool.pytest",
    "tox.ini": b"[pytest]",
    "setup.cfg": b"[tool:pytest]",
}
"""File → what it contains if pytest takes its folder for that of the project."""
_PROJECTS = ("pyproject.toml", "setup.py", "setup.cfg")

OLDEST = (3, 7)
"""The oldest Python in which the probe of checks runs."""
_DESCRIBE = """
import sys
if sys.version_info < (3, 7):
    sys.stdout.write('{"old": "%d.%d"}' % tuple(sys.version_info[:2]))
    sys.exit()
del sys.path[0]
import importlib.util, json, os, pkgutil, re, sysconfig
hooks = {}
for folder in sys.path:
    try:
        names = [name for name in sorted(os.listdir(folder)) if name.endswith(".pth")]
    except OSError:
        continue
    for name in names:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as stream:
                lines = stream.read(1000000).splitlines()
        except OSError:
            continue
        for line in lines:
            if not line.startswith(("import ", "import\\t")):
                continue
            for module in re.findall(r"\\bimport\\s+([A-Za-z_]\\w*)", line):
                file = os.path.join(folder, module + ".py")
                if module not in hooks and os.path.isfile(file) and os.path.getsize(file) < 1000000:
                    with open(file, encoding="utf-8", errors="replace") as stream:
                        hooks[module] = stream.read()
paths = sysconfig.get_paths()
installed = [folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))]
modules = set(getattr(sys, "stdlib_module_names", ()))
modules.update(module.name for module in pkgutil.iter_modules(installed))
print("\\n" + json.dumps({
    "executable": sys.executable,
    "version": list(sys.version_info[:3]),
    "path": [entry for entry in sys.path if entry],
    "prefixes": [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix],
    "libraries": [paths[key] for key in ("purelib", "platlib", "stdlib", "platstdlib", "scripts") if key in paths],
    "has_pytest": importlib.util.find_spec("pytest") is not None,
    "has_pytest_cov": importlib.util.find_spec("pytest_cov") is not None,
    "hooks": hooks,
    "modules": sorted(modules),
}))
"""
"""Run in the project's interpreter: prints its import path and the modules that its ``.pth`` files import."""
_ENVIRONMENT_FOLDERS = frozenset({"site-packages", "dist-packages", "__pypackages__", "node_modules"})
"""Folders of installed packages, at any depth."""


@dataclass(frozen=True)
class Interpreter:
    """The project's interpreter and how it was found."""

    path: Path
    origin: Origin


@dataclass(frozen=True, kw_only=True)
class InterpreterFacts:
    """What an interpreter reports about itself."""

    executable: str
    version: tuple[int, ...]
    import_path: tuple[str, ...]
    prefixes: tuple[str, ...]
    """Folders of the environment, not of the project."""
    has_pytest: bool
    has_pytest_cov: bool = False
    origin: Origin = "configured"
    """How the interpreter was found."""
    hooks: Mapping[str, str] = field(default_factory=dict)
    """Modules that ``.pth`` files import: name → source."""
    modules: frozenset[str] = frozenset()
    """Top-level modules of its standard library (from Python 3.10) and of its installed packages."""


@dataclass(frozen=True, kw_only=True)
class ImportPlan:
    """How to put the judged worktree first on the import path."""

    paths: tuple[str, ...] = ()
    """Folders of the worktree to put first on ``PYTHONPATH``."""
    shadows: Mapping[str, str] = field(default_factory=dict)
    """Modules that replace those of the environment: name → source."""


@dataclass(frozen=True, kw_only=True)
class ProjectEnvironment:
    """The project's interpreter as everything that imports the project's modules starts it."""

    facts: InterpreterFacts
    plan: ImportPlan
    shadows: Path | None
    """The folder with the modules of ``plan.shadows``."""


def project_folder(workspace: Path, places: Iterable[str]) -> str:
    """Return the folder of the Python project that files or folders of a workspace belong to; empty for the top.

    That is the nearest folder, upwards, with an environment of its own or settings for pytest. If no folder has either,
    it is the nearest one with a ``pyproject.toml`` or the like. What belongs to several projects is run from the top.
    Among files of several languages, those of Python count.
    """
    named = [PurePosixPath(place) for place in places]
    around = {path.parent for path in named if path.suffix == ".py"} or named
    folders = {_project_of(workspace, place) for place in around}
    return folders.pop() if len(folders) == 1 else ""


def _project_of(workspace: Path, place: PurePosixPath) -> str:
    around = [place, *place.parents]
    for shows in (_is_set_up, _is_project):
        for folder in around:
            if shows(workspace / folder):
                return "" if folder == PurePosixPath() else folder.as_posix()
    return ""


def _is_set_up(folder: Path) -> bool:
    return (
        any(_executable(folder / name) for name in _ENVIRONMENTS)
        or any((folder / name).is_file() for name in _LOCKS)
        or any((folder / name).is_file() and mark in _content(folder / name) for name, mark in _PYTEST_SETTINGS.items())
    )


def _is_project(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _PROJECTS)


def project_python(
    workspace: Path, configured: str | None, *, tree: Path, scratch: Path, folder: str = ""
) -> ProjectEnvironment | None:
    """Find the interpreter for a project's ``folder`` of ``tree`` and how it imports there; None without a Python.

    Checks use it, and what writes tests for them. Writes into ``scratch``. Blocks for seconds; raises what
    ``find_interpreter`` and ``describe`` raise.
    """
    python = find_interpreter(workspace, configured, tree=tree, folder=folder)
    if python is None:
        return None
    neutral = scratch / "neutral"
    neutral.mkdir(parents=True, exist_ok=True)
    facts = describe(python, neutral=neutral)
    plan = import_locations(facts, workspace, tree, folder)
    return ProjectEnvironment(facts=facts, plan=plan, shadows=write_shadows(plan, scratch / "shadows"))


def find_interpreter(
    workspace: Path, configured: str | None, *, tree: Path | None = None, folder: str = ""
) -> Interpreter | None:
    """Return the project's interpreter: configured, ``.venv``/``venv``, uv, poetry, pdm, hatch, then ``PATH``.

    The environment that is nearest to ``folder``, from there up to the workspace, is taken.
    An interpreter inside ``tree`` is never used: an agent could have put it there. Return None if there is no Python.
    Blocks while a project tool or a shim runs (at most 30 s each; milliseconds if there is a ``.venv``).
    Raise ``config_invalid`` if the configured interpreter does not exist or is inside ``tree``.
    """
    if configured:
        return placed_interpreter(workspace, configured, tree=tree)
    for place in _upwards(workspace, folder):
        if (placed := _placed_in(place, workspace, tree)) is not None:
            return placed
        present = [place / name for name in _ENVIRONMENTS if (place / name).exists()] if place != workspace else []
        if any(_is_tracked(workspace, environment) for environment in present):
            continue  # a tool would take it
        for origin, argv in _tools_of(place):
            candidate = _executable_of_answer(_ask(argv, place))
            if candidate is not None and not _is_inside(candidate, tree):
                return Interpreter(candidate, origin)
    for name in ("python3", "python"):
        on_path = shutil.which(name)
        if on_path is None or _is_inside(Path(on_path), tree):
            continue
        if _is_shim(Path(on_path)):
            answer = _ask([on_path, "-c", "import sys; print(sys.executable)"], workspace)
            candidate = _executable_of_answer(answer)
        else:
            candidate = _executable(Path(on_path))
        if candidate is not None and not _is_inside(candidate, tree):
            return Interpreter(candidate, "PATH")
    return None


def placed_interpreter(
    workspace: Path, configured: str | None, *, tree: Path | None = None, folder: str = ""
) -> Interpreter | None:
    """Return the interpreter that is configured, or in ``.venv`` or ``venv``: those found without starting a Python.

    Raise ``config_invalid`` as ``find_interpreter`` does.
    """
    if configured:
        chosen = _executable(workspace / Path(configured).expanduser())
        if chosen is None or _is_inside(chosen, tree):
            raise UnderstudyError(
                ErrorKind.CONFIG_INVALID,
                f"The configured interpreter {configured} is not an executable Python.",
                hint="Set it to the environment's Python executable, or to the environment's folder.",
            )
        return Interpreter(chosen, "configured")
    placed = (_placed_in(place, workspace, tree) for place in _upwards(workspace, folder))
    return next((interpreter for interpreter in placed if interpreter is not None), None)


def _upwards(workspace: Path, folder: str) -> Iterator[Path]:
    """Yield a folder of the workspace and those around it, the workspace last."""
    for place in dict.fromkeys([PurePosixPath(folder), *PurePosixPath(folder).parents]):
        yield workspace / place


def _placed_in(folder: Path, workspace: Path, tree: Path | None) -> Interpreter | None:
    for name in _ENVIRONMENTS:
        candidate = _executable(folder / name)
        if candidate is None or _is_inside(candidate, tree):
            continue
        # Trust covers the tracked programs at the top: what git tracks deeper may come with a pull.
        if folder == workspace or not _is_tracked(workspace, folder / name):
            return Interpreter(candidate, name)
    return None


def _is_tracked(workspace: Path, folder: Path) -> bool:
    """Return whether git tracks a part of a folder below the workspace, also behind a link or in a submodule."""
    top, around = workspace.resolve(), folder.parent.resolve()
    if not around.is_relative_to(top):
        return True  # a link leads there, which git may track
    places = {around / folder.name, folder.resolve()}
    return any(_is_in_index(place) for place in places if place.is_relative_to(top))


def _is_in_index(path: Path) -> bool:
    repo = repository.locate(path.parent)
    if repo.git_dir is None or not (repo.git_dir / "index").is_file():
        return False
    index, inside = repo.git_dir / "index", path.relative_to(repo.top)
    return bool(git_output("ls-files", "-z", "--", inside, git_dir=repo.git_dir, work_tree=repo.top, index=index))


def describe(interpreter: Interpreter, *, neutral: Path) -> InterpreterFacts:
    """Run the interpreter in the empty folder ``neutral`` to get its facts.

    Blocks while a Python starts. Raise ``tool_crashed`` if it prints no valid output, ``environment`` if it is too old.
    """
    answer = _ask([str(interpreter.path), "-c", _DESCRIBE], neutral)
    try:
        facts: dict[str, Any] = json.loads((answer or "").strip().rpartition("\n")[2])
        if "old" in facts:
            raise _too_old(interpreter, facts["old"])
        return InterpreterFacts(
            executable=facts["executable"] or str(interpreter.path),
            version=tuple(facts["version"]),
            import_path=tuple(facts["path"]),
            prefixes=(*facts["prefixes"], *facts["libraries"]),
            has_pytest=facts["has_pytest"],
            has_pytest_cov=facts["has_pytest_cov"],
            origin=interpreter.origin,
            hooks=facts["hooks"],
            modules=frozenset(facts["modules"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UnderstudyError(
            ErrorKind.TOOL_CRASHED,
            f"The project's interpreter {interpreter.path} ({interpreter.origin}) does not start.",
            hint=f"Recreate the project's environment, or {NAME_PYTHON}.",
        ) from error


def _too_old(interpreter: Interpreter, version: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.ENVIRONMENT,
        f"The project's interpreter {interpreter.path} ({interpreter.origin}) is Python {version}. Tests run with "
        f"{OLDEST[0]}.{OLDEST[1]} or later.",
        hint=f"Create an environment with a newer Python, or {NAME_PYTHON}.",
    )


def import_locations(facts: InterpreterFacts, workspace: Path, tree: Path, folder: str = "") -> ImportPlan:
    """Return how to import from ``tree`` everything that the interpreter imports from the user's checkout.

    If the project in ``folder`` has a ``src`` folder of packages, that folder is included even if the project is not
    installed as editable. Otherwise, a copy that was installed earlier would be tested.
    """
    checkout = Checkout(workspace, facts.prefixes)
    paths = mapped_paths(facts.import_path, checkout, tree)
    source = tree / folder / "src"
    if _is_project(tree / folder) and not (source / "__init__.py").exists() and any(source.glob("*/__init__.py")):
        paths = list(dict.fromkeys([*paths, str(source)]))
    return ImportPlan(paths=tuple(paths), shadows=shadowed(facts.hooks, checkout, tree))


def write_shadows(plan: ImportPlan, folder: Path) -> Path | None:
    """Write the shadowing modules into ``folder`` and return it; None if there are none."""
    if not plan.shadows:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in plan.shadows.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    return folder


def check_environment(
    *,
    facts: InterpreterFacts | None,
    plan: ImportPlan,
    shadows: Path | None,
    temporary: Path,
    tree: Path,
    extra: Mapping[str, str],
) -> dict[str, str]:
    """Return the environment of a check: allow-listed variables and the project's own, without API keys.

    ``extra`` is the check's own ``env``; its ``PYTHONPATH`` comes after ours.
    """
    environment = base_environment({"TMPDIR": str(temporary), **extra})
    if facts is not None:
        scripts = Path(facts.executable).parent
        environment["PATH"] = os.pathsep.join([str(scripts), environment.get("PATH", os.defpath)])
        if (scripts.parent / "pyvenv.cfg").is_file():
            environment["VIRTUAL_ENV"] = str(scripts.parent)
    first = first_imports(plan, shadows, tree, environment.pop("PYTHONPATH", ""))
    if first:
        environment["PYTHONPATH"] = os.pathsep.join(first)
    # Compiled files would clutter the worktree, and a stale one would hide the mutated source.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


def first_imports(plan: ImportPlan, shadows: Path | None, tree: Path, python_path: str = "") -> list[str]:
    """Return the folders that come first on the import path: ours, then those of a check's own ``PYTHONPATH``."""
    first = [*([str(shadows)] if shadows is not None else []), *plan.paths]
    return [*first, *(os.path.normpath(tree / entry) for entry in python_path.split(os.pathsep) if entry)]


def _executable(path: Path) -> Path | None:
    for candidate in (path, path / "bin" / "python", path / "bin" / "python3"):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return Path(os.path.normpath(candidate.absolute()))
    return None


def _is_shim(program: Path) -> bool:
    """Return whether a program chooses the interpreter by the current folder (pyenv, asdf, mise), or may do so."""
    real = program.resolve()
    if not re.fullmatch(r"(python|pypy)[0-9.]*", real.name):
        return True
    try:
        with real.open("rb") as file:
            return file.read(len(_ELF)) != _ELF
    except OSError:
        return True


def _executable_of_answer(answer: str | None) -> Path | None:
    line = (answer or "").strip().rpartition("\n")[2].strip()
    return _executable(Path(line)) if line and Path(line).is_absolute() else None


def _is_inside(path: Path, tree: Path | None) -> bool:
    if tree is None:
        return False
    places = {Path(os.path.normpath(path)), path.parent.resolve() / path.name, path.resolve()}
    roots = {tree, tree.resolve()}
    return any(place.is_relative_to(root) for place in places for root in roots)


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_ASK_BYTES)
    except OSError:
        return b""


def _tools_of(folder: Path) -> list[tuple[Origin, list[str]]]:
    """Return the commands of the installed project tools that the project in a folder uses."""
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        project = {}
    tools = project.get("tool", {}) if isinstance(project.get("tool", {}), dict) else {}
    marked: list[tuple[Origin, bool, list[str]]] = [
        ("uv", (folder / "uv.lock").is_file(), ["python", "find", "--no-python-downloads"]),
        ("poetry", (folder / "poetry.lock").is_file() or "poetry" in tools, ["env", "info", "--executable"]),
        ("pdm", (folder / "pdm.lock").is_file() or "pdm" in tools, ["info", "--python"]),
        ("hatch", (folder / "hatch.toml").is_file() or "envs" in _table(tools, "hatch"), ["env", "find"]),
    ]
    return [
        (origin, [program, *arguments])
        for origin, present, arguments in marked
        if present and (program := shutil.which(origin)) is not None
    ]


def _table(parent: Any, name: str) -> dict[str, Any]:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def _ask(argv: list[str], folder: Path) -> str | None:
    """Return the output of a program, None if it fails, is missing, or takes too long."""
    environment = base_environment({"PYTHONDONTWRITEBYTECODE": "1", "POETRY_NO_INTERACTION": "1", "NO_COLOR": "1"})
    try:
        program = Program(argv, folder, environment, OWN)
        completed = run_unguarded(program, timeout_seconds=_ASK_SECONDS, output_limit=_ASK_BYTES)
    except UnderstudyError:
        return None
    if completed.code != 0 or completed.timed_out:
        return None
    return completed.stdout.decode("utf-8", "replace")


class Checkout:
    """The user's checkout under all its names (links resolved or not), without the environments inside it."""

    def __init__(self, workspace: Path, prefixes: Iterable[str] = ()) -> None:
        """Exclude the folders of the environment, ``prefixes``; one that contains the whole checkout is ignored."""
        self.roots = _spellings(str(workspace))
        self.prefixes = [
            spelling
            for prefix in prefixes
            for spelling in _spellings(prefix)
            if any(_below(spelling, root) and spelling != root for root in self.roots)
        ]

    def relative(self, path: str) -> str | None:
        """Return ``path`` relative to the checkout; ``None`` outside it and inside an environment."""
        for spelling in _spellings(path):
            for root in self.roots:
                if not _below(spelling, root) or any(_below(spelling, prefix) for prefix in self.prefixes):
                    continue
                relative = os.path.relpath(spelling, root)
                if not _ENVIRONMENT_FOLDERS.intersection(Path(relative).parts):
                    return relative
        return None


def mapped_paths(paths: Sequence[str], checkout: Checkout, tree: Path) -> list[str]:
    """Map import locations inside the checkout to the worktree; keep their order, drop duplicates."""
    mapped: dict[str, None] = {}
    for path in paths:
        relative = checkout.relative(path) if os.path.isabs(path) else None  # noqa: PTH117 - strings of another program
        if relative is not None:
            mapped.setdefault(os.path.normpath(tree / relative))
    return list(mapped)


def shadowed(modules: Mapping[str, str], checkout: Checkout, tree: Path) -> dict[str, str]:
    """Return ``{module name: rewritten source}`` for every module that contains a path inside the checkout."""
    shadows: dict[str, str] = {}
    for name, source in modules.items():
        rewritten = _with_mapped_strings(source, checkout, tree)
        if rewritten is not None:
            shadows[name] = rewritten
    return shadows


def _with_mapped_strings(source: str, checkout: Checkout, tree: Path) -> str | None:
    try:
        parsed = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    lines = source.encode().split(b"\n")
    replacements: list[tuple[int, int, int, int, bytes]] = []
    for node in ast.walk(parsed):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        relative = checkout.relative(node.value) if os.path.isabs(node.value) else None  # noqa: PTH117
        if relative is None or node.end_lineno is None or node.end_col_offset is None:
            continue
        mapped = repr(os.path.normpath(tree / relative)).encode()
        replacements.append((node.lineno - 1, node.col_offset, node.end_lineno - 1, node.end_col_offset, mapped))
    if not replacements:
        return None
    for first, column, last, end, text in sorted(replacements, reverse=True):
        lines[first : last + 1] = [lines[first][:column] + text + lines[last][end:]]
    return b"\n".join(lines).decode()


def _spellings(path: str) -> list[str]:
    return list(dict.fromkeys([os.path.normpath(path), os.path.realpath(path)]))


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
