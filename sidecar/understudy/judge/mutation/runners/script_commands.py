"""Find the JavaScript test runner that a check starts, also through ``npm test`` and the like."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from understudy.judge.deciding.command_lines import package_commands, program_of
from understudy.judge.runs.check_run import REPORT_SLOT, PreparedCheck, working_folder

_MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})
_STARTERS = frozenset({"npx", "pnpx", "bunx"})
NODE_PROGRAMS = _MANAGERS | _STARTERS | {"node", "mocha", "ava", "tap", "tape", "jasmine"}
"""Programs whose tests run in Node.js."""
_DEEPEST = 3
_MOST_BYTES = 1024 * 1024
_SEPARATOR = "--"


@dataclass(frozen=True, kw_only=True)
class ScriptRunner:
    """A test runner with the arguments that a check gives it."""

    kind: Literal["jest", "vitest", "node"]
    program: str
    """What the check starts; for ``jest`` and ``vitest`` the program in ``node_modules``."""
    arguments: tuple[str, ...]


def script_runner(plan: PreparedCheck, tree: Path) -> ScriptRunner | None:
    """Return the JavaScript test runner of a check; None if it starts another one, or several programs."""
    folder = working_folder(plan.check, tree)
    found = _resolved(list(plan.check.argv), folder, _DEEPEST)
    if found is None:
        return None
    name, arguments = program_of(found[0]), found[1:]
    if name == "node" and any(argument == "--test" for argument in arguments):
        return ScriptRunner(kind="node", program=found[0], arguments=tuple(arguments))
    if name not in {"jest", "vitest"} or not os.access(folder / "node_modules" / ".bin" / name, os.X_OK):
        return None
    if name == "vitest" and arguments[:1] != ["run"]:
        arguments = ["run", *arguments]
    arguments = [argument for argument in arguments if argument not in {"--watch", "-w", "--watchAll"}]
    return ScriptRunner(
        kind="jest" if name == "jest" else "vitest",
        program=f"node_modules/.bin/{name}",
        arguments=tuple(_reporting(name, arguments)),
    )


def _resolved(argv: Sequence[str], folder: Path, depth: int) -> list[str] | None:
    """Return the command that is started in the end; None if that is not plain."""
    if not argv or depth == 0:
        return None
    name = program_of(argv[0])
    if name in _STARTERS and len(argv) > 1 and not argv[1].startswith("-"):
        return list(argv[1:])
    if name not in _MANAGERS:
        return list(argv)
    words = list(argv[1:])
    if words[:1] in (["exec"], ["x"]):
        rest = words[1:]
        return rest[1:] if rest[:1] == [_SEPARATOR] else rest or None
    if words[:1] in (["run"], ["run-script"]):
        words = words[1:]
    script = "test" if words[:1] == ["t"] else next(iter(words), "")
    further = [word for word in words[1:] if word != _SEPARATOR]
    try:
        with (folder / "package.json").open("rb") as stream:
            commands = package_commands(stream.read(_MOST_BYTES), script)
    except OSError:
        return None
    return _resolved([*commands[0], *further], folder, depth - 1) if len(commands) == 1 else None


def _reporting(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the arguments with those that make the runner write its report."""
    if any(REPORT_SLOT in argument for argument in arguments):
        return list(arguments)
    if name == "jest":
        return [*arguments, "--json", f"--outputFile={REPORT_SLOT}"]
    return [*arguments, "--reporter=default", "--reporter=json", f"--outputFile.json={REPORT_SLOT}"]
