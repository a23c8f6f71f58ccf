"""Run programs in the project's interpreter with limits, and in namespaces where the machine has them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LAUNCHER = Path(__file__).with_name("confine_child.py")
START = Path(__file__).parent / "inside" / "__main__.py"
MEMORY = 2 << 30
FILE_SIZE = 16 << 20
MAX_OUTPUT = 16 << 20
PROCESSES = 64
PROBE_SECONDS = 20.0


class Confinement:
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
        self.reason = self._probe()

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
        """Run a program of ``inside`` and yield its answers, JSON lines, until it ends or the time is over."""
        question = self.top / "request.json"
        question.write_text(json.dumps(request), "utf-8")
        plan = {
            "command": [self.python, "-W", "ignore", str(START), program],
            "writable": str(self.scratch),
            "namespaces": self.namespaces,
            "limits": {"AS": MEMORY, "FSIZE": FILE_SIZE, "CPU": int(seconds * 2) + 10, "CORE": 0, "NPROC": PROCESSES},
        }
        environment["PYTHONPATH"] = os.pathsep.join(self.import_path)
        with question.open("rb") as stdin, self._started(plan, stdin.fileno(), self.environment(**environment)) as pipe:
            for line in _lines(pipe, time.monotonic() + seconds):
                try:
                    answer = json.loads(line)
                except ValueError:
                    continue
                if isinstance(answer, dict):
                    yield answer

    @contextlib.contextmanager
    def _started(self, plan: dict[str, object], stdin: int, environment: dict[str, str]) -> Iterator[int]:
        process = subprocess.Popen(
            [sys.executable, "-I", str(LAUNCHER), json.dumps(plan)],
            cwd=self.scratch, env=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        try:
            yield process.stdout.fileno()
        finally:
            # The launcher's end ends its namespace; without one, the programs are in its process group.
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.stdout.close()
            process.wait()

    def _probe(self) -> str:
        plan = {"command": [], "writable": str(self.scratch), "namespaces": True, "limits": {}}
        with self._started(plan, subprocess.DEVNULL, dict(os.environ)) as pipe:
            answers = list(_lines(pipe, time.monotonic() + PROBE_SECONDS))
        return "" if answers == [b"confined"] else (answers[0].decode("utf-8", "replace") if answers else "no answer")


def _lines(pipe: int, until: float) -> Iterator[bytes]:
    """Yield the lines of a pipe until it ends, the time is over, or it has said too much."""
    buffer, total = b"", 0
    while (left := until - time.monotonic()) > 0 and total < MAX_OUTPUT:
        if not select.select([pipe], [], [], left)[0]:
            return
        piece = os.read(pipe, 65536)
        if not piece:
            break
        total += len(piece)
        *lines, buffer = (buffer + piece).split(b"\n")
        yield from lines
    if buffer:
        yield buffer
