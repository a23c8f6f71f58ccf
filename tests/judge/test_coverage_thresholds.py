"""A threshold of coverage is for the whole suite of a result, and says nothing about a part of it."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

COVERAGE = """\
import pathlib
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    options = early_config.known_args_namespace
    if options.cov_source and not options.no_cov:
        early_config.pluginmanager.register(Cov(options.cov_fail_under), "_cov")

def pytest_addoption(parser):
    group = parser.getgroup("cov")
    group.addoption("--cov", action="append", dest="cov_source", default=[])
    group.addoption("--cov-fail-under", type=int, default=0)
    group.addoption("--no-cov", action="store_true")

class Cov:
    def __init__(self, least):
        self.least = least

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session):
        result = yield
        files = len(list(pathlib.Path().glob("*.py")))
        if len(session.items) < self.least * files and not session.config.option.collectonly:
            session.testsfailed += 1
        return result
"""
"""Does what pytest-cov 7 does, in the same hooks; what it measures is the number of tests for each module."""
SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
CALC = "def add(a, b):\n    return a + b\n"
TEST = "from calc import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
MORE = "from calc import double\n\ndef test_double():\n    assert double(4) == 8\n    assert double(0) == 0\n"
OPTIONS = "[pytest]\naddopts = --cov=calc --cov-fail-under=%d\n"


@pytest.fixture
def covered(project: Any) -> Any:
    libraries = project.environment()
    (libraries / "pytest_cov.py").write_text(COVERAGE)
    metadata = libraries / "pytest_cov-7.0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-cov\nVersion: 7.0.0\n")
    (metadata / "entry_points.txt").write_text("[pytest11]\npytest_cov = pytest_cov\n")
    return project.has({"calc.py": CALC, "tests/test_calc.py": TEST, "pytest.ini": OPTIONS % 2})


async def test_new_tests_alone_need_not_reach_it(covered: Any) -> None:
    judged = await covered.judge({"tests/test_new.py": TEST.replace("3", "3\n    assert add(2, 2) == 4")})
    assert judged.is_(Verdict.VERIFIED)
    assert "--no-cov" in judged.only.argv
    assert judged.only.mutation.killed == judged.only.mutation.viable, "each of them was judged"


@pytest.mark.heavy
async def test_new_tests_are_judged_without_pytest_cov_where_it_is_not_installed(project: Any) -> None:
    project.environment()
    options = OPTIONS % 2 + "  --cov-report term --strict-markers\n"
    project.has({"calc.py": CALC, "tests/test_calc.py": TEST, "pytest.ini": options})
    judged = await project.judge({"tests/test_new.py": TEST.replace("3", "3\n    assert add(2, 2) == 4")})
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.argv[3:5] == ["-o", "addopts=--strict-markers"]
    assert judged.only.mutation.killed == judged.only.mutation.viable


async def test_options_that_the_result_changes_are_not_given_in_the_command(project: Any) -> None:
    project.environment()
    project.has({"calc.py": CALC, "tests/test_calc.py": TEST, "pytest.ini": OPTIONS % 2})
    result = {"tests/test_new.py": TEST + "\ndef test_wrong():\n    assert add(1, 2) == 4\n"}
    judged = await project.judge({**result, "pytest.ini": OPTIONS % 2 + "  -k test_add\n"})
    assert (judged.verdict, judged.results) == (Verdict.UNVERIFIED, [])
    assert "the result changes the project's options for pytest" in judged.notes


async def test_new_tests_that_require_pytest_cov_are_not_run_without_it(project: Any) -> None:
    project.environment()
    options = OPTIONS % 2 + "required_plugins = pytest-cov>=4\n"
    project.has({"calc.py": CALC, "tests/test_calc.py": TEST, "pytest.ini": options})
    judged = await project.judge({"tests/test_new.py": TEST})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_CHECKS)
    assert "require pytest-cov, which its interpreter does not have" in judged.notes


@pytest.mark.heavy
async def test_earlier_tests_alone_need_not_reach_it(covered: Any) -> None:
    result = {"calc.py": CALC + "\n\ndef double(a):\n    return a * 2\n", "tests/test_double.py": MORE}
    judged = await covered.judge(result, recipe="implement", files=(), checks=(SUITE,))
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.mutation.viable


@pytest.mark.heavy
async def test_a_lower_threshold_changes_the_check(covered: Any) -> None:
    covered.has({"pytest.ini": OPTIONS % 1})
    result = {"calc.py": "def add(a, b):\n    return b + a\n", "rest.py": "X = 1\n", "pytest.ini": OPTIONS % 0}
    judged = await covered.judge(result, recipe="implement", files=(), checks=(SUITE,))
    assert judged.asks(Reservation.CHECK_CHANGED)
