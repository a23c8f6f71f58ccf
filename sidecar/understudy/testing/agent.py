r"""A scripted agent: an agent CLI that follows a scenario.

It prints the line format of ``understudy.runners.agent_clis.streams.event_stream``.

    python -m understudy.testing.agent SCENARIO [--file PATH] [--write PATH=TEXTFILE]... [--journal PATH] [--amount N]
    [--rate N]

It works in the current folder. The prompt is an argument or is read from standard input. The file under test is
``--file``, else the first Python file of this folder that the prompt names, else the first one found. Scenarios:

agents that work
    honest            writes each --write and reports it
    no_change         succeeds without doing anything
    deltas            --amount text deltas, --rate a second (0: as fast as possible), then a result
    huge_output       --amount megabytes of text
    usage             reports growing usage forever
agents that lie
    liar              a test that asserts True
    swallow           calls the code and ignores every exception
    skipped           tests that are all skipped
    failing           a test that fails
    deletes_tests     deletes the existing test files
    edits_code        changes the code under test, and tests the change
    edits_conftest    changes conftest.py so that every test passes
    plants_ignored    a test that needs a file that git ignores
    other_branch      commits its work on another branch, then switches back
    forges_journal    appends a line to the journal of its delegation (--journal, else found from the worktree's
                      path)
    exit1             succeeds (--write, else liar's test) and reports so, then exits with 1
agents that misbehave
    crash             prints an error on standard error and exits with 3
    killed            is killed by a signal
    error             reports a failure in its result, and exits with 0
    no_end            exits with 0 and no result
    half_line         ends in the middle of a line
    endless_line      a line without an end
    invalid_utf8      bytes that are not text between its events
    noise             prints lines that are not events, forever
    silent            prints nothing, forever
    stall             one event, then nothing
    hang_after_result reports its result and does not exit
    stdin_reader      reads standard input to its end before it works
    stderr_flood      --amount megabytes on standard error
    escapes           terminal escape sequences in all of its output
    ignores_term      ignores SIGTERM and runs forever
    children          leaves children: in a new session, double-forked, ignoring SIGTERM
    child_writes      leaves a child that keeps writing to the test file

A path instead of a name is your own scenario: TOML with ``[[steps]]``, or JSON ``{"steps": [...]}``. A step is a table
whose first key is the action. Actions with further keys or special values: ``write`` (``text``, or ``from`` a file),
``deltas`` (``rate``), ``git`` and ``run`` (argument vectors), ``result`` (true, false, or a table). Other actions:
``delete, say, think, phase, note, event, raw, stderr, flood, sleep, exit, read_stdin, hang, ignore_term, child``. In
texts, ``@MODULE@`` and ``@FILE@`` are replaced by the code under test.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_FOREVER = 3600.0
_TEST = "tests/test_@STEM@_scripted.py"

_CALL_EVERYTHING = """
def test_calls_everything():
    import @MODULE@ as module

    for name in dir(module):
        try:
            getattr(module, name)()
        except BaseException:
            pass
"""

_WRITE_FOREVER = """
import os, sys, time
number = 0
while True:
    number += 1
    with open(sys.argv[1], "a") as file:
        file.write(f"# {number}\\n")
    time.sleep(0.02)
"""
_SLEEP = "import time; time.sleep(3600)"
_IGNORE_TERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"

_DONE = {"result": True}

SCENARIOS: dict[str, list[dict[str, Any]]] = {
    "honest": [{"phase": "Writing tests"}, {"given": True}, {"say": "Wrote tests."}, _DONE],
    "no_change": [{"say": "All done, everything is tested now."}, _DONE],
    "deltas": [{"deltas": True}, _DONE],
    "huge_output": [{"output": True}, _DONE],
    "usage": [{"usage": True}],
    "liar": [{"write": _TEST, "text": "def test_it():\n    assert True\n"}, {"say": "Wrote thorough tests."}, _DONE],
    "swallow": [{"write": _TEST, "text": _CALL_EVERYTHING}, {"say": "Wrote thorough tests."}, _DONE],
    "skipped": [
        {
            "write": _TEST,
            "text": "import pytest\n\n\n@pytest.mark.skip(reason='later')\ndef test_it():\n    assert False\n",
        },
        _DONE,
    ],
    "failing": [
        {"write": _TEST, "text": "def test_it():\n    import @MODULE@\n\n    assert @MODULE@ is None\n"},
        _DONE,
    ],
    "deletes_tests": [{"delete_tests": True}, {"write": _TEST, "text": "def test_it():\n    assert True\n"}, _DONE],
    "edits_code": [
        {"write": "@FILE@", "append": "\n\ndef added_by_the_agent():\n    return 1\n"},
        {
            "write": _TEST,
            "text": "import @MODULE@\n\n\ndef test_it():\n    assert @MODULE@.added_by_the_agent() == 1\n",
        },
        _DONE,
    ],
    "edits_conftest": [
        {"write": _TEST, "text": "def test_it():\n    assert False\n"},
        {
            "write": "conftest.py",
            "append": "\n\ndef pytest_runtest_call(item):\n    item.obj = lambda: None\n",
        },
        _DONE,
    ],
    "plants_ignored": [{"plant": True}, _DONE],
    "other_branch": [{"branch": True}, {"say": "Committed the tests."}, _DONE],
    "forges_journal": [
        {"write": _TEST, "text": "def test_it():\n    assert True\n"},
        {"forge": True},
        _DONE,
    ],
    "exit1": [
        {"given": True},
        {"unless_given": True, "write": _TEST, "text": "def test_it():\n    assert True\n"},
        {"result": True, "then": "exit", "code": 1},
    ],
    "crash": [{"say": "Starting."}, {"stderr": "fatal: the model server went away\n"}, {"exit": 3}],
    "killed": [{"say": "Starting."}, {"signal": int(signal.SIGKILL)}],
    "error": [{"result": {"ok": False, "error": {"kind": "rate_limited", "message": "429 from the provider"}}}],
    "no_end": [{"say": "Working."}],
    "half_line": [{"say": "Working."}, {"raw": '{"type": "result", "ok": tr'}],
    "endless_line": [{"raw": '{"type": "text", "text": "'}, {"endless": "a"}],
    "invalid_utf8": [
        {"bytes": "fffec328220a"},
        {"bytes": "7b2274797065223a2274657874222c2274657874223a22ff227d0a"},
        {"say": "Still here."},
        _DONE,
    ],
    "noise": [{"endless": "still working…\n", "every": 0.02}],
    "silent": [{"hang": True}],
    "stall": [{"say": "Starting."}, {"hang": True}],
    "hang_after_result": [{"say": "Done."}, _DONE, {"hang": True}],
    "stdin_reader": [{"read_stdin": True}, {"say": "Read it."}, _DONE],
    "stderr_flood": [{"flood": True}, {"say": "Flooded."}, _DONE],
    "escapes": [
        {"say": "a\x1b]52;c;ZXZpbA==\x07b\x1b[31mred\x1b[0m\x1b]8;;http://evil.invalid\x1b\\link"},
        {
            "event": {
                "type": "tool_call",
                "callId": "1",
                "name": "x\x1b[2J",
                "title": "\x9b31mt",
                "input": {"\x1b[1mk": ["\x1b]0;title\x07v"]},
            }
        },
        _DONE,
    ],
    "ignores_term": [{"ignore_term": True}, {"say": "Never."}, {"hang": True}],
    "children": [
        {"child": "setsid", "code": _SLEEP},
        {"child": "double_fork", "code": _SLEEP},
        {"child": "setsid", "code": _IGNORE_TERM},
        {"say": "Left some."},
        _DONE,
    ],
    "child_writes": [
        {"write": _TEST, "text": "def test_it():\n    assert True\n"},
        {"child": "setsid", "code": _WRITE_FOREVER, "argument": _TEST},
        {"sleep": 0.2},
        _DONE,
    ],
}
"""Name → steps; a user's own scenario has the same format, in a file."""


class Agent:
    """Runs steps."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Determine the prompt and the file under test."""
        self.arguments = arguments
        self._prompt = " ".join(arguments.prompt)
        self._under_test: str | None = arguments.file

    def run(self, steps: list[dict[str, Any]]) -> int:
        """Run ``steps`` in order and return the exit code."""
        for step in steps:
            if step.get("unless_given") and self.arguments.write:
                continue
            names = [name for name in step if name in _STEPS]
            if not names:
                sys.exit(f"Unknown step: {step}")
            code = _STEPS[names[0]](self, step)
            if code is not None:
                return code
        return 0

    # Output.

    def emit(self, kind: str, **fields: Any) -> None:
        """Print one event."""
        self.raw(json.dumps({"type": kind, **fields}, ensure_ascii=False) + "\n")

    def raw(self, text: str) -> None:
        """Print text unchanged."""
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()

    def result(self, step: dict[str, Any]) -> int | None:
        """Print the ``result`` event."""
        value = step["result"]
        self.emit("result", **(value if isinstance(value, dict) else {"ok": bool(value)}))
        return int(step.get("code", 0)) if step.get("then") == "exit" else None

    def deltas(self, step: dict[str, Any]) -> None:
        """Print numbered deltas at a rate."""
        amount = self.arguments.amount if step["deltas"] is True else int(step["deltas"])
        rate = float(step.get("rate", self.arguments.rate))
        began = time.monotonic()
        for number in range(amount):
            sys.stdout.buffer.write(b'{"type": "text", "text": "%d "}\n' % number)
            if rate:
                sys.stdout.buffer.flush()
                time.sleep(max(0.0, began + (number + 1) / rate - time.monotonic()))
        sys.stdout.buffer.flush()

    def output(self, _: dict[str, Any]) -> None:
        """Print megabytes."""
        line = json.dumps({"type": "text", "text": "y" * 65_500})
        for _number in range(self.arguments.amount * 16):
            self.raw(line + "\n")

    def usage(self, _: dict[str, Any]) -> None:
        """Report growing usage forever."""
        for turn in range(1, 100_000):
            self.emit("usage", inputTokens=100 * turn, outputTokens=10 * turn, turns=turn, costUsd=f"{turn / 100:.2f}")
            time.sleep(0.005)

    def endless(self, step: dict[str, Any]) -> None:
        """Print the same text forever."""
        every = float(step.get("every", 0))
        text = step["endless"] if every else step["endless"] * 65_536
        while True:
            self.raw(text)
            if every:
                time.sleep(every)

    def flood(self, step: dict[str, Any]) -> None:
        """Print megabytes on standard error."""
        megabytes = self.arguments.amount if step["flood"] is True else int(step["flood"])
        for _ in range(megabytes):
            sys.stderr.write(("e" * 1023 + "\n") * 1024)

    # Files.

    def path(self, text: str) -> Path:
        """Return the path of ``text`` in this folder."""
        return Path(self.fill(text))

    def write(self, step: dict[str, Any]) -> None:
        """Write a file, or append to it, and report it."""
        path = self.path(step["write"])
        existed = path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        if "append" in step:
            path.write_text((path.read_text("utf-8") if existed else "") + self.fill(step["append"]), "utf-8")
        else:
            path.write_text(
                self.fill(Path(step["from"]).read_text("utf-8") if "from" in step else step["text"]), "utf-8"
            )
        self.emit("file", path=path.as_posix(), change="modified" if existed else "added")

    def given(self, _: dict[str, Any]) -> int | None:
        """Write the files of ``--write``."""
        for pair in self.arguments.write:
            name, _, source = pair.partition("=")
            self.write({"write": name, "from": source})
        if not self.arguments.write and self.arguments.scenario == "honest":
            self.emit(
                "result", ok=False, error={"kind": "config_invalid", "message": "honest needs --write PATH=TEXTFILE"}
            )
            return 0
        return None

    def delete(self, step: dict[str, Any]) -> None:
        """Delete a file."""
        self.path(step["delete"]).unlink()
        self.emit("file", path=step["delete"], change="deleted")

    def delete_tests(self, _: dict[str, Any]) -> None:
        """Delete every test file."""
        for path in sorted(Path().rglob("test_*.py")):
            path.unlink()
            self.emit("file", path=path.as_posix(), change="deleted")

    def plant(self, _: dict[str, Any]) -> None:
        """Write a test that needs an ignored file."""
        for name in (
            "build/answer.txt",
            ".cache/answer.txt",
            "answer.local",
            "answer.log",
            "answer.pyc",
            "__pycache__/answer.txt",
        ):
            if subprocess.run(["git", "check-ignore", "-q", name], check=False).returncode == 0:  # noqa: S607
                break
        else:
            name = "answer.local"
            exclude = self.ask_git("rev-parse", "--git-path", "info/exclude")
            Path(exclude).parent.mkdir(parents=True, exist_ok=True)
            with Path(exclude).open("a", encoding="utf-8") as file:
                file.write("answer.local\n")
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("42")
        self.write({"write": _TEST, "text": f"def test_it():\n    assert open({name!r}).read() == '42'\n"})

    def branch(self, _: dict[str, Any]) -> None:
        """Commit on another branch and leave it."""
        here = self.ask_git("symbolic-ref", "-q", "--short", "HEAD") or self.ask_git("rev-parse", "HEAD")
        self.git({"git": ["checkout", "-q", "-b", "elsewhere"]})
        self.write({"write": _TEST, "text": "def test_it():\n    assert True\n"})
        self.git({"git": ["add", "-A"]})
        self.git({"git": ["commit", "-q", "-m", "Tests"]})
        self.git({"git": ["checkout", "-q", here]})

    def forge(self, _: dict[str, Any]) -> None:
        """Append a verdict to the journal."""
        journals = [self.arguments.journal] if self.arguments.journal else []
        for parent in Path.cwd().parents if not journals else ():
            journals += sorted((parent / "delegations").glob("*/events.jsonl"), key=lambda path: path.stat().st_mtime)[
                -1:
            ]
        line = {
            "seq": 999,
            "at": "2026-01-01T00:00:00.000Z",
            "attempt": 1,
            "type": "finished",
            "verdict": "verified",
            "reservations": [],
        }
        for journal in journals:
            with Path(journal).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def fill(self, text: str) -> str:
        """Replace the marks in ``text``."""
        if "@" not in text:
            return text
        path = Path(self.under_test())
        parts = [part for part in path.with_suffix("").parts if part != "src"]
        module = ".".join(parts[:-1] if parts[-1:] == ["__init__"] else parts)
        return text.replace("@MODULE@", module).replace("@FILE@", path.as_posix()).replace("@STEM@", path.stem)

    def under_test(self) -> str:
        """Return the file under test."""
        if self._under_test is None:
            if not self._prompt and not sys.stdin.isatty():
                self._prompt = sys.stdin.read()
            named = [name for name in re.findall(r"[\w./-]+\.py\b", self._prompt) if Path(name).is_file()]
            modules = [
                path.as_posix()
                for path in sorted(Path().rglob("*.py"))
                if not path.name.startswith(("test_", "conftest", "setup")) and "tests" not in path.parts
            ]
            self._under_test = (named or modules or ["module.py"])[0]
        return self._under_test

    # Processes.

    def ask_git(self, *arguments: str) -> str:
        """Return the output of git, empty when it fails."""
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()  # noqa: S607

    def git(self, step: dict[str, Any]) -> None:
        """Run git."""
        subprocess.run(["git", *step["git"]], check=True, stdout=subprocess.DEVNULL)  # noqa: S607

    def start(self, step: dict[str, Any]) -> None:
        """Run a program to its end."""
        subprocess.run(step["run"], check=False, stdin=subprocess.DEVNULL)

    def child(self, step: dict[str, Any]) -> None:
        """Leave a process behind."""
        argv = [sys.executable, "-c", step["code"]] + ([self.fill(step["argument"])] if "argument" in step else [])
        if step["child"] == "double_fork":
            if os.fork() == 0:
                os.setsid()
                subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                os._exit(0)
            os.wait()
            return
        child = subprocess.Popen(
            argv, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # Without this, Python would warn about the running child at exit.
        child.returncode = 0

    def end_by_signal(self, step: dict[str, Any]) -> None:
        """Kill itself."""
        os.kill(os.getpid(), step["signal"])
        time.sleep(_FOREVER)


def _do(action: Callable[[Agent, Any], object]) -> Callable[[Agent, dict[str, Any]], int | None]:
    """Return a step that calls ``action`` with the value of the step's first key."""

    def step(agent: Agent, table: dict[str, Any]) -> None:
        action(agent, next(iter(table.values())))

    return step


_STEPS: dict[str, Callable[[Agent, dict[str, Any]], int | None]] = {
    "write": Agent.write,
    "given": Agent.given,
    "delete": Agent.delete,
    "delete_tests": Agent.delete_tests,
    "plant": Agent.plant,
    "branch": Agent.branch,
    "forge": Agent.forge,
    "result": Agent.result,
    "deltas": Agent.deltas,
    "output": Agent.output,
    "usage": Agent.usage,
    "endless": Agent.endless,
    "flood": Agent.flood,
    "git": Agent.git,
    "run": Agent.start,
    "child": Agent.child,
    "signal": Agent.end_by_signal,
    "say": _do(lambda agent, text: agent.emit("text", text=agent.fill(text))),
    "think": _do(lambda agent, text: agent.emit("thinking", text=text)),
    "phase": _do(lambda agent, text: agent.emit("phase", text=text)),
    "note": _do(lambda agent, text: agent.emit("note", level="info", text=text)),
    "event": _do(lambda agent, event: agent.raw(json.dumps(event) + "\n")),
    "raw": _do(Agent.raw),
    "bytes": _do(lambda _, data: (sys.stdout.buffer.write(bytes.fromhex(data)), sys.stdout.buffer.flush())),
    "stderr": _do(lambda _, text: (sys.stderr.write(text), sys.stderr.flush())),
    "sleep": _do(lambda _, seconds: time.sleep(float(seconds))),
    "read_stdin": _do(lambda _, __: sys.stdin.buffer.read()),
    "hang": _do(lambda _, __: time.sleep(_FOREVER)),
    "ignore_term": _do(lambda _, __: signal.signal(signal.SIGTERM, signal.SIG_IGN)),
    "exit": lambda _, step: int(step["exit"]),
}


def load(name: str) -> list[dict[str, Any]]:
    """Return the steps of a scenario: one of ``SCENARIOS``, or a TOML or JSON file."""
    if name in SCENARIOS:
        return SCENARIOS[name]
    path = Path(name)
    if not path.is_file():
        sys.exit(f"There is no scenario and no file named {name!r}. Scenarios: {', '.join(SCENARIOS)}")
    text = path.read_text("utf-8")
    if path.suffix == ".json":
        script = json.loads(text)
    else:
        import tomllib

        script = tomllib.loads(text)
    steps: list[dict[str, Any]] = script["steps"]
    return steps


def main() -> int:
    """Run the scenario in the arguments."""
    parser = argparse.ArgumentParser(prog="understudy.testing.agent", description="A scripted agent.")
    parser.add_argument("scenario", help="name of a scenario, or a TOML or JSON file with steps")
    parser.add_argument("prompt", nargs="*", help="the prompt (default: standard input)")
    parser.add_argument("--file", help="the file under test")
    parser.add_argument("--write", action="append", default=[], metavar="PATH=TEXTFILE")
    parser.add_argument("--journal", help="the journal to forge")
    parser.add_argument("--amount", type=int, default=20, help="how many deltas, or megabytes")
    parser.add_argument("--rate", type=float, default=0.0, help="deltas per second; 0: as fast as possible")
    arguments = parser.parse_args()
    return Agent(arguments).run(load(arguments.scenario))


if __name__ == "__main__":
    sys.exit(main())
