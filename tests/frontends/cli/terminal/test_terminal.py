"""Test that Ctrl-C waits for the end of a request, once."""

from __future__ import annotations

import signal

import pytest

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
