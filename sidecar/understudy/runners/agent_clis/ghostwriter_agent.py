"""The ghostwriter: a small agent CLI that writes property tests with ``hypothesis write`` and keeps those that pass.

    python -I ghostwriter_agent.py --python PROJECT_PYTHON -- FILE...

It works in the current folder and prints one JSON event per line (the format of ``event_stream``). For each file it
finds the module's name, lets the project's own Python run ``hypothesis write``, makes the tests deterministic, writes
them as a new file beside the project's tests, runs them, and removes those that fail, until the rest passes twice.
Then it breaks the code under test on purpose and removes the tests that still pass. If no test remains, it deletes
the file.

It is a separate program: it uses only the standard library and does not import Understudy.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

WRITE_SECONDS = 120.0
RUN_SECONDS = 180.0
TOTAL_SECONDS = 900.0
MAX_ROUNDS = 6
"""Each round removes at least one test; after this many rounds an unstable file is given up."""
MAX_TESTS = 60

_HYPOTHESIS = "import sys; from hypothesis.extra.cli import main; sys.argv[0] = 'hypothesis'; main()"
_NEEDS = """
from importlib.util import find_spec
print(*[name for name in ("pytest", "hypothesis", "click", "black") if find_spec(name) is None])
"""
_LOCATE = """
import importlib, inspect, json, sys
module = importlib.import_module(sys.argv[1])
own = lambda value: getattr(value, "__module__", None) == module.__name__
kinds = lambda value: inspect.isfunction(value) or inspect.isclass(value)
names = [name for name, value in vars(module).items() if own(value) and kinds(value) and not name.startswith("_")]
print("\\n" + json.dumps({"file": getattr(module, "__file__", None), "names": names}))
"""

_IDEMPOTENT = """
import importlib, inspect, sys
from hypothesis.extra import ghostwriter
module = importlib.import_module(sys.argv[1])
for name in sys.argv[2:]:
    function = getattr(module, name)
    if not inspect.isfunction(function):
        continue
    try:
        print(ghostwriter.idempotent(function, style="pytest") + "\\x1e")
    except Exception:
        continue
"""

_HEADER = '''"""Properties of ``{module}``, found by ``hypothesis write`` and kept because they hold."""

'''
_SETTINGS = """
DETERMINISTIC = settings(derandomize=True, database=None, deadline=None)

"""


class Stop(Exception):  # noqa: N818 - how a run ends, not an error
    """Ends the run without tests."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        """Store the error of the ``result`` event."""
        super().__init__(message)
        self.error = {"kind": kind, "message": message, "hint": hint}


def emit(kind: str, **fields: Any) -> None:
    """Print one event."""
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


@dataclass
class Project:
    """The worktree, and the Python that runs its tests."""

    root: Path
    python: str
    scratch: Path
    deadline: float
    calls: int = 0
    sources: list[Path] = field(default_factory=list)

    def run(self, *arguments: str, seconds: float, **environment: str) -> subprocess.CompletedProcess[str] | None:
        """Run the project's Python with the worktree first on its path; None when it took too long."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        env |= {
            "PYTHONPATH": os.pathsep.join(map(str, self.sources)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONIOENCODING": "utf-8",
            # Otherwise Hypothesis would create its database in the worktree.
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.scratch / "hypothesis"),
            "NO_COLOR": "1",
            "TERM": "dumb",
            **environment,
        }
        seconds = min(seconds, self.deadline - time.monotonic())
        try:
            return subprocess.run(
                [self.python, *arguments],
                cwd=self.root, env=env, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                errors="replace", timeout=max(1.0, seconds), check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
        except OSError as error:
            raise Stop(
                "tool_missing",
                f"The project's Python {self.python} cannot be started: {error.strerror}.",
                "Configure the project's interpreter, or create a virtual environment in `.venv`.",
            ) from None

    def tool(self, name: str, title: str) -> str:
        """Report a tool call and return its id."""
        self.calls += 1
        emit("tool_call", callId=str(self.calls), name=name, title=title, input={})
        return str(self.calls)


def check_needs(project: Project) -> None:
    """Raise ``tool_missing`` with the install command when the project lacks a package."""
    done = project.run("-c", _NEEDS, seconds=30)
    missing = done.stdout.split() if done is not None and done.returncode == 0 else ["pytest", "hypothesis"]
    if missing:
        packages = ["pytest"] if "pytest" in missing else []
        packages += ["'hypothesis[cli]'"] if set(missing) - {"pytest"} else []
        raise Stop(
            "tool_missing",
            f"The ghostwriter needs {', '.join(missing)} in the project's environment ({project.python}).",
            f"Install it there: {project.python} -m pip install {' '.join(packages)}",
        )


def find_sources(root: Path, path: PurePosixPath) -> tuple[Path, str]:
    """Return the import root (the first folder above ``path`` that is not a package), and the module's name."""
    folder = path.parent
    names = [] if path.stem == "__init__" else [path.stem]
    while folder.parts and (root / folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    # A namespace package (no __init__.py) below `src`: its name is the whole path below `src`.
    if "src" in folder.parts and folder.name != "src":
        while folder.name != "src":
            names.insert(0, folder.name)
            folder = folder.parent
    name = ".".join(names)
    if not names or not all(part.isidentifier() for part in names):
        raise Stop(
            "bad_request",
            f"{path} cannot be imported: its name is not a valid module name.",
            "Rename it, or choose another file.",
        )
    return root / folder, name


def locate(project: Project, module: str, path: PurePosixPath) -> list[str]:
    """Return the module's public names; raise unless the module is loaded from this worktree."""
    done = project.run("-c", _LOCATE, module, seconds=60)
    try:
        found = json.loads(done.stdout.strip().splitlines()[-1]) if done is not None and done.returncode == 0 else None
    except (ValueError, IndexError):
        found = None
    if found is None:
        why = last_line(done.stderr) if done is not None else "it took too long."
        raise Stop(
            "bad_request", f"The module {module} cannot be imported: {why}", "Make it importable without side effects."
        )
    if not found["file"] or Path(found["file"]).resolve() != (project.root / path).resolve():
        raise Stop(
            "bad_request",
            f"Importing {module} loads {found['file']} instead of {path}.",
            "Rename the module, or remove the file that shadows it.",
        )
    names: list[str] = found["names"]
    return names


def ghostwrite(project: Project, module: str, names: list[str]) -> str:
    """Return the tests that ``hypothesis write`` generates for the module, or name by name when that fails."""
    call = project.tool("hypothesis", f"hypothesis write {module}")
    done = project.run("-c", _HYPOTHESIS, "write", "--style", "pytest", module, seconds=WRITE_SECONDS)
    text = done.stdout if done is not None and done.returncode == 0 else ""
    said = "" if done is None else last_line(done.stderr)
    if not has_tests(text):
        parts: list[str] = []
        for name in names[:MAX_TESTS]:
            one = project.run(
                "-c", _HYPOTHESIS, "write", "--style", "pytest", f"{module}.{name}", seconds=WRITE_SECONDS
            )
            if one is not None and one.returncode == 0 and has_tests(one.stdout):
                parts.append(one.stdout)
        text = merge(parts)
    ok = has_tests(text)
    if ok:
        # A property of f(f(x)) is stronger than "f(x) does not raise"; most of these tests will fail, some remain.
        more = project.run("-c", _IDEMPOTENT, module, *names[:MAX_TESTS], seconds=WRITE_SECONDS)
        found = more.stdout.split("\x1e") if more is not None and more.returncode == 0 else []
        text = merge([text, *[part for part in found if has_tests(part)]])
    emit("tool_result", callId=call, ok=ok, output=f"{text.count('def test_')} tests written." if ok else said)
    return text


def has_tests(text: str) -> bool:
    """Return whether ``text`` is Python with tests in it."""
    try:
        return any(isinstance(node, ast.FunctionDef) for node in ast.parse(text).body)
    except (SyntaxError, ValueError):
        return False


def merge(texts: list[str]) -> str:
    """Merge several modules into one: each import once, tests in order, the first of each name."""
    imports: dict[str, None] = {}
    bodies: list[str] = []
    seen: set[str] = set()
    for text in texts:
        for node in ast.parse(text).body:
            source = segment(text, node)
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports.setdefault(source)
            elif getattr(node, "name", source) not in seen:
                seen.add(getattr(node, "name", source))
                bodies.append(source)
    return "\n".join([*imports, "", "", "\n\n\n".join(bodies), ""])


def segment(text: str, node: ast.stmt) -> str:
    """Return the source of a statement with its decorators."""
    first = min([node.lineno, *[decorator.lineno for decorator in getattr(node, "decorator_list", [])]])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def assemble(text: str, module: str, keep: set[str] | None) -> tuple[str, list[str]]:
    """Return the test file with the tests in ``keep`` (None: all), and their names.

    Each test is made deterministic; unused imports and helpers are removed; the layout is that of formatters.
    """
    tree = ast.parse(text)
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    kept = [node for node in tests if keep is None or node.name in keep][:MAX_TESTS]
    if not kept:
        return "", []
    others = [node for node in tree.body if node not in tests and not is_docstring(node)]
    used = {item.id for node in kept for item in ast.walk(node) if isinstance(item, ast.Name)}
    helpers: list[str] = []
    for node in reversed([node for node in others if not isinstance(node, ast.Import | ast.ImportFrom)]):
        targets = {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
        if not targets or targets & used:
            used |= {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
            helpers.insert(0, segment(text, node))
    imports = import_lines([node for node in others if isinstance(node, ast.Import | ast.ImportFrom)], used)
    bodies = [f"@DETERMINISTIC\n{segment(text, node)}" for node in kept]
    parts = [_HEADER.format(module=module), "\n".join(imports), "\n", _SETTINGS]
    if helpers:
        parts += ["\n".join(helpers), "\n\n"]
    parts += ["\n", "\n\n\n".join(bodies), "\n"]
    return "".join(parts), [node.name for node in kept]


def is_docstring(node: ast.stmt) -> bool:
    """Return whether a statement is only a string."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def import_lines(nodes: list[ast.Import | ast.ImportFrom], used: set[str]) -> list[str]:
    """Return the imports that are used, sorted: standard library, installed packages, the project's own."""
    groups: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}
    from_hypothesis = {"settings"}
    for node in nodes:
        for name in node.names:
            bound = name.asname or name.name.split(".")[0]
            if bound not in used:
                continue
            alias = f"{name.name} as {name.asname}" if name.asname else name.name
            if isinstance(node, ast.Import):
                line, top = f"import {alias}", name.name.split(".")[0]
            elif node.module == "hypothesis" and node.level == 0 and not name.asname:
                from_hypothesis.add(name.name)
                continue
            else:
                line, top = (
                    f"from {'.' * node.level}{node.module or ''} import {alias}",
                    (node.module or "").split(".")[0],
                )
            groups[0 if top in sys.stdlib_module_names else 1 if top in {"hypothesis", "pytest", "numpy"} else 2].add(
                line
            )
    groups[1].add(f"from hypothesis import {', '.join(sorted(from_hypothesis))}")
    lines: list[str] = []
    for number in sorted(groups):
        if groups[number]:
            ordered = sorted(groups[number], key=lambda line: (line.startswith("from"), line.split()[1], line))
            lines += ["", *ordered] if lines else ordered
    return lines


def choose_name(root: Path, path: PurePosixPath, module: str) -> PurePosixPath:
    """Return a free path for the tests: beside existing tests and named by the project's convention."""
    stem = path.parent.name if path.stem == "__init__" else path.stem
    folder = test_folder(root, path)
    habit = "{}_test" if uses_suffix(root, folder) else "test_{}"
    names = [f"{stem}_properties", f"{module.replace('.', '_')}_properties"]
    names += [f"{stem}_properties_{number}" for number in range(2, 100)]
    taken = {found.name for found in root.rglob("*.py") if "site-packages" not in found.parts}
    for name in names:
        candidate = folder / f"{habit.format(name)}.py"
        # Two test modules with the same name confuse pytest unless both folders are packages.
        if not os.path.lexists(root / candidate) and candidate.name not in taken:
            return candidate
    raise Stop(
        "target_exists",
        f"Every file name for the tests of {path} is taken.",
        "Remove or rename some of its test files.",
    )


def test_folder(root: Path, path: PurePosixPath) -> PurePosixPath:
    """Return the test folder that fits ``path`` best."""
    stem = path.parent.name if path.stem == "__init__" else path.stem
    own = sorted(
        PurePosixPath(found.relative_to(root).as_posix()).parent
        for pattern in (f"test_{stem}.py", f"{stem}_test.py", f"test_{stem}_*.py")
        for found in root.rglob(pattern)
        if not any(
            part.startswith(".") or part in {"site-packages", "node_modules"} for part in found.relative_to(root).parts
        )
        and not any(parent.is_symlink() for parent in [found, *found.parents])
    )
    if own:
        return own[0]
    for name in ("tests", "test"):
        for parent in [*path.parents][::-1]:
            if (root / parent / name).is_dir() and not (root / parent / name).is_symlink():
                return parent / name
    beside = [*(root / path.parent).glob("test_*.py"), *(root / path.parent).glob("*_test.py")]
    return path.parent if beside else PurePosixPath("tests")


def uses_suffix(root: Path, folder: PurePosixPath) -> bool:
    """Return whether the project names its tests ``x_test.py``."""
    return bool([*(root / folder).glob("*_test.py")]) and not [*(root / folder).glob("test_*.py")]


def run_tests(project: Project, path: PurePosixPath, broken: str = "") -> dict[str, str] | None:
    """Run the test file and return the outcome of each test by its function's name; None when there is no report."""
    report = project.scratch / "report.json"
    report.unlink(missing_ok=True)
    plugins = project.scratch / "plugins"
    plugins.mkdir(exist_ok=True)
    # In a separate folder: any file beside it would be importable in the tests.
    shutil.copyfile(Path(__file__).with_name("ghostwriter_plugin.py"), plugins / "ghostwriter_plugin.py")
    sources = project.sources
    project.sources = [*sources, plugins]
    try:
        done = project.run(
            "-m", "pytest", "-q", "-p", "ghostwriter_plugin", "-p", "no:cacheprovider", "-p", "no:randomly",
            "-p", "no:xdist",
            "--no-header", "--tb=line", "-o", "addopts=", str(path),
            seconds=RUN_SECONDS, GHOSTWRITER_REPORT=str(report), GHOSTWRITER_BREAK=broken,
        )  # fmt: skip
    finally:
        project.sources = sources
    if done is None or not report.is_file():
        return None
    outcomes: dict[str, str] = {}
    for name, outcome in json.loads(report.read_text("utf-8")).items():
        test = re.sub(r"\[.*", "", name.split("::")[1] if "::" in name else "")
        if outcomes.get(test, "passed") == "passed":
            outcomes[test] = outcome
    return outcomes


def keep_passing(
    project: Project, path: PurePosixPath, text: str, module: str
) -> tuple[list[str], list[str], list[str]]:
    """Write the file, run it and remove tests until the rest passes; return kept, failing and ineffective tests."""
    target = project.root / path
    content, names = assemble(text, module, None)
    failing: list[str] = []
    for number in range(1, MAX_ROUNDS + 1):
        if not names or time.monotonic() > project.deadline:
            return [], failing + names, []
        target.write_text(content, "utf-8")
        call = project.tool("pytest", f"pytest {path} (round {number})")
        outcomes = run_tests(project, path)
        if outcomes is None:
            emit("tool_result", callId=call, ok=False, output="The tests did not run to completion.")
            # A test hangs or ends the interpreter: find it by bisecting.
            half = names[: len(names) // 2]
            failing += [name for name in names if name not in half]
            content, names = assemble(text, module, set(half))
            continue
        bad = [name for name in names if outcomes.get(name) != "passed"]
        emit(
            "tool_result",
            callId=call,
            ok=not bad,
            output=f"{len(names) - len(bad)} pass" + (f"; failing: {', '.join(bad)}" if bad else ""),
        )
        if not bad and number > 1:
            break
        failing += bad
        if bad:
            content, names = assemble(text, module, set(names) - set(bad))
    else:
        # The last round removed tests: the rest has not been run on its own.
        outcomes = run_tests(project, path) if names and target.write_text(content, "utf-8") else None
        if outcomes is None or any(outcomes.get(name) != "passed" for name in names):
            return [], failing + names, []
    return mutation_check(project, path, text, module, names=names, failing=failing)


def mutation_check(
    project: Project, path: PurePosixPath, text: str, module: str, *, names: list[str], failing: list[str]
) -> tuple[list[str], list[str], list[str]]:
    """Remove the tests that pass although every function of the module raises; keep all when the run fails.

    A test that a stronger test of the same function covers is removed too.
    """
    if not names:
        return [], failing, []
    call = project.tool("pytest", f"pytest {path} with {module} broken on purpose")
    outcomes = run_tests(project, path, broken=module)
    ineffective = [name for name in names if outcomes is not None and outcomes.get(name) == "passed"]
    emit(
        "tool_result",
        callId=call,
        ok=not ineffective,
        output=f"{len(names) - len(ineffective)} of {len(names)} tests detect it",
    )
    stronger = {
        name.replace("test_idempotent_", "test_fuzz_", 1) for name in names if name.startswith("test_idempotent_")
    }
    content, names = assemble(text, module, set(names) - set(ineffective) - stronger)
    if names:
        (project.root / path).write_text(content, "utf-8")
    return names, failing, ineffective


def work(project: Project, name: str) -> str:
    """Write the tests of one file and return a summary."""
    path = PurePosixPath(name)
    if path.suffix != ".py" or path.is_absolute() or ".." in path.parts or not (project.root / path).is_file():
        raise Stop(
            "bad_request",
            f"{name} is not a Python file of this project.",
            "The ghostwriter writes tests for Python modules only.",
        )
    source, module = find_sources(project.root, path)
    project.sources = list(
        dict.fromkeys([source, *([project.root / "src"] if (project.root / "src").is_dir() else []), project.root])
    )
    emit("phase", text=f"Reading {module}")
    check_needs(project)
    names = locate(project, module, path)
    text = ghostwrite(project, module, names)
    if not has_tests(text):
        return f"hypothesis write found nothing to test in {module}."
    target = choose_name(project.root, path, module)
    made = [parent for parent in (project.root / target).parents if not parent.exists()]
    (project.root / target).parent.mkdir(parents=True, exist_ok=True)
    emit("phase", text=f"Trying the tests of {module}")
    kept: list[str] = []
    try:
        kept, failing, ineffective = keep_passing(project, target, text, module)
    finally:
        if not kept:
            (project.root / target).unlink(missing_ok=True)
            for folder in made:
                folder.rmdir()
    told = []
    if kept:
        emit("file", path=target.as_posix(), change="added")
        told.append(f"{target}: {len(kept)} passing tests ({', '.join(kept)}).")
    else:
        told.append(f"No useful test of {module} remained; nothing was changed.")
    if failing:
        told.append(f"Removed because they fail: {', '.join(failing)}.")
    if ineffective:
        told.append(f"Removed because they pass even when {module} is broken on purpose: {', '.join(ineffective)}.")
    return " ".join(told)


def last_line(text: str) -> str:
    """Return the last line that is not blank, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return textwrap.shorten(lines[-1], 300) if lines else "no reason given"


def main() -> int:
    """Write tests for the files in the arguments."""
    parser = argparse.ArgumentParser(prog="ghostwriter", description="Write property tests that pass.")
    parser.add_argument("--python", default=sys.executable, help="the project's interpreter")
    parser.add_argument("files", nargs="+", help="Python files, relative to the current folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ghostwriter-") as scratch:
        project = Project(Path.cwd(), arguments.python, Path(scratch), time.monotonic() + TOTAL_SECONDS)
        told: list[str] = []
        try:
            for name in arguments.files:
                told.append(work(project, name))
                emit("text", text=told[-1] + "\n")
        except Stop as stop:
            emit("result", ok=False, text="\n".join(told), error=stop.error)
            return 1
    emit("result", ok=True, text="\n".join(told), summary=told[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
