"""Test a whole session in a real Vim with ALE, in a terminal, with only the lines in ``docs/editors.md``."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wait_until import until

ALE = [Path("/usr/share/vim-ale"), Path("/usr/share/vim/vimfiles/pack/dist-bundle/opt/ale")]
"""Where Debian installs vim-ale."""

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(shutil.which("vim") is None, reason="Vim is not installed"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
    pytest.mark.skipif(not any(path.exists() for path in ALE), reason="vim-ale is not installed"),
]

BEFORE = """
set nocompatible nomore hidden autoread noswapfile viminfo=
filetype plugin on
packadd ale
"""
"""A typical configuration of Vim with ALE."""
AFTER = """
let spy = ch_open('127.0.0.1:%d', {'mode': 'json', 'waittime': 5000})
"""
"""How the test reads the state of Vim. It acts only by typing keys, like a user."""


class Vim:
    """One Vim in a terminal of its own."""

    def __init__(self, folder: Path, home: Path, lines: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.settimeout(30)
            vimrc = home / "vimrc"
            vimrc.write_text(BEFORE + lines + AFTER % listening.getsockname()[1], encoding="utf-8")
            self.tmux_folder = home / "t"  # a socket may have a path of 107 bytes
            self.tmux_folder.mkdir(mode=0o700)
            self.environment = {**os.environ, "TMUX_TMPDIR": str(self.tmux_folder), "TERM": "xterm-256color"}
            self.environment.pop("TMUX", None)
            size = ("-x", "180", "-y", "60")
            self.tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), f"vim -u {vimrc} -i NONE")
            self.channel, _ = listening.accept()
        self.channel.settimeout(30)
        self.stream = self.channel.makefile("rwb")
        self.number = 0

    def tmux(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-L", "t", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        ).stdout

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def command(self, text: str) -> None:
        """Type a command."""
        self.keys("Escape")
        self.type(f":{text}")
        self.keys("Enter")

    def look(self, expression: str) -> Any:
        """Return the value of a Vim expression."""
        self.number -= 1
        self.stream.write(json.dumps(["expr", expression, self.number]).encode() + b"\n")
        self.stream.flush()
        answer = json.loads(self.stream.readline())
        assert answer[0] == self.number
        return answer[1]

    def edit(self, path: Path | str) -> None:
        self.command(f"edit {path}")
        until(lambda: self.look("expand('%:p')") == str(path), f"{path} is shown")

    def lines(self) -> list[str]:
        found: list[str] = self.look("getline(1, '$')")
        return found

    def go(self, text: str) -> None:
        self.command(f"call search('\\V{text}', 'cw')")

    def problems(self) -> list[dict[str, Any]]:
        return self.look("get(get(g:, 'ale_buffer_info', {}), bufnr(''), {'loclist': []}).loclist") or []

    def choose(self, title: str) -> None:
        """Ask for code actions and type the number of the one whose title contains a text."""

        def menu() -> list[str]:
            rows = [line.strip() for line in self.screen().splitlines()]
            return [row for row in rows if row.partition(") ")[0].isdigit()] if "Type number" in "".join(rows) else []

        def asked() -> list[str]:
            self.command("ALECodeAction")
            with contextlib.suppress(AssertionError):
                return until(menu, "a menu", 5)
            return []

        deadline = time.monotonic() + 60
        while True:
            try:
                rows = until(asked, f"code actions: {title}")
            except AssertionError as error:
                raise AssertionError(f"{error}\n{self.screen()}") from None
            number = next((row.partition(")")[0] for row in rows if title in row.partition(") ")[2]), None)
            if number is not None:
                break
            self.keys("Enter")  # an empty answer
            assert time.monotonic() < deadline, f"no {title!r} among {rows}"
        self.type(number)
        self.keys("Enter")

    def close(self) -> None:
        self.stream.close()
        self.channel.close()
        with contextlib.suppress(subprocess.SubprocessError):
            self.tmux("kill-server")


@pytest.fixture
def vim(job: Any, own_home: Path, snippet: Any) -> Iterator[Vim]:
    found = Vim(job.top, own_home, snippet("Vim with ALE", "vim"))
    yield found
    found.close()


def hunk(job: Any, identifier: str, line: int) -> Any:
    files = job.call("delegations/diff", id=identifier).files
    return next(one for file in files if file.path == "lines.py" for one in file.hunks if one.old_start == line)


@pytest.mark.smoke
def test_the_job_in_vim_with_ale(vim: Vim, job: Any):
    vim.edit(job.top / "lines.py")
    vim.command("1s/.*/line1 = 'not saved'/")
    vim.choose("Rework")
    preview = "join(map(getbufinfo(), {_, one -> join(getbufline(one.bufnr, 1, '$'), ' ')}), '\\n')"
    until(lambda: "review.diff" in vim.look(preview), "the message at the end")
    words = next(line for line in vim.look(preview).splitlines() if "review.diff" in line).split()
    review = next(word.strip("“”().,;") for word in words if "review.diff" in word)
    [delegation] = job.call("delegations/list").delegations
    identifier = delegation.id
    assert job.file(identifier, "lines.py", "base").startswith("line1 = 'not saved'\n")
    assert (job.top / "lines.py").read_text(encoding="utf-8").startswith("line1 = 1\n")

    vim.edit(review)
    until(lambda: len(vim.problems()) == 3, "a diagnostic for each hunk")
    vim.command("1")
    until(lambda: vim.look("line('.')") == 1, "the first line")
    visited = [1]
    for _ in range(3):
        vim.command("ALENextWrap")
        until(lambda: vim.look("line('.')") != visited[-1], "the next hunk")
        visited.append(vim.look("line('.')"))
    assert set(visited[1:]) == {problem["lnum"] for problem in vim.problems()}

    # A hunk of a new file.
    vim.go("+def test_first")
    vim.choose("Accept this")
    until((job.top / "tests/test_lines.py").exists, "the new file")

    # A hunk of a modified file that is open and not saved. ALE lets no server change it, so accepting is refused.
    vim.go("+line5")
    vim.choose("Accept this")
    until(lambda: "save" in vim.look(preview).lower(), "what to do first")
    assert str(hunk(job, identifier, 5).state) == "pending"
    assert (job.top / "lines.py").read_text(encoding="utf-8").startswith("line1 = 1\n")

    # After saving, with other changes, accepting changes the file, and Vim reads it again.
    vim.edit(job.top / "lines.py")
    vim.command("2put ='# typed while it worked'")
    vim.command("write")
    vim.edit(review)
    vim.go("+line5")
    vim.choose("Accept this")
    until(lambda: str(hunk(job, identifier, 5).state) == "accepted", "the decision")
    vim.edit(job.top / "lines.py")
    vim.command("checktime")
    until(lambda: 'line5 = "five"' in vim.lines(), "the file, read again")
    assert vim.lines()[:4] == ["line1 = 'not saved'", "line2 = 2", "# typed while it worked", "line3 = 3"]

    # A hunk is rejected, with a reason that is typed below it and not saved.
    vim.edit(review)
    vim.go("+line25")
    vim.type("o> numbers must stay numbers")
    vim.keys("Escape", "k")
    vim.choose("Reject this hunk because: numbers must stay")
    until(lambda: str(hunk(job, identifier, 25).state) == "rejected", "the rejection")
    assert hunk(job, identifier, 25).reason == "numbers must stay numbers"

    # Undo reverts the last accept and keeps later edits.
    vim.choose("Undo")
    until(lambda: str(hunk(job, identifier, 5).state) == "pending", "the undo")
    vim.edit(job.top / "lines.py")
    vim.command("checktime")
    until(lambda: "line5 = 5" in vim.lines(), "the file, read again")
    assert vim.lines()[2] == "# typed while it worked"

    # Send it back.
    vim.edit(review)
    vim.choose("Send back")
    reply = until(
        lambda: next((one for one in job.call("delegations/list").delegations if one.parent_id == identifier), None),
        "the follow-up",
    )
    until(lambda: job.call("delegations/get", id=reply.id).state == "finished", "its end")


def test_ale_shows_what_is_wrong_in_own_files(vim: Vim, job: Any):
    config = job.write(".understudy/config.toml", '[defaults]\ndelegater = "worker"\n')
    vim.edit(config)
    until(lambda: any("delegater" in one["text"] for one in vim.problems()), "the misspelt name")
