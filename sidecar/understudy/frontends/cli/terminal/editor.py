"""The person's editor, for texts that are written or changed by hand."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from understudy.faces.cli import terminal
from understudy.model.errors import ErrorKind, UnderstudyError

_HINT = "set VISUAL or EDITOR to an editor that returns when the file is closed"
_DEFAULT = "vi"
"""What POSIX has (and git falls back on)."""


def can_edit() -> bool:
    """Tell whether an editor would find a person: a terminal at both ends."""
    return terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stdout)


def edited(text: str, name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Let the person edit ``text`` in a file called like ``name``; return it, None where it is the same as before.

    ``$VISUAL``, else ``$EDITOR``, else ``vi``; its words become an argument vector, no shell sees them. Beside the
    pager this is the one program that a face starts: it needs the person's own terminal and environment. Errors:
    ``tool_missing``, ``tool_crashed`` when it does not end well (then nothing is taken), ``malformed_output``.
    """
    argv = _argv(environment)
    with tempfile.TemporaryDirectory(prefix="understudy-edit-") as folder:
        # The name tells the editor the language; its folders would only be in the way.
        file = Path(folder) / (terminal.one_line(PurePosixPath(name).name).replace("/", "_") or "text")
        file.write_text(text, encoding="utf-8", newline="")
        code = _run([*argv, str(file)], environment)
        if code != 0:
            raise UnderstudyError(
                ErrorKind.TOOL_CRASHED,
                f"{argv[0]} ended with {code}; nothing was changed",
                hint="try again, or " + _HINT,
            )
        try:
            with file.open(encoding="utf-8", newline="") as handle:
                after = handle.read()
        except (OSError, UnicodeDecodeError) as error:
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"what {argv[0]} left cannot be read as UTF-8: {error}",
                hint="edit it again",
            ) from None
    return None if after == text else after


def _argv(environment: Mapping[str, str]) -> list[str]:
    chosen = environment.get("VISUAL") or environment.get("EDITOR") or _DEFAULT
    try:
        argv = shlex.split(chosen)
    except ValueError as error:
        raise UnderstudyError(ErrorKind.TOOL_MISSING, f"{chosen!r} is no command: {error}", hint=_HINT) from None
    return argv or [_DEFAULT]


def _run(argv: list[str], environment: Mapping[str, str]) -> int:
    try:
        process = subprocess.Popen(argv, env=dict(environment))
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING, f"{argv[0]} cannot be started: {error.strerror}", hint=_HINT
        ) from None
    # Ctrl-C is the editor's own key while it has the terminal.
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()
