"""Report to Understudy which tests ran, their outcomes, and which code files were loaded (pytest 6 and later).

``PYTEST_ADDOPTS`` loads this plugin, however a project starts pytest. Under pytest-xdist, the controller writes the
report, and the workers send it the files that they loaded.
"""

from __future__ import annotations

import os
from typing import Any, Optional

import pytest
import understudy_report  # type: ignore[import-not-found] # in the same folder, on the project's PYTHONPATH

_ADDOPTS = "PYTEST_ADDOPTS"
_WORKER_KEY = "understudy_settings"
_FILES_KEY = "understudy_files"
_ORDERED = ("order", "run", "dependency", "incremental")
"""Markers of plugins and projects that declare an order of tests."""


class _Probe:
    def __init__(self) -> None:
        self.settings = understudy_report.take_settings()
        self.recorder: Any = None
        self.loaded: Any = None
        self.is_worker = False
        if self.settings is not None:
            self.recorder = understudy_report.Recorder(self.settings, "pytest")
            self.loaded = understudy_report.Loaded(self.settings.root)

    def become_worker(self, settings: Any) -> None:
        self.is_worker = True
        self.settings = settings
        self.loaded = understudy_report.Loaded(settings.root)

    def remove_addopts(self) -> None:
        # Do not report a pytest that a test starts. Not done earlier, because pytest-xdist workers need the option.
        if self.settings is not None and self.settings.addopts and _ADDOPTS in os.environ:
            rest = os.environ[_ADDOPTS].replace(self.settings.addopts, "").strip()
            if rest:
                os.environ[_ADDOPTS] = rest
            else:
                del os.environ[_ADDOPTS]

    def report(self, **entry: Any) -> None:
        if self.recorder is not None:
            self.recorder.line(**entry)


_probe = _Probe()


def pytest_configure(config: Any) -> None:
    """Use the controller's settings in a worker of pytest-xdist."""
    values = getattr(config, "workerinput", {}).get(_WORKER_KEY)
    if values is not None:
        _probe.become_worker(understudy_report.Settings(values))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the settings to a worker of pytest-xdist."""
    if _probe.settings is not None:
        node.workerinput[_WORKER_KEY] = dict(_probe.settings.values)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:  # noqa: ARG001 - the hook's own signature
    """Report the files that a worker loaded."""
    files = (getattr(node, "workeroutput", None) or {}).get(_FILES_KEY)
    if files:
        _probe.report(k="files", files=files)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Any) -> None:  # noqa: ARG001
    """Report the tests that the workers collected (each worker collects all tests)."""
    _probe.report(k="collected", ids=list(ids))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: Any) -> None:
    """Reorder the tests, unless they declare an order; every worker of pytest-xdist gets the same order."""
    order = _probe.settings.order if _probe.settings is not None else ""
    if order and not any(item.get_closest_marker(name) for item in items for name in _ORDERED):
        items[:] = understudy_report.reordered(
            list(items), order, lambda item: [item.nodeid.split("::")[0], item.nodeid.rpartition("::")[0]]
        )


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: Any) -> None:
    """Report the collected tests."""
    _probe.report(k="collected", ids=[item.nodeid for item in session.items])
    plugins = [getattr(plugin, "__file__", None) for plugin in session.config.pluginmanager.get_plugins()]
    _probe.report(k="plugins", files=[os.path.realpath(name) for name in plugins if isinstance(name, str)])
    _probe.remove_addopts()


def pytest_collectreport(report: Any) -> None:
    """Report a file that cannot be collected."""
    if report.failed:
        _probe.report(k="collect_error", id=report.nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """Report the outcome of one phase of a test, unless it is a setup or teardown that passed."""
    outcome: Optional[str] = report.outcome  # noqa: UP045 - Python 3.8
    if getattr(report, "wasxfail", None) is not None and outcome == "passed":
        outcome = "skipped"  # expected to fail, so a pass proves nothing
    if report.when != "call" and outcome == "passed":
        return
    if _probe.recorder is not None:
        _probe.recorder.outcome(report.nodeid, report.when, outcome)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: Any, exitstatus: Any) -> None:
    """Complete the report; a worker sends its files to the controller."""
    if _probe.loaded is None:
        return
    if _probe.is_worker:
        session.config.workeroutput[_FILES_KEY] = _probe.loaded.files()
        return
    _probe.report(k="files", files=_probe.loaded.files())
    _probe.report(k="end", exit=int(exitstatus))
