"""Run the set-up command of a new worktree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.model.config.delegators import ProgramLimits
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.call_checks import base_environment
from understudy.process.program_spec import AccessProfile, Program, Role, limits_of
from understudy.process.programs import children


def environment(tree: Path, workspace: Path) -> dict[str, str]:
    """Return the environment of commands in a worktree: no API keys, no variables of delegators."""
    return base_environment({"UNDERSTUDY_WORKTREE": str(tree), "UNDERSTUDY_WORKSPACE": str(workspace)})


async def run(
    argv: Sequence[str],
    tree: Path,
    env: Mapping[str, str],
    *,
    mark: str,
    timeout_seconds: float,
    limits: ProgramLimits | None = None,
) -> None:
    """Run the command; raise ``timed_out``, ``resource_limit``, or ``tool_crashed`` with the end of its output."""
    program = Program(argv, tree, env, AccessProfile(Role.SETUP), mark=mark, limits=limits_of(limits))
    completed = await children.run(program, timeout_seconds=timeout_seconds, output_limit=64 * 1024)
    if completed.limit_error is not None:
        raise completed.limit_error
    if completed.timed_out or completed.code != 0:
        how = "timed out" if completed.timed_out else f"failed with exit code {completed.code}"
        tail = (completed.stderr or completed.stdout)[-400:].decode("utf-8", "replace").strip()
        raise UnderstudyError(
            ErrorKind.TIMED_OUT if completed.timed_out else ErrorKind.TOOL_CRASHED,
            f"The setup command {argv[0]!r} {how}: {tail}",
            hint="Correct `setup` under [worktrees] in the configuration.",
        )
