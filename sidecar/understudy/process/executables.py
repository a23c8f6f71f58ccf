"""Find a program, or explain why it could not be started."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.environment import check_environment

_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC})


def check_call(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> str:
    """Check a call before anything is started, and return the absolute path of the program.

    Raises ``invalid_params`` (nothing to start, a NUL, no such folder), ``tool_missing``, ``permission_denied``.
    """
    if not argv or not argv[0]:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, "There is no program to start.", hint="Give at least the program's name."
        )
    check_environment(env)
    for text in (*argv, str(cwd), *env, *env.values()):
        if not _can_be_passed(text):
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"An argument for {argv[0]!r} contains a NUL byte or half a surrogate pair.",
                hint="Remove it, or pass the text on standard input or in a file.",
            )
    if not cwd.is_dir():
        raise _no_folder(cwd)
    return locate(argv[0], cwd, env)


def locate(program: str, cwd: Path, env: Mapping[str, str]) -> str:
    """Return the absolute path of ``program``: a path relative to ``cwd``, a bare name from ``env``'s PATH, ``~/…``.

    Relative entries of PATH are skipped: they could find a program that an agent wrote to its worktree. Raises
    ``tool_missing``, or ``permission_denied`` for a file that may not be executed.
    """
    if "/" in program:
        program = expand_home(program)
        candidates = [os.path.join(cwd, program)]  # noqa: PTH118 - a Path would drop "..", and with it a link's meaning
    else:
        folders = [folder for folder in env.get("PATH", os.defpath).split(os.pathsep) if folder.startswith("/")]
        candidates = [f"{folder.rstrip('/')}/{program}" for folder in folders]
    refused = None
    for candidate in candidates:
        try:
            if not stat.S_ISREG(os.stat(candidate).st_mode):  # noqa: PTH116 - the text as it is, ".." included
                continue
        except PermissionError:  # a parent folder that we may not enter
            refused = refused or candidate
            continue
        except OSError:
            continue
        if os.access(candidate, os.X_OK):
            return str(Path(candidate).absolute())
        refused = refused or candidate
    if refused:
        raise not_executable(refused)
    raise UnderstudyError(
        ErrorKind.TOOL_MISSING,
        f"The program {program!r} was not found.",
        hint="Install it there, or correct the path." if "/" in program else "Install it, or add its folder to PATH.",
        names=[program],
    )


def expand_home(word: str) -> str:
    """Return ``word`` with a leading ``~/`` replaced by the user's home folder, as a shell does."""
    return os.path.expanduser(word) if word.startswith("~/") else word  # noqa: PTH111 - the text as it is


def not_executable(program: str) -> UnderstudyError:
    """Return the error for a file that exists but may not be executed."""
    return UnderstudyError(
        ErrorKind.PERMISSION_DENIED,
        f"{program!r} may not be executed.",
        hint="Make it executable (chmod +x), and check the permissions of its folders and the mount's 'noexec' option.",
    )


def start_failure(code: int, program: str, cwd: Path, *, step: str = "exec") -> UnderstudyError:
    """Return the error for ``program``, whose start failed with the errno ``code``.

    ``step`` is what failed: ``exec``, ``chdir``, or ``fork`` (everything before).
    """
    reason = os.strerror(code)
    if code in _NO_ROOM and step != "chdir":
        return UnderstudyError(
            ErrorKind.OVERLOADED,
            f"This machine cannot start another process for {program!r}: {reason}.",
            hint="Run fewer delegations at once, or raise the limits on open files and processes (ulimit -n, -u).",
        )
    if step == "chdir":
        return _no_folder(cwd, reason)
    if code == errno.E2BIG:
        return UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"The arguments of {program!r} are longer than this system allows for a command.",
            hint="Pass the prompt on standard input or in a file (promptDelivery 'stdin' or 'file').",
        )
    if code == errno.ENOENT:
        return UnderstudyError(
            ErrorKind.TOOL_MISSING,
            f"{program!r} could not be started: it, or the interpreter named in its first line, does not exist.",
            hint="Install the interpreter that its first line (#!) names, or reinstall the program.",
            names=[program],
        )
    if code in {errno.EACCES, errno.EPERM}:
        return not_executable(program)
    return UnderstudyError(
        ErrorKind.TOOL_CRASHED,
        f"{program!r} could not be started: {reason}.",
        hint="Start it in a terminal to check that it is a program for this machine.",
    )


def _can_be_passed(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _no_folder(cwd: Path, reason: str = "no such folder") -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.INVALID_PARAMS,
        f"The folder {str(cwd)!r} to start in cannot be entered: {reason}.",
        hint="It may have been removed; choose an existing folder.",
    )
