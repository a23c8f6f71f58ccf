"""The README's commands are typed into a terminal, in order, by someone with an empty home and a small project."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from understudy.frontends.cli import app
from understudy.frontends.cli.calls import command_group
from understudy.frontends.cli.calls.command_group import DefaultGroup

TOP = Path(__file__).resolve().parents[2]
COMMANDS = [
    re.sub(r"\s+# .*$", "", line.removeprefix("$ "))
    for block in re.findall(r"```console\n(.*?)```", (TOP / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    for line in block.splitlines()
]
PAGES = [
    "README.md",
    "protocol/README.md",
    "sidecar/README.md",
    "vscode-extension/README.md",
    *(f"docs/{page.name}" for page in sorted((TOP / "docs").glob("*.md"))),
]
NOT_RUN = {
    "make demo": "tests/repository/test_demo.py runs it",
    "make test": "this is one of its tests",
    "uv tool install .": "tests/repository/test_installers.py runs it",
}
ANSWERS = {"understudy trust .": "y\n", "understudy review ID": "q\n"}
"""What is typed when a command asks."""
OLLAMA = "http://127.0.0.1:11434/"
SECONDS = 120

PARSER = '''"""Key-value pairs on one line."""


def parse(text: str) -> dict[str, str]:
    """Return the pairs of ``a=1,b=2``."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {key.strip(): value.strip() for key, _, value in pairs}
'''

TESTS = """from src.parser import parse


def test_pairs():
    assert parse("a=1,b=2") == {"a": "1", "b": "2"}
    assert parse(" a = 1 ,, b=") == {"a": "1", "b": ""}
    assert parse("") == {}
    assert parse("a=1=2,a=3") == {"a": "3"}
    assert parse("a=1=2") == {"a": "1=2"}
    assert parse("a") == {"a": ""}
"""


def test_every_line_is_a_command_or_listed():
    assert len(COMMANDS) > 15
    assert set(COMMANDS) >= NOT_RUN.keys() | ANSWERS.keys()
    for command in COMMANDS:
        assert command in NOT_RUN or command.startswith(("understudy ", "cd ")), command


def known_options(words: list[str]) -> tuple[list[str], set[str]]:
    """Return the words after the command's name, and the options that the command has."""
    words = command_group.translated(command_group.after_command(words))
    command: click.Command = app.group
    context = click.Context(app.group)
    while isinstance(command, click.Group) and words:
        if words[0].startswith("-"):
            if not isinstance(command, DefaultGroup):
                break
            words = [next(iter(command.commands)), *words]
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
    options = {option for one in command.params for option in [*one.opts, *one.secondary_opts]}
    return words[: words.index("--") if "--" in words else None], options | {"--help", "--version"}


@pytest.mark.parametrize("page", PAGES)
def test_every_command_in_the_text_exists(page: str):
    text = (TOP / page).read_text(encoding="utf-8")
    for line in re.findall(r"^\$ (understudy .*?)(?:\s+#.*)?$|`(understudy [a-z][^`]*)`", text, re.MULTILINE):
        words, options = known_options(shlex.split("".join(line))[1:])
        assert {word for word in words if word.startswith("-")} <= options, line


@pytest.fixture
def ollama(tmp_path: Path) -> Iterator[str]:
    """The address of a scripted model server that knows the README's model."""
    (tmp_path / "answers.json").write_text(json.dumps({"qwen3-coder": "It raises TimeoutError."}))
    port = tmp_path / "port"
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "understudy.testing.model_server", "--port", "0"),
            *("--port-file", str(port), "--answers", str(tmp_path / "answers.json")),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout.readline().startswith("Serving ")
        yield f"http://127.0.0.1:{port.read_text().strip()}/"
    finally:
        server.kill()
        server.communicate()


@dataclass
class Terminal:
    """A shell user's terminal: the current folder and the environment."""

    folder: Path
    environment: dict[str, str]

    def type(self, command: str, answer: str) -> str:
        """Run one line; return what the terminal showed once it ended with code 0."""
        ours, theirs = pty.openpty()
        child = subprocess.Popen(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        os.write(ours, answer.encode())
        shown = bytearray()
        end = time.monotonic() + SECONDS
        try:
            while select.select([ours], [], [], max(end - time.monotonic(), 0))[0]:
                try:
                    read = os.read(ours, 65536)
                except OSError:  # EIO: no process holds the other end
                    break
                if not read:
                    break
                shown += read
            code = child.wait(max(end - time.monotonic(), 1))
        finally:
            child.kill()
            child.wait()
            os.close(ours)
        text = shown.decode(errors="replace").replace("\r\n", "\n")
        assert code == 0, f"$ {command}\n{text}"
        return text


@pytest.mark.heavy  # three delegations with real checks: 30 s and more
def test_every_command_works_as_written(tmp_path: Path, own_home: Path, ollama: str):
    project = tmp_path / "your-project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "__init__.py").touch()
    (project / "src" / "parser.py").write_text(PARSER)
    (project / "src" / "net.py").write_text("def retry():\n    raise TimeoutError\n")
    for step in (("init", "-q"), ("add", "."), ("commit", "-qm", "Start")):
        subprocess.run(["git", *step], cwd=project, check=True)
    agent = tmp_path / "bin" / "my-agent"
    agent.parent.mkdir()
    (tmp_path / "tests.txt").write_text(TESTS)
    wrote = f"honest --write tests/test_parser.py={tmp_path}/tests.txt"
    agent.write_text(f'#!/bin/sh\nexec {sys.executable} -m understudy.testing.agent {wrote} "$@"\n')
    (agent.parent / "claude").write_text("#!/bin/sh\necho '2.1.0 (Claude Code)'\n")
    for program in agent.parent.iterdir():
        program.chmod(0o755)
    # The project has no environment; its Python is the first on PATH, which has pytest and Hypothesis.
    path = f"{own_home}/.local/bin:{agent.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    terminal = Terminal(TOP, {**os.environ, "PATH": path, "TERM": "dumb", "PAGER": "cat"})
    words: dict[str, str] = {}
    written = project / "tests" / "test_parser.py"
    for command in COMMANDS:
        if command in NOT_RUN:
            continue
        if command == "cd your-project":
            terminal.folder = project
            continue
        line = re.sub(r"\b(ID|TOKEN)\b", lambda word: words[word[0]], command).replace(OLLAMA, ollama)
        shown = terminal.type(line, ANSWERS.get(command, ""))
        if command.startswith("understudy start tests"):
            assert "VERIFIED" in shown
            newest = json.loads(terminal.type("understudy list --json", ""))["delegations"][0]
            words["ID"] = newest["id"][:-2]  # the beginning of an id is enough
        elif command.startswith("understudy accept"):
            assert written.exists()
            words["TOKEN"] = re.search(r"understudy undo (\S+)", shown)[1]
        elif command.startswith("understudy undo"):
            assert not written.exists()
        elif command.startswith("understudy ask"):
            assert "It raises TimeoutError." in shown
    listed = json.loads(terminal.type("understudy delegators list --json", ""))
    assert {entry["delegator"]["name"] for entry in listed["delegators"]} >= {"quick", "claude", "mine"}
    assert listed["problems"] == []
    status = subprocess.run(["git", "status", "--porcelain"], cwd=project, capture_output=True, text=True, check=True)
    assert status.stdout == "", "nothing is left after undo"
