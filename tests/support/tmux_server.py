"""A tmux server as a user has one: with windows of its own, started long before, with another environment."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wait_until import until

from understudy.model.capabilities import Pane

TMUX = shutil.which("tmux") or ""


class TmuxServer:
    """A real server; its first window has one pane, the second one is shown."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "server.sock"
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "TERM": "xterm",
            "ONLY_SERVER": "server-value",
        }
        self("new-session", "-d", "-x", "200", "-y", "50", "sleep 600")
        self.first = self("list-panes", "-F", "#{pane_id}")
        self("set-option", "-g", "remain-on-exit", "on")
        self("new-window", "sleep 600")

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [TMUX, "-S", self.socket, "-f", "/dev/null", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout.strip()

    @property
    def pane(self) -> Pane:
        """The pane that the user asks from; another window is shown."""
        return Pane(socket=str(self.socket), id=self.first)

    @property
    def variables(self) -> dict[str, str]:
        """What a program in that pane has in its environment."""
        return {"TMUX": f"{self.socket},1,0", "TMUX_PANE": self.first}

    def panes(self) -> list[str]:
        """The panes of the first window, from left to right and down."""
        return self("list-panes", "-t", self.first, "-F", "#{pane_id}").splitlines()

    def shows(self, pane: str, text: str) -> None:
        """Wait until a pane shows ``text``."""
        until(lambda: text in self("capture-pane", "-p", "-t", pane), f"{text} in {pane}")


@contextmanager
def tmux_server() -> Iterator[TmuxServer]:
    """Start a server; its path is short, as a socket needs it."""
    with tempfile.TemporaryDirectory(prefix="understudy-test-", dir="/tmp", ignore_cleanup_errors=True) as name:
        server = TmuxServer(Path(name))
        try:
            yield server
        finally:
            subprocess.run([TMUX, "-S", server.socket, "kill-server"], check=False, capture_output=True, timeout=30)
