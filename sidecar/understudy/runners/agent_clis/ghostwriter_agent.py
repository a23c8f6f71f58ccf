"""The ghostwriter: a small agent CLI that writes property tests with ``hypothesis write``, and keeps those that hold.

    python -I ghostwriter_agent.py --python PROJECT_PYTHON -- FILE...

It works in the current folder and prints one JSON event a line (the format of ``protocol``). For each file it finds
the module's
name, lets the project's own Python run the real ``hypothesis write``, makes the tests deterministic, writes them as a
new file
beside the project's tests, runs them, and removes those that do not hold, until the rest passes twice. Then the code
under test is broken on purpose: a test that still passes tests nothing and goes too. Nothing left: the file goes.

A program of its own: standard library only, and nothing of Understudy is imported.
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
"""Each round removes at least one test; a file that is not stable after so many is not worth more."""
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


class Stop(Exception):  # noqa: N818 - how a run ends, not a fault
    """The run is over without tests."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        """Keep what goes into the terminal event."""
        super().__init__(message)
        self.error = {"kind": kind, "message": message, "hint": hint}


def emit(kind: str, **fields: Any) -> None:
    """Print one event."""
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


@dataclass
class Project:
    """The tree, and the Python that its tests run with."""

    root: Path
    python: str
    scratch: Path
    deadline: float
    calls: int = 0
    sources: list[Path] = field(default_factory=list)

    def run(self, *arguments: str, seconds: float, **environment: str) -> subprocess.CompletedProcess[str] | None:
        """Run the project's Python with what the tree holds coming first; None when it took too long."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        env |= {
            "PYTHONPATH": os.pathsep.join(map(str, self.sources)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONIOENCODING": "utf-8",
            # What Hypothesis keeps would otherwise appear in the tree.
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
                "Configure the project's interpreter, or make a virtual environment in `.venv`.",
            ) from None

    def tool(self, name: str, title: str) -> str:
        """Say that a tool is used; return the call's id."""
        self.calls += 1
        emit("tool_call", callId=str(self.calls), name=name, title=title, input={})
        return str(self.calls)


def check_needs(project: Project) -> None:
    """Raise ``tool_missing`` with the line to type when the project lacks what is needed."""
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
    """Return the folder that imports start from, the first above ``path`` that is no package, and the module's name."""
    folder = path.parent
    names = [] if path.stem == "__init__" else [path.stem]
    while folder.parts and (root / folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    # A namespace package (no __init__.py) below `src`: everything below it is its name.
    if "src" in folder.parts and folder.name != "src":
        while folder.name != "src":
            names.insert(0, folder.name)
            folder = folder.parent
    name = ".".join(names)
    if not names or not all(part.isidentifier() for part in names):
        raise Stop(
            "bad_request",
            f"{path} cannot be imported: its name is no module name.",
            "Rename it, or choose another file.",
        )
    return root / folder, name


def locate(project: Project, module: str, path: PurePosixPath) -> list[str]:
    """Return the module's public names, having made sure that it is loaded from this tree."""
    done = project.run("-c", _LOCATE, module, seconds=60)
    try:
        found = json.loads(done.stdout.strip().splitlines()[-1]) if done is not None and done.returncode == 0 else None
    except (ValueError, IndexError):
        found = None
    if found is None:
        why = last_line(done.stderr) if done is not None else "it took too long"
        raise Stop(
            "bad_request", f"The module {module} cannot be imported: {why}", "Make it importable without side effects."
        )
    if not found["file"] or Path(found["file"]).resolve() != (project.root / path).resolve():
        raise Stop(
            "bad_request",
            f"Importing {module} loads {found['file']} instead of {path}.",
            "Rename the module, or remove what hides it.",
        )
    names: list[str] = found["names"]
    return names


def ghostwrite(project: Project, module: str, names: list[str]) -> str:
    """Return what ``hypothesis write`` makes of the module; name by name when it cannot do the whole."""
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
        # What holds of f(f(x)) says more than that f(x) does not raise; most of it will fall, some of it stays.
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
    """Return one module of several: imports once, tests in order, of those with one name the first."""
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
    """Return the source of a statement, decorators included."""
    first = min([node.lineno, *[decorator.lineno for decorator in getattr(node, "decorator_list", [])]])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def assemble(text: str, module: str, keep: set[str] | None) -> tuple[str, list[str]]:
    """Return the test file with the tests in ``keep`` (None: all), and their names.

    Each test is made deterministic; imports and helpers that nothing uses any more go; the layout is what formatters
    write.
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
    """Return whether a statement is only a text."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def import_lines(nodes: list[ast.Import | ast.ImportFrom], used: set[str]) -> list[str]:
    """Return the imports that are used, sorted: standard library, what is installed, the project's own."""
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
    """Return where the tests go: beside those that exist, by the project's habit, and under a name that is free."""
    stem = path.parent.name if path.stem == "__init__" else path.stem
    folder = test_folder(root, path)
    habit = "{}_test" if uses_suffix(root, folder) else "test_{}"
    names = [f"{stem}_properties", f"{module.replace('.', '_')}_properties"]
    names += [f"{stem}_properties_{number}" for number in range(2, 100)]
    taken = {found.name for found in root.rglob("*.py") if "site-packages" not in found.parts}
    for name in names:
        candidate = folder / f"{habit.format(name)}.py"
        # Two test modules of one name confuse pytest unless both folders are packages.
        if not os.path.lexists(root / candidate) and candidate.name not in taken:
            return candidate
    raise Stop("target_exists", f"Every name for the tests of {path} is taken.", "Tidy up the test folder.")


def test_folder(root: Path, path: PurePosixPath) -> PurePosixPath:
    """Return the folder of tests that fits ``path`` best."""
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
    """Return whether the project calls its tests ``x_test.py``."""
    return bool([*(root / folder).glob("*_test.py")]) and not [*(root / folder).glob("test_*.py")]


def run_tests(project: Project, path: PurePosixPath, broken: str = "") -> dict[str, str] | None:
    """Run the test file and return the outcome of each test by its function's name; None when nothing could be said."""
    report = project.scratch / "report.json"
    report.unlink(missing_ok=True)
    plugins = project.scratch / "plugins"
    plugins.mkdir(exist_ok=True)
    # Alone in its folder: whatever stands beside it would be importable in the tests.
    shutil.copyfile(Path(__file__).with_name("ghostwriter_probe.py"), plugins / "ghostwriter_probe.py")
    sources = project.sources
    project.sources = [*sources, plugins]
    try:
        done = project.run(
            "-m", "pytest", "-q", "-p", "ghostwriter_probe", "-p", "no:cacheprovider", "-p", "no:randomly",
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


def settle(project: Project, path: PurePosixPath, text: str, module: str) -> tuple[list[str], list[str], list[str]]:
    """Write the file, run it and remove tests until what is left holds; return kept, fallen and toothless tests."""
    target = project.root / path
    content, names = assemble(text, module, None)
    fallen: list[str] = []
    for number in range(1, MAX_ROUNDS + 1):
        if not names or time.monotonic() > project.deadline:
            return [], fallen + names, []
        target.write_text(content, "utf-8")
        call = project.tool("pytest", f"pytest {path} (round {number})")
        outcomes = run_tests(project, path)
        if outcomes is None:
            emit("tool_result", callId=call, ok=False, output="The tests could not be run to their end.")
            # Something hangs or ends the interpreter: find it by halves.
            half = names[: len(names) // 2]
            fallen += [name for name in names if name not in half]
            content, names = assemble(text, module, set(half))
            continue
        bad = [name for name in names if outcomes.get(name) != "passed"]
        emit(
            "tool_result",
            callId=call,
            ok=not bad,
            output=f"{len(names) - len(bad)} hold" + (f"; not: {', '.join(bad)}" if bad else ""),
        )
        if not bad and number > 1:
            break
        fallen += bad
        if bad:
            content, names = assemble(text, module, set(names) - set(bad))
    else:
        # The last round removed something: what is left was not seen to pass.
        outcomes = run_tests(project, path) if names and target.write_text(content, "utf-8") else None
        if outcomes is None or any(outcomes.get(name) != "passed" for name in names):
            return [], fallen + names, []
    return bite(project, path, text, module, names=names, fallen=fallen)


def bite(
    project: Project, path: PurePosixPath, text: str, module: str, *, names: list[str], fallen: list[str]
) -> tuple[list[str], list[str], list[str]]:
    """Remove the tests that pass although every function of the module raises; keep all when that cannot be said.

    A test that a stronger one of the same function covers goes too.
    """
    if not names:
        return [], fallen, []
    call = project.tool("pytest", f"pytest {path} with {module} broken on purpose")
    outcomes = run_tests(project, path, broken=module)
    toothless = [name for name in names if outcomes is not None and outcomes.get(name) == "passed"]
    emit("tool_result", callId=call, ok=not toothless, output=f"{len(names) - len(toothless)} notice")
    stronger = {
        name.replace("test_idempotent_", "test_fuzz_", 1) for name in names if name.startswith("test_idempotent_")
    }
    content, names = assemble(text, module, set(names) - set(toothless) - stronger)
    if names:
        (project.root / path).write_text(content, "utf-8")
    return names, fallen, toothless


def work(project: Project, name: str) -> str:
    """Write the tests of one file and return what to tell about it."""
    path = PurePosixPath(name)
    if path.suffix != ".py" or path.is_absolute() or ".." in path.parts or not (project.root / path).is_file():
        raise Stop(
            "bad_request",
            f"{name} is no Python file of this project.",
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
        kept, fallen, toothless = settle(project, target, text, module)
    finally:
        if not kept:
            (project.root / target).unlink(missing_ok=True)
            for folder in made:
                folder.rmdir()
    told = []
    if kept:
        emit("file", path=target.as_posix(), change="added")
        told.append(f"{target}: {len(kept)} tests hold ({', '.join(kept)}).")
    else:
        told.append(f"No test of {module} is worth keeping; nothing was changed.")
    if fallen:
        told.append(f"Removed because they do not hold: {', '.join(fallen)}.")
    if toothless:
        told.append(f"Removed because they pass even when {module} is broken: {', '.join(toothless)}.")
    return " ".join(told)


def last_line(text: str) -> str:
    """Return the last line that says something, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return textwrap.shorten(lines[-1], 300) if lines else "no reason given"


def main() -> int:
    """Do the work that the arguments name."""
    parser = argparse.ArgumentParser(prog="ghostwriter", description="Write property tests that hold.")
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
