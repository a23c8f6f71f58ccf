"""Answers on a terminal: the screen shows every character of them, whatever is drawn besides."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import screens
from agent_model_server import ModelServer

from understudy.config import locations
from understudy.frontends.cli.output import live_view
from understudy.frontends.cli.output.live_view import StreamedAnswer
from understudy.frontends.cli.terminal import terminal
from understudy.model.delegation import events as e
from understudy.model.verdicts import Verdict

COLUMNS = (40, 80, 120)
ANSWER = (
    "First, the function splits the text.\n"
    "\n\n"
    "Then it rounds, as 日本語のテキスト shows; café is written e\u0301 here:\n"
    "\n"
    "- one\n"
    "- two\r\n"
    "\n"
    f"{'A line that is wider than every one of these terminals. ' * 3}\n"
    "The last line is the conclusion: use Decimal"
)
BUSY = e.Started(delegator="quick", model="m", reason="it was chosen for this run, as the only one that can do it")

INTRODUCTION = f"quick (m) started: {BUSY.reason}\n"


class Clock:
    """Time that passes between all events, so that the status is always due."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def tty() -> io.StringIO:
    """A terminal that is stdout and the stream of the view."""
    return io.StringIO()


def view_on(tty: io.StringIO, columns: int) -> live_view.View:
    return live_view.View(
        tty, redraw=True, colour=True, answer=StreamedAnswer(tty), columns=lambda: columns, clock=Clock()
    )


def wrapped(text: str, columns: int, introduction: str = "") -> list[str]:
    return screens.rows(terminal.wrap(introduction, columns) + text.replace("\r", ""), columns)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("length", [1, 3, 7, 40, 80, 10_000])
@pytest.mark.parametrize("answer", [ANSWER, f"{ANSWER}\n\n"], ids=["in-line", "ended"])
def test_the_screen_shows_the_whole_answer(tty, columns, length, answer):
    view = view_on(tty, columns)
    view.show(BUSY)
    for start in range(0, len(answer), length):
        view.tick()
        view.show(e.Text(text=answer[start : start + length]))
        view.tick()
    view.show(e.Finished(verdict=Verdict.ANSWERED, reservations=[]))
    view.clear()
    text = f"{answer if answer is not ANSWER else answer + chr(10)}finished: answered"
    assert screens.rows(tty.getvalue(), columns) == wrapped(text, columns, INTRODUCTION)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("text", ["half a li", "x" * 40, "x" * 80, "x" * 120, "a line\n"], ids=range(5))
def test_a_note_is_on_a_line_of_its_own(tty, columns, text):
    view = view_on(tty, columns)
    view.show(e.Text(text=text))
    view.show(e.Note(level="warning", text="The server is slow."))
    view.show(e.Text(text="the rest"))
    view.tick()
    view.clear()
    above = text if text.endswith("\n") else f"{text}\n"
    assert screens.rows(tty.getvalue(), columns) == wrapped(f"{above}warning: The server is slow.\nthe rest", columns)


@pytest.mark.parametrize("text", ["half a li", "a line\n", ""])
def test_other_output_begins_on_a_line_of_its_own(tty, text):
    view = view_on(tty, 40)
    view.show(BUSY)
    view.show(e.Text(text=text))
    view.clear()
    tty.write("error: The disk is full.\n")
    above = text if text.endswith("\n") or not text else f"{text}\n"
    assert screens.rows(tty.getvalue(), 40) == wrapped(f"{above}error: The disk is full.", 40, INTRODUCTION)


@pytest.mark.parametrize("text", ["x" * 200, "❤\ufe0f" * 60], ids=["long", "ambiguous"])
def test_a_status_that_is_wider_than_the_terminal_is_erased_whole(tty, monkeypatch, text):
    monkeypatch.setattr(terminal, "cut", lambda text, _: text)  # a width that is not the terminal's
    view = view_on(tty, 40)
    view.show(e.Text(text="An answer\n"))
    view.show(e.Phase(text=text))
    shown = screens.rows(tty.getvalue(), 40)
    assert shown[-1].startswith("preparing · ")
    view.show(e.Text(text="of two lines\n"))
    view.clear()
    assert screens.rows(tty.getvalue(), 40) == [*shown[:-1], "of two lines"]


def test_a_line_break_in_two_pieces_is_one(tty):
    answer = StreamedAnswer(tty)
    for piece in ("one\r", "\ntwo\r", "", "three\r"):
        answer.add(piece)
    answer.end_line()
    assert tty.getvalue() == "one\ntwo\nthree\n"


def test_half_a_surrogate_pair_and_escapes_are_not_printed(tty):
    StreamedAnswer(tty).add("a\ud83d b\x1b[2K")
    assert tty.getvalue() == "a b"


# -- the real program ---------------------------------------------------------------------------------------------

REQUEST = ("-t", "Why?", "--context", "a.py")


@pytest.fixture
def project(tmp_path: Path, own_home: Path) -> Iterator[Path]:
    _ = own_home
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("A = 1\n")
    script = {"delta_characters": 7, "delay_seconds": 0.05}
    answers = {"streams": {"text": ANSWER, **script}, "one-line": "It retries three times."}
    with ModelServer(answers=answers) as server:
        servers, delegators = locations.user_folder() / "model-servers", locations.user_folder() / "delegators"
        servers.mkdir(parents=True)
        delegators.mkdir()
        (servers / "lab.toml").write_text(f'name = "lab"\nkind = "custom"\nbase_url = "{server.base_url}"\n')
        for model in ("streams", "one-line", "slow", "cut"):
            lines = {"name": model, "model_server": "lab", "model": model}
            (delegators / f"{model}.toml").write_text(
                "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())
            )
        yield folder


def between(shown: list[str], first: str, last: str) -> list[str]:
    """Return the rows between the one that contains ``first`` and the one that starts with ``last``."""
    start = next(index for index, row in enumerate(shown) if first in row) + 1
    return shown[start : next(index for index, row in enumerate(shown) if row.startswith(last))]


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize(("model", "answer"), [("streams", ANSWER), ("one-line", "It retries three times.")])
def test_an_answer_is_on_the_screen(project, columns, model, answer):
    shown = screens.run(("start", "ask", *REQUEST, "-d", model), columns, project)
    rows = between(shown, "started: ", "finished: answered")
    expected = wrapped(answer, columns)
    assert rows[-len(expected) :] == expected
    assert "ANSWERED" in "\n".join(shown)


def test_an_explanation_is_on_the_screen(project):
    shown = screens.run(("start", "explain", "a.py", "-d", "slow"), 80, project)
    assert between(shown, "started: ", "finished: answered") == ["0123456789"]


def test_a_server_that_dies_in_a_line_leaves_the_line(project):
    shown = screens.run(("start", "ask", *REQUEST, "-d", "cut"), 80, project, code=5)
    after = next(index for index, row in enumerate(shown) if "started: " in row) + 1
    assert shown[after] == "half"
    assert shown[after + 1].startswith("warning: Model server 'lab' closed the connection mid-answer")
    assert any(row == "half" for row in shown[after + 2 :]), "the answer begins again in a line of its own"
    assert any(row.startswith("failed: Model server 'lab' closed the connection mid-answer") for row in shown)
