"""Measure small tasks in real packages: our own tool loop, Claude Code and OpenCode, with the same scripted model.

    python scripts/measure_tasks.py                        every task of measure_tasks.toml
    python scripts/measure_tasks.py ordinal-fix names-docs some of them
    python scripts/measure_tasks.py --agents own claude    some of the agents

The model is scripted, so all agents do the same: they read the file, change it, and say that they are done. What
differs is what is around the model: how many requests an agent makes, how much it sends, and how long it takes. For
each task the script commits the package with the task's bug, delegates, applies the result to a copy, and runs the
task's check there, which must fail before and pass after. Tokens are characters of the requests divided by four.

The packages are pinned in requirements/packages.txt. Claude Code and OpenCode are those that `make e2e` has installed;
an agent that is not there is left out with a message.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import measure_packages

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from agent_model_server import ModelServer

CHECKOUT = Path(__file__).resolve().parents[1]
TASKS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
AGENTS = {"own": ("", "openai"), "claude": ("claude", "anthropic"), "opencode": ("opencode", "openai")}
"""Agent → its tool, and the protocol by which it asks."""
TITLES = {"own": "tool loop", "claude": "Claude Code", "opencode": "OpenCode"}
START_SECONDS = 300
CHARACTERS_PER_TOKEN = 4
SERVED = ("/chat/completions", "/messages")


@dataclasses.dataclass
class Measured:
    """The figures of one task with one agent."""

    task: str
    kind: str
    agent: str
    outcome: str = ""
    requests: int = 0
    tokens: int = 0
    """Of all requests together."""
    largest: int = 0
    """Tokens of the largest request."""
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether the check passes with the result."""
        return self.outcome == "right"

    def row(self) -> str:
        """Return a row of a Markdown table."""
        values = (self.requests, f"{self.tokens:,}", f"{self.largest:,}", f"{self.seconds:.1f}")
        return f"| {self.task} | {TITLES[self.agent]} | {self.outcome} | " + " | ".join(map(str, values)) + " |"


HEADER = "| task | agent | outcome | requests | tokens sent | largest request | seconds |\n" + "|---" * 7 + "|"


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table; return 0 when every result is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help="some of the tasks (default: all)")
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    options = parser.parse_args(arguments)
    if unknown := set(options.tasks) - TASKS.keys():
        parser.error(f"not in measure_tasks.toml: {', '.join(sorted(unknown))}")
    print(HEADER, flush=True)
    found = []
    with tempfile.TemporaryDirectory(prefix="measure-tasks-") as folder:
        for one in measured(Path(folder), options.tasks or list(TASKS), installed(options.agents)):
            print(one.row(), flush=True)
            found.append(one)
    print("\n" + together(found))
    return int(not all(one.right for one in found))


def installed(agents: list[str]) -> dict[str, Path | None]:
    """Return the agents that are there → the folder of their programs."""
    found: dict[str, Path | None] = {}
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy-tests"
    folders = sorted(cache.glob("clis-*/node_modules/.bin"))
    for agent in agents:
        tool = AGENTS[agent][0]
        programs = next((one for one in folders if (one / tool).exists()), None) if tool else None
        if tool and programs is None:
            sys.stderr.write(f"{TITLES[agent]} is left out: it is not installed (make e2e installs it)\n")
        else:
            found[agent] = programs
    return found


def measured(top: Path, tasks: list[str], agents: Mapping[str, Path | None]) -> Iterator[Measured]:
    """Yield the figures of each task with each agent; everything is in the folder ``top``."""
    sources = measure_packages.install()
    answers = {name: {"script": script(TASKS[name])} for name in tasks}
    with ModelServer(answers=answers) as server:
        for name in tasks:
            for agent, programs in agents.items():
                yield measure(
                    top / f"{name}-{agent}", sources, server, Measured(name, TASKS[name]["kind"], agent), programs
                )


def script(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the model does in a task: read the file, change it, say so."""
    path = f"{{cwd}}/{task['file']}"
    if "edit" in task:
        old, new = task["edit"]
        change = ("edit", {"path": path, "old": old, "new": new})
    else:
        change = ("write", {"path": f"{{cwd}}/{task['write'][0]}", "content": task["write"][1]})
    return [
        {"text": "I look at the file first.", "tools": [("read", {"path": path})]},
        {"tools": [change]},
        {"text": "Done."},
    ]


def measure(folder: Path, sources: Path, server: ModelServer, found: Measured, programs: Path | None) -> Measured:
    """Delegate one task and check its result."""
    task = TASKS[found.task]
    project, copy = folder / "project", folder / "copy"
    package = task["file"].split("/", 1)[0]
    measure_packages.make_project(project, sources, [package])
    if "bug" in task:
        replace(project / task["file"], *task["bug"])
        git(project, "commit", "--quiet", "--all", "--message=Change a line")
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns(".git", ".understudy"))
    if passes(copy, task["check"]):
        found.outcome = "the check passes before"
        return found
    environment = prepared(folder, server, found, programs)
    server.requests.clear()
    began = time.monotonic()
    arguments = ["implement", task["file"], "--task", task["task"], "--delegator", "measured", "--trust", "--quiet"]
    said = understudy(project, environment, "start", *arguments, "--json")
    found.seconds = time.monotonic() - began
    sizes = [
        len(json.dumps(one.body)) // CHARACTERS_PER_TOKEN
        for one in list(server.requests)
        if one.method == "POST" and one.path.split("?")[0].endswith(SERVED)
    ]
    found.requests, found.tokens, found.largest = len(sizes), sum(sizes), max(sizes, default=0)
    listed = json.loads(understudy(project, environment, "list", "--limit", "1", "--json") or b"{}")
    if not listed.get("delegations"):
        found.outcome = said.decode("utf-8", "replace")[-200:].replace("\n", " ")
        return found
    patch = understudy(project, environment, "diff", listed["delegations"][0]["id"])
    if patch.strip():
        applied = [*measure_packages.GIT, "apply", "-"]
        subprocess.run(applied, cwd=copy, env=measure_packages.without_git(copy), input=patch, check=True, timeout=60)
    found.outcome = "right" if passes(copy, task["check"]) else "wrong" if patch.strip() else "nothing changed"
    return found


def prepared(folder: Path, server: ModelServer, found: Measured, programs: Path | None) -> dict[str, str]:
    """Write the configuration of a user who has this agent; return the environment."""
    tool, protocol = AGENTS[found.agent]
    config, home = folder / "config", folder / "home"
    home.mkdir()
    address = f"http://127.0.0.1:{server.port}/s/{found.task}/v1"
    entry = f'name = "scripted"\nkind = "custom"\nbase_url = "{address}"\nprotocols = ["{protocol}"]\n'
    model = "claude-sonnet-4-5" if found.agent == "claude" else "scripted"
    delegator = f'name = "measured"\nmodel = "{model}"\nmodel_server = "scripted"\n'
    for kind, name, text in (
        ("model-servers", "scripted", entry),
        ("delegators", "measured", delegator + (f'tool = "{tool}"\n' if tool else "")),
    ):
        (config / kind).mkdir(parents=True)
        (config / kind / f"{name}.toml").write_text(text, "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    path = f"{programs}:{os.environ['PATH']}" if programs else os.environ["PATH"]
    own = {"HOME": str(home), "PATH": path, "UNDERSTUDY_STATE": str(folder / "state"), "UNDERSTUDY_CONFIG": str(config)}
    return {**kept, **own}


def understudy(project: Path, environment: Mapping[str, str], *arguments: str) -> bytes:
    """Run a command of Understudy; return what it printed."""
    return subprocess.run(
        [*measure_packages.CLI, *arguments], cwd=project, env=environment, check=False, timeout=START_SECONDS,
        capture_output=True,
    ).stdout  # fmt: skip


def replace(path: Path, old: str, new: str) -> None:
    """Replace a text that is in the file once."""
    text = path.read_text("utf-8")
    if text.count(old) != 1:
        raise ValueError(f"{old!r} is {text.count(old)} times in {path}")
    path.write_text(text.replace(old, new), "utf-8")


def git(folder: Path, *arguments: str) -> None:
    """Run git with the configuration of the measurement."""
    argv = [*measure_packages.GIT, *arguments]
    subprocess.run(argv, cwd=folder, env=measure_packages.without_git(), check=True, timeout=60)


def passes(folder: Path, check: str) -> bool:
    """Return whether a Python program ends without an error in ``folder``."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=folder, env=environment, check=False, timeout=60, capture_output=True
    )
    return done.returncode == 0


def together(found: list[Measured]) -> str:
    """Return the figures of all tasks as a Markdown table, a row for each agent and kind."""
    lines = ["| agent | kind | right | requests | tokens sent | largest request | seconds, median |", "|---" * 7 + "|"]
    for agent in dict.fromkeys(one.agent for one in found):
        for kind in [*dict.fromkeys(one.kind for one in found), "all"]:
            rows = [one for one in found if one.agent == agent and kind in {one.kind, "all"}]
            right = f"{sum(one.right for one in rows)} of {len(rows)}"
            sums = f"{sum(one.requests for one in rows)} | {sum(one.tokens for one in rows):,}"
            seconds = statistics.median(one.seconds for one in rows)
            largest = max(one.largest for one in rows)
            lines.append(f"| {TITLES[agent]} | {kind} | {right} | {sums} | {largest:,} | {seconds:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
