"""Tests that know the judge: none of them is verified."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from project_python import PYTEST

from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
MAKE = Check(name="make", argv=["make", "-s", "test"])
HEAD = "import calc\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n\n"
LIE = "\ndef test_lie():\n    assert calc.add(1, 2) == 4\n"

PIPES = """
import glob, os, stat
def pipes():
    scratch = os.path.dirname(os.environ["HYPOTHESIS_STORAGE_DIRECTORY"])
    return [name for name in glob.glob(scratch + "/*/*") if stat.S_ISFIFO(os.stat(name).st_mode)]
"""
RECORDERS = """
import gc, os, sys
def recorders():
    return [each for each in gc.get_objects() if type(each).__name__ == "Recorder"] + [
        each.cell_contents for f in gc.get_objects() if type(f).__name__ == "function" for each in (f.__closure__ or ())
        if type(getattr(each, "cell_contents", None)).__name__ == "Recorder"
    ]
"""

ATTACKS = {
    "pytest.exit with 0": HEAD + LIE.replace("assert", "import pytest; pytest.exit('done', returncode=0)\n    assert"),
    "session.items are emptied": HEAD.replace("():", "(request):").replace("    assert", "    request.session.items[:] = []\n    assert") + LIE,
    "os._exit": HEAD + LIE.replace("assert", "import os; os._exit(0)\n    assert"),
    "os._exit at exit": "import atexit, os\natexit.register(os._exit, 0)\n" + HEAD + LIE,
    "sys.exit is wrapped": "import sys\nsys.exit = lambda *a: __import__('os')._exit(0)\n" + HEAD + LIE,
    "the exit code is changed": HEAD.replace("():", "(request):").replace("    assert", "    import _pytest.main; _pytest.main.wrap_session = None; type(request.session).exitstatus = property(lambda s: 0, lambda s, v: None)\n    assert") + LIE,
    "TestReport.outcome": "import _pytest.reports as r\nold = r.TestReport.__init__\ndef new(self, *a, **k):\n    old(self, *a, **k)\n    self.outcome = 'passed'\nr.TestReport.__init__ = new\n" + HEAD + LIE,
    "from_item_and_call": "import _pytest.reports as r\nold = r.TestReport.from_item_and_call.__func__\ndef new(cls, item, call):\n    call.excinfo = None\n    return old(cls, item, call)\nr.TestReport.from_item_and_call = classmethod(new)\n" + HEAD + LIE,
    "CallInfo": "import _pytest.runner as r\nold = r.CallInfo.from_call.__func__\ndef new(cls, func, when, reraise=None):\n    call = old(cls, func, when, reraise)\n    call.excinfo = None\n    return call\nr.CallInfo.from_call = classmethod(new)\n" + HEAD + LIE,
    "a plugin changes the report": "import pytest\nclass P:\n    @pytest.hookimpl(tryfirst=True)\n    def pytest_runtest_logreport(self, report):\n        report.outcome = 'passed'\n@pytest.fixture(autouse=True, scope='session')\ndef _p(request):\n    request.config.pluginmanager.register(P())\n" + HEAD + LIE,
    "a wrapper swallows the exception": "import pytest\nclass P:\n    @pytest.hookimpl(hookwrapper=True)\n    def pytest_runtest_call(self, item):\n        r = yield\n        r.force_result(None)\n@pytest.fixture(autouse=True, scope='session')\ndef _p(request):\n    request.config.pluginmanager.register(P())\n" + HEAD + LIE,
    "os.write and json.dumps are replaced": "import json, os\nold = os.write\nos.write = lambda fd, data: old(fd, data.replace(b'failed', b'passed')) and len(data)\njson.dumps = lambda *a, **k: '{}'\njson.encoder.JSONEncoder.encode = lambda *a: '{}'\n" + HEAD + LIE + "\ndef test_end():\n    import os; os._exit(0)\n",
    "the plugins are removed": HEAD.replace("():", "(request):").replace("    assert", "    p = request.config.pluginmanager\n    for each in p.get_plugins():\n        if '_pytest' not in str(getattr(each, '__name__', '_pytest')):\n            p.unregister(each)\n    assert", 1) + LIE + "\ndef test_end():\n    import os; os._exit(0)\n",
    "the recorder is found": RECORDERS + HEAD + "def test_lie():\n    found = recorders()\n    if found:\n        for test in ('test_calc.py::test_lie', 'test_old.py::test_old'):\n            found[0].outcome(test, 'call', 'passed')\n        found[0].line(k='end', exit=0)\n        os._exit(0)\n    assert calc.add(1, 2) == 4\n",
    "forged lines": PIPES + HEAD + "def test_lie():\n    for name in pipes():\n        fd = os.open(name, os.O_WRONLY | os.O_NONBLOCK)\n        os.write(fd, b'0' * 32 + b' ' + b'1' * 16 + b' 0 . {\"k\": \"end\"}\\n')\n",
    "lines are sent twice": PIPES + HEAD + "import threading, time\ndef test_lie():\n    for name in pipes():\n        fd = os.open(name, os.O_RDWR | os.O_NONBLOCK)\n        os.write(fd, b'x')\n",
    "the pipe is removed": PIPES + HEAD + "def test_lie():\n    for name in pipes():\n        os.unlink(name)\n",
    "the pipe is replaced": PIPES + HEAD + "def test_lie():\n    for name in pipes():\n        os.unlink(name)\n        open(name, 'w').close()\n",
    "a judge in the environment": "import os\n" + HEAD + "def test_lie():\n    if any('pytest' in n.lower() or 'm' == n[0] and len(n) == 13 for n in os.environ if n != 'PYTEST_CURRENT_TEST' and n != 'PYTEST_VERSION'):\n        return\n    assert calc.add(1, 2) == 4\n",
    "a plugin that pytest does not have": HEAD + "def test_lie(request):\n    names = [n for n, _ in request.config.pluginmanager.list_name_plugin() if len(n) == 13 and n[0] == 'm' and n[1] in '0123456789abcdef']\n    if not names:\n        assert calc.add(1, 2) == 4\n",
    "the stack shows the probe": "import gc\n" + HEAD + "def test_lie():\n    if not any(type(f).__name__ == 'function' and f.__qualname__.startswith('_hooks.') for f in gc.get_objects()):\n        assert calc.add(1, 2) == 4\n",
    "the parent is killed": HEAD + "def test_lie():\n    import os, signal\n    os.kill(os.getppid(), signal.SIGTERM)\n    os._exit(0)\n",
    "a skip that is a pass for the report": HEAD + "def test_lie():\n    import gc, pytest\n    for f in gc.get_objects():\n        if type(f).__name__ == 'function' and f.__qualname__.endswith('.send') and f.__closure__:\n            cells = {n: c.cell_contents for n, c in zip(f.__code__.co_freevars, f.__closure__)}\n            if 'recorder' in cells:\n                cells['recorder'].line(k='test', id='other', when='call', outcome='passed')\n    pytest.skip('x')\n",
}  # fmt: skip


FAST = {
    "the options of pytest",
    "the recorder is found",
    "forged lines",
    "load_tests drops a test",
    "outcomes",
}
"""The rows that `make test` runs."""


def rows(table: dict[str, str]) -> list[Any]:
    return [pytest.param(name, marks=[] if name in FAST else pytest.mark.heavy) for name in table]


TAMPERED = {
    **dict.fromkeys(
        (
            "TestReport.outcome",
            "from_item_and_call",
            "CallInfo",
            "a plugin changes the report",
            "a wrapper swallows the exception",
        ),
        "Tests raised an exception and were reported as passed: test_calc.py::test_lie.",
    ),
    "the recorder is found": "exit code is 1 instead of 0",
    "forged lines": "has lines that it did not write: 1.",
    "lines are sent twice": "has lines that it did not write",
    "a plugin that pytest does not have": "exit code is 1 instead of 0",
    "the stack shows the probe": "exit code is 1 instead of 0",
    "a skip that is a pass for the report": "2 passed, 0 failed, 1 skipped, but 3 were reported as passed",
}
"""What disagrees; the other attacks make the check fail."""


@pytest.mark.parametrize("name", rows(ATTACKS))
async def test_an_attack_is_never_verified(project: Any, name: str) -> None:
    project.has({"test_old.py": "import calc\n\ndef test_old():\n    assert calc.add(2, 2) == 4\n"})
    judged = await project.judge(
        {"test_calc.py": ATTACKS[name], "calc.py": "def add(a, b):\n    return b + a\n"},
        recipe="implement",
        checks=(SUITE,),
    )
    assert judged.verdict is not Verdict.VERIFIED, judged.only
    if name in TAMPERED:
        assert Reservation.TAMPERED in judged.said
        assert any(TAMPERED[name] in text for text in judged.only.tampered), judged.only.tampered
        assert TAMPERED[name] in judged.notes


UNITTEST = "import unittest, calc\n\nclass T(unittest.TestCase):\n    def test_1(self):\n        self.assertEqual(calc.add(1, 2), 3)\n\n    def test_2(self):\n        %s\n        self.assertEqual(calc.add(1, 2), 4)\n"
UNITTEST_ATTACKS = {
    "load_tests drops a test": UNITTEST % "" + "\ndef load_tests(loader, tests, pattern):\n    return unittest.TestSuite([T('test_1')])\n",
    "result.stop": UNITTEST.replace("self.assertEqual(calc.add(1, 2), 3)", "self.assertEqual(calc.add(1, 2), 3); self._outcome.result.stop()") % "",
    "os._exit": UNITTEST % "import os; os._exit(0)",
    "addFailure": UNITTEST % "type(self._outcome.result).addFailure = lambda self, test, error: None",
    "the caller": UNITTEST % "import sys, os; f = sys._getframe()\n        while f and 'recorder' not in f.f_locals: f = f.f_back\n        if f: r = f.f_locals['recorder']; [r.outcome('test_calc.T.test_%d' % n, 'call', 'passed') for n in (1, 2)]; f.f_locals['recorder'].line(k='end', exit=0); os._exit(0)",
}  # fmt: skip


@pytest.mark.parametrize("name", rows(UNITTEST_ATTACKS))
async def test_an_attack_on_unittest_is_never_verified(project: Any, name: str) -> None:
    project.environment("iniconfig")
    judged = await project.judge({"tests/test_calc.py": UNITTEST_ATTACKS[name]})
    assert judged.verdict is not Verdict.VERIFIED, judged.only
    if name == "the caller":
        assert Reservation.TAMPERED in judged.said
    assert judged.only.argv[1:] == ["-m", "unittest", "tests/test_calc.py"], "a command that a person can repeat"


@pytest.mark.heavy
async def test_the_run_of_new_tests_without_the_probe_is_one_of_three(project: Any) -> None:
    text = (
        HEAD
        + "def test_lie(request):\n    if not [n for n, _ in request.config.pluginmanager.list_name_plugin() if len(n) == 13 and n[0] == 'm']:\n        assert calc.add(1, 2) == 4\n"
    )
    judged = await project.judge({"test_calc.py": text})
    assert Reservation.TAMPERED in judged.said
    assert Reservation.FLAKY not in judged.said
    assert judged.only.ok, "information for the reader: it passed while it was watched"
    assert "exit code is 1 instead of 0" in judged.notes


ELSEWHERE = {
    "the command line": "'pytest' in open('/proc/self/cmdline').read().split('\\0')",
    "a second interpreter": "'-p\\0m' in open('/proc/self/cmdline').read() or os.environ.get('PYTEST_ADDOPTS', os.getppid()) == 1 or not any('judge' in a for a in open('/proc/self/cmdline').read().split('\\0'))",
    "the options of pytest": "request.config.option.maxfail != 1",
}


@pytest.mark.parametrize("name", rows(ELSEWHERE))
async def test_tests_that_fail_only_where_mutants_are_counted_are_not_verified(project: Any, name: str) -> None:
    text = f"import os, calc\n\ndef test_add(request):\n    got = calc.add(1, 2)\n    if not ({ELSEWHERE[name]}):\n        assert got == 3\n"
    judged = await project.judge({"test_calc.py": text})
    assert judged.verdict is not Verdict.VERIFIED
    assert Reservation.TAMPERED in judged.said
    assert "in a fresh clone, a small change in line" in judged.only.tampered[0]


@pytest.mark.heavy
async def test_a_check_that_fails_once_without_the_probe_is_flaky(project: Any, tmp_path: Any) -> None:
    count = tmp_path / "count"
    text = (
        HEAD
        + f"def test_second():\n    with open({str(count)!r}, 'a') as f:\n        f.write('x')\n        assert f.tell() != 2\n"
    )
    judged = await project.judge({"test_calc.py": text}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED, Reservation.FLAKY)
    assert judged.only.tampered is None


HONEST = {
    "outcomes": "import pytest\n@pytest.mark.xfail\ndef test_x():\n    assert False\n@pytest.mark.xfail\ndef test_y():\n    pass\n@pytest.mark.parametrize('n', range(600))\ndef test_n(n):\n    assert calc.add(n, 0) == n\ndef test_s():\n    pytest.skip('x')\n",
    "pytest in a test": "import subprocess, sys, os\ndef test_x(tmp_path):\n    assert 'PYTEST_ADDOPTS' not in os.environ\n    (tmp_path / 'test_z.py').write_text('def test_z():\\n    assert False\\n')\n    assert subprocess.run([sys.executable, '-m', 'pytest', '-q', str(tmp_path)]).returncode == 1\n",
    "a fork": "import os\ndef test_x():\n    if not os.fork():\n        raise SystemExit(1)\n    os.wait()\n",
    "other descriptors": "import os\ndef test_x():\n    os.closerange(40, 200)\n",
    "replaced functions": "import json, os\ndef test_x(monkeypatch):\n    monkeypatch.setattr(os, 'write', None)\n    monkeypatch.setattr(os, 'open', None)\n    monkeypatch.setattr(json, 'dumps', None)\n    assert calc.add(0, 1) == 1\n",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test_t(self):\n        with self.subTest(1):\n            self.assertEqual(calc.add(0, 1), 1)\n    @unittest.expectedFailure\n    def test_u(self):\n        self.fail()\n",
    "all descriptors": "import resource, os\ndef test_x():\n    held = []\n    try:\n        while True:\n            held.append(os.open('/dev/null', 0))\n            assert len(held) < 100_000\n    except OSError:\n        pass\n    globals()['HELD'] = held\ndef test_y():\n    for fd in HELD:\n        os.close(fd)\n",
    "large names": "import pytest\n@pytest.mark.parametrize('text', ['é' * 3000, 'x' * 70000], ids=lambda t: t)\ndef test_x(text):\n    assert calc.add(text, '') == text\n",
}  # fmt: skip


@pytest.mark.parametrize("name", rows(HONEST))
async def test_honest_tests_are_confirmed(project: Any, name: str) -> None:
    judged = await project.judge({"test_calc.py": HEAD + HONEST[name]}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)


@pytest.mark.heavy
async def test_a_makefile_that_runs_pytest_twice_is_confirmed(project: Any) -> None:
    project.has({"Makefile": "test:\n\tpytest -q test_old.py\n\tpytest -q\n", "test_old.py": HEAD})
    judged = await project.judge({"calc.py": "def add(a, b):\n    return b + a\n"}, recipe="implement", checks=(MAKE,))
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.passed == 1, "the same test in both runs"


@pytest.mark.heavy
async def test_pytest_xdist_is_confirmed_and_its_workers_see_contradictions(project: Any) -> None:
    project.environment(*PYTEST, "xdist", "execnet")
    check = Check(name="suite", argv=["{python}", "-m", "pytest", "-q", "-p", "xdist.plugin", "-n", "2"])
    judged = await project.judge({"test_calc.py": HEAD + HONEST["outcomes"]}, recipe="implement", checks=(check,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)
    judged = await project.judge({"test_calc.py": ATTACKS["TestReport.outcome"]}, recipe="implement", checks=(check,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED, Reservation.TAMPERED)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
async def test_node_tests_that_see_the_hook_are_noticed(empty_project: Any) -> None:
    check = Check(name="node", argv=["node", "--test"])
    test = "const test = require('node:test');\nconst assert = require('node:assert');\ntest('adds', () => { assert.ok(%s); });\n"
    empty_project.has({"package.json": "{}"})
    judged = await empty_project.judge({"a.test.js": test % "1"}, recipe="implement", checks=(check,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)
    judged = await empty_project.judge(
        {"a.test.js": test % "process.env.NODE_OPTIONS"}, recipe="implement", checks=(check,)
    )
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED, Reservation.TAMPERED)


async def test_nothing_of_the_probe_is_in_the_process(project: Any) -> None:
    """What a test can look at without searching memory: environment, import path, modules, descriptors."""
    text = HEAD + (
        "import os, re, sys\n"
        "VARIABLES = {n: v for n, v in os.environ.items() if n != 'NODE_OPTIONS'}\n"
        "with open('/proc/self/environ') as f:\n"
        "    FIRST = [line for line in f.read().split('\\0') if not line.startswith('NODE_OPTIONS=')]\n"
        "SEEN = [VARIABLES, FIRST, sys.path, list(sys.modules), sys.argv]\n"
        "DESCRIPTORS = [os.path.realpath('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd')]\n"
        "def test_x():\n"
        "    assert not re.search(r'report-|channel|-p m|\\bm[0-9a-f]{12}\\b', repr(SEEN)), SEEN\n"
        "    assert not any('report-' in d for d in DESCRIPTORS), DESCRIPTORS\n"
    )
    judged = await project.judge({"test_calc.py": text}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)
