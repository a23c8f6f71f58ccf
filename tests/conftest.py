"""What every test gets: homes, caches and state of its own, and the promise that no process is left."""

from __future__ import annotations

import compileall
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import forked
import project_python
import pytest
from examples import examples
from hypothesis import settings
from memory_folder import memory_folder

import understudy
from understudy.process import unguarded
from understudy.process.guardian import marked_processes

# A busy machine makes any example slow: times are measured by `make bench`, not by tests.
settings.register_profile("without-deadline", deadline=None, max_examples=examples(100))
settings.load_profile("without-deadline")

START = Path.cwd()
TEMPORARY_ROOT = "PYTEST_DEBUG_TEMPROOT"
"""The variable that names the folder in which pytest makes its temporary ones."""

os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # of what tests start; this process keeps its compiled tests

# The Python of projects without one of their own. Each delegation looks at all packages of it three times, and those of
# the user's Python may be tens of thousands of files.
os.environ["PATH"] = f"{Path(project_python.project_python()).parent}:{os.environ['PATH']}"

# A shell that starts the tests in the background lets them ignore these, and so would each program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run inside a run of Understudy, compile the sidecar, and let tests write to memory where they can.

    If the sidecar is not compiled, each process compiles every changed module again: longer than most tests take.
    """
    run = marked_processes.surrounding_run()
    if run is not None:
        raise pytest.UsageError(
            f"These tests decide about delegations, which is refused inside a run of Understudy ({run or 'unnamed'}). "
            "They cannot be a check of a delegation. Run them in a terminal that no agent opened and that has no "
            "variable UNDERSTUDY_DELEGATION."
        )
    if not hasattr(config, "workerinput"):  # once for all workers of pytest-xdist
        compileall.compile_dir(understudy.__path__[0], quiet=2)
        folder = memory_folder()
        if folder is not None:
            os.environ.setdefault(TEMPORARY_ROOT, folder)


def pytest_collection() -> None:
    """Collect the tests without looking for garbage: there is hardly any, and looking takes a fifth of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage again, but not among the collected tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Go back to the folder of the start: that of a test is removed after it, and a process must be somewhere."""
    os.chdir(START)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Append each failed test, one line each, to the file ``UNDERSTUDY_FAILURES``, which CI prints at its very end."""
    path = os.environ.get("UNDERSTUDY_FAILURES")
    if not path or hasattr(terminalreporter.config, "workerinput"):
        return  # the workers of pytest-xdist have reporters, too
    with open(path, "a", encoding="utf-8") as file:
        for report in [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash else report.longreprtext
            file.write(f"{report.nodeid}: {' '.join(reason.split())[:300]}\n")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Redirect home, configuration, state, runtime and cache folders into the test's own folder."""
    home = tmp_path / "home"
    for name, variable in (
        ("config", "XDG_CONFIG_HOME"),
        ("state", "XDG_STATE_HOME"),
        ("data", "XDG_DATA_HOME"),
        ("cache", "XDG_CACHE_HOME"),
        ("run", "XDG_RUNTIME_DIR"),
    ):
        folder = home / name
        folder.mkdir(parents=True, mode=0o700)
        monkeypatch.setenv(variable, str(folder))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("UNDERSTUDY_STATE", str(home / "state" / "understudy"))
    for variable in list(os.environ):
        if variable.startswith("GIT_") or variable == TEMPORARY_ROOT:
            monkeypatch.delenv(variable)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "test@example.invalid")
    return home


@pytest.fixture(autouse=True)
def forked_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork workers, but for heavy tests and those that use `cold_workers`: about the start, or kills, of a worker."""
    if not request.node.get_closest_marker("heavy") and "cold_workers" not in request.fixturenames:
        monkeypatch.setattr(unguarded, "start_detached", forked.start_detached)


@pytest.fixture
def cold_workers() -> None:
    """Start each worker as users do: as a new program, with the command line and environment that /proc shows."""
