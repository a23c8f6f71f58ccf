"""Jest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from understudy.judge.project.interpreter import PROBE_FOLDER
from understudy.judge.test_runners.shared.node_packages import package_check, package_runner
from understudy.judge.test_runners.shared.test_runner import REPORT_SLOT, TESTS_SLOT

_BY_PATH = "--runTestsByPath"
_REPORT = ("--json", f"--outputFile={REPORT_SLOT}")
_GLOB = re.compile(r"[\[\](){}*!+@|\\]")


def _record_lines(folder: Path, files: Sequence[str], root: Path) -> list[str]:
    globs = [_GLOB.sub("?", str(Path(file).relative_to(root))) for file in files]
    return [
        *("--coverage", "--coverageReporters=json", f"--coverageDirectory={folder}", "--coverageThreshold={}"),
        *(f"--collectCoverageFrom={glob}" for glob in globs),
        f"--reporters={PROBE_FOLDER / 'jest_lines.cjs'}",
    ]


RUNNER = package_runner(
    package_check("jest", "Jest", "--ci", instead_of=("npm", "pnpm", "yarn")),
    order=40,
    report=_REPORT,
    new=("--ci", *_REPORT, "--coverage=false", _BY_PATH),
    order_options=("--randomize", "--seed={seed}"),
    whole_suite=lambda argv: [word for word in argv if word != _BY_PATH and TESTS_SLOT not in word],
    unbuilt=("Test suite failed to run",),
    kept_by="kept_jest.cjs",
    record_lines=_record_lines,
    configuration=("jest.config.*", "jest.setup.*", "jest-preset.*", "setupTests.*", "setup-tests.*"),
)
