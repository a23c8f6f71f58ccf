"""The program: write tests for the files in the arguments, and print events."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from understudy.judge.project.missing_modules import NAME_PYTHON, how_to_get_pytest, in_folder

from .confined_runs import ConfinedRuns, Stop
from .module_tests import SEARCH_SECONDS, ModuleTests

_NEEDS = """
import sys
if sys.version_info < (3, 8):
    print("old %d.%d" % sys.version_info[:2])
    sys.exit()
from importlib.util import find_spec
print(*[name for name in ("pytest", "hypothesis") if find_spec(name) is None])
print("shared" if sys.prefix in (sys.base_prefix, sys.argv[1]) else "own")
"""


def emit(kind: str, **fields: Any) -> None:
    """Print one event."""
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


def has_hypothesis(confinement: ConfinedRuns, root: Path, *, on_path: bool = False) -> bool:
    """Return whether Hypothesis is installed; raise ``tool_missing`` without pytest, ``environment`` without 3.8.

    ``on_path``: the interpreter is the first on PATH, which need not be the project's.
    """
    printed = confinement.run_python("-c", _NEEDS, sys.prefix, seconds=60)
    missing = "pytest" if printed is None else printed
    if missing.startswith("old "):
        raise Stop(
            "environment",
            f"The project's interpreter {confinement.python} is Python {missing.split()[1]}. The ghostwriter needs "
            "3.8 or later.",
            f"Create an environment with a newer Python, or {NAME_PYTHON}.",
        )
    if "pytest" in missing:
        other = f"If it is not the project's, {NAME_PYTHON}."
        hint, remedy = how_to_get_pytest(root, confinement.python, shared=on_path or "shared" in missing)
        message = f"The ghostwriter needs pytest in the project's environment ({confinement.python})."
        raise Stop("tool_missing", message, f"{hint}. {other}", remedy)
    return "hypothesis" not in missing


def work(name: str, confinement: ConfinedRuns, options: argparse.Namespace) -> str:
    """Write the tests of one file of the repository, and return a summary."""
    root = confinement.root
    path = PurePosixPath(os.path.relpath(name, options.project))
    named = PurePosixPath(name)
    leads_out = named.is_absolute() or ".." in {*named.parts, *path.parts}
    if path.suffix != ".py" or leads_out or not (root / path).is_file():
        raise Stop(
            "input_empty",
            f"{name} is not a Python file of this project.",
            "The ghostwriter writes tests for Python modules only.",
        )
    job = ModuleTests(root, path, confinement, emit, options.seconds)
    job.checkout = options.checkout / options.project if options.checkout is not None else None
    hypothesis = has_hypothesis(confinement, root, on_path=options.on_path)
    if not hypothesis:
        emit(
            "note",
            level="info",
            text="Hypothesis is not installed in the project's environment: fewer examples are found.",
        )
    target, report = job.run(hypothesis=hypothesis)
    if target is not None:
        target = options.project / target
        emit("file", path=target.as_posix(), change="added")
    return report.text(target)


def main() -> int:
    """Write tests for the files in the arguments."""
    parser = argparse.ArgumentParser(prog="ghostwriter", description="Write tests that record what a module does.")
    parser.add_argument("--python", default=sys.executable, help="the project's interpreter")
    parser.add_argument("--import-path", action="append", help="folder that checks put first on the import path")
    parser.add_argument("--on-path", action="store_true", help="that is the first one on PATH")
    parser.add_argument("--project", default=".", help="folder of the files' project, where its tests are run")
    parser.add_argument("--checkout", type=Path, help="the user's checkout, where the current folder is a worktree")
    parser.add_argument("--seconds", type=float, default=SEARCH_SECONDS, help="limit of the search, for each file")
    parser.add_argument("files", nargs="+", help="Python files, relative to the current folder")
    arguments = parser.parse_args()
    told: list[str] = []
    emit("usage", costUsd="0")  # it uses no model
    with tempfile.TemporaryDirectory(prefix="ghostwriter-") as top:
        try:
            root = Path.cwd() / arguments.project
            confinement = ConfinedRuns(Path(top), arguments.python, root, arguments.import_path)
            for name in arguments.files:
                told.append(work(name, confinement, arguments))
                emit("text", text=told[-1] + "\n")
        except Stop as stop:
            folder = arguments.project if arguments.project != "." else ""
            if stop.remedy is not None or stop.error["kind"] == "environment":
                stop.error["hint"], remedy = in_folder(stop.error["hint"], stop.remedy, folder)
                stop.error["remedy"] = msgspec.to_builtins(remedy)
            emit("result", ok=False, text="\n".join(told), error=stop.error)
            return 1
    emit("result", ok=True, text="\n".join(told), summary=told[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
