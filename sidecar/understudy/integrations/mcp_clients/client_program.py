"""The program of one client: run its commands, and read what it prints about an entry."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.integrations.mcp_clients.client_table import Commands
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import sanitize
from understudy.process.environment import is_allowed
from understudy.process.program_spec import OWN, Program
from understudy.process.unguarded import run_unguarded

SECONDS = 60.0
"""How long one command may take: some start all their servers for a list, or unpack themselves first."""
_MOST_BYTES = 1024 * 1024
_MOST_SHOWN = 500
"""How many characters of the output of a failed command an error shows."""
_NO_ENTRY = re.compile(r"no mcp server named|server \S+ not found", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """The program of a client, for one entry."""

    commands: Commands
    entry: str
    file: Path
    """Where the entry is, for messages."""
    environment: Mapping[str, str]

    @property
    def found(self) -> bool:
        """Whether the program is on PATH."""
        return shutil.which(self.commands.program, path=self.environment.get("PATH")) is not None

    def argv(self, arguments: Sequence[str]) -> list[str]:
        """Return a command line; ``NAME`` stands for the entry."""
        return [self.commands.program, *(self.entry if part == "NAME" else part for part in arguments)]

    def run(self, argv: Sequence[str]) -> str:
        """Run a command of the client and return what it printed, sanitised.

        Errors: ``tool_missing``, ``permission_denied``, ``timed_out``, ``tool_crashed`` with its output.
        """
        text, problem = self._run(argv)
        if problem is not None:
            raise problem
        return text

    def started(self) -> str | None:
        """Return what the entry starts, empty if it is a server of another kind; None without an entry."""
        text, problem = self._run(self.argv(self.commands.show))
        if problem is not None:
            if _NO_ENTRY.search(text):
                return None
            raise problem
        name = re.escape(self.entry)
        # Claude Code, Codex and Copilot CLI print lines of one entry; Gemini CLI and Qwen Code a line for each.
        match = re.search(
            rf"^\s*command: (.*)(?:\n\s*args: (.*))?$|^\W*{name}: (.*) \(stdio\)", text, re.IGNORECASE | re.MULTILINE
        )
        if match is not None:
            return " ".join(part.strip() for part in match.groups() if part)
        return "" if re.search(rf"^\W*{name}(?:: .*|:?)$", text, re.MULTILINE) else None

    def _run(self, argv: Sequence[str]) -> tuple[str, UnderstudyError | None]:
        variables = self.commands.variables
        passed = {name: value for name, value in self.environment.items() if is_allowed(name) or name in variables}
        # In no project: a client would read the configuration of the current one, and might run what it names.
        program = Program(argv, Path("/"), {**passed, "NO_COLOR": "1"}, OWN)
        done = run_unguarded(program, timeout_seconds=SECONDS, output_limit=_MOST_BYTES)
        text = sanitize.sanitize((done.stdout + b"\n" + done.stderr).decode("utf-8", "replace"))
        if done.code == 0 and not done.timed_out:
            return text, None
        shown = sanitize.one_line((done.stderr.strip() or done.stdout).decode("utf-8", "replace"))[-_MOST_SHOWN:]
        end = (
            f"did not end within {SECONDS:g} s"
            if done.timed_out
            else f"exited with code {done.code}"
            if done.code is not None
            else f"was ended by signal {done.signal}"
        )
        kind = ErrorKind.TIMED_OUT if done.timed_out else ErrorKind.TOOL_CRASHED
        message = f"`{shlex.join(argv)}` {end}{f': {shown}' if shown else ''}".rstrip(".") + "."
        return text, UnderstudyError(kind, message, hint=f"Run it in a terminal, or change the entry in {self.file}.")
