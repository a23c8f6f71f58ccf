"""Open a tmux pane for one program, and show it to the user.

A pane is opened beside another one, or, where there is none, in a detached session on a server of its own. That server
reads no configuration, ends with its session, and carries the delegation's mark, so that ``kill_leftovers`` finds it
and whatever it starts. tmux gets no secrets: its server keeps the environment of its first client.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from understudy.model.capabilities import Pane
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process import identity
from understudy.process.call_checks import base_environment
from understudy.process.guardian.marked_processes import MARK
from understudy.process.program_spec import OWN, Program
from understudy.process.unguarded import Completed, run_unguarded

_SECONDS = 10.0
"""tmux answers in milliseconds; a server that hangs must not hang its callers."""
_END_SECONDS = 5.0
"""How long a server may take to end before it is killed, and then until the kernel has ended it."""
_STEP_SECONDS = 0.01
_COLUMNS, _ROWS = 160, 48
"""The size of a detached session, until someone attaches."""
_OPTION = "@understudy"
"""The option that marks panes which Understudy opened."""
_NO_ROOM = "no space for new pane"
_PANE = re.compile(r"%\d+")
_PRINTED = re.compile(r"(%\d+)(?: \d+)?")
"""What opening a pane prints: the pane, and the process of a server of its own."""


class Opened(msgspec.Struct, frozen=True):
    """A pane that was opened."""

    pane: Pane
    own_server: identity.Identity | None
    """The server, if it was started for it."""


def pane_of(tmux: str | None, pane: str | None) -> Pane | None:
    """Return the pane that the variables ``TMUX`` and ``TMUX_PANE`` name; None if they name none."""
    socket = (tmux or "").rsplit(",", 2)[0]
    if not socket.startswith("/") or "\0" in socket or pane is None or not _PANE.fullmatch(pane):
        return None
    return Pane(socket=socket, id=pane)


def exists(tmux: str, pane: Pane) -> bool:
    """Return whether the pane is still there."""
    completed = _call(tmux, pane.socket, ["display-message", "-p", "-t", pane.id, "#{pane_id}"])
    return completed.code == 0 and completed.stdout.decode("utf-8", "replace").strip() == pane.id


def open_beside(tmux: str, beside: Pane, argv: Sequence[str], *, cwd: Path, mark: str, title: str) -> Opened:
    """Run ``argv`` in a new pane in the window of ``beside``; the user's active pane stays active.

    It is right of that pane, or below the last one that was opened so. A window that is too small gets a neighbour.
    Raises ``tool_crashed`` with what tmux printed.
    """
    fields = f"#{{window_id}} #{{pane_id}} #{{{_OPTION}}}"
    listed = _call(tmux, beside.socket, ["list-panes", "-t", beside.id, "-F", fields])
    rows = [line.split() for line in listed.stdout.decode("utf-8", "replace").splitlines()]
    ours = [row[1] for row in rows if row[2:]]
    where = ["-v", "-t", ours[-1]] if ours else ["-h", "-t", beside.id]
    options = ["-d", "-P", "-F", "#{pane_id}", "-c", _literal(cwd), "-e", f"{MARK}={mark}", "--", *argv]
    completed = _call(tmux, beside.socket, ["split-window", *where, *options])
    if completed.code != 0 and _NO_ROOM in completed.stderr.decode("utf-8", "replace"):
        window = next((row[0] for row in rows), "")
        completed = _call(tmux, beside.socket, ["new-window", "-a", "-t", window, *options])
    pane = Pane(socket=beside.socket, id=_pane_in(completed))
    # Closed when its program ends, whatever the user's configuration says.
    _call(
        tmux,
        beside.socket,
        [
            *("set-option", "-p", "-t", pane.id, "remain-on-exit", "off", ";"),
            *("set-option", "-p", "-t", pane.id, _OPTION, mark, ";"),
            *("select-pane", "-t", pane.id, "-T", title),
        ],
    )
    return Opened(pane, own_server=None)


def open_detached(tmux: str, socket: Path, argv: Sequence[str], *, cwd: Path, mark: str, title: str) -> Opened:
    """Run ``argv`` in a detached session on a new server with this socket; raises ``tool_crashed``."""
    size = ["-x", str(_COLUMNS), "-y", str(_ROWS)]
    start = ["new-session", "-d", "-P", "-F", "#{pane_id} #{pid}", "-s", title, *size, "-c", _literal(cwd), "--", *argv]
    options = {
        "status-left": " Understudy ",
        "status-left-length": "12",
        "status-right": " Detach: C-b d ",
        # The only window has the name of our own program, which means nothing to the user.
        "window-status-format": "",
        "window-status-current-format": "",
        "mouse": "on",
    }
    status = [word for name, value in options.items() for word in (";", "set-option", "-g", name, value)]
    completed = _call(tmux, str(socket), [*start, *status], configuration=False, mark=mark)
    pane = Pane(socket=str(socket), id=_pane_in(completed))
    return Opened(pane, own_server=identity.of(int(completed.stdout.split()[1])))


def end_server(tmux: str, opened: Opened) -> None:
    """End a server that was started for one pane, and wait until it is gone."""
    if opened.own_server is None:
        return
    _call(tmux, opened.pane.socket, ["kill-server"])
    # The command returns before the server has ended.
    if not _ended(opened.own_server) and identity.end(opened.own_server):
        _ended(opened.own_server)


def _ended(server: identity.Identity) -> bool:
    """Wait until a server has ended; return whether it has."""
    deadline = time.monotonic() + _END_SECONDS
    while identity.alive(server):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_STEP_SECONDS)
    return True


def attach_command(tmux: str, pane: Pane, client: Pane | None) -> list[str]:
    """Return the command that shows the pane to a terminal; ``client`` is the pane that this terminal is, if it is one.

    A client of the same server goes to the pane; any other terminal becomes a client.
    """
    show = ["select-window", "-t", pane.id, ";", "select-pane", "-t", pane.id, ";"]
    if client is not None and client.socket == pane.socket:
        return [tmux, "-S", pane.socket, *show, "switch-client", "-t", pane.id]
    return [tmux, "-S", pane.socket, *show, "attach-session", "-t", pane.id]


def _call(
    tmux: str, socket: str, command: Sequence[str], *, configuration: bool = True, mark: str | None = None
) -> Completed:
    environment = base_environment({} if mark is None else {MARK: mark}, network=False)
    start = [tmux, "-S", socket] if configuration else [tmux, "-S", socket, "-f", "/dev/null"]
    return run_unguarded(Program([*start, *command], Path("/"), environment, OWN), timeout_seconds=_SECONDS)


def _literal(path: Path) -> str:
    """Return a path for an argument that tmux expands: `#(…)` in it would run a shell, and a `;` at its end ends it."""
    text = str(path).replace("#", "##")
    return text[:-1] + "\\;" if text.endswith(";") else text


def _pane_in(completed: Completed) -> str:
    printed = completed.stdout.decode("utf-8", "replace").strip()
    if completed.code == 0 and (match := _PRINTED.fullmatch(printed)):
        return match[1]
    output = completed.stderr.decode("utf-8", "replace").strip() or f"it exited with code {completed.code}"
    raise UnderstudyError(
        ErrorKind.TOOL_CRASHED,
        f"tmux could not open a pane: {output[-500:]}",
        hint="Check that `tmux -V` prints 3.0 or later, and that `tmux new-session` works.",
    )
