"""Vitest."""

from __future__ import annotations

from understudy.judge.project.interpreter import PROBE_FOLDER
from understudy.judge.test_runners.shared.node_packages import package_check, package_runner
from understudy.judge.test_runners.shared.test_runner import REPORT_SLOT

_REPORT = ("--reporter=default", "--reporter=json", f"--outputFile.json={REPORT_SLOT}")
_PROVIDER = PROBE_FOLDER / "vitest_lines.mjs"
_COVERAGE = ["--coverage.enabled", "--coverage.provider=custom", f"--coverage.customProviderModule={_PROVIDER}"]

RUNNER = package_runner(
    package_check("vitest", "Vitest", "run", instead_of=("jest", "npm", "pnpm", "yarn")),
    order=30,
    report=_REPORT,
    new=_REPORT,
    once=("run",),
    order_options=("--sequence.shuffle", "--sequence.seed={seed}"),
    kept_by="kept_vitest.mjs",
    record_lines=lambda *_: _COVERAGE,
    stop_early=("--bail=1",),
    configuration=("vitest.config.*", "vitest.workspace.*", "vitest.setup.*", "vite.config.*"),
)
