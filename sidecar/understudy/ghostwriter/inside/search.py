"""Find the examples that tell mutants from the original: one process per function or class, each with its own limits.

Reads one JSON request from standard input and writes JSON lines to standard output: ``module`` (what was found in it),
``example``, ``left_out`` and ``end``. What the code under test prints goes nowhere.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import os
import random
import select
import signal
import sys
import time
import warnings
from typing import Any, Callable

from .audit import Guard
from .loading import Source, run_imports
from .outside_effects import Effects
from .properties import Candidate, candidates, try_property
from .unit_candidates import is_function
from .unit_search import WALL_PER_CPU, UnitSearch, sample

OWN_MUTANTS = 250
REACHED_MUTANTS = 150
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
    Coordinator(request, module, source, guard, say).run()


class Coordinator:
    """Runs one process per unit, two at a time, and forwards what they find."""

    def __init__(self, request: dict[str, Any], module: Any, source: Source, guard: Guard, say: Say) -> None:
        """Analyse the module."""
        self.request = request
        self.module = module
        self.source = source
        self.guard = guard
        self.say = say
        self.effects = Effects(source.tree)
        self.mutants = [Change(encoded) for encoded in request["mutants"]]
        self.touched = {
            i: self.effects.touched_by(source.piece_of(m.start)) for i, m in enumerate(self.mutants) if not m.function
        }
        self.killed: set[int] = set()
        self.until = time.monotonic() + request["seconds"]

    def run(self) -> None:
        """Search every unit."""
        outside = self.effects.outside_imports()
        if outside and not self.request["confined"]:
            self.say("unconfined", imports=outside)
            return
        public = {n: v for n, v in vars(self.module).items() if not n.startswith("_") and n in self.source.own}
        units = []
        for name, value in public.items():
            own_class = inspect.isclass(value) and value.__module__ == self.module.__name__
            if not own_class and not is_function(value, self.module.__name__):
                continue
            reason = self.effects.reason(name)
            if reason and own_class:  # only the methods that do it are left out
                init = self.effects.definitions.get(name)
                reason = self.effects.method_reason(init, "__init__") if init is not None else reason  # type: ignore[arg-type]
            if reason:
                self.say("left_out", unit=name, why=reason)
            else:
                units.append(name)
        names = [name for name in vars(self.module) if name.isidentifier() and not name.startswith("__")]
        self.say("module", units=units, own=sorted(self.source.own), names=names)
        documented = self.request["documented"]
        plan = [("", None)] if documented else []
        own = {name: len(self.own_mutants(name)) for name in units}
        plan += [(name, public[name]) for name in sorted(units, key=lambda n: -own[n]) if self.relevant(name)]
        stop = self.until
        self.until -= PROPERTY_SHARE * self.request["seconds"] if self.request["hypothesis"] else 0
        self._run_all(plan)
        self.until = stop
        if self.request["hypothesis"]:
            functions = [name for name in units if not inspect.isclass(public[name])]
            tried = [(one.units[0], one) for one in candidates(functions) if one.survivors(self)]
            self._run_all([(name, one) for name, one in tried[:MOST_PROPERTIES]])
        self.say("end", seconds=round(self.request["seconds"] - (self.until - time.monotonic()), 1))

    def own_mutants(self, name: str) -> list[int]:
        """Return the mutants in a function or class of this name."""
        return [i for i, m in enumerate(self.mutants) if m.function == name or m.function.startswith(name + ".")]

    def relevant(self, name: str) -> list[int]:
        """Return the mutants that an example of this unit may kill, sampled evenly."""
        reached = self.effects.reach(name) - {name}
        used = self.effects.touched(name)
        others = [
            i
            for i, m in enumerate(self.mutants)
            if (m.function.split(".")[0] in reached if m.function else self.touched[i] & used)
        ]
        own = set(self.own_mutants(name))
        others = [i for i in others if i not in own]
        numbers = random.Random(11)
        return sample(self.own_mutants(name), OWN_MUTANTS, numbers) + sample(others, REACHED_MUTANTS, numbers)

    def _run_all(self, plan: list[tuple[str, Any]]) -> None:
        running: dict[int, Child] = {}
        waiting = list(plan)
        while waiting or running:
            while waiting and len(running) < self.request["jobs"]:
                left = self.until - time.monotonic()
                if left <= 0:
                    if not isinstance(waiting[0][1], Candidate):
                        self.say("left_out", unit=waiting[0][0], why="the time was over")
                    waiting.pop(0)
                    continue
                share = min(MOST_SECONDS, max(FIRST_SECONDS, left * self.request["jobs"] / len(waiting)))
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
        self.killed.update(answer.get("kills", ()))
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

                    self.guard.start_clocks()
                    if isinstance(value, Candidate):
                        function = vars(self.module)[name]
                        try_property(UnitSearch(self, name, function, seconds, say), value, say)
                    else:
                        UnitSearch(self, name, value, seconds, say).run()
                    say("done")
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        until = min(self.until, time.monotonic() + WALL_PER_CPU * seconds) + GRACE
        return Child(name, pid, read, until, optional=isinstance(value, Candidate))


class Change:
    """A mutant of the module: bytes, the function, the first and the last line that run when it runs."""

    __slots__ = ("end", "first", "function", "last", "start", "text")

    def __init__(self, encoded: list[Any]) -> None:
        """Decode it."""
        self.start, self.end, text, self.function, self.first, self.last = encoded
        self.text = base64.b64decode(text)


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
