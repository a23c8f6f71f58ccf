"""Many starts at once from three processes and two frontends, with kills in between; used by a test and by the bench."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.engine.running import supervision
from understudy.journal import delegation_folder, reader
from understudy.store import store

PATIENCE = 120.0
"""Seconds without an end of any delegation after which the rest counts as lost."""


class Frontend:
    """One server process that is asked for many delegations at once."""

    def __init__(self, command: str, top: Path) -> None:
        self.framed = command == "serve"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "understudy", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=top,
        )
        self.answers: list[dict[str, Any]] = []
        if self.framed:
            self.send("initialize", {"processId": None, "rootUri": top.as_uri(), "capabilities": {}}, 0)
            self.send("initialized", {})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, method: str, params: Any, identifier: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        data = json.dumps(message if identifier is None else message | {"id": identifier}).encode()
        head = b"Content-Length: %d\r\n\r\n" % len(data) if self.framed else b""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(head + data + (b"" if self.framed else b"\n"))
            self.process.stdin.flush()

    def start(self, count: int, params: dict[str, Any]) -> None:
        """Ask for ``count`` delegations without waiting for an answer; from a thread, because the pipe may fill."""

        def ask() -> None:
            for number in range(1, count + 1):
                self.send("understudy/delegations/start", params, number)

        threading.Thread(target=ask, daemon=True).start()

    def _read(self) -> None:
        out = self.process.stdout
        while line := out.readline():
            if self.framed:
                if not line.lower().startswith(b"content-length"):
                    continue
                out.readline()
                line = out.read(int(line.split(b":")[1]))
            message = json.loads(line)
            if message.get("id") and "method" not in message:
                self.answers.append(message)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        self.process.stdin.close()
        self.process.stdout.close()


@dataclass
class Figures:
    """What happened."""

    answered: list[str] = field(default_factory=list)
    refused: list[Any] = field(default_factory=list)
    ends: dict[str, list[str]] = field(default_factory=dict)
    """Verdicts of every delegation in the state folder."""
    seconds: float = 0.0
    ended_before_kill: int = 0
    most_processes: int = 0
    most_bytes: int = 0
    """Proportional memory of all processes of Understudy and its agents."""
    largest_overtaking: int = 0
    """By how many places a delegation started before one that was asked for earlier."""

    @property
    def lost(self) -> list[str]:
        return [one for one in {*self.answered, *self.ends} if len(self.ends.get(one, [])) != 1]


def run(count: int, top: Path, state: Path, params: dict[str, Any], *, kill_after: int | None = None) -> Figures:
    """Start ``count`` delegations at once; with ``kill_after``, kill every process when so many starts were answered."""
    figures, began = Figures(), time.monotonic()
    frontends = [Frontend(command, top) for command in ("rpc", "rpc", "serve")]
    try:
        for number, frontend in enumerate(frontends):
            frontend.start(count // 3 + (number < count % 3), params)
        ended, since = 0, time.monotonic()
        while time.monotonic() - since < PATIENCE:
            time.sleep(0.5)
            for identifier in delegation_folder.ids():
                if not figures.ends.get(identifier):
                    figures.ends[identifier] = _ends(identifier)
            before, ended = ended, sum(map(bool, figures.ends.values()))
            since = time.monotonic() if ended > before else since
            _measure(figures, state)
            answers = sum(len(frontend.answers) for frontend in frontends)
            if kill_after is not None and answers >= kill_after and ended:
                kill_after = None
                figures.ended_before_kill = ended
                _kill_all(state)
                # A frontend that is started afterwards, and asked for nothing, resumes what waits.
                frontends.append(Frontend("rpc", top))
            if len(frontends) > 3 and not (store.queued(state) or store.launched(state)):
                # What ran when it was killed ends when a process reads its state.
                for identifier in [one for one, found in figures.ends.items() if not found]:
                    supervision.current(delegation_folder.open_folder(identifier))
            killed = len(frontends) > 3
            if ended == len(figures.ends) and (killed or answers == count) and kill_after is None:
                break
        figures.seconds = time.monotonic() - began
    finally:
        for frontend in frontends:
            frontend.close()
    answers = [answer for frontend in frontends for answer in frontend.answers]
    figures.answered = [answer["result"]["id"] for answer in answers if "result" in answer]
    figures.refused = [answer["error"] for answer in answers if "error" in answer]
    figures.largest_overtaking = _overtaking(figures.ends)
    return figures


def _ends(identifier: str) -> list[str]:
    return [event.verdict for event in _events(identifier) if _kind(event) == "finished"]


def _overtaking(ends: dict[str, list[str]]) -> int:
    asked, worst = sorted(ends), 0
    started = {one: next((e.at for e in _events(one) if _kind(e) == "started"), None) for one in asked}
    order = sorted((one for one in asked if started[one] is not None), key=lambda one: (started[one], one))
    places = {one: place for place, one in enumerate(one for one in asked if started[one] is not None)}
    for place, one in enumerate(order):
        worst = max(worst, places[one] - place)
    return worst


def _events(identifier: str) -> list[Any]:
    return reader.read_events(delegation_folder.open_folder(identifier), 0, 10_000)


def _kind(event: Any) -> str:
    return type(event).__struct_config__.tag


def _processes(state: Path) -> Iterator[int]:
    mark = f"UNDERSTUDY_STATE={state}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)


def _kill_all(state: Path) -> None:
    while found := list(_processes(state)):
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _measure(figures: Figures, state: Path) -> None:
    count = size = 0
    for pid in _processes(state):
        with contextlib.suppress(OSError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            size += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) * 1024
            count += 1
    figures.most_processes, figures.most_bytes = max(figures.most_processes, count), max(figures.most_bytes, size)


def with_xargs(count: int, slots: int, agent: str, top: Path, folder: Path) -> float:
    """Run a shell script in ``count`` worktrees of a repository below ``folder``, ``slots`` at once; return the seconds."""
    lines = "\n".join(map(str, range(count)))
    script = f'git -C "$1" worktree add -q --detach "$2/$0" && cd "$2/$0" && {agent}'
    began = time.monotonic()
    argv = ["xargs", "-P", str(slots), "-I{}", "/bin/sh", "-c", script, "{}", str(top), str(folder)]
    subprocess.run(argv, input=lines, text=True, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - began
    shutil.rmtree(folder)
    subprocess.run(["git", "-C", str(top), "worktree", "prune"], check=True)
    return seconds
