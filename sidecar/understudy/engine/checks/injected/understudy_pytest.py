"""A plugin for pytest (6 and later): says which tests ran, what they came to, and which code files were loaded.

Loaded through ``PYTEST_ADDOPTS``, so that it is there however a project starts pytest. Under pytest-xdist the
controller reports and the workers tell it what they loaded. With a control asked for, it arms the code under test
when collection is over.
"""

from __future__ import annotations

import os
from typing import Any, Optional

import pytest
import understudy_control  # type: ignore[import-not-found] # a neighbour on the project's PYTHONPATH
import understudy_report  # type: ignore[import-not-found]

_ADDOPTS = "PYTEST_ADDOPTS"
_WORKER_KEY = "understudy_settings"
_FILES_KEY = "understudy_files"


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

    def arm(self) -> None:
        if self.settings is not None and self.settings.control:
            understudy_control.arm(self.settings.control)

    def leave_addopts(self) -> None:
        # A pytest that a test starts is not ours to watch. Not earlier: workers of pytest-xdist find us there.
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
    """Take over the controller's settings in a worker of pytest-xdist."""
    values = getattr(config, "workerinput", {}).get(_WORKER_KEY)
    if values is not None:
        _probe.become_worker(understudy_report.Settings(values))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the settings to a worker of pytest-xdist."""
    if _probe.settings is not None:
        node.workerinput[_WORKER_KEY] = dict(_probe.settings.values)
        if _probe.settings.control:
            understudy_control.watch(_probe.settings.control)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:  # noqa: ARG001 - the hook's own signature
    """Report what a worker loaded."""
    files = (getattr(node, "workeroutput", None) or {}).get(_FILES_KEY)
    if files:
        _probe.report(k="files", files=files)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Any) -> None:  # noqa: ARG001
    """Report what the workers collected (each collects everything)."""
    _probe.report(k="collected", ids=list(ids))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: Any) -> None:
    """Report what was collected; then the code under test may raise."""
    _probe.report(k="collected", ids=[item.nodeid for item in session.items])
    plugins = [getattr(plugin, "__file__", None) for plugin in session.config.pluginmanager.get_plugins()]
    _probe.report(k="plugins", files=[os.path.realpath(name) for name in plugins if isinstance(name, str)])
    _probe.leave_addopts()
    _probe.arm()


def pytest_collectreport(report: Any) -> None:
    """Report a file that cannot be collected."""
    if report.failed:
        _probe.report(k="collect_error", id=report.nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """Report what a phase of a test came to, unless it is a setup or teardown that went well."""
    outcome: Optional[str] = report.outcome  # noqa: UP045 - Python 3.8
    if getattr(report, "wasxfail", None) is not None and outcome == "passed":
        outcome = "skipped"  # expected to fail: whatever it does, it is no evidence
    if report.when != "call" and outcome == "passed":
        return
    if _probe.recorder is not None:
        bitten = outcome == "failed" and report.when != "teardown" and understudy_control.has_bitten()
        _probe.recorder.outcome(report.nodeid, report.when, outcome, bitten=bitten)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: Any, exitstatus: Any) -> None:
    """End the report; a worker hands its part to the controller."""
    if _probe.loaded is None:
        return
    if _probe.is_worker:
        session.config.workeroutput[_FILES_KEY] = _probe.loaded.files()
        return
    _probe.report(k="files", files=_probe.loaded.files())
    _probe.report(k="end", exit=int(exitstatus))
