"""Any other command: only its exit code and what it prints are known."""

from __future__ import annotations

import re

from understudy.judge.test_runners.pytest import failed_in_summary
from understudy.judge.test_runners.shared.test_runner import (
    Project,
    ProposedCheck,
    TestRunner,
    file_shows,
    program_named,
    task_of,
)

_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_MAKE_TEST = re.compile(r"^test\s*:(?!=)", re.MULTILINE)
_MOCHA = re.compile(r"^\s+(\d+) (passing|failing|pending)\b", re.MULTILINE)


def _make_shows(project: Project) -> str | None:
    """Return the first Makefile with a target ``test``."""
    return next((name for name in _MAKEFILES if _MAKE_TEST.search(project.text(name))), None)


RUNNER = TestRunner(
    name="command",
    order=1000,
    proposals=(
        ProposedCheck("gradle", "Gradle", ("./gradlew", "test"), file_shows("gradlew")),
        ProposedCheck("maven", "Maven", ("mvn", "--batch-mode", "test"), file_shows("pom.xml")),
        ProposedCheck("rspec", "RSpec", ("bundle", "exec", "rspec"), file_shows(".rspec"), instead_of=("make",)),
        ProposedCheck("make", "make test", ("make", "test"), _make_shows),
    ),
    command_lines=(
        program_named("nose2?", "tox", "nox", "karma", "playwright"),
        task_of("deno", "hatch", "pdm", "mvn", "gradle", r"\S*gradlew", r"manage\.py", "make", "just"),
    ),
    reports=False,
    failed=failed_in_summary,
    totals=lambda text: ((word, int(number)) for number, word in _MOCHA.findall(text)),
    unbuilt=(r"error TS\d+", "undefined reference to", "cannot find symbol"),
)
