"""Record which lines of some files run, in this process and in the Python programs that it starts."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Optional, Set  # noqa: UP035 - Python 3.8

JOB = "UNDERSTUDY_LINES"
"""A file that says what to record in a child process, while lines are recorded; never set on a mutant."""
TEST = "UNDERSTUDY_LINES_TEST"
"""The test that started a child process."""
START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child_lines")  # noqa: PTH100, PTH118, PTH120
"""A folder whose ``sitecustomize`` calls ``record_child`` when a Python program starts."""


class Lines:
    """Records the executed lines of some files for each test."""

    def __init__(self, files: List[str]) -> None:  # noqa: UP006
        """Record nothing yet."""
        self.found: Dict[str, Dict[str, Set[int]]] = {file: {} for file in files}  # noqa: UP006
        self.from_text: Set[str] = set()  # noqa: UP006
        """Files that ran in another way than by a usual import, which would take the compiled file if there is one."""
        self._names: Dict[str, Optional[str]] = {}  # noqa: UP006, UP045
        self._ran: Dict[int, Any] = {}  # noqa: UP006
        """Code that ran, by its id."""
        self._usual: Dict[str, Set[Any]] = {}  # noqa: UP006
        """File → the code that an import makes of it."""
        self._test = ""
        self._began = False
        self._shared: Dict[str, Any] = {}  # noqa: UP006
        """File → a page for each line, which processes that a test forks mark, too."""
        self.on_call: Optional[Callable[[Any], None]] = None  # noqa: UP045
        """Gets the frame of each function that a test calls."""
        self.on_return: Optional[Callable[[Any, Any], None]] = None  # noqa: UP045
        """Gets the frame of a function in one of the files when it ends, and what it returns; None if it raises."""
        self.on_raise: Optional[Callable[[Any, Any], None]] = None  # noqa: UP045
        """Gets such a frame before, and an exception that ends it; before Python 3.12, also one that it handles."""
        self._watch: Any = getattr(sys, "monitoring", None)  # Python 3.12: each line reports once for each test

    def begin(self) -> None:
        """Start recording lines that run outside tests."""
        self._began = True
        self._share()
        if self._watch is not None:
            self._watch.use_tool_id(self._watch.COVERAGE_ID, "lines")
            self._watch.register_callback(self._watch.COVERAGE_ID, self._watch.events.LINE, self._on_line)
            self._watch.register_callback(self._watch.COVERAGE_ID, self._watch.events.PY_START, self._on_start)
            self._watch.register_callback(self._watch.COVERAGE_ID, self._watch.events.PY_RETURN, self._on_return)
            self._watch.register_callback(self._watch.COVERAGE_ID, self._watch.events.PY_UNWIND, self._on_unwind)
            events = self._watch.events.LINE
            events |= self._watch.events.PY_START if self.on_call is not None else 0
            events |= self._watch.events.PY_RETURN if self.on_return is not None else 0
            events |= self._watch.events.PY_UNWIND if self.on_raise is not None else 0
            self._watch.set_events(self._watch.COVERAGE_ID, events)
        self.starts(None)

    def starts(self, test: Optional[str]) -> None:  # noqa: UP045
        """Record the lines of ``test`` from now on."""
        self._take_shared()
        self._test = test or ""
        if self._watch is not None:
            self._watch.restart_events()
        else:
            import threading

            threading.settrace(self._trace)
            self.resumes()

    def resumes(self) -> None:
        """Record in this thread again, after ``pauses``."""
        if self._watch is None:
            sys.settrace(self._trace)

    def pauses(self) -> None:
        """Record nothing in this thread for a while, if that costs time for each call."""
        if self._watch is None:
            sys.settrace(None)

    def end(self) -> None:
        """Stop recording."""
        if not self._began:
            return
        self._take_shared()
        if self._watch is not None:
            self._watch.set_events(self._watch.COVERAGE_ID, 0)
            self._watch.free_tool_id(self._watch.COVERAGE_ID)
        else:
            sys.settrace(None)

    def _share(self) -> None:
        """Let forked processes record into memory that they share with this one: they may end without a word."""
        for file in self.found:
            with contextlib.suppress(OSError, ValueError):  # no such file, or no memory
                self._shared[file] = mmap.mmap(-1, os.path.getsize(file) + 2)  # noqa: PTH202 - a line for each byte
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        for file, marks in self._shared.items():
            self.found[file] = {self._test: _Marks(marks)}
        if self._watch is not None:
            self._watch.restart_events()

    def _take_shared(self) -> None:
        for file, marks in self._shared.items():
            if marks.find(b"\1") >= 0:
                lines = {line for line, mark in enumerate(marks[:]) if mark}
                self.found[file].setdefault(self._test, set()).update(lines)
                marks[:] = bytes(len(marks))

    def _file(self, frame: Any) -> Optional[str]:  # noqa: UP045
        name = frame.f_code.co_filename
        if name not in self._names:
            path = os.path.realpath(name)
            self._names[name] = path if path in self.found else None
        path = self._names[name]
        if path is not None:
            self._look_at(path, frame)
        return path

    def _look_at(self, path: str, frame: Any) -> None:
        """Find out whether a file's code was compiled again from its text, as decorators such as typeguard's do."""
        code = frame.f_code
        if path in self.from_text or id(code) in self._ran:
            return
        self._ran[id(code)] = code
        loader = getattr(frame.f_globals.get("__spec__"), "loader", None)
        if type(loader).__name__ != "SourceFileLoader":
            self.from_text.add(path)
            return
        if path not in self._usual:
            self._usual[path] = set(_codes(path))
        if code not in self._usual[path]:
            self.from_text.add(path)

    def _on_line(self, code: Any, line: int) -> Any:  # noqa: ARG002 - the interpreter's signature
        file = self._file(sys._getframe(1))  # noqa: SLF001 - the frame that runs the line
        if file is not None:
            self.found[file].setdefault(self._test, set()).add(line)
        return self._watch.DISABLE

    def _on_start(self, code: Any, offset: int) -> None:  # noqa: ARG002 - the interpreter's signature
        if self.on_call is not None and self._test:
            self.on_call(sys._getframe(1))  # noqa: SLF001 - the frame that begins

    def _on_return(self, code: Any, offset: int, value: Any) -> None:  # noqa: ARG002 - the interpreter's signature
        if self.on_return is not None:
            self.on_return(sys._getframe(1), value)  # noqa: SLF001 - the frame that ends

    def _on_unwind(self, code: Any, offset: int, error: Any) -> None:  # noqa: ARG002 - the interpreter's signature
        frame = sys._getframe(1)  # noqa: SLF001 - the frame that ends
        if self.on_raise is not None:
            self.on_raise(frame, error)
        if self.on_return is not None:
            self.on_return(frame, None)

    def _trace(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "call" and self.on_call is not None and self._test:
            self.on_call(frame)
        name = frame.f_code.co_filename
        if name in self._names and self._names[name] is None:
            return None  # nearly all calls: another call here would double what they cost
        file = self._file(frame)
        if file is None:
            return None
        if event == "line":
            self.found[file].setdefault(self._test, set()).add(frame.f_lineno)
        elif event == "return" and self.on_return is not None:
            self.on_return(frame, argument)
        elif event == "exception" and self.on_raise is not None:
            self.on_raise(frame, argument[1])
        return self._trace


class _Marks(Set[int]):  # noqa: UP006 - Python 3.8
    """Lines that a forked process records."""

    def __init__(self, marks: Any) -> None:
        """Mark lines in shared memory."""
        super().__init__()
        self._marks = marks

    def add(self, line: int) -> None:
        """Mark one line."""
        if line < len(self._marks):
            self._marks[line] = 1


class Children:
    """Lets the Python programs that tests start record their lines, too."""

    def __init__(self, files: List[str]) -> None:  # noqa: UP006
        """Change the environment that programs inherit."""
        self._folder = tempfile.mkdtemp(prefix="lines-")
        self._job = os.path.join(self._folder, "job.json")  # noqa: PTH118
        with open(self._job, "w", encoding="utf-8") as stream:  # noqa: PTH123
            json.dump({"files": files}, stream)
        os.environ[JOB] = self._job
        _add_path(os.environ)
        _pass_on()

    def starts(self, test: str) -> None:
        """Let programs record lines as those of ``test`` from now on."""
        os.environ[TEST] = test

    def add_to(self, lines: Lines) -> None:
        """Add what programs recorded."""
        for name in sorted(os.listdir(self._folder)):  # noqa: PTH208
            path = os.path.join(self._folder, name)  # noqa: PTH118
            if path == self._job:
                continue
            for file, test, line in _entries(path):
                if file in lines.found and line:
                    lines.found[file].setdefault(test, set()).add(line)
                elif file in lines.found:
                    lines.from_text.add(file)
        shutil.rmtree(self._folder, ignore_errors=True)


def _codes(path: str) -> Iterator[Any]:
    """Yield the code of a module and of everything in it; nothing if it cannot be read."""
    left: List[Any] = []  # noqa: UP006
    with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError), open(path, "rb") as stream:  # noqa: PTH123
        left.append(compile(stream.read(), path, "exec", dont_inherit=True))
    while left:
        code = left.pop()
        yield code
        left.extend(constant for constant in code.co_consts if hasattr(constant, "co_code"))


def _add_path(environment: Any) -> None:
    paths = [START, os.path.dirname(START), *filter(None, [environment.get("PYTHONPATH")])]  # noqa: PTH120
    environment["PYTHONPATH"] = os.pathsep.join(paths)


def _pass_on() -> None:
    """Let programs record lines, too, if a test starts them with an environment of its own."""
    start = subprocess.Popen.__init__

    @functools.wraps(start)
    def started(self: Any, *arguments: Any, **options: Any) -> None:
        environment = options.get("env")
        if isinstance(environment, dict) and START not in environment.get("PYTHONPATH", ""):
            environment = {**environment, **{name: os.environ[name] for name in (JOB, TEST) if name in os.environ}}
            _add_path(environment)
            options["env"] = environment
        start(self, *arguments, **options)

    subprocess.Popen.__init__ = started  # type: ignore[method-assign]


def _entries(path: str) -> Iterator[Any]:
    try:
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123
            for file, tests in json.load(stream).items():
                for test, lines in tests.items():
                    for line in lines:
                        yield file, test, line  # no line is numbered 0: the file ran from its text
    except (OSError, ValueError, AttributeError):
        return  # the program was killed while it wrote


def record_child() -> None:
    """Record what this process runs, if it is a child of a recorded test; written when it ends."""
    path = os.environ.get(JOB)
    if not path:
        return
    try:
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123
            job = json.load(stream)
    except (OSError, ValueError):
        return
    lines = Lines(job["files"])
    calls: Any = None
    if "calls" in job:
        from understudy_calls import CallRecorder  # type: ignore[import-not-found] # in the same folder

        calls = CallRecorder(**job["calls"])
        lines.on_call = calls.called
    lines.begin()
    lines.starts(os.environ.get(TEST))

    def write() -> None:
        lines.end()
        out = os.path.join(os.path.dirname(path), "{}-{}".format(os.getpid(), os.urandom(4).hex()))  # noqa: PTH118, PTH120, UP032
        executed = {file: {test: sorted(some) for test, some in tests.items()} for file, tests in lines.found.items()}
        for file in lines.from_text:
            executed[file].setdefault("", []).append(0)
        with open(out, "w", encoding="utf-8") as stream:  # noqa: PTH123
            json.dump(executed, stream)
        if calls is not None:
            calls.save(out + ".calls")

    atexit.register(write)
