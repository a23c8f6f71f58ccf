"""Run the heavy tests; what fails is run once more, in a fresh process, and both results are printed.

A heavy test starts editors, compilers and dozens of processes, and a busy machine can starve one of
them. The second result counts, and the first one stays visible above it: a test that needs its second
chance often is a bug report, not a nuisance. Arguments are handed to pytest.

Without arguments, and where there is an extension in the current folder, it is packaged as for people
(``make package``), the sidecar that the package carries is installed from it offline (``npm run heavy``), and its tests
in a real VS Code follow, on that package (``scripts/vscode.py``, which gives a second chance in the same way). On a
machine without Node or Chromium all this is skipped, and the last line says so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

VSCODE = Path("vscode-extension") / "e2e" / "run.ts"
MISSING = 3
"""Exit code of ``scripts/vscode_host.py`` where the machine lacks a program."""


class Failures:
    """A pytest plugin that remembers the ids of the tests that failed, in order."""

    def __init__(self) -> None:
        """Start with none."""
        self.ids: dict[str, None] = {}
        self.collection_failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a test that failed in set-up, call or tear-down."""
        if report.failed:
            self.ids[report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that cannot be collected: no second run helps there."""
        self.collection_failed = self.collection_failed or report.failed


def main(arguments: list[str]) -> int:
    """Return the exit code: 0 when every heavy test passed at the first or the second attempt."""
    code, summary = heavy(arguments)
    if arguments or not VSCODE.exists():
        return code
    print("\nThe extension in a real VS Code:", flush=True)
    second, second_summary = vscode()
    print(f"\nHeavy tests: {summary}. VS Code: {second_summary}", flush=True)
    return code or second


def vscode() -> tuple[int, str]:
    """Run the tests in VS Code; return the exit code, and how it went."""
    scripts = Path(__file__).parent
    look = [sys.executable, str(scripts / "vscode_host.py"), "--check"]
    looked = subprocess.run(look, check=False, stderr=subprocess.PIPE, text=True)
    if looked.returncode == MISSING:
        return 0, f"skipped. {looked.stderr.strip()}"
    package = subprocess.run([str(shutil.which("make")), "--no-print-directory", "package"], check=False).returncode
    install = package or subprocess.run([str(scripts / "extension"), "heavy"], check=False).returncode
    # What cannot be packaged is tested as it stands: more can be wrong than that.
    given = [] if package else [f"--vsix={next(Path('dist').glob('*.vsix')).resolve()}"]
    tests = subprocess.run([sys.executable, str(scripts / "vscode.py"), *given], check=False).returncode
    steps = {"the package": package, "its installation offline": install, "the tests in VS Code": tests}
    failed = [name for name, code in steps.items() if code]
    return package or install or tests, f"{' and '.join(failed)} failed" if failed else "passed"


def heavy(arguments: list[str]) -> tuple[int, str]:
    """Run the heavy tests of pytest; return the exit code, and how it went."""
    failures = Failures()
    options = ["-m", "heavy", "-ra", *arguments]
    code = pytest.main(options, plugins=[failures])
    if code != pytest.ExitCode.TESTS_FAILED or failures.collection_failed or not failures.ids:
        return int(code), "failed" if code else "passed"
    again = list(failures.ids)
    print(f"\nFirst run: {len(again)} failed. Running {'it' if len(again) == 1 else 'them'} once more:", flush=True)
    for name in again:
        print(f"  {name}", flush=True)
    second = subprocess.run([sys.executable, "-m", "pytest", "-ra", "-v", *again], check=False).returncode
    outcome = "passed" if second == 0 else "failed again"
    print(f"\nFirst run: {len(again)} failed. Second run: {outcome}.", flush=True)
    return second, outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
