"""The user's text editor."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from understudy.frontends.cli.terminal import terminal
from understudy.model.errors import ErrorKind, UnderstudyError

_HINT = "Set VISUAL or EDITOR to an editor that returns when the file is closed."
_DEFAULT = "vi"
"""Required by POSIX, and git's default."""


def can_edit() -> bool:
    """Return whether an editor, or a review, can run: stdin and stdout are a terminal."""
    return terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stdout)


def edited(text: str, name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Let the user edit ``text`` in a file named like ``name``; return the new text, None if it did not change.

    Runs ``$VISUAL``, ``$EDITOR`` or ``vi``, split into an argument vector without a shell. The editor and the pager
    (which click starts) are the only programs that a frontend starts: they need the user's terminal and environment.
    Errors: ``tool_missing``, ``tool_crashed`` (the edit is ignored), ``malformed_output``.
    """
    argv = _argv(environment)
    with tempfile.TemporaryDirectory(prefix="understudy-edit-") as folder:
        # The editor detects the language by the file name.
        file = Path(folder) / (terminal.one_line(PurePosixPath(name).name).replace("/", "_") or "text")
        file.write_text(text, encoding="utf-8", newline="")
        code = _run([*argv, str(file)], environment)
        if code != 0:
            raise UnderstudyError(
                ErrorKind.TOOL_CRASHED,
                f"{argv[0]} exited with code {code}; nothing was changed.",
                hint="Try again. " + _HINT,
            )
        try:
            with file.open(encoding="utf-8", newline="") as handle:
                after = handle.read()
        except (OSError, UnicodeDecodeError) as error:
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"The file that {argv[0]} saved is not UTF-8: {error}.",
                hint="Edit it again and save it as UTF-8.",
            ) from None
    return None if after == text else after


def _argv(environment: Mapping[str, str]) -> list[str]:
    chosen = environment.get("VISUAL") or environment.get("EDITOR") or _DEFAULT
    try:
        argv = shlex.split(chosen)
    except ValueError as error:
        raise UnderstudyError(ErrorKind.TOOL_MISSING, f"{chosen!r} is not a command: {error}.", hint=_HINT) from None
    return argv or [_DEFAULT]


def _run(argv: list[str], environment: Mapping[str, str]) -> int:
    try:
        process = subprocess.Popen(argv, env=dict(environment))
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING, f"{argv[0]} cannot be started: {error.strerror}.", hint=_HINT
        ) from None
    # Ctrl-C belongs to the editor while it has the terminal.
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()
