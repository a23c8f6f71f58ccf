"""Agents that are talked to: how soon a question is seen, and what a delegation costs over the bare program."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_model_server import ModelServer

from understudy.model.tools import declared

HERE = Path(__file__).resolve().parent
CLIS = HERE.parent / "integration" / "agent_clis"


def waiting(bench: ModuleType, top: Path) -> None:
    """From the line with which an agent asks to ``waiting`` in ``delegations/get`` of another process."""
    count = 25
    programs = bench.SCRATCH / "asking"
    programs.mkdir()
    (programs / "claude").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "asking_agent.py"}"\n')
    (programs / "claude").chmod(0o755)
    write_delegator(bench, "asking", "claude", "m", env={"ASKER_COUNT": str(count)})
    with environment(PATH=f"{programs}:{os.environ['PATH']}"):
        identifier = bench.start(top, "asking")
    delays: list[float] = []
    deadline = time.monotonic() + 120
    while len(delays) < count and time.monotonic() < deadline:
        found = bench.call("delegations/get", id=identifier)
        now = time.monotonic_ns()
        asked = found.waiting_for
        if found.state == "waiting" and asked is not None:
            delays.append((now - int(asked.detail.split()[-1])) / 1e6)
            bench.call("delegations/answer", id=identifier, requestId=asked.request_id, option="allow_once")
            while (
                seen := bench.call("delegations/get", id=identifier).waiting_for
            ) and seen.request_id == asked.request_id:
                time.sleep(0.002)
        time.sleep(0.002)
    bench.wait(identifier)
    bench.row(
        "waiting",
        f"a question to `waiting` in delegations/get, p95 of {len(delays)} (p50 {statistics.median(delays):.1f} ms)",
        bench.percentile(delays, 0.95) if len(delays) == count else float("inf"),
        200.0,
        "ms",
    )


def claude(bench: ModuleType, top: Path) -> None:
    """A delegation to a real Claude Code against the bare program on the same scripted task."""
    folder = bench.CACHE / f"clis-{hashlib.sha256((CLIS / 'package-lock.json').read_bytes()).hexdigest()[:16]}"
    if not (folder / ".ready").exists():
        print(f"skip claude     Claude Code is not in {folder}; the tests in {CLIS.name}/ install it", flush=True)
        return
    programs = folder / "node_modules" / ".bin"
    # Two long turns, as a model writes them that takes its time: the bare program needs more than ten seconds.
    write = {"name": "Write", "input": {"file_path": "{cwd}/hello.txt", "content": "hello\n"}}
    slow = {"turns": [{"text": "word " * 100, "tools": [write]}, {"text": "word " * 100}], "delay_seconds": 0.2}
    programs = folder / "node_modules" / ".bin"
    with ModelServer(answers={"slow": slow}) as server, environment(PATH=f"{programs}:{os.environ['PATH']}"):
        for scenario, times, limit in (("write", 8, 3.0), ("slow", 4, 1.5)):
            bare, mine = _compare(bench, top, programs, f"http://127.0.0.1:{server.port}/s/{scenario}", times)
            for number, what in enumerate(("first event", "total")):
                if scenario == "slow" and number == 0:
                    continue  # the same as that of the short task
                plain, delegated = (statistics.median(one[number] for one in runs[1:]) for runs in (bare, mine))
                bench.row(
                    "claude",
                    f"delegation to Claude Code / bare `claude -p`, {scenario} task, {what},"
                    f" median of {times - 1}"
                    f" ({delegated:.2f} / {plain:.2f} s)",
                    delegated / plain,
                    limit,
                    "x",
                )


Times = tuple[float, float]
"""Seconds to the first event and in total."""


def _compare(bench: ModuleType, top: Path, programs: Path, address: str, times: int) -> tuple[list[Times], list[Times]]:
    """Run the task of ``address`` with the bare program and as a delegation, in turns."""
    task, model = "Write a greeting into hello.txt.", "claude-sonnet-4-5"
    folder = bench.SCRATCH / f"bare-{address.rpartition('/')[2]}"
    shutil.rmtree(folder, ignore_errors=True)
    bench.git("clone", "-q", str(top), str(folder), cwd=bench.SCRATCH)
    (bench.SCRATCH / "config" / "model-servers").mkdir(exist_ok=True)
    (bench.SCRATCH / "config" / "model-servers" / "scripted.toml").write_text(
        f'name = "scripted"\nkind = "custom"\nbase_url = "{address}/v1"\nprotocols = ["anthropic"]\n'
    )
    write_delegator(bench, "claude", "claude", model, server="scripted")
    base = {**declared("claude").environment, "ANTHROPIC_BASE_URL": address}
    argv = [str(programs / "claude"), "-p", "--output-format", "stream-json", "--verbose", "--model", model]
    argv += ["--include-partial-messages", "--permission-mode", "acceptEdits"]

    def barely() -> Times:
        (folder / "hello.txt").unlink(missing_ok=True)
        began = time.perf_counter()
        with subprocess.Popen(
            argv, cwd=folder, env=os.environ | base | {"ANTHROPIC_API_KEY": "none"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as child:  # fmt: skip
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(task.encode())
            child.stdin.close()
            child.stdout.readline()
            first = time.perf_counter() - began
            child.stdout.read()
        total = time.perf_counter() - began
        assert (folder / "hello.txt").exists()
        return first, total

    def delegated() -> Times:
        moments: list[float] = []

        def note(events: list[Any]) -> None:
            if not moments and any(event.type_name == "session" for event in events):
                moments.append(time.perf_counter())

        began = time.perf_counter()
        identifier = bench.call(
            "delegations/start", recipe="implement", task=task, delegator="claude", workspace=str(top)
        ).id
        bench.follow(identifier, lambda events: any(event.type_name == "finished" for event in events), note)
        total = time.perf_counter() - began
        done = bench.call("delegations/get", id=identifier)
        assert [file.path for file in done.result.files] == ["hello.txt"], done
        return moments[0] - began, total

    bare: list[Times] = []
    mine: list[Times] = []
    for number in range(times):
        if number % 2:
            bare.append(barely())
        mine.append(delegated())
        if not number % 2:
            bare.append(barely())
    return bare, mine


def write_delegator(
    bench: ModuleType, name: str, tool: str, model: str, *, server: str | None = None, env: dict[str, str] | None = None
) -> None:
    """Write a delegator of a tool."""
    lines = [f'name = "{name}"', f'tool = "{tool}"', f'model = "{model}"']
    lines += [f'model_server = "{server}"'] if server else []
    lines += ["", "[env]", *(f"{key} = {json.dumps(value)}" for key, value in env.items())] if env else []
    (bench.SCRATCH / "config" / "delegators" / f"{name}.toml").write_text("\n".join(lines) + "\n")


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Have environment variables for a moment."""
    before = {name: os.environ.get(name, "") for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.update(before)
