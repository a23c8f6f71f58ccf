"""Report to Understudy which tests ran, their outcomes, and which code files were loaded (pytest 6 and later).

``PYTEST_ADDOPTS`` loads a copy of this plugin under a random name, however a project starts pytest. Under pytest-xdist,
the controller sends the report, and the workers send it what they saw.
"""

from __future__ import annotations

import os
import unittest
from typing import Any, Dict, List, Optional, Set  # noqa: UP035 - Python 3.8

import pytest
import understudy_report  # type: ignore[import-not-found] # in the same folder, on the project's PYTHONPATH

_WORKER_KEY = understudy_report.__name__
_ORDERED = ("order", "run", "dependency", "incremental")
"""Markers of plugins and projects that declare an order of tests."""
_NO_FAILURES = (
    pytest.skip.Exception,
    pytest.xfail.Exception,
    pytest.exit.Exception,
    unittest.SkipTest,
    KeyboardInterrupt,
)


def _hooks(report: Any) -> Dict[str, Any]:  # noqa: UP006
    """Return the hooks; their state is in this call alone, because a test can read the attributes of modules."""
    settings = report.take_settings()
    recorder: Any = settings.recorder if settings is not None else None
    loaded: Any = None
    is_worker = False
    raised: Dict[str, bool] = {}  # noqa: UP006
    collected: Set[str] = set()  # noqa: UP006
    contradicted: List[str] = []  # noqa: UP006
    dropped: List[str] = []  # noqa: UP006
    sent: List[Any] = [()]  # noqa: UP006
    realpath = os.path.realpath
    if recorder is not None:
        settings.recorder = None
        recorder.start("pytest")
    if settings is not None:
        loaded = report.Loaded(settings.root)

    def send(**entry: Any) -> None:
        if recorder is not None:
            recorder.line(**entry)

    def pytest_load_initial_conftests(early_config: Any) -> Any:
        """Switch pytest-cov off where only a part of the tests runs; a wrapper, to come before its own hook."""
        if settings is not None and settings.no_coverage and hasattr(early_config.known_args_namespace, "cov_source"):
            early_config.known_args_namespace.cov_source = []
        yield

    def pytest_configure(config: Any) -> None:
        """Use the controller's settings in a worker of pytest-xdist, and go on after a failure where that is wanted."""
        nonlocal settings, loaded, is_worker
        values = getattr(config, "workerinput", {}).get(_WORKER_KEY)
        if values is not None:
            is_worker = True
            settings = report.Settings(values)
            loaded = report.Loaded(settings.root)
        if settings is not None and settings.to_the_end:
            config.option.maxfail = 0

    def pytest_configure_node(node: Any) -> None:
        """Send the settings to a worker of pytest-xdist."""
        if settings is not None:
            node.workerinput[_WORKER_KEY] = dict(settings.values)

    def pytest_testnodedown(node: Any, error: Any) -> None:  # noqa: ARG001 - the hook's own signature
        """Report what a worker saw."""
        seen = (getattr(node, "workeroutput", None) or {}).get(_WORKER_KEY) or {}
        for kind, values in sorted(seen.items()):
            send(k=kind, files=values) if kind == "files" else send(k=kind, ids=values)

    def pytest_xdist_node_collection_finished(node: Any, ids: Any) -> None:  # noqa: ARG001
        """Report the tests that the workers collected (each worker collects all tests)."""
        send(k="collected", ids=list(ids))

    def pytest_collection() -> None:
        """Hide the probe from tests, and from a pytest that a test starts; workers were started before."""
        if settings is not None:
            report.hide(settings)

    def pytest_itemcollected(item: Any) -> None:
        """Remember a test that was found."""
        collected.add(item.nodeid)

    def pytest_deselected(items: Any) -> None:
        """Forget tests that an option deselects."""
        collected.difference_update(item.nodeid for item in items)

    def pytest_collection_modifyitems(items: Any) -> None:
        """Reorder the tests, unless they declare an order; every worker of pytest-xdist gets the same order."""
        order = settings.order if settings is not None else ""
        if order and not any(item.get_closest_marker(name) for item in items for name in _ORDERED):
            items[:] = report.reordered(
                list(items), order, lambda item: [item.nodeid.split("::")[0], item.nodeid.rpartition("::")[0]]
            )

    def pytest_collection_finish(session: Any) -> None:
        """Report the collected tests."""
        left = [item.nodeid for item in session.items]
        send(k="collected", ids=left)
        if left or is_worker:  # the controller of pytest-xdist collects nothing
            dropped.extend(sorted(collected.difference(left)))
        plugins = [getattr(plugin, "__file__", None) for plugin in session.config.pluginmanager.get_plugins()]
        send(k="plugins", files=[realpath(name) for name in plugins if isinstance(name, str)])

    def pytest_collectreport(report: Any) -> None:
        """Report a file that cannot be collected."""
        if report.failed:
            send(k="collect_error", id=report.nodeid)

    def pytest_runtest_call(item: Any) -> Any:
        """See whether a test raises before any other plugin can change what is reported."""
        result = yield
        problem = result.excinfo
        raised[item.nodeid] = problem is not None and not isinstance(problem[1], _NO_FAILURES)

    def pytest_runtest_logreport(report: Any) -> None:
        """Report the outcome of one phase of a test, unless it is a setup or teardown that passed."""
        outcome: Optional[str] = report.outcome  # noqa: UP045 - Python 3.8
        if getattr(report, "wasxfail", None) is not None and outcome == "passed":
            outcome = "skipped"  # expected to fail, so a pass proves nothing
        # A test passes after all its subtests, which may be thousands.
        if outcome == "passed" and (report.when != "call" or hasattr(report, "context")):
            return
        if report.when == "call" and outcome == "passed" and raised.get(report.nodeid):
            contradicted.append(report.nodeid)
        if recorder is not None and (report.nodeid, report.when, outcome) != sent[-1]:
            sent[-1] = (report.nodeid, report.when, outcome)
            recorder.outcome(*sent[-1])

    def pytest_sessionfinish(session: Any, exitstatus: Any) -> None:
        """Complete the report; a worker sends what it saw to the controller."""
        if loaded is None:
            return
        seen = {"files": loaded.files(), "contradicted": contradicted, "dropped": dropped}
        if is_worker:
            session.config.workeroutput[_WORKER_KEY] = seen
            return
        send(k="files", files=seen["files"])
        send(k="contradicted", ids=contradicted)
        send(k="dropped", ids=dropped)
        send(k="end", exit=int(exitstatus))

    optional, last = pytest.hookimpl(optionalhook=True), pytest.hookimpl(trylast=True)
    return {
        "pytest_load_initial_conftests": pytest.hookimpl(hookwrapper=True)(pytest_load_initial_conftests),
        "pytest_configure": pytest_configure,
        "pytest_configure_node": optional(pytest_configure_node),
        "pytest_testnodedown": optional(pytest_testnodedown),
        "pytest_xdist_node_collection_finished": optional(pytest_xdist_node_collection_finished),
        "pytest_collection": pytest.hookimpl(tryfirst=True)(pytest_collection),
        "pytest_itemcollected": pytest_itemcollected,
        "pytest_deselected": pytest_deselected,
        "pytest_collection_modifyitems": last(pytest_collection_modifyitems),
        "pytest_collection_finish": last(pytest_collection_finish),
        "pytest_collectreport": pytest_collectreport,
        # The last wrapper is the innermost one.
        "pytest_runtest_call": pytest.hookimpl(hookwrapper=True, trylast=True)(pytest_runtest_call),
        "pytest_runtest_logreport": pytest_runtest_logreport,
        "pytest_sessionfinish": last(pytest_sessionfinish),
    }


globals().update(_hooks(understudy_report))
del understudy_report
