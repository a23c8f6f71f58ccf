"""Run programs in the project's interpreter with limits, and in namespaces where the machine has them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from understudy.model.errors import UnderstudyError
from understudy.model.remedies import Remedy
from understudy.process.guardian.marked_processes import MARK
from understudy.process.program_spec import AccessProfile, Program, Role, TreeLimits, limits_of
from understudy.process.programs import children

START = Path(__file__).parent / "inside" / "__main__.py"
MEMORY = 2 << 30
"""Of each process: an invented argument that needs more gets a MemoryError."""
FILE_SIZE = 16 << 20
PROCESSES = 64
MAX_OUTPUT = 16 << 20
PROBE_SECONDS = 20.0


class Stop(Exception):  # noqa: N818 - how a run ends, not an error
    """Ends the run; the fields are those of the ``result`` event's error."""

    def __init__(self, kind: str, message: str, hint: str, remedy: Remedy | None = None) -> None:
        """Store the error of the ``result`` event."""
        super().__init__(message)
        self.error = {"kind": kind, "message": message, "hint": hint}
        self.remedy = remedy


class ConfinedRuns:
    """A scratch folder, and the way to run programs that can write to it only."""

    def __init__(self, top: Path, python: str, root: Path, paths: list[str] | None = None) -> None:
        """Use the new folder ``top``; find out what this machine offers.

        ``paths`` is what a check of the project puts first on the import path.
        """
        self.top = top
        self.scratch = top / "scratch"
        self.scratch.mkdir()
        self.python = python
        self.root = root
        self.paths = paths or []
        self.import_path: list[str] = []
        """The import path of a test file, for the programs of ``inside``."""
        self.mark = os.environ.get(MARK, "ghostwriter")
        self.reason = ""
        self.reason = asyncio.run(self._probe())

    @property
    def namespaces(self) -> bool:
        """Whether programs run in namespaces; ``reason`` says why not."""
        return not self.reason

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a program."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        user_base = os.environ.get("PYTHONUSERBASE") or str(Path("~/.local").expanduser())
        return {
            **kept,
            "HOME": str(self.scratch),
            "TMPDIR": str(self.scratch),
            "PYTHONUSERBASE": user_base,
            "PYTHONPATH": os.pathsep.join(self.paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONIOENCODING": "utf-8",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.scratch / "hypothesis"),
            **more,
        }

    def ask(self, program: str, request: object, *, seconds: float, **environment: str) -> Iterator[dict[str, object]]:
        """Run a program of ``inside`` and yield its answers, JSON lines, those before the time was over."""
        environment["PYTHONPATH"] = os.pathsep.join(self.import_path)
        argv = [self.python, "-W", "ignore", str(START), program]
        asked = self.confined(argv, self.environment(**environment), json.dumps(request).encode(), seconds)
        completed = asyncio.run(children.run(asked, timeout_seconds=seconds, output_limit=MAX_OUTPUT))
        for line in completed.stdout.splitlines():
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            if isinstance(answer, dict):
                yield answer

    def confined(self, argv: Sequence[str], environment: Mapping[str, str], stdin: bytes, seconds: float) -> Program:
        """Return a program that can write to the scratch folder only, and has no network, if there are namespaces."""
        access = AccessProfile(Role.TEST_WRITER)
        if self.namespaces:
            access = AccessProfile(Role.TEST_WRITER, writable=(self.scratch,), network=False)
        each_process = {"AS": MEMORY, "CPU": int(seconds * 2) + 10}
        return Program(
            argv,
            self.scratch,
            environment,
            access,
            mark=self.mark,
            stdin=stdin,
            limits=TreeLimits(limits_of().memory_bytes, PROCESSES, FILE_SIZE, each_process),
        )

    def run_python(self, *arguments: str, seconds: float, **environment: str) -> str | None:
        """Run the project's own programs, such as pytest, in the worktree, and return what they printed.

        None when it took too long. Kinds: ``tool_missing``, ``resource_limit``.
        """
        program = Program(
            [self.python, *arguments],
            self.root,
            self.environment(NO_COLOR="1", TERM="dumb", **environment),
            AccessProfile(Role.TEST_WRITER),
            mark=self.mark,
            join_output=True,
        )
        try:
            completed = asyncio.run(children.run(program, timeout_seconds=seconds))
            if completed.limit_error is not None:
                raise completed.limit_error
        except UnderstudyError as error:
            raise Stop(error.kind, error.message, error.hint or "") from None
        return None if completed.timed_out else completed.stdout.decode("utf-8", "replace")

    async def _probe(self) -> str:
        """Return why programs cannot be confined; an empty text when they can."""
        nothing = self.confined([sys.executable, "-I", "-S", "-c", ""], {}, b"", PROBE_SECONDS)
        try:
            async with await children.start(nothing) as child:
                await child.wait()
        except UnderstudyError as error:
            return error.message.rstrip(".")
        return ""
