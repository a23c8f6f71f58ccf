"""Record the terminal session on the first page of the README: ``docs/recording.svg``.

    python scripts/record.py [--output FILE]

A shell types the commands of ``STORY`` into a real terminal, in a throwaway repository; nothing on the screen is made
up. Waits are shortened to ``LONGEST_WAIT`` seconds. The recording is an SVG that plays by itself, because pages of
repositories show these without a script. Readers who prefer reduced motion see the last screen.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Any

import pyte

from demo import CLI, GIT, GIT_SECONDS, quoted, without_git, write

TOP = Path(__file__).resolve().parents[1]
COLUMNS, ROWS = 100, 30
LONGEST_WAIT = 0.7
READ = {"short": 1.0, "long": 3.5}
"""Seconds that the screen stays as it is after a command, so that it can be read."""
COMMAND_SECONDS = 300
PROMPT = "$ "
MODULE = '''"""Amounts of money, in cents."""


def total(prices: list[int], discount: int = 0) -> int:
    """Add the prices; take ``discount`` percent off.

    >>> total([1000, 500], discount=10)
    1350
    """
    if not 0 <= discount <= 100:
        raise ValueError("discount must be between 0 and 100")
    return sum(prices) * (100 - discount) // 100


def shown(cents: int) -> str:
    """Return an amount as text, such as 13.50."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"
'''
STORY = (
    ("cat shop/money.py", "long"),
    ("understudy start tests shop/money.py -d liar      # an agent that claims success", "long"),
    ("understudy start tests shop/money.py              # ghostwriter: no model, no key", "long"),
    ("understudy diff {id}", "long"),
    ("understudy accept {id} --all", "long"),
    ("python -m pytest -q", "long"),
)
"""Commands and how long their output stays. ``{id}`` is the newest delegation."""
COLOURS = {
    "default": "#d4d4d4",
    "black": "#5c6370",
    "red": "#f48771",
    "green": "#89d185",
    "brown": "#e2c08d",
    "blue": "#6cb6ff",
    "magenta": "#d7a1e6",
    "cyan": "#6fd3e0",
    "white": "#ffffff",
}
"""Colours of pyte → colours on the dark background; each has a contrast of at least 4.5:1."""


@dataclass
class Recording:
    """The screens of a terminal and how long each was shown."""

    frames: list[tuple[float, list[str]]] = field(default_factory=list)
    """(seconds, SVG of each row), in order."""

    def show(self, rows: list[str], seconds: float) -> None:
        """Append a screen; a screen like the one before only lasts longer."""
        if self.frames and self.frames[-1][1] == rows:
            self.frames[-1] = (self.frames[-1][0] + seconds, rows)
        else:
            self.frames.append((seconds, rows))


class Shell:
    """A shell in a terminal whose screen is recorded."""

    def __init__(self, folder: Path, environment: dict[str, str], recording: Recording) -> None:
        """Start the shell in ``folder``."""
        self.recording = recording
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.terminal, other = pty.openpty()
        ioctl(other, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.child = subprocess.Popen(
            ["/bin/bash", "--norc", "--noprofile", "-i"],
            cwd=folder,
            env={
                **environment,
                "PS1": PROMPT,
                "TERM": "xterm-256color",
                "PAGER": "",
                "BASH_SILENCE_DEPRECATION_WARNING": "1",
            },
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)

    def until_prompt(self) -> None:
        """Record the screen until the shell waits for a command; raise TimeoutError after ``COMMAND_SECONDS``."""
        end = time.monotonic() + COMMAND_SECONDS
        shown = time.monotonic()
        while time.monotonic() < end:
            if not select.select([self.terminal], [], [], 0.3)[0]:
                if self.row(self.screen.cursor.y) == PROMPT.strip():
                    return
                continue
            self.stream.feed(os.read(self.terminal, 65536))
            now = time.monotonic()
            self.recording.show(self.rows(), min(now - shown, LONGEST_WAIT))
            shown = now
        raise TimeoutError("\n".join(self.screen.display))

    def type(self, command: str, stay: str) -> None:
        """Type one command and record it until it has ended."""
        for letter in command:
            os.write(self.terminal, letter.encode())
            while select.select([self.terminal], [], [], 0.05)[0]:
                self.stream.feed(os.read(self.terminal, 65536))
            self.recording.show(self.rows(), 0.03)
        self.recording.show(self.rows(), READ["short"])
        os.write(self.terminal, b"\n")
        self.until_prompt()
        self.recording.show(self.rows(), READ[stay])

    def row(self, number: int) -> str:
        """Return the text of one row."""
        return str(self.screen.display[number]).strip()

    def rows(self) -> list[str]:
        """Return every row of the screen as SVG, without the spaces at its end."""
        return ["".join(spans(self.screen.buffer[number])).rstrip() for number in range(ROWS)]

    def close(self) -> None:
        """End the shell."""
        os.killpg(self.child.pid, signal.SIGHUP)
        self.child.wait(10)
        os.close(self.terminal)


def spans(row: Any) -> Iterator[str]:
    """Yield the text of a row; text with another colour or weight is in a ``tspan``."""
    characters = [row[column] for column in range(COLUMNS)]
    while characters and characters[-1].data == " ":
        characters.pop()
    start = 0
    for end in range(1, len(characters) + 1):
        first = characters[start] if characters else None
        if end < len(characters) and style(characters[end]) == style(first):
            continue
        text = escape("".join(one.data for one in characters[start:end]), quote=False)
        yield f"<tspan{style(first)}>{text}</tspan>" if style(first) else text
        start = end


def style(character: Any) -> str:
    """Return the attributes of a character that differ from the usual ones."""
    colour = character.fg if character.fg in COLOURS else re.sub("^bright", "", character.fg)
    found = "" if colour == "default" else f' fill="{COLOURS.get(colour, "#" + colour)}"'
    return found + (' font-weight="bold"' if character.bold else "")


def svg(recording: Recording) -> str:
    """Return the recording as an SVG: all screens below each other, moved by one animation in steps."""
    width, line, top = COLUMNS * 8.43 + 24, 19, 40
    height = ROWS * line + 16
    total = sum(seconds for seconds, _ in recording.frames)
    known: dict[str, int] = {}
    screens, steps, at = [], [], 0.0
    for number, (seconds, rows) in enumerate(recording.frames):
        uses = [
            f'<use href="#r{known.setdefault(row, len(known))}" y="{number * height + position * line}"/>'
            for position, row in enumerate(rows)
            if row
        ]
        screens.append("".join(uses))
        steps.append(f"{at / total:.4%}{{transform:translateY({-number * height}px)}}")
        at += seconds
    last = f"transform:translateY({-(len(screens) - 1) * height}px)"
    defined = "".join(f'<text id="r{number}" xml:space="preserve">{row}</text>' for row, number in known.items())
    font = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'
    size = f'width="{width:.0f}" height="{height + top}"'
    buttons = "".join(
        f'<circle cx="{20 + 20 * number}" cy="20" r="6" fill="{COLOURS[colour]}"/>'
        for number, colour in enumerate(("red", "brown", "green"))
    )
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} {height + top}">',
            "<title>Understudy in a terminal</title>",
            "<style>",
            f"text {{ font: 14px {font}; fill: {COLOURS['default']}; white-space: pre; }}",
            f"#screens {{ animation: play {total:.2f}s step-end infinite; }}",
            f"@keyframes play {{ {''.join(steps)} 100%{{{last}}} }}",
            f"@media (prefers-reduced-motion: reduce) {{ #screens {{ animation: none; {last}; }} }}",
            "</style>",
            f"<defs>{defined}</defs>",
            '<rect width="100%" height="100%" rx="8" fill="#1e1e1e"/>',
            buttons,
            f'<svg x="12" y="{top}" width="{width - 24:.0f}" height="{height}" overflow="hidden">',
            '<g transform="translate(0 14)"><g id="screens">',
            *screens,
            "</g></g></svg>",
            "</svg>\n",
        )
    )


def make_project(top: Path) -> tuple[Path, dict[str, str]]:
    """Create a trusted repository with one module and an agent that lies; return its folder and the environment."""
    project, folder = top / "project", top / "bin"
    (project / "shop").mkdir(parents=True)
    (project / "shop" / "__init__.py").touch()
    (project / "shop" / "money.py").write_text(MODULE)
    (project / ".gitignore").write_text(".understudy/local/\n__pycache__/\n")
    for step in (("init", "--quiet", "--template="), ("add", "."), ("commit", "--quiet", "--message=A module")):
        subprocess.run([*GIT, *step], cwd=project, env=without_git(), check=True, timeout=GIT_SECONDS)
    folder.mkdir()
    for name, arguments in (("understudy", "-m understudy"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (folder / name).chmod(0o755)
    own = {"HOME": str(top)}
    environment = {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **own,
    }
    delegators = top / ".config" / "understudy" / "delegators"
    delegators.mkdir(parents=True)
    command = ", ".join(map(quoted, [sys.executable, "-m", "understudy.testing.agent", "liar"]))
    write(
        delegators / "liar.toml",
        'name = "liar"',
        'tool = "generic"',
        "[launch]",
        f"command = [{command}]",
        'output = "events"',
    )
    write(
        top / ".config" / "understudy" / "config.toml",
        "[defaults]",
        'delegator = "ghostwriter"',
        "[environment]",
        f"python = {quoted(sys.executable)}",
    )
    subprocess.run(
        [folder / "understudy", "trust", ".", "--yes"],
        cwd=project,
        env=environment,
        check=True,
        timeout=60,
        stdout=subprocess.DEVNULL,
    )
    return project, environment


def latest(project: Path, environment: dict[str, str]) -> str:
    """Return the id of the newest delegation, or an empty text."""
    listed = subprocess.run(
        [*CLI, "list", "--limit", "1", "--json"],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    found = json.loads(listed.stdout)["delegations"]
    return str(found[0]["id"]) if found else ""


def main() -> None:
    """Record the story."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=TOP / "docs" / "recording.svg")
    options = parser.parse_args()
    top = Path(tempfile.mkdtemp(prefix="understudy-recording-"))
    try:
        project, environment = make_project(top)
        recording = Recording()
        shell = Shell(project, environment, recording)
        try:
            shell.until_prompt()
            for command, stay in STORY:
                shell.type(command.format(id=latest(project, environment)), stay)
        finally:
            shell.close()
        options.output.write_text(svg(recording), encoding="utf-8")
    finally:
        shutil.rmtree(top, ignore_errors=True)
    seconds = sum(one for one, _ in recording.frames)
    size = options.output.stat().st_size // 1000
    print(f"{options.output}: {seconds:.0f} s, {len(recording.frames)} screens, {size} kB")


if __name__ == "__main__":
    main()
