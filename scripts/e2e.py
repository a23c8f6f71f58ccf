"""Run the heavy tests. Repeat failures once in a new process and print both results.

A heavy test starts editors, compilers and dozens of processes, and can fail because the machine is busy. The second
result counts; the first one stays visible above it, because a test that often needs the second run has a bug.
Arguments are passed to pytest.

Without arguments, and when the current folder has an extension, also package the extension (``make package``), install
the sidecar in the package offline (``npm run heavy``), and test the package in a real VS Code (``scripts/vscode.py``,
which repeats failures in the same way). Without Node or Chromium these steps are skipped with a message.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

VSCODE = Path("vscode-extension") / "e2e" / "run.ts"
PROCESSES = "2"
"""How many heavy tests run at the same time. A test that fails for that reason passes alone, in the second run."""
MISSING = 3
"""Exit code of ``scripts/vscode_host.py`` when a program is missing."""


class Failures:
    """A pytest plugin that records the ids of failed tests, in order."""

    def __init__(self) -> None:
        """Start without failures."""
        self.ids: dict[str, None] = {}
        self.collection_failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test that failed in set-up, call or tear-down."""
        if report.failed:
            self.ids[report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record that a module cannot be collected; a second run would not help."""
        self.collection_failed = self.collection_failed or report.failed


def main(arguments: list[str]) -> int:
    """Run everything; return 0 when every heavy test passed in the first or the second run."""
    code, summary = heavy(arguments)
    if arguments or not VSCODE.exists():
        return code
    print("\nThe extension in a real VS Code:", flush=True)
    second, second_summary = vscode()
    print(f"\nHeavy tests: {summary}. VS Code: {second_summary}", flush=True)
    return code or second


def vscode() -> tuple[int, str]:
    """Run the tests in VS Code; return the exit code and the outcome as text."""
    scripts = Path(__file__).parent
    command = [sys.executable, str(scripts / "vscode_host.py"), "--check"]
    checked = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    if checked.returncode == MISSING:
        return 0, f"skipped. {checked.stderr.strip()}"
    package = subprocess.run([str(shutil.which("make")), "--no-print-directory", "package"], check=False).returncode
    install = package or subprocess.run([str(scripts / "extension"), "heavy"], check=False).returncode
    # Without a package, test the sources: they may have further problems.
    options = [] if package else [f"--vsix={next(Path('dist').glob('*.vsix')).resolve()}"]
    tests = subprocess.run([sys.executable, str(scripts / "vscode.py"), *options], check=False).returncode
    steps = {"the package": package, "its offline installation": install, "the tests in VS Code": tests}
    failed = [name for name, code in steps.items() if code]
    return package or install or tests, f"{' and '.join(failed)} failed" if failed else "passed"


def heavy(arguments: list[str]) -> tuple[int, str]:
    """Run the heavy tests of pytest; return the exit code and the outcome as text."""
    failures = Failures()
    options = ["-m", "heavy", "-ra", "-n", PROCESSES, *arguments]
    code = pytest.main(options, plugins=[failures])
    if code != pytest.ExitCode.TESTS_FAILED or failures.collection_failed or not failures.ids:
        return int(code), "failed" if code else "passed"
    again = list(failures.ids)
    print(f"\nFirst run: {len(again)} failed. Running {'it' if len(again) == 1 else 'them'} again:", flush=True)
    for name in again:
        print(f"  {name}", flush=True)
    second = subprocess.run([sys.executable, "-m", "pytest", "-ra", "-v", *again], check=False).returncode  # one by one
    outcome = "passed" if second == 0 else "failed again"
    print(f"\nFirst run: {len(again)} failed. Second run: {outcome}.", flush=True)
    return second, outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
