"""Run tests on the code as it is, and on mutants of it: ``python understudy_mutants.py record|judge JOB``.

JOB is a JSON file; the result is written to the file that it names. ``record`` runs the tests once and records which
test executes which line. ``judge`` puts one mutant after another in place of its file and runs the tests that execute
it. Where it can, it forks a process for each mutant after the test runner and third-party modules are loaded, which
saves most of the time; otherwise each mutant gets a new interpreter. Tests run the same way in both, so that nothing
shows a test that it runs on a mutant. If all test files are in one folder, which decides the configuration, pytest
reads it before the fork, up to the point where it would load the first file of the project.

A process of tests reports through a pipe: one line for each test. It ends with a line that only its parent knows
beforehand, so a process that ended early is recognised.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import importlib
import importlib.util
import json
import linecache
import os
import py_compile
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple  # noqa: UP035 - Python 3.8

import pytest
from understudy_calls import CallRecorder  # type: ignore[import-not-found] # in the same folder
from understudy_lines import Children, Lines  # type: ignore[import-not-found]
from understudy_tree import CopiedTree  # type: ignore[import-not-found] # in the same folder

Json = Dict[str, Any]  # noqa: UP006

_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_PYTEST_OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--no-header", "--tb=no", "-W"]
_PYTEST_WARNING = "ignore::pytest.PytestAssertRewriteWarning"
"""Plugins are loaded before the fork, so pytest can no longer rewrite their assertions, and says so."""
_ONE_PROCESS: Json = {"numprocesses": None, "maxprocesses": None, "dist": "no", "tx": []}
"""Options of pytest-xdist, where the project's configuration may have set others."""
_COVERAGE_OPTIONS: Json = {
    "--cov": {"action": "append", "nargs": "?", "const": True},
    **{f"--cov-{name}": {"action": "append"} for name in ("report", "config", "fail-under", "precision", "context")},
    **{
        f"--{name}": {"action": "store_true"}
        for name in ("cov-reset", "cov-append", "cov-branch", "no-cov", "no-cov-on-fail")
    },
}
_MOST_BYTES = 16 * 1024 * 1024
"""Most bytes of reports that one process may write."""
_GRACE_SECONDS = 5.0


class Reporter:
    """Writes one line for each test: a sign, then the id.

    ``+`` passed, ``-`` failed, ``x`` failed by an error, not by a comparison, ``!`` could not be collected.
    """

    def __init__(self, descriptor: int, last: bytes) -> None:
        """Write to ``descriptor``; ``last`` ends the report."""
        self._descriptor = descriptor
        self._last = last
        self._write = os.write

    def line(self, sign: str, test: str) -> None:
        """Report one test."""
        data = (sign + json.dumps(test) + "\n").encode()
        while data:
            data = data[self._write(self._descriptor, data) :]

    def end(self) -> None:
        """Report that all tests ran."""
        self._write(self._descriptor, self._last + b"\n")


class PytestReports:
    """A pytest plugin that passes outcomes on."""

    def __init__(self, reporter: Any, code: Tuple[str, ...] = ()) -> None:  # noqa: UP006
        """Report to ``reporter``; ``code`` are the files under test, absolute paths, links resolved."""
        self._reporter = reporter
        self._code = frozenset(code)
        self._crashed: Set[str] = set()  # noqa: UP006
        self._told = ("", "")
        """The last outcome that was reported: the subtests of a test, which may be thousands, report the same."""

    def pytest_addoption(self, parser: Any) -> None:
        """Accept the options of pytest-cov where it is not installed, because it would be switched off."""
        if importlib.util.find_spec("pytest_cov") is None:
            for name, arguments in _COVERAGE_OPTIONS.items():
                with contextlib.suppress(ValueError):  # another plugin has it
                    parser.addoption(name, **arguments)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: Any, args: List[str]) -> Any:  # noqa: UP006
        """Switch pytest-cov off: two tracers would disturb each other, and its report is not needed."""
        namespace = early_config.known_args_namespace
        self.configured(args, namespace)
        if hasattr(namespace, "cov_source"):
            namespace.cov_source = []
        yield

    def configured(self, args: List[str], namespace: Any) -> None:  # noqa: UP006
        """Do something before pytest loads any file of the project; ``args`` are parsed again into ``namespace``."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: Any) -> None:
        """Run all tests in this process."""
        for name, value in _ONE_PROCESS.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        _capture_subtests_together()

    def pytest_runtest_protocol(self, item: Any) -> None:
        """End a test of unittest with its first subtest that fails: thousands of failures say no more."""
        if hasattr(item, "failfast"):
            item.failfast = True

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        """Notice whether a test failed without comparing anything: any test that runs the code would."""
        if call.excinfo is not None and not self._is_finding(call.excinfo, getattr(item, "function", None)):
            self._crashed.add(item.nodeid)
        yield

    def _is_finding(self, failure: Any, test: Any) -> bool:
        """Return whether ``test`` itself found something wrong: an assertion, or an exception that it raises.

        An example in a docstring found it if the code did not raise anything.
        """
        kind = type(failure.value)
        if (kind.__module__, kind.__name__) == ("doctest", "UnexpectedException"):
            return False
        step = failure.tb
        while step.tb_next is not None:
            step = step.tb_next
        code = step.tb_frame.f_code
        # A test may be in the same file as the code that it tests.
        if os.path.realpath(code.co_filename) in self._code and code is not getattr(test, "__code__", None):
            return False
        if isinstance(failure.value, (AssertionError, pytest.fail.Exception)):
            return True
        return linecache.getline(code.co_filename, step.tb_lineno).lstrip().startswith("raise ")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Report a failure in setup or call, and a pass; subtests pass with their test."""
        if report.outcome == "failed" and report.when != "teardown":
            self._tell("x" if report.nodeid in self._crashed else "-", report.nodeid)
        elif report.when != "call" or report.outcome != "passed" or hasattr(report, "context"):
            return
        elif getattr(report, "wasxfail", None) is None:
            self._tell("+", report.nodeid)

    def _tell(self, sign: str, test: str) -> None:
        if self._told != (sign, test):
            self._told = (sign, test)
            self._reporter.line(sign, test)

    def pytest_collectreport(self, report: Any) -> None:
        """Report a file that cannot be collected."""
        if report.failed:
            self._reporter.line("!", report.nodeid)


def _capture_subtests_together() -> None:
    """Capture the output of subtests with that of their test: to open files for each takes most of the time."""
    with contextlib.suppress(ImportError):
        subtests: Any = importlib.import_module("_pytest.subtests")  # from pytest 9
        subtests.capturing_output = lambda _request: contextlib.nullcontext(subtests.Captured())


class RecordedRun:
    """A reporter that keeps the outcomes, with the lines that each test executed."""

    def __init__(self, files: List[str]) -> None:  # noqa: UP006
        """Record lines of ``files``: absolute paths, links resolved."""
        self.passed: Dict[str, float] = {}  # noqa: UP006
        self.failed: Set[str] = set()  # noqa: UP006
        self.modules: List[str] = []  # noqa: UP006
        self.early = False
        """Modules of the project were loaded before its first conftest.py."""
        self.lines = Lines(files)
        self.children = Children(files)
        self._began = time.perf_counter()

    def line(self, sign: str, test: str) -> None:
        """Keep one outcome."""
        if sign == "+":
            self.passed[test] = round(time.perf_counter() - self._began, 6)
        else:
            self.failed.add(test)

    def starts(self, test: Optional[str]) -> None:  # noqa: UP045
        """Record lines as those of ``test`` from now on; None: of no test."""
        self._began = time.perf_counter()
        self.lines.starts(test)
        self.lines.pauses()  # until a phase of the test begins: pytest itself makes most of the calls
        self.children.starts(test or "")

    def phase(self) -> Any:
        """Record while the code of the project runs: a fixture or a test."""
        self.lines.resumes()
        yield
        self.lines.pauses()


class PytestRecord(PytestReports):
    """A pytest plugin that records a whole run."""

    def __init__(self, recorded: RecordedRun, root: str) -> None:
        """Record into ``recorded``; modules below ``root`` are those of the project."""
        super().__init__(recorded)
        self._recorded = recorded
        self._root = root

    def configured(self, args: List[str], namespace: Any) -> None:  # noqa: ARG002, UP006
        """Notice whether a plugin is code of the project."""
        self._recorded.early = _uses(self._root)

    def pytest_sessionstart(self) -> None:
        """Start recording lines. Not earlier, because a tracer would slow down the imports of all plugins."""
        self._recorded.lines.begin()

    def pytest_collection_finish(self) -> None:
        """Record the modules that a run needs and that are not the project's."""
        self._recorded.modules = [
            name for name, module in list(sys.modules.items()) if _is_foreign(module, self._root) and name != "__main__"
        ]

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:  # noqa: ARG002 - the hook's own signature
        """Start recording the lines of a test."""
        self._recorded.starts(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:  # noqa: ARG002
        """Stop recording the lines of a test."""
        self._recorded.starts(None)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        """Pause while a report is made: thousands of subtests are reported while their test runs."""
        self._recorded.lines.pauses()
        yield from super().pytest_runtest_makereport(item, call)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_logreport(self, report: Any) -> Any:
        """Keep an outcome; record further lines of the test if it was that of a subtest."""
        super().pytest_runtest_logreport(report)
        yield
        if hasattr(report, "context"):
            self._recorded.lines.resumes()

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: Any) -> Any:  # noqa: ARG002
        """Record fixtures."""
        yield from self._recorded.phase()

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: Any) -> Any:  # noqa: ARG002
        """Record the test itself."""
        yield from self._recorded.phase()

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: Any) -> Any:  # noqa: ARG002
        """Record the end of fixtures."""
        yield from self._recorded.phase()


def _is_foreign(module: Any, root: str) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and not os.path.realpath(file).startswith(root + os.sep)


def _uses(root: str) -> bool:
    """Return whether a module below ``root`` is loaded."""
    ours = [module for module in list(sys.modules.values()) if not _is_foreign(module, root)]
    return any(isinstance(getattr(module, "__file__", None), str) for module in ours)


def _arguments(tests: List[str], tests_in: str, stop: bool) -> List[str]:  # noqa: UP006
    return [*_PYTEST_OPTIONS, _PYTEST_WARNING, "--rootdir", tests_in, _when_failed(stop), *tests]


def _when_failed(stop: bool) -> str:
    # A file that cannot be loaded must not keep the tests of other files from running.
    return "-x" if stop else "--continue-on-collection-errors"


def run_pytest(tests: List[str], plugin: Any, tests_in: str, stop: bool = True) -> int:  # noqa: UP006
    """Run tests with pytest, whose ids begin at the folder ``tests_in``; return its exit code."""
    arguments = _arguments(tests, tests_in, stop)
    _hide(arguments)
    return int(pytest.main(arguments, plugins=[plugin]))


def record(job: Json) -> Json:
    """Run all tests once and return their outcomes and lines."""
    recorded = RecordedRun(job["files"])
    calls = CallRecorder(job["root"], job["test_files"], job["per_function"]) if job["calls"] else None
    if calls is not None:
        recorded.lines.on_call, recorded.lines.on_return = calls.called, calls.returned
        recorded.lines.on_raise = calls.raised
    tree = CopiedTree(job["root"], job["original"]) if job["original"] else None
    began = time.perf_counter()
    code = run_pytest(job["tests"], PytestRecord(recorded, job["root"]), job["tests_in"], stop=False)
    seconds = time.perf_counter() - began
    recorded.lines.end()
    if calls is not None:
        calls.save(job["calls"])
    recorded.children.add_to(recorded.lines)
    if tree is not None:
        tree.reset()
    return {
        "code": code,
        "seconds": seconds,
        "passed": {test: spent for test, spent in recorded.passed.items() if test not in recorded.failed},
        "failed": sorted(recorded.failed),
        "lines": {
            file: {test: sorted(lines) for test, lines in tests.items()} for file, tests in recorded.lines.found.items()
        },
        "from_text": sorted(recorded.lines.from_text),
        "modules": recorded.modules,
        "early": recorded.early,
    }


class Ends(PytestReports):
    """A pytest plugin that ends the process with the tests."""

    def pytest_sessionfinish(self, exitstatus: Any) -> None:
        """End here: everything is known, and collecting the garbage of an interpreter takes longer than most tests."""
        self._reporter.end()
        os._exit(int(exitstatus))


class Judge:
    """Runs tests on one mutant after another."""

    def __init__(self, job: Json) -> None:
        """Load what all runs need."""
        self._job = job
        self._root = job["root"]
        self.forks = bool(job["forks"])
        if self.forks:
            self._preload()
        self.configured = False
        """pytest has read its configuration: a forked process returns to it."""
        self._tree = CopiedTree(self._root, job["original"]) if job["original"] else None

    def _preload(self) -> None:
        for name in self._job["modules"]:
            try:
                importlib.import_module(name)
            except BaseException:  # noqa: S112 - a child imports it again, and reports why it fails
                continue
        self.freeze()

    def freeze(self) -> None:
        """Leave what is loaded now to all forked processes, and what they compile to those that follow."""
        sys.pycache_prefix, sys.dont_write_bytecode = self._job["compiled"], False
        if _uses(self._root):
            self.forks = False  # the runner itself uses the code under test, and would keep the version it has
        gc.collect()
        gc.freeze()

    def run(self, run: Json) -> Json | Forked:
        """Put a mutant in place, run its tests and put the file back; return what happened.

        In a process that was forked for the tests, return what it must do.
        """
        path = os.path.join(self._root, run["path"])  # noqa: PTH118
        with open(path, "rb") as stream:  # noqa: PTH123
            source = stream.read()
        times = os.stat(path)  # noqa: PTH116
        compiled = _compiled(path) if run["decoy"] else {}
        mutated = source
        for start, end, text in reversed(run["edits"]):
            mutated = mutated[:start] + base64.b64decode(text) + mutated[end:]
        with contextlib.ExitStack() as afterwards:
            if self._tree is not None:
                afterwards.callback(self._tree.reset)
            if run["own"]:
                afterwards.callback(_own_folders(run["own"]))
            afterwards.callback(self._put, path, source, times)
            self._put(path, mutated, times)
            for name, code in compiled.items():
                with open(name, "wb") as stream:  # noqa: PTH123
                    stream.write(code)
            outcome = self._outcome(run)
            if isinstance(outcome, Forked):
                afterwards.pop_all()  # the file is put back by the parent
            return outcome

    def _put(self, path: str, data: bytes, times: Any) -> None:
        # A compiled file of the same size and time would run instead.
        for name in _compiled_names(path):
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108
        with open(path, "r+b") as stream:  # noqa: PTH123 - the same file: links to it stay
            stream.write(data)
            stream.truncate()
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _outcome(self, run: Json) -> Json | Forked:
        read, write = os.pipe()
        last = os.urandom(12).hex().encode()
        began = time.perf_counter()
        child = self._start(run, write, last)
        if isinstance(child, Forked):
            return child
        os.close(write)
        report, timed_out = _read(read, run["seconds"])
        os.close(read)
        code = _end(child, timed_out)
        lines = report.split(b"\n")
        ended = last in lines
        signs: Dict[str, List[str]] = {"+": [], "-": [], "x": [], "!": []}  # noqa: UP006
        for line in lines:
            text = line.decode("utf-8", "replace")
            if text[:1] in signs and text[1:]:
                try:
                    signs[text[0]].append(str(json.loads(text[1:])))
                except ValueError:
                    continue  # cut off by the end of the process
        return {
            "passed": signs["+"],
            "failed": signs["-"] + signs["x"],
            "crashed": signs["x"],
            "errors": signs["!"],
            "code": code,
            "ended": ended,
            "timed_out": timed_out,
            "seconds": round(time.perf_counter() - began, 4),
        }

    def _start(self, run: Json, write: int, last: bytes) -> int | Forked:
        job = {
            "tests": run["tests"],
            "stop": run["stop"],
            **{key: self._job[key] for key in ("tests_in", "code", "options")},
        }
        if not self.forks:
            argv = [sys.executable, os.path.abspath(__file__), "child", str(write)]  # noqa: PTH100
            # By standard input: there may be more tests than arguments, and arguments can be read by anyone.
            process = subprocess.Popen(
                argv, cwd=self._job["folder"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, pass_fds=[write], start_new_session=True,
            )  # fmt: skip
            assert process.stdin is not None  # noqa: S101 - it is a pipe
            try:
                job.update(folder=self._job["folder"], last=last.decode())
                process.stdin.write(json.dumps(job).encode())
                process.stdin.close()
            except OSError:
                pass  # it is dead already, which its report shows
            process.returncode = 0  # reaped below, by its id
            return process.pid
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.setsid()
                null = os.open(os.devnull, os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(null, descriptor)
                for descriptor in _open_descriptors():
                    if descriptor > 2 and descriptor != write:
                        with contextlib.suppress(OSError):
                            os.close(descriptor)
                if self.configured:
                    return Forked(job, Reporter(write, last))
                code = run_child(job, write, last)
            except BaseException:  # noqa: S110 - the exit code reports it
                pass
            os._exit(code)
        return child


def _own_folders(variables: Dict[str, str]) -> Callable[[], None]:  # noqa: UP006
    """Let the tests that are started now have a home and temporary files that no other run has used.

    ``variables`` name the folders, which are all in another one. Return what undoes that; not a context manager, which
    would do so in a forked process, too.
    """
    before = {name: os.environ.get(name) for name in variables}, tempfile.tempdir
    for folder in variables.values():
        os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103
    os.environ.update(variables)
    tempfile.tempdir = None

    def undo() -> None:
        for name, value in before[0].items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        tempfile.tempdir = before[1]
        for parent in {os.path.dirname(folder) for folder in variables.values()}:  # noqa: PTH120
            shutil.rmtree(parent, ignore_errors=True)

    return undo


class Forked:
    """What a process must do that was forked when pytest was configured."""

    def __init__(self, job: Json, reporter: Reporter) -> None:
        """Run the tests of ``job`` and report to ``reporter``."""
        self.job = job
        self.reporter = reporter


class Configured(Ends):
    """A pytest plugin that judges mutants before the first file of the project is loaded.

    Each forked process continues there with its own tests.
    """

    def __init__(self, job: Json, judge_: Judge, serve: Callable[[Judge], Optional[Forked]]) -> None:  # noqa: UP045
        """Judge with ``serve`` until the input is over."""
        super().__init__(None, tuple(job["code"]))
        self._job = job
        self._judge = judge_
        self._serve = serve

    def configured(self, args: List[str], namespace: Any) -> None:  # noqa: UP006
        """Judge all mutants in this process; in a forked one, replace the tests by those of its mutant."""
        self._judge.freeze()
        self._judge.configured = self._judge.forks
        forked = self._serve(self._judge)
        if forked is None:
            os._exit(0)  # the input is over
        self._reporter = forked.reporter
        tests, stop = forked.job["tests"], forked.job["stop"]
        args[len(args) - len(self._job["files"]) :] = [_when_failed(stop), *tests]
        namespace.file_or_dir[:] = tests
        _begin_child()
        _hide(_arguments(tests, self._job["tests_in"], stop))

    def run(self) -> int:
        """Start pytest, which returns in forked processes only, and only if it cannot run the tests."""
        code = run_pytest(self._job["files"], self, self._job["tests_in"], stop=False)
        if self._reporter is not None:
            self._reporter.end()
        return code


def _compiled_names(path: str) -> List[str]:  # noqa: UP006
    """Return where the interpreter keeps the compiled form of a file: as it is, and with ``-O`` and ``-OO``."""
    try:
        return [importlib.util.cache_from_source(path, optimization=level) for level in ("", "1", "2")]
    except NotImplementedError:
        return []  # it keeps none


def _compiled(path: str) -> Dict[str, bytes]:  # noqa: UP006
    """Return compiled forms of a file that the interpreter loads whatever the file says."""
    compiled = {}
    for optimize, name in enumerate(_compiled_names(path)):
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(path, cfile=name, doraise=True, optimize=optimize, invalidation_mode=unchecked)
        with open(name, "rb") as stream:  # noqa: PTH123
            compiled[name] = stream.read()
    return compiled


def _open_descriptors() -> List[int]:  # noqa: UP006
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"  # noqa: PTH112
    return [int(name) for name in os.listdir(folder)]  # noqa: PTH208


def _begin_child() -> None:
    _limit()
    importlib.invalidate_caches()


def run_child(job: Json, write: int, last: bytes) -> int:
    """Run tests in this process, which is for them alone; return the exit code."""
    reporter = Reporter(write, last)
    _begin_child()
    code = run_pytest(job["tests"], Ends(reporter, tuple(job["code"])), job["tests_in"], stop=job["stop"])
    reporter.end()
    return code


def _hide(arguments: List[str]) -> None:  # noqa: UP006
    """Leave in this process what ``python -m pytest`` would: its program and arguments, and none of these modules."""
    program = importlib.import_module("pytest.__main__")
    for name, module in list(sys.modules.items()):
        if name == "__main__" or os.path.dirname(getattr(module, "__file__", None) or "") == _FOLDER:  # noqa: PTH120
            del sys.modules[name]
    sys.modules["__main__"] = program
    sys.argv = [str(program.__file__), *arguments]
    sys.orig_argv = [sys.executable, "-m", "pytest", *arguments]


def _limit() -> None:
    for limit, most in ((resource.RLIMIT_DATA, 4 << 30), (resource.RLIMIT_FSIZE, 256 << 20), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(limit)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (allowed, allowed))


def _read(descriptor: int, seconds: float) -> Tuple[bytes, bool]:  # noqa: UP006
    """Return what a process reports until it ends, or until the time is over."""
    deadline = time.monotonic() + seconds
    pieces: List[bytes] = []  # noqa: UP006
    size = 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return b"".join(pieces), True
        piece = os.read(descriptor, 65536)
        size += len(piece)
        if not piece or size > _MOST_BYTES:
            return b"".join(pieces), False
        pieces.append(piece)


def _end(child: int, at_once: bool) -> Optional[int]:  # noqa: UP045
    """End a process and its leftovers; return its exit code, negative for a signal, None if it had to be killed."""
    deadline = time.monotonic() + (0 if at_once else _GRACE_SECONDS)
    code: Optional[int] = None  # noqa: UP045
    while code is None and time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        else:
            time.sleep(0.001)
    with contextlib.suppress(OSError):  # nothing is left of it
        os.killpg(child, signal.SIGKILL)
    if code is None:
        os.waitpid(child, 0)
    return code


def judge(job: Json, write: Callable[[Json], None]) -> None:
    """Judge one mutant after another: standard input has one on each line, whose word is printed when it is judged.

    The first line has the rest of the job; its word is printed when everything is loaded.
    """
    line = sys.stdin.readline()
    if not line:
        return  # no mutant needs a run
    first = json.loads(line)
    job.update(first["job"])
    _enter(job)

    def done(request: Json) -> None:
        os.write(1, b"\n" + request["word"].encode() + b"\n")

    def serve(judge_: Judge) -> Forked | None:
        done(first)
        for line in iter(sys.stdin.readline, ""):
            run = json.loads(line)
            outcome = judge_.run(run)
            if isinstance(outcome, Forked):
                return outcome
            write({"forks": judge_.forks, **outcome})
            done(run)
        return None

    judge_ = Judge(job)
    files = job["files"]
    if judge_.forks and not job["early"] and len({os.path.dirname(file) for file in files}) == 1:  # noqa: PTH120
        code = 70
        try:
            code = Configured(job, judge_, serve).run()
        finally:
            os._exit(code)
    serve(judge_)


def _enter(job: Json) -> None:
    """Import from the tree from now on, as `python -m pytest` does, and use the options of the check."""
    os.chdir(job["folder"])
    _PYTEST_OPTIONS[:0] = job["options"]
    paths = job["paths"].split(os.pathsep) if job["paths"] else []
    if paths:
        os.environ["PYTHONPATH"] = job["paths"]
    sys.path[:] = [job["folder"], *paths, *(entry for entry in sys.path[1:] if entry not in paths)]


def main(argv: List[str]) -> int:  # noqa: UP006
    """Run one command."""
    if argv[0] == "child":
        job = json.load(sys.stdin)
        sys.path[0] = job["folder"]
        _PYTEST_OPTIONS[:0] = job["options"]
        return run_child(job, int(argv[1]), job["last"].encode())
    with open(argv[1], encoding="utf-8") as stream:  # noqa: PTH123
        job = json.load(stream)
    out = os.open(job["out"], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def write(entry: Json) -> None:
        os.write(out, json.dumps(entry).encode() + b"\n")

    if argv[0] == "record":
        _enter(job)
        write(record(job))
    else:
        judge(job, write)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
