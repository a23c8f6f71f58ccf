"""Run a command of a model in its worktree: a process namespace, resource limits, bounded output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from understudy.model.config.delegators import ProgramLimits
from understudy.model.confinement import Confinement, Sandbox
from understudy.process.program_spec import AccessProfile, Program, Role, TreeLimits, memory_of_machine
from understudy.process.programs import children

DEFAULT_SECONDS = 120.0
MAX_SECONDS = 600.0
OUTPUT_BYTES = 24_000
"""The last bytes of the output that are kept."""
_MEMORY_BYTES = 8 << 30
_PROCESSES = 512
_FILE_BYTES = 256 << 20
_EACH_PROCESS = {"DATA": 4 << 30, "NOFILE": 4096}


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """How a command ended, as the model gets it."""

    text: str
    ok: bool
    sandbox: Sandbox


async def run(
    command: str,
    *,
    tree: Path,
    environment: dict[str, str],
    mark: str,
    seconds: float,
    confinement: Confinement,
    limits: ProgramLimits,
) -> CommandResult:
    """Run ``command`` with ``sh`` in ``tree`` for at most ``seconds``; everything that it started ends with it."""
    program = Program(
        ["/bin/sh", "-c", command],  # the model's command is one argument
        tree,
        environment,
        AccessProfile(Role.COMMAND),
        mark=mark,
        join_output=True,  # as in a terminal
        confinement=confinement,
        limits=TreeLimits(
            limits.max_memory_bytes or min(_MEMORY_BYTES, memory_of_machine() // 2),
            limits.max_processes or _PROCESSES,
            limits.max_file_bytes or _FILE_BYTES,
            {**_EACH_PROCESS, "CPU": int(seconds * 2) + 10},
        ),
    )
    completed = await children.run(program, timeout_seconds=seconds, output_limit=OUTPUT_BYTES)
    output = completed.stdout.decode("utf-8", "replace")
    lost = completed.stdout_bytes - len(completed.stdout)
    if lost > 0:
        output = f"[NOT COMPLETE: the first {lost} bytes of the output were left out …]\n{output}"
    if completed.timed_out:
        ending = f"The command was ended after {seconds:g} s; it had not finished."
    elif completed.limit_error is not None:
        ending = f"ENDED: {completed.limit_error.message}"
    elif completed.signal is not None:
        ending = f"The command was killed by signal {completed.signal}."
    else:
        ending = f"Exit code {completed.code}."
    if completed.leftovers and completed.limit_error is None:
        ending += f" {completed.leftovers} processes that it left running were ended."
    separator = "" if not output or output.endswith("\n") else "\n"
    return CommandResult(
        text=f"{output}{separator}[{ending}]",
        ok=completed.code == 0 and not completed.timed_out and completed.limit_error is None,
        sandbox=completed.sandbox,
    )


def seconds_of(asked: object) -> float:
    """Return the time limit for a command, of what the model asked for."""
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked > 0:
        return DEFAULT_SECONDS
    return float(min(asked, MAX_SECONDS))


def environment_for(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment of a command: nothing may wait for a person or open a pager."""
    quiet = {"GIT_TERMINAL_PROMPT": "0", "PAGER": "cat", "GIT_PAGER": "cat", "CI": "1", "TERM": "dumb"}
    return {**environment, **quiet, "PYTHONDONTWRITEBYTECODE": "1"}
