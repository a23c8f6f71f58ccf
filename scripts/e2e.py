"""Run the heavy tests: pytest's, and those of the packaged extension in a real VS Code.

    scripts/e2e.py              all of them
    scripts/e2e.py --smoke      a few: one flow per agent CLI, editor and caller, ten in VS Code, kills and recovery
    scripts/e2e.py OPTION…      those of pytest, with more options for it

A failed test is not repeated, because a second run hides races. The tests in VS Code need a packaged extension (``make
package``), whose sidecar is installed offline (``npm run heavy``) when all tests run. Without Node or Chromium these
steps are skipped with a message.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

VSCODE = Path("vscode-extension") / "e2e" / "run.ts"
PROCESSES = "2"
"""How many heavy tests, and tests in VS Code, run at the same time."""
SECONDS = 900
"""After how many seconds a heavy test fails that has no limit of its own."""
SMOKE = "@smoke"
"""In the titles of the tests in VS Code that also belong to the few; those of pytest have the mark ``smoke``."""
MISSING = 3
"""Exit code of ``scripts/vscode_host.py`` when a program is missing."""


def main(arguments: list[str]) -> int:
    """Run everything; return 0 when every heavy test passed."""
    smoke = arguments[:1] == ["--smoke"]
    options = arguments[smoke:]
    if not smoke:
        os.environ["UNDERSTUDY_ALL_EXAMPLES"] = "1"  # for property tests, of which `make test` tries a part
    code, summary = heavy("smoke" if smoke else "heavy or hypothesis", options)
    if options or not VSCODE.exists():
        return code
    print("\nThe extension in a real VS Code:", flush=True)
    second, second_summary = vscode(smoke=smoke)
    print(f"\n{'Smoke' if smoke else 'Heavy'} tests: {summary}. VS Code: {second_summary}", flush=True)
    return code or second


def vscode(*, smoke: bool = False) -> tuple[int, str]:
    """Run the tests in VS Code, all or a few; return the exit code and the outcome as text."""
    scripts = Path(__file__).parent
    command = [sys.executable, str(scripts / "vscode_host.py"), "--check"]
    checked = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    if checked.returncode == MISSING:
        return 0, f"skipped. {checked.stderr.strip()}"
    package = subprocess.run([str(shutil.which("make")), "--no-print-directory", "package"], check=False).returncode
    install = package
    if not (smoke or package):
        install = subprocess.run([str(scripts / "extension"), "heavy"], check=False).returncode
    # Without a package, test the sources: they may have further problems.
    options = [] if package else [f"--vsix={next(Path('dist').glob('*.vsix')).resolve()}", f"--parts={PROCESSES}"]
    options += [f"--only={SMOKE}"] if smoke else []
    tests = subprocess.run([sys.executable, str(scripts / "vscode.py"), *options], check=False).returncode
    steps = {"the package": package, "its offline installation": install, "the tests in VS Code": tests}
    failed = [name for name, code in steps.items() if code]
    return package or install or tests, f"{' and '.join(failed)} failed" if failed else "passed"


def heavy(mark: str, options: list[str]) -> tuple[int, str]:
    """Run the tests of pytest with a mark; return the exit code and the outcome as text."""
    code = int(pytest.main(["-m", mark, "-ra", "-n", PROCESSES, f"--timeout={SECONDS}", *options]))
    return code, "failed" if code else "passed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
