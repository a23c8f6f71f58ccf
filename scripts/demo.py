"""Delegate tests for one module in a throwaway repository and show the verdict.

    make demo                          tests for a copy of the standard library's textwrap, written by ghostwriter
    make demo FILE=path/to/module.py   tests for your module (only this file is copied; its imports must be in .venv)
    make demo DELEGATOR=liar           use an agent that writes a test which cannot fail
    make demo DELEGATOR=NAME           use a delegator of your configuration, or another scripted agent
                                       (`python -m understudy.testing.agent --help` lists them)

The exit code is 0 only for the verdict ``verified``, otherwise that of ``understudy start`` (see `understudy --help`);
make then prints "Error". The demo writes only into a folder in the temporary directory. The folder stays for you to
explore until the next demo removes it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

CHECKOUT = Path(__file__).resolve().parents[1]
PREFIX = f"understudy-demo-{os.getuid()}-"
IN_USE = ".in-use"
GIT = ("git", "-c", "user.name=Understudy demo", "-c", "user.email=demo@example.invalid", "-c", "commit.gpgSign=false")
GIT_SECONDS = 60
CLI = (sys.executable, "-m", "understudy")
OWN_TOOLS = {"generic", "ghostwriter"}
"""Tools that ship with Understudy and need no suggestion."""
SCENARIOS = {
    "liar": "a test that asserts True",
    "swallow": "a test that swallows whatever happens",
    "skipped": "tests that are all skipped",
    "failing": "a test that fails",
    "edits_code": "a change to the code under test, and tests that fit it",
    "edits_conftest": "a change to conftest.py that makes every test pass",
    "no_change": "nothing at all",
}
"""Scripted agents for the demo → what they write."""


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help="your Python module")
    parser.add_argument("--delegator", metavar="NAME", help="the delegator or scripted agent to use")
    options = parser.parse_args(arguments)
    file = options.file and options.file.expanduser()
    if file is not None and (problem := unusable(file)):
        sys.stderr.write(f"{problem}\n")
        return 2
    remove_old_demos()
    top = Path(tempfile.mkdtemp(prefix=PREFIX))
    with (top / IN_USE).open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        return Demo(top, file, options.delegator).run()


class Demo:
    """One demo in its own folder."""

    def __init__(self, top: Path, file: Path | None, delegator: str | None) -> None:
        """Use the empty folder ``top``."""
        self.project = top / "project"
        self.launcher = top / "understudy"
        self.file = file
        self.delegator = delegator
        self.scripted = delegator in SCENARIOS
        own = {"UNDERSTUDY_STATE": str(top / "state"), "XDG_CACHE_HOME": str(top / "cache")}
        if delegator is None or self.scripted:
            own["UNDERSTUDY_CONFIG"] = str(top / "config")
        self.own: Mapping[str, str] = own
        self.environment = {**os.environ, **own}

    def run(self) -> int:
        """Create the project, delegate, show the result; return the exit code."""
        under_test = self.make_project()
        self.make_configuration()
        say(f"A throwaway repository: {self.project}")
        say(f"The task: tests for {under_test}{self.written_by()}")
        chosen = [] if self.delegator is None else ["--delegator", self.delegator]
        sys.stdout.flush()
        started = self.understudy("start", "tests", under_test, "--trust", *chosen)
        code = started.returncode
        delegation = self.latest()
        if delegation is None:
            say("The delegation did not start. See the message above.")
            return code or 1
        name = delegation["id"]
        if (delegation.get("result") or {}).get("files"):
            self.understudy("diff", name)
        self.print_next_commands(delegation)
        if self.delegator is None:
            suggest_delegators(self.environment)
        return code if delegation.get("verdict") == "verified" else code or 1

    def make_project(self) -> str:
        """Create the repository with one commit; return the path of the module under test in it."""
        source = self.file or Path(textwrap.__file__)
        package = self.project / ("folding" if self.file is None else "yours")
        package.mkdir(parents=True)
        under_test = package / ("wrapping.py" if self.file is None else source.name)
        shutil.copyfile(source, under_test)
        if under_test.name != "__init__.py":
            (package / "__init__.py").touch()
        (self.project / ".gitignore").write_text(".understudy/local/\n__pycache__/\n", encoding="utf-8")
        for step in (("init", "--quiet", "--template="), ("add", "."), ("commit", "--quiet", "--message=A module")):
            subprocess.run([*GIT, *step], cwd=self.project, env=without_git(), check=True, timeout=GIT_SECONDS)
        return under_test.relative_to(self.project).as_posix()

    def make_configuration(self) -> None:
        """Configure this checkout's .venv as the project's environment, and the scripted agent."""
        local = self.project / ".understudy" / "local"
        local.mkdir(parents=True)
        write(local / "config.toml", "[environment]", f"python = {quoted(sys.executable)}")
        if self.scripted:
            folder = self.launcher.parent / "config" / "delegators"
            folder.mkdir(parents=True)
            command = [sys.executable, "-m", "understudy.testing.agent", str(self.delegator)]
            write(
                folder / f"{self.delegator}.toml",
                f"name = {quoted(str(self.delegator))}",
                'tool = "generic"',
                "[launch]",
                f"command = [{', '.join(map(quoted, command))}]",
                'output = "events"',
            )
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in self.own.items())
        self.launcher.write_text(f'#!/bin/sh\n{exports}exec {shlex.join(CLI)} "$@"\n', encoding="utf-8")
        self.launcher.chmod(0o755)

    def written_by(self) -> str:
        """Return the author of the tests, as the end of a sentence."""
        if self.delegator is None:
            return ", written by ghostwriter (no model, no key, no network)"
        if self.scripted:
            return f", by an agent that writes {SCENARIOS[self.delegator]} and claims success"
        return f", by your delegator {self.delegator}"

    def understudy(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run the command line as a user would, on this terminal."""
        say(f"$ understudy {shlex.join(arguments)}")
        environment = {**self.environment, "PAGER": ""}
        return subprocess.run([*CLI, *arguments], cwd=self.project, env=environment, check=False)

    def latest(self) -> dict[str, Any] | None:
        """Return the delegation that was started, or None."""
        listed = subprocess.run(
            [*CLI, "list", "--limit", "1", "--json"],
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            check=False,
            timeout=60,
        )
        found = json.loads(listed.stdout)["delegations"] if listed.returncode == 0 else []
        return found[0] if found else None

    def print_next_commands(self, delegation: Mapping[str, Any]) -> None:
        """Print commands for a closer look."""
        name = delegation["id"]
        commands = {
            f"../understudy show {name}": "the verdict and the checks",
            f"../understudy watch {name}": "all events",
            "git status --short": "no changes: the agent worked in its own worktree",
        }
        if (delegation.get("result") or {}).get("files"):
            commands[f"../understudy diff {name} | git apply"] = "apply the result"
        width = max(map(len, commands))
        say(
            "Look around (everything stays until the next demo):",
            f"  cd {shlex.quote(str(self.project))}",
            *(f"  {command:<{width}}   {why}" for command, why in commands.items()),
        )


def suggest_delegators(environment: Mapping[str, str]) -> None:
    """Print how to use the agent CLIs and model servers of this machine; ``environment`` is that of the demo."""
    lines = []
    for tool in found_tools(environment):
        if tool["runnable"]:
            lines.append(f"  {tool['displayName']}: .venv/bin/understudy delegators add --from-tool {tool['name']}")
        else:
            lines.append(
                f"  {tool['displayName']}: .venv/bin/understudy delegators add my-{tool['name']} --tool generic"
                f" -- {tool['name']} OPTIONS '{{prompt}}'   (OPTIONS: those that stop it from asking)"
            )
    for kind, models in found_servers():
        model = f" --model {shlex.quote(models[0])}" if models else " --model MODEL"
        lines += [
            f"  {kind.title} with {len(models)} models at {kind.base_url}:",
            f"    .venv/bin/understudy servers add {kind.kind} --kind {kind.kind} --url {kind.base_url}",
            f"    .venv/bin/understudy delegators add my-{kind.kind} --server {kind.kind}{model}",
        ]
    if lines:
        say("Found on this machine. To use one:", *lines, "  make demo DELEGATOR=NAME")
    else:
        say(
            "No agent CLI and no model server was found on this machine. Once you have one:",
            "  .venv/bin/understudy delegators add      asks for everything it needs",
            "  make demo DELEGATOR=NAME",
        )
    say("An agent that lies: make demo DELEGATOR=liar")


def found_tools(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the installed agent CLIs, as ``tools/list`` describes them."""
    argv = [*CLI, "tools", "--json"]
    asked = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=False, timeout=120)
    tools = json.loads(asked.stdout)["tools"] if asked.returncode == 0 else []
    return [tool for tool in tools if tool["found"] and tool["name"] not in OWN_TOOLS]


def found_servers() -> list[tuple[Any, list[str]]]:
    """Return the kinds of the model servers that answer at their usual address on this machine, with their models."""
    from understudy.config.discovery import server_presets  # noqa: PLC0415 - so that --help needs no .venv

    kinds = server_presets.kinds()
    return [(kinds[kind], models) for kind, models in server_presets.running(kinds.values()).items()]


def unusable(file: Path) -> str | None:
    """Return why a file cannot be the module under test, or None."""
    if not file.is_file():
        return f"{file} does not exist. FILE must name a Python module, relative to {Path.cwd()}."
    if file.suffix != ".py" or not file.stem.isidentifier():
        return f"{file.name} cannot be imported as a Python module. Name one, such as FILE=src/module.py."
    return None


def remove_old_demos() -> None:
    """Remove the folders of earlier demos that are not running."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (folder / IN_USE).open("a") as mark:
            if folder.is_symlink() or folder.lstat().st_uid != os.getuid() or not locked(mark):
                continue
            shutil.rmtree(folder, ignore_errors=True)


def locked(mark: TextIO) -> bool:
    """Lock a demo's folder; return False when another process holds the lock."""
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def without_git() -> dict[str, str]:
    """Return the environment without variables that select another repository or the user's git configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def write(path: Path, *lines: str) -> None:
    """Write a small text file."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def quoted(text: str) -> str:
    """Return ``text`` as a TOML string (JSON escapes are valid in TOML)."""
    return json.dumps(text)


def say(*lines: str) -> None:
    """Print a paragraph."""
    print("\n" + "\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main())
