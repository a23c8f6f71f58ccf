"""Test a whole session in a real Neovim, with its built-in client and only the lines in ``docs/editors.md``."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wait_until import until

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(shutil.which("nvim") is None, reason="nvim is not installed"),
    # pynvim leaves the pipes and the event loop of its child to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SPY = """
_G.offered, _G.said, _G.wanted = {}, {}, nil
vim.ui.select = function(items, options, done)
  local titles = {}
  for number, item in ipairs(items) do
    titles[number] = options.format_item and options.format_item(item) or tostring(item)
  end
  _G.offered = titles
  for number, title in ipairs(titles) do
    if _G.wanted and title:match(_G.wanted) then _G.wanted = nil; return done(items[number], number) end
  end
  done(nil, nil)
end
local show = vim.lsp.handlers['window/showMessage']
vim.lsp.handlers['window/showMessage'] = function(error, result, context, config)
  table.insert(_G.said, result.message)
end
-- The editor's own handler waits for a key, which no one presses here.
vim.lsp.handlers['window/showMessageRequest'] = function(error, result, context, config)
  table.insert(_G.said, result.message)
  return vim.NIL
end
_G.clients = function() return vim.lsp.get_clients and vim.lsp.get_clients({ bufnr = 0 }) or vim.lsp.buf_get_clients(0) end
_G.progress = function()
  return vim.lsp.status and vim.lsp.status() or vim.inspect(vim.lsp.util.get_progress_messages())
end
_G.cancel = function()
  -- As plug-ins that show progress do.
  for _, client in pairs(_G.clients()) do
    for token in pairs(vim.lsp.get_clients and client.progress.pending or client.messages.progress) do
      if vim.lsp.get_clients then
        client:notify('window/workDoneProgress/cancel', { token = token })
      else
        client.notify('window/workDoneProgress/cancel', { token = token })
      end
      return token
    end
  end
end
"""
"""Choose from lists and record what the user would read; everything else is the editor's own."""


class Neovim:
    """One Neovim, controlled like a user does, with commands, keys and choices."""

    def __init__(self, home: Path, init: str, program: str = "nvim") -> None:
        import pynvim

        path = home / "init.lua"
        path.write_text(init, encoding="utf-8")
        self.api = pynvim.attach(
            "child", argv=[program, "--embed", "--headless", "-u", str(path), "-i", "NONE", "-n", "-c", "set hidden"]
        )
        self.api.exec_lua(SPY)

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.api.exec_lua(code, *arguments)

    def edit(self, path: Path | str) -> None:
        self.api.command(f"edit {path}")
        until(self.attached, "the server attached")

    def attached(self) -> bool:
        return bool(
            self.lua(
                "for _, c in pairs(_G.clients()) do if c.name == 'understudy' and c.initialized then"
                " return true end end return false"
            )
        )

    def choose(self, title: str) -> None:
        """Ask for code actions and choose the one whose title matches a Lua pattern."""

        def chosen() -> bool:
            self.lua("_G.wanted, _G.offered = ..., {}; vim.lsp.buf.code_action()", title)
            with contextlib.suppress(AssertionError):
                until(lambda: self.lua("return #_G.offered > 0"), "actions", 5)
            return self.lua("return _G.wanted == nil")

        try:
            until(chosen, f"action {title}")
        except AssertionError as error:
            raise AssertionError(f"{error}; offered: {self.offered()}; said: {self.said()}") from None

    def offered(self) -> list[str]:
        return self.lua("return _G.offered") or []

    def said(self) -> list[str]:
        return self.lua("return _G.said") or []

    def heard(self, text: str) -> str:
        try:
            return until(lambda: next((one for one in self.said() if text in one), None), text, 30)
        except AssertionError:
            raise AssertionError(f"{text!r} was not among {self.said()}") from None

    def lines(self) -> list[str]:
        return list(self.api.current.buffer[:])

    def problems(self) -> list[dict[str, Any]]:
        return self.lua("return vim.diagnostic.get(0)") or []

    def next_problem(self) -> int:
        """Go to the next diagnostic; return its line, from zero."""
        self.lua("vim.diagnostic.goto_next({ float = false, wrap = true })")
        return self.api.current.window.cursor[0] - 1

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self.api.command("qa!", async_=True)
        self.api.close()
        self.api = None


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """Collect garbage of pynvim now, so that its warnings do not appear in another test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(3):
            gc.collect()


@pytest.fixture(params=["0.7", "0.11"])
def neovim(request: pytest.FixtureRequest, job: Any, own_home: Path, snippet: Any) -> Iterator[Neovim]:
    """Start Debian's Neovim, or one with ``vim.lsp.config``, with the lines in ``docs/editors.md`` for its version."""
    if request.param == "0.7":
        found = Neovim(own_home, snippet("Neovim 0.7 to 0.10", "lua"))
    else:
        program = request.getfixturevalue("newer_neovim")
        found = Neovim(own_home, snippet("Neovim 0.11 and newer", "lua"), program)
    found.api.chdir(str(job.top))
    yield found
    found.close()


def delegated(neovim: Neovim, job: Any) -> tuple[str, Path]:
    """Delegate from an unsaved buffer; return the id and the path of review.diff in the message to the user."""
    neovim.edit(job.top / "lines.py")
    neovim.api.current.buffer[0:1] = ["line1 = 'not saved'"]
    neovim.choose("Rework")
    message = neovim.heard("review.diff")
    [delegation] = job.call("delegations/list").delegations
    path = next(word.strip("“”().,;") for word in message.split() if "review.diff" in word)
    assert job.file(delegation.id, "lines.py", "base").startswith("line1 = 'not saved'\n")
    return delegation.id, Path(path)


@pytest.mark.smoke
def test_the_whole_job(neovim: Neovim, job: Any):
    identifier, review = delegated(neovim, job)
    assert (job.top / "lines.py").read_text(encoding="utf-8").startswith("line1 = 1\n")

    # The modified file is edited meanwhile, above the change.
    neovim.api.current.buffer[2:2] = ["# typed while it worked"]
    neovim.edit(review)
    until(lambda: len(neovim.problems()) == 3, "a diagnostic for each hunk")
    hunks = {problem["lnum"] for problem in neovim.problems()}
    neovim.api.current.window.cursor = (1, 0)
    visited = [neovim.next_problem() for _ in range(3)]
    assert set(visited) == hunks

    def at(text: str) -> None:
        line = next(number for number, one in enumerate(neovim.lines()) if text in one)
        neovim.api.current.window.cursor = (line + 1, 0)

    # A hunk of a new file.
    at("def test_first")
    neovim.choose("^Accept [^f]")
    until((job.top / "tests/test_lines.py").exists, "the new file")

    # A hunk of a modified file, which is open and has other changes.
    at("+line5")
    neovim.choose("^Accept [^f]")
    until(lambda: state(job, identifier, "line5") == "accepted", "the decision")
    neovim.api.command(f"buffer {job.top / 'lines.py'}")
    assert neovim.lines()[:7] == [
        "line1 = 'not saved'",
        "line2 = 2",
        "# typed while it worked",
        "line3 = 3",
        "line4 = 4",
        'line5 = "five"',
        "line6 = 6",
    ]
    assert (job.top / "lines.py").read_text(encoding="utf-8").startswith("line1 = 1\n")

    # One is rejected, with a reason typed below it.
    neovim.api.command(f"buffer {review}")
    line = next(number for number, one in enumerate(neovim.lines()) if "+line25" in one)
    neovim.api.current.buffer[line + 1 : line + 1] = ["> numbers must stay numbers"]
    neovim.api.current.window.cursor = (line + 1, 0)
    neovim.choose("^Reject .*numbers must stay")
    until(lambda: state(job, identifier, "line25") == "rejected", "the rejection")
    assert reason(job, identifier) == "numbers must stay numbers"

    # Undo reverts the last accept in the buffer and keeps later edits.
    neovim.choose("^Undo")
    until(lambda: state(job, identifier, "line5") == "pending", "the undo")
    neovim.api.command(f"buffer {job.top / 'lines.py'}")
    assert neovim.lines()[2:6] == ["# typed while it worked", "line3 = 3", "line4 = 4", "line5 = 5"]

    # Send it back.
    neovim.api.command(f"buffer {review}")
    neovim.choose("^Send back")
    reply = until(lambda: next((d for d in listed(job) if d.parent_id == identifier), None), "the follow-up")
    until(lambda: job.call("delegations/get", id=reply.id).state == "finished", "its end")
    prompt = next(job.config.parent.parent.rglob(f"{reply.id}/prompt.md"), None) or next(
        Path(os.environ["UNDERSTUDY_STATE"]).rglob(f"{reply.id}/prompt.md")
    )
    assert "numbers must stay numbers" in prompt.read_text(encoding="utf-8")


def test_progress_is_shown_while_it_works(neovim: Neovim, job: Any):
    job.agent("worker", {"phase": "thinking hard"}, {"sleep": 60}, {"result": True})
    neovim.edit(job.top / "lines.py")
    neovim.choose("Rework")
    messages: list[str] = []

    def seen() -> bool:
        messages.append(neovim.lua("return _G.progress()"))
        return "thinking hard" in "".join(messages)

    until(seen, "progress")
    token = neovim.lua("return _G.cancel()")
    assert isinstance(token, str)
    [delegation] = listed(job)
    until(lambda: job.call("delegations/get", id=delegation.id).state == "finished", "the end")
    assert job.call("delegations/get", id=delegation.id).verdict == "cancelled"


def test_the_server_is_killed_and_another_takes_over(neovim: Neovim, job: Any, own_home: Path, snippet: Any):
    job.agent("worker", {"sleep": 2}, {"write": "lines.py", "text": "line1 = 0\n"}, {"result": True})
    neovim.edit(job.top / "lines.py")
    neovim.choose("Rework")
    [delegation] = until(lambda: listed(job), "the start")
    pids = subprocess.run(
        ["pgrep", "-f", "understudy serve"], capture_output=True, text=True, check=True
    ).stdout.split()
    mine = [pid for pid in pids if own_home.as_posix() in Path(f"/proc/{pid}/environ").read_text(encoding="utf-8")]
    for pid in mine:
        os.kill(int(pid), signal.SIGKILL)
    until(lambda: job.call("delegations/get", id=delegation.id).state == "finished", "the end, without the server")
    other = Neovim(own_home, snippet("Neovim 0.7 to 0.10", "lua"))
    try:
        other.api.chdir(str(job.top))
        review = next(Path(os.environ["UNDERSTUDY_STATE"]).rglob(f"{delegation.id}/review.diff"))
        other.edit(review)
        until(lambda: len(other.problems()) >= 1, "a diagnostic")
        other.api.current.window.cursor = (other.problems()[0]["lnum"] + 1, 0)
        other.choose("^Accept [^f]")
        until(lambda: (job.top / "lines.py").read_text(encoding="utf-8") == "line1 = 0\n", "the file")
    finally:
        other.close()


def listed(job: Any) -> list[Any]:
    return job.call("delegations/list").delegations


def hunk(job: Any, identifier: str, text: str) -> Any:
    number = MODULE_LINES[text]
    files = job.call("delegations/diff", id=identifier).files
    return next(h for file in files if file.path == "lines.py" for h in file.hunks if h.old_start == number)


MODULE_LINES = {"line5": 5, "line25": 25}


def state(job: Any, identifier: str, text: str) -> str:
    return str(hunk(job, identifier, text).state)


def reason(job: Any, identifier: str) -> str | None:
    found: str | None = hunk(job, identifier, "line25").reason
    return found
