"""A question of an agent, from the journal to the person and back: in a list, in a pipe, on a terminal."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from understudy.faces.cli import answering, app, exits, output, terminal
from understudy.journal import control
from understudy.model import events as e
from understudy.model.delegations import PermissionOption
from understudy.model.states import Verdict

ASKED = e.Permission(
    request_id="q1",
    title="Run `rm -rf build`?",
    detail="rm -rf build",
    options=[
        PermissionOption(id="opt-a", title="Yes", kind="allow_once"),
        PermissionOption(id="opt-b", title="No", kind="reject_once"),
    ],
    on_deadline="reject",
)


@pytest.fixture
def asking(journal: Callable[..., Any]) -> Any:
    """A delegation that waits for a person; its worker is this test."""
    writer = journal()
    writer.append(e.Started(delegator="quick", model="m", why="you asked"), attempt=1)
    writer.append(ASKED, attempt=1)
    writer.flush_summary()
    return writer


def answers_to(writer: Any) -> list[tuple[str, str, str | None]]:
    given = [item for item in control.read_control(writer.folder) if isinstance(item, control.Answer)]
    return [(one.request_id, one.option, one.note) for one in given]


def test_a_question_is_listed_shown_and_answered(asking: Any, capsys: pytest.CaptureFixture[str]) -> None:
    whole = asking.folder.id
    assert app.main(["answer", "--list"]) == exits.Exit.OK
    assert "Run `rm -rf build`?" in capsys.readouterr().out
    assert app.main(["show", whole]) == exits.Exit.OK
    card = capsys.readouterr().out
    assert "? asks: Run `rm -rf build`?\n  | rm -rf build\n  1  Yes  (allow_once)\n  2  No  (reject_once)\n" in card
    assert f"next: understudy answer {whole}\n" in card
    assert [item.value for item in answering.complete_waiting(None, None, "2026")] == [whole]
    assert answering.inbox(terminal.Paint(on=False)) == (
        f"? {whole} asks: Run `rm -rf build`?\n    understudy answer {whole}\n"
    )
    assert app.main(["answer", whole]) == exits.Exit.USAGE, "nobody can be asked in a pipe"
    assert app.main(["answer", whole, "maybe"]) == exits.Exit.ERROR
    assert answers_to(asking) == []
    assert app.main(["answer", whole[-5:], "reject_once", "--note", "not that folder"]) == exits.Exit.OK
    assert answers_to(asking) == [("q1", "opt-b", "not that folder")]
    assert app.main(["answer", whole, "1", "--json"]) == exits.Exit.ERROR
    assert '"conflict"' in capsys.readouterr().out, "the first answer counts"


def test_without_an_id_the_one_that_asks_is_meant(asking: Any) -> None:
    assert app.main(["answer"]) == exits.Exit.USAGE
    _ = asking


def test_the_list_begins_with_what_is_asked_on_a_terminal_only(
    asking: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["list"]) == exits.Exit.OK
    assert "asks:" not in capsys.readouterr().out
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(output, "paint", lambda: terminal.Paint(on=False))
    assert app.main(["list"]) == exits.Exit.OK
    assert capsys.readouterr().out.startswith(f"? {asking.folder.id} asks: Run")


def read_until(stream: Any, text: str, seconds: float = 20) -> str:
    deadline, seen = time.monotonic() + seconds, ""
    while text not in seen:
        assert time.monotonic() < deadline, seen
        line = stream.readline()
        assert line, seen
        seen += line
    return seen


def test_in_a_pipe_a_line_says_how_to_answer(asking: Any) -> None:
    argv = [sys.executable, "-m", "understudy", "watch", asking.folder.id]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as watching:
        seen = read_until(watching.stdout, "answer it:")
        assert f"answer it: understudy answer {asking.folder.id}\n" in seen
        asking.append(e.PermissionAnswered(request_id="q1", option="opt-a", by="cli"), attempt=1)
        asking.append(e.Finished(verdict=Verdict.NO_CHANGES, reservations=[]), attempt=1)
        asking.close()
        assert watching.wait(timeout=20) == exits.Exit.NO_CHANGES
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as again:
        assert "answer it:" not in again.communicate(timeout=20)[0], "it was answered"


@pytest.fixture
def screen(asking: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    monkeypatch.setenv("PS1", "$ ")
    monkeypatch.delenv("TMUX", raising=False)

    def tmux(*arguments: str) -> str:
        argv = ["tmux", "-S", str(tmp_path / "t"), "-f", "/dev/null", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20).stdout

    tmux("new-session", "-d", "-x", "100", "-y", "50", "sh")
    yield tmux
    tmux("kill-server")
    _ = asking


def shows(screen: Callable[..., str], text: str, seconds: float = 20) -> str:
    deadline = time.monotonic() + seconds
    while text not in (found := screen("capture-pane", "-p", "-J")):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


@pytest.mark.heavy
def test_who_watches_on_a_terminal_answers_there(asking: Any, screen: Callable[..., str]) -> None:
    screen("send-keys", "-l", f"{sys.executable} -m understudy watch {asking.folder.id[-5:]}; echo code $?.")
    screen("send-keys", "Enter")
    found = shows(screen, "Which one?")
    assert "1  Yes  (allow_once)" in found
    screen("send-keys", "-l", "perhaps")
    screen("send-keys", "Enter")
    shows(screen, "there is no option 'perhaps'")
    assert answers_to(asking) == []
    screen("send-keys", "2", "Enter")
    deadline = time.monotonic() + 10
    while not answers_to(asking):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert answers_to(asking) == [("q1", "opt-b", None)]
    asking.append(e.PermissionAnswered(request_id="q1", option="opt-b", by="cli"), attempt=1)
    shows(screen, "answered: opt-b")
    asking.append(e.Finished(verdict=Verdict.NO_CHANGES, reservations=[]), attempt=1)
    asking.close()
    assert json.dumps(int(exits.Exit.NO_CHANGES)) in shows(screen, "code 4.")


@pytest.mark.heavy
def test_a_question_answered_elsewhere_is_withdrawn(asking: Any, screen: Callable[..., str]) -> None:
    screen("send-keys", "-l", f"{sys.executable} -m understudy watch {asking.folder.id[-5:]}; echo code $?.")
    screen("send-keys", "Enter")
    shows(screen, "Which one?")
    asking.append(e.PermissionAnswered(request_id="q1", option="opt-a", by="deadline"), attempt=1)
    shows(screen, "answered: opt-a (by deadline)")
    screen("send-keys", "2", "Enter")
    asking.append(e.Finished(verdict=Verdict.NO_CHANGES, reservations=[]), attempt=1)
    asking.close()
    shows(screen, "code 4.")
    assert answers_to(asking) == []
