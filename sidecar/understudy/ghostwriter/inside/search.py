"""Find the examples that tell mutants from the original: one process per function or class, each with its own limits.

Reads one JSON request from standard input and writes JSON lines to standard output: ``module`` (what was found in it),
``example``, ``left_out`` and ``end``. What the code under test prints goes nowhere.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import select
import signal
import sys
import time
import warnings
from typing import Any, Callable

from .audit import Guard
from .loading import Source, run_imports
from .properties import Candidate, candidates, try_property
from .subject import Subject
from .unit_candidates import is_function
from .unit_search import WALL_PER_CPU, UnitSearch

FIRST_SECONDS = 1.0
MOST_SECONDS = 24.0
GRACE = 2.0
PROPERTY_SHARE = 0.2
"""The part of the time that is kept for properties."""
DOCUMENTED_SHARE = 0.4
"""The part of the time that the examples of the documentation may take: they are worth more than invented ones."""
MOST_PROPERTIES = 30
MAX_BYTES = 1 << 20
"""Most output of one process."""

Say = Callable[..., None]


def main() -> None:
    """Answer the request."""
    request = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)

    def say(kind: str, **fields: Any) -> None:
        answers.write(json.dumps({"type": kind, **fields}) + "\n")
        answers.flush()

    warnings.simplefilter("ignore")
    try:
        module = importlib.import_module(request["module"])
    except BaseException as error:
        say("import_failed", reason=f"{type(error).__name__}: {error}"[:300])
        return
    if os.path.realpath(getattr(module, "__file__", None) or "") != os.path.realpath(request["file"]):
        say("imported_elsewhere", file=str(getattr(module, "__file__", None)))
        return
    try:
        import hypothesis.internal.conjecture.engine  # noqa: F401 - before the guard, and once for all processes
    except Exception:
        request["hypothesis"] = False
    with open(request["file"], "rb") as file:
        content = file.read()
    provided = run_imports(request["provided"], request["documented"])
    guard = Guard([request["root"], sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), *sys.path])
    guard.install()
    try:
        source = Source(module, content, guard, provided)
    except (SyntaxError, ValueError, RecursionError) as error:
        say("import_failed", reason=f"{type(error).__name__}: {error}"[:300])
        return
    source.prepare()
    Coordinator(Subject(request, module, source, guard), say).run()


class Coordinator:
    """Runs one process per unit, two at a time, and forwards what they find."""

    def __init__(self, subject: Subject, say: Say) -> None:
        """Run nothing yet."""
        self.subject = subject
        self.say = say

    def run(self) -> None:
        """Search every unit."""
        subject = self.subject
        outside = subject.effects.outside_imports()
        if outside and not subject.request["confined"]:
            self.say("unconfined", imports=outside)
            return
        public = {n: v for n, v in vars(subject.module).items() if not n.startswith("_") and n in subject.source.own}
        units: list[str] = []
        for name, value in public.items():
            if name != getattr(value, "__name__", name) and any(value is public[unit] for unit in units):
                continue  # another name of it
            own_class = inspect.isclass(value) and value.__module__ == subject.module.__name__
            if not own_class and not is_function(value, subject.module.__name__):
                continue
            reason = subject.effects.reason(name)
            if reason and own_class:  # only the methods that do it are left out
                init = subject.effects.definitions.get(name)
                reason = subject.effects.method_reason(init, "__init__") if init is not None else reason  # type: ignore[arg-type]
            if reason:
                self.say("left_out", unit=name, why=reason)
            else:
                units.append(name)
        names = [name for name in vars(subject.module) if name.isidentifier() and not name.startswith("__")]
        self.say("module", units=units, own=sorted(subject.source.own), names=names)
        documented = subject.request["documented"]
        plan = [("", None)] if documented else []
        mutants = {name: len(subject.own_mutants(name)) for name in units}
        plan += [(name, public[name]) for name in sorted(units, key=lambda n: -mutants[n]) if subject.relevant(name)]
        stop = subject.until
        subject.until -= PROPERTY_SHARE * subject.request["seconds"] if subject.request["hypothesis"] else 0
        self._run_all(plan)
        subject.until = stop
        if subject.request["hypothesis"]:
            functions = [name for name in units if not inspect.isclass(public[name])]
            tried = [
                (candidate.units[0], candidate) for candidate in candidates(functions) if candidate.survivors(subject)
            ]
            self._run_all([(name, candidate) for name, candidate in tried[:MOST_PROPERTIES]])
        self.say("end", seconds=round(subject.request["seconds"] - (subject.until - time.monotonic()), 1))

    def _run_all(self, plan: list[tuple[str, Any]]) -> None:
        running: dict[int, Child] = {}
        waiting = list(plan)
        while waiting or running:
            while waiting and len(running) < self.subject.request["jobs"]:
                left = self.subject.until - time.monotonic()
                if left <= 0:
                    if not isinstance(waiting[0][1], Candidate):
                        self.say("left_out", unit=waiting[0][0], why="the time was over")
                    waiting.pop(0)
                    continue
                share = min(MOST_SECONDS, max(FIRST_SECONDS, left * self.subject.request["jobs"] / len(waiting)))
                if not waiting[0][0]:
                    share = max(share, min(MOST_SECONDS, left * DOCUMENTED_SHARE))
                child = self._start(*waiting.pop(0), min(share, left))
                running[child.output] = child
            ready = select.select(list(running), [], [], 0.2)[0]
            for output in list(running):
                child = running[output]
                if (output in ready and not child.read(self._heard)) or time.monotonic() > child.until:
                    del running[output]
                    why = child.end(late=time.monotonic() > child.until)
                    if why and not child.optional:
                        self.say("left_out", unit=child.name, why=why)

    def _heard(self, answer: dict[str, Any]) -> None:
        self.subject.killed.update(answer.get("kills", ()))
        kind = answer.pop("type")
        self.say(kind, **answer)

    def _start(self, name: str, value: Any, seconds: float) -> Child:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            os.setpgid(0, 0)
            code = 1
            try:
                with os.fdopen(write, "w", encoding="utf-8") as pipe:

                    def say(kind: str, **fields: Any) -> None:
                        pipe.write(json.dumps({"type": kind, **fields}) + "\n")
                        pipe.flush()

                    self.subject.guard.start_clocks()
                    if isinstance(value, Candidate):
                        function = vars(self.subject.module)[name]
                        try_property(UnitSearch(self.subject, name, function, seconds, say), value, say)
                    else:
                        UnitSearch(self.subject, name, value, seconds, say).run()
                    say("done")
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        until = min(self.subject.until, time.monotonic() + WALL_PER_CPU * seconds) + GRACE
        return Child(name, pid, read, until, optional=isinstance(value, Candidate))


class Child:
    """A process that searches one unit."""

    def __init__(self, name: str, pid: int, output: int, until: float, *, optional: bool) -> None:
        """Remember it; how an ``optional`` one ended is not reported."""
        self.optional = optional
        self.name = name
        self.pid = pid
        self.output = output
        self.until = until
        self.buffer = b""
        self.total = 0
        self.done = False

    def read(self, heard: Callable[[dict[str, Any]], None]) -> bool:
        """Read what is there; return False at the end."""
        piece = os.read(self.output, 65536)
        self.total += len(piece)
        self.buffer += piece
        *lines, self.buffer = self.buffer.split(b"\n")
        for line in lines:
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            if answer["type"] == "done":
                self.done = True
            else:
                heard(answer)
        return bool(piece) and self.total < MAX_BYTES

    def end(self, *, late: bool) -> str | None:
        """Kill the process and its group; return what was wrong with it."""
        for kill in (os.killpg, os.kill):
            try:
                kill(self.pid, signal.SIGKILL)
            except OSError:
                continue
        os.waitpid(self.pid, 0)
        os.close(self.output)
        return None if self.done else "it did not end in time" if late else "it ended the process"
