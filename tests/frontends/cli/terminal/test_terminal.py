"""Test that Ctrl-C waits for the end of a request, once; and how prose is fitted to a terminal."""

from __future__ import annotations

import signal

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.frontends.cli.terminal import terminal
from understudy.frontends.cli.terminal.terminal import HeldInterrupt


def test_the_first_ctrl_c_waits_until_it_is_released(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with HeldInterrupt() as held:
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert "Ctrl-C again" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        held.release()
    held.release()


def test_the_second_ctrl_c_interrupts_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with HeldInterrupt():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_detached_start_names_the_command_that_cancels(capsys: pytest.CaptureFixture[str]) -> None:
    with HeldInterrupt() as held:
        pass
    held.explain_detached("understudy cancel k3f9q")
    assert capsys.readouterr().err == ""
    with held:
        signal.raise_signal(signal.SIGINT)
    held.explain_detached("understudy cancel k3f9q")
    assert "understudy cancel k3f9q" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one two three", "one two\n  three"),
        ("    three four five", "    three\n      four\n      five"),
        ("say `run this now` here", "say\n  `run this now`\n  here"),
        ("next: less ~/a/b /c/d", "next:\n  less ~/a/b /c/d"),
        ("Do: understudy check a", "Do:\n  understudy check a"),
        ("(understudy list; understudy show a) b", "(understudy list;\n  understudy show a)\n  b"),
        ("    | output of a program", "    | output of a program"),
        ("    - line of a diff", "    - line of a diff"),
        ("  - item of a list", "  - item\n    of a\n    list"),
        ("日本 日本 日本", "日本\n  日本\n  日本"),
        (click.style("one two three", fg="red"), "\x1b[31mone two\n  three\x1b[0m"),
        (click.style("  one two three", dim=True), "\x1b[2m  one\n    two\n    three\x1b[0m"),
        ("Wait (understudy wait ID), or cancel", "Wait\n  (understudy wait ID),\n  or\n  cancel"),
        ("`a b``c d` e", "`a b``c d`\n  e"),
        ("https://example.org/path and", "https://example.org/path\n  and"),
    ],
)
def test_prose_is_wrapped_at_words_and_commands_stay_whole(text: str, shown: str) -> None:
    assert terminal.wrap(text, 10) == shown


PIECES = st.sampled_from([*"ab `:;()日", "understudy show ", "(understudy wait ID)", "\x1b[2m", "\x1b[0m"])


@given(st.lists(PIECES, max_size=60).map("".join), st.integers(20, 60))
def test_wrapping_changes_nothing_but_line_breaks_and_their_indentation(line: str, columns: int) -> None:
    first, *others = terminal.wrap(line, columns).split("\n")
    plain = click.unstyle(line)
    indent = " " * (len(plain) - len(plain.lstrip(" ")) + 2)
    assert all(other.startswith(indent) for other in others)
    assert " ".join([first, *(other.removeprefix(indent) for other in others)]) == line
    for shown in map(click.unstyle, [first, *others]):
        assert terminal.width_of(shown) <= columns or len(terminal.words(shown.strip(" "))) <= 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("next: understudy review 20261121-004512-k3f9q --list", "next: understudy review k3f9q --list"),
        ("understudy undo 20261121-004512-k3f9q.17cf6a74", "understudy undo 20261121-004512-k3f9q.17cf6a74"),
        ("Stopped waiting; 20261121-004512-k3f9q runs", "Stopped waiting; 20261121-004512-k3f9q runs"),
        ("less /trees/20261121-004512-k3f9q/log", "less /trees/20261121-004512-k3f9q/log"),
        ("/opt/understudy show 20261121-004512-k3f9q", "/opt/understudy show 20261121-004512-k3f9q"),
        ("  | understudy undo 20261121-004512-k3f9q", "  | understudy undo 20261121-004512-k3f9q"),
    ],
)
def test_commands_have_short_ids(text: str, shown: str) -> None:
    assert terminal.short_ids(text) == shown
