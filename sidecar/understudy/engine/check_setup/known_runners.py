"""Known test runners: which files show that a project uses one, and the check that runs it.

``RUNNERS`` is the one table; the editors, the command line and ``doctor`` show what ``propose`` finds with it. Only
files are read, so it works before a workspace is trusted; whether a check passes is found out by trying it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.files import durable
from understudy.judge.runs.builtin_checks import package_mentions, settings_section
from understudy.judge.runs.check_run import PYTHON_SLOT
from understudy.model.config.config_entries import CheckProposal
from understudy.model.evidence.checks import Check

_FILE_BYTES = 1024 * 1024
_MOST_ENTRIES = 2000
"""Entries of a folder that are looked at."""
_MOST_FOLDERS = 200
"""Folders below the workspace that are looked at."""
_TEST_FOLDERS = ("tests", "test")
_SKIPPED = frozenset({"node_modules", "vendor", "target", "build", "dist", "venv", "env", "__pycache__"})
_ENVIRONMENTS = (".venv", "venv")
_PYTHON_RUNNERS = ("pytest", "unittest")
_NO_TESTS = "no test specified"
"""In the script ``test`` that ``npm init`` writes."""


_MOST_TESTS = 20
"""Test files whose text is read."""
_PYTEST_TEST = re.compile(r"^(?:\s*(?:import|from) pytest\b|(?:async )?def test)", re.MULTILINE)
"""A test that only pytest runs: it imports pytest, or is a plain function."""
_PYTEST_NAMED = re.compile(r"""(?:^|["'\s])pytest(?![\w-])""", re.MULTILINE)
"""A requirement, in a list of strings or one per line."""


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
            found = json.loads(self.read("package.json") or b"{}")
            return found if isinstance(found, dict) else {}
        return {}


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A test runner."""

    name: str
    """The name of the proposed check."""
    title: str
    argv: tuple[str, ...]
    shown_by: Callable[[Project], str | None]
    """Returns the file that shows that the project uses it."""
    instead_of: Collection[str] = ()
    """Runners that are not proposed beside it, because it runs the same tests."""


def _pytest(project: Project) -> str | None:
    for file, section in (
        ("pyproject.toml", "tool.pytest"),
        ("pyproject.toml", "tool.pytest.ini_options"),
        ("tox.ini", "pytest"),
        ("setup.cfg", "tool:pytest"),
    ):
        if project.section(file, section) is not None:
            return file
    tests = list(project.named(r"test_.*\.py|.*_test\.py", *_TEST_FOLDERS, ""))[:_MOST_TESTS]
    places = (
        *(name for name in ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml") if name in project.files),
        *project.named(r"conftest\.py", "", *_TEST_FOLDERS),
        *(name for name in tests if _PYTEST_TEST.search(project.text(name))),
        *(
            name
            for name in (*project.named(r"requirements.*\.(?:txt|in)", ""), "pyproject.toml")
            if _PYTEST_NAMED.search(project.text(name))
        ),
    )
    return next(iter(places), None)


def _installed_pytest(project: Project) -> str | None:
    """Return the folder of pytest in the environment inside the project."""
    for environment in _ENVIRONMENTS:
        if environment in project.folders:
            found = (project.root / environment).glob("lib/python3*/site-packages/pytest")
            if (place := next(found, None)) is not None:
                return place.relative_to(project.root).as_posix()
    return None


def _uses(project: Project, file: str, module: str) -> bool:
    return re.search(rf"^\s*(?:import|from) {module}\b", project.text(file), re.MULTILINE) is not None


def _unittest(*, in_package: bool) -> Callable[[Project], str | None]:
    """Find tests of ``unittest``: where it finds them by itself, or in a folder ``tests`` that is not a package."""

    def shown(project: Project) -> str | None:
        tests = [name for name in project.named(r"test.*\.py", "tests", "") if _uses(project, name, "unittest")]
        package = any(project.named(r"__init__\.py", "tests"))
        fitting = [name for name in tests if (package or not name.startswith("tests/")) == in_package]
        return next(iter(fitting), None)

    return shown


def _script(kind: str) -> Callable[[Project], str | None]:
    def shown(project: Project) -> str | None:
        return next(project.named(rf"{kind}\.config\..*", ""), None) or (
            "package.json" if "package.json" in project.files and package_mentions(project.read, kind) else None
        )

    return shown


def _test_script(*locks: str, others: Iterable[str] = ()) -> Callable[[Project], str | None]:
    """Find a script ``test``, with one of these lock files, or, without ``locks``, with none of ``others``."""

    def shown(project: Project) -> str | None:
        scripts = project.package().get("scripts")
        script = scripts.get("test") if isinstance(scripts, dict) else None
        if not isinstance(script, str) or not script.strip() or _NO_TESTS in script:
            return None
        fits = project.first(*locks) if locks else not project.first(*others)
        return "package.json" if fits else None

    return shown


def _file(*names: str) -> Callable[[Project], str | None]:
    return lambda project: project.first(*names)


def _containing(pattern: str, *names: str) -> Callable[[Project], str | None]:
    """Find one of these files whose text matches."""

    def shown(project: Project) -> str | None:
        return next((name for name in names if re.search(pattern, project.text(name), re.MULTILINE)), None)

    return shown


_SCRIPT_RUNNERS = ("npm", "pnpm", "yarn")
_OTHER_LOCKS = ("pnpm-lock.yaml", "yarn.lock")

RUNNERS: tuple[Runner, ...] = (
    Runner(
        name="pytest",
        title="pytest",
        argv=(PYTHON_SLOT, "-m", "pytest"),
        shown_by=_pytest,
        instead_of=("unittest", "make"),
    ),
    Runner(
        name="unittest",
        title="unittest",
        argv=(PYTHON_SLOT, "-m", "unittest"),
        shown_by=_unittest(in_package=True),
        instead_of=("make",),
    ),
    Runner(
        name="unittest",
        title="unittest",
        argv=(PYTHON_SLOT, "-m", "unittest", "discover", "-s", "tests"),
        shown_by=_unittest(in_package=False),
        instead_of=("make",),
    ),
    Runner(
        name="vitest",
        title="Vitest",
        argv=("node_modules/.bin/vitest", "run"),
        shown_by=_script("vitest"),
        instead_of=("jest", *_SCRIPT_RUNNERS),
    ),
    Runner(
        name="jest",
        title="Jest",
        argv=("node_modules/.bin/jest", "--ci"),
        shown_by=_script("jest"),
        instead_of=_SCRIPT_RUNNERS,
    ),
    Runner(name="pnpm", title="pnpm test", argv=("pnpm", "test"), shown_by=_test_script("pnpm-lock.yaml")),
    Runner(name="yarn", title="yarn test", argv=("yarn", "test"), shown_by=_test_script("yarn.lock")),
    Runner(name="npm", title="npm test", argv=("npm", "test"), shown_by=_test_script(others=_OTHER_LOCKS)),
    Runner(name="go", title="go test", argv=("go", "test", "./..."), shown_by=_file("go.mod"), instead_of=("make",)),
    Runner(
        name="cargo", title="cargo test", argv=("cargo", "test"), shown_by=_file("Cargo.toml"), instead_of=("make",)
    ),
    Runner(name="gradle", title="Gradle", argv=("./gradlew", "test"), shown_by=_file("gradlew")),
    Runner(name="maven", title="Maven", argv=("mvn", "--batch-mode", "test"), shown_by=_file("pom.xml")),
    Runner(
        name="rspec", title="RSpec", argv=("bundle", "exec", "rspec"), shown_by=_file(".rspec"), instead_of=("make",)
    ),
    Runner(
        name="make",
        title="make test",
        argv=("make", "test"),
        shown_by=_containing(r"^test\s*:(?!=)", "GNUmakefile", "makefile", "Makefile"),
    ),
)
"""Every runner; of two that run the same tests, the more specific one is first."""


INSTALLED_PYTEST = Runner(name="pytest", title="pytest", argv=(PYTHON_SLOT, "-m", "pytest"), shown_by=_installed_pytest)
"""The runner of a project whose files show no runner of Python tests, but whose environment has pytest."""


def propose(
    workspace: Path, configured: Iterable[Check], links: Collection[str], *, set_up: bool
) -> list[CheckProposal]:
    """Return the checks that the workspace suggests, the most specific first; if its top has none, its folders'.

    ``configured`` are the checks that exist, ``links`` the paths that worktrees link to; ``set_up``: a command
    installs dependencies in each worktree.
    """
    known = list(configured)
    top = Project(workspace)
    found: list[tuple[Runner, str, str | None]] = [(*one, None) for one in _found(top)]
    if not found:
        for name in sorted(top.folders)[:_MOST_FOLDERS]:
            if not name.startswith(".") and name not in _SKIPPED:
                found += [(*one, name) for one in _found(Project(workspace / name))]
    if not any(runner.name in _PYTHON_RUNNERS for runner, _, _ in found) and (place := _installed_pytest(top)):
        found.append((INSTALLED_PYTEST, place, None))
    taken = {check.name for check in known}
    proposals = []
    for runner, shown_by, folder in found:
        same = any(list(runner.argv) == check.argv and folder == check.cwd for check in known)
        free = _free_name(runner.name if folder is None else f"{runner.name}-{folder}", taken)
        taken.add(free)
        inside = workspace if folder is None else workspace / folder
        proposals.append(
            CheckProposal(
                title=runner.title,
                check=Check(name=free, argv=list(runner.argv), cwd=folder),
                shown_by=shown_by if folder is None else f"{folder}/{shown_by}",
                problem=_problem(runner, inside, folder, links, set_up=set_up),
                configured=same,
            )
        )
    return proposals


def _found(project: Project) -> list[tuple[Runner, str]]:
    """Return the runners that the files of a folder show, and for each the file that shows it."""
    found: list[tuple[Runner, str]] = []
    covered: set[str] = set()
    for runner in RUNNERS:
        evidence = None if runner.name in covered else runner.shown_by(project)
        if evidence is not None:
            covered |= {runner.name, *runner.instead_of}
            found.append((runner, evidence))
    return found


def _problem(runner: Runner, root: Path, folder: str | None, links: Collection[str], *, set_up: bool) -> str | None:
    program = runner.argv[0]
    if "/" not in program and not program.startswith("{") and shutil.which(program) is None:
        return f"The program {program} is not installed. Install it, then try again."
    modules = "node_modules" if folder is None else f"{folder}/node_modules"
    needs_modules = program in _SCRIPT_RUNNERS or program.startswith("node_modules/")
    if not needs_modules or set_up or any(modules == link or modules.startswith(f"{link}/") for link in links):
        return None
    if not (root / "node_modules").is_dir():
        if program in _SCRIPT_RUNNERS and not _has_dependencies(Project(root)):
            return None
        return "node_modules is missing. Install the project's dependencies."
    return (
        "Worktrees have no node_modules. "
        f'Set `link = ["{modules}"]` or a setup command under [worktrees] in .understudy/config.toml.'
    )


def _has_dependencies(project: Project) -> bool:
    """Return whether package.json names packages that a script may need."""
    try:
        package = json.loads(project.text("package.json"))
    except (ValueError, RecursionError):
        return True
    kinds = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "workspaces")
    return not isinstance(package, dict) or any(package.get(kind) for kind in kinds)


def _free_name(name: str, taken: Collection[str]) -> str:
    base = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:56] or "tests"
    found, number = base, 2
    while found in taken:
        found, number = f"{base}-{number}", number + 1
    return found


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
