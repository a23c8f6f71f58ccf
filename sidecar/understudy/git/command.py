"""Start git; no other module does.

Git runs programs that a repository names: hooks, filters, text converters, diff and merge drivers, file-system
monitors, credential helpers, editors, pagers. It also searches for the repository upwards from its working directory.
In a worktree that an agent wrote, both are ways to run the agent's code. So both are off: the environment starts empty,
the git directory is always explicit, and every setting that names a program is overridden. The one exception is a
commit on the user's own branch, in a workspace that they trust (``run_users_git``).
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from understudy.files import durable
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import c_quote

MINIMUM_VERSION = (2, 39)
"""The oldest supported git: Debian 12 ships it, and it has GIT_NO_LAZY_FETCH and safe.bareRepository."""

DEFAULT_TIMEOUT_SECONDS = 300.0
"""Time limit of a call: nine times the 33 s that a checkout of 100,000 files took on a slow disk."""

DEFAULT_OUTPUT_LIMIT = 256 * 1024 * 1024
"""Bytes of standard output kept; a listing of a million paths is smaller."""

USERS_GIT_SECONDS = 900.0
"""Time limit of the user's own git, whose hooks may run the tests of the project."""

_OF_THE_USER = frozenset(
    {
        *("EMAIL", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
        # what signs commits, and the desktop on which it asks for a passphrase
        *("SSH_AUTH_SOCK", "GNUPGHOME", "GPG_TTY", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"),
        *("XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS"),
    }
)
"""Variables that the user's own git and what it starts get, besides those of every program."""
_IDENTITY = ("GIT_AUTHOR_", "GIT_COMMITTER_")

_ERROR_LIMIT = 64 * 1024
"""Bytes of standard error kept: the first ones, which name the cause."""

_IDENTITY_NAME = "Understudy"
_IDENTITY_EMAIL = "understudy@understudy.invalid"

_CONFIGURATION: dict[str, str] = {
    # A key is never set to "" if git would then run an empty command (diff.external). Such keys are absent, because no
    # configuration file that could contain them is read.
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.pager": "cat",
    "core.editor": "false",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.alternateRefsCommand": "true",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.quotePath": "true",
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.logAllRefUpdates": "false",
    "core.multiPackIndex": "true",
    # A commit graph repeats what commits contain, and nothing verifies it.
    "core.commitGraph": "false",
    "credential.helper": "",
    "protocol.allow": "never",
    "submodule.recurse": "false",
    "diff.ignoreSubmodules": "all",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "gpg.program": "false",
    "safe.bareRepository": "explicit",
    "rerere.enabled": "false",
    "uploadpack.packObjectsHook": "true",
    "advice.updateSparsePath": "false",
}

_aborted = threading.Event()
_running: set[subprocess.Popen[bytes]] = set()
_running_lock = threading.Lock()
_marks: dict[str, str] = {}

_NO_SPACE = re.compile(rb"no space left on device|disk quota exceeded|out of diskspace", re.IGNORECASE)
_NOT_WRITTEN = re.compile(
    rb"(unable|failed|could not|couldn't|cannot) (to )?(write|create)|write error|short write", re.IGNORECASE
)
"""Messages of git about failed writes that omit the reason; then check the disk."""

_ROOM = 16 * 1024 * 1024
"""With fewer free bytes, a write that failed without a reason is taken to have failed because the disk is full."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The outcome of a call of git.

    ``stdout`` is cut at the call's output limit (``truncated``), ``stderr`` at 64 KiB.
    """

    code: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False


class CallOptions(TypedDict, total=False):
    """The options of a call that ``git_output`` passes on."""

    work_tree: Path | None
    index: Path | None
    object_directory: Path | None
    alternates: Iterable[Path]
    stdin: bytes | None
    timeout_seconds: float
    output_limit: int
    extra_config: Mapping[str, str] | None
    user_settings: bool
    literal_pathspecs: bool


def git_output(*arguments: str | bytes | Path, git_dir: Path, **options: Unpack[CallOptions]) -> bytes:
    """Run ``git *arguments`` and return its standard output; an exit code other than 0 is an error.

    Errors: those of ``run_git``, ``file_too_large`` (more output than ``output_limit``), ``internal`` (anything else;
    the message contains the end of git's own).
    """
    completed = run_git(*arguments, git_dir=git_dir, **options)
    place = options.get("work_tree") or git_dir
    if completed.truncated:
        raise UnderstudyError(
            ErrorKind.FILE_TOO_LARGE,
            f"git {_verb(arguments)} printed over {len(completed.stdout) // 1024 // 1024} MiB about {place}.",
            hint="Work in a smaller folder, or have git ignore generated files.",
        )
    if completed.code != 0:
        raise failure(arguments, completed, place)
    return completed.stdout


def run_git(
    *arguments: str | bytes | Path,
    git_dir: Path,
    work_tree: Path | None = None,
    index: Path | None = None,
    object_directory: Path | None = None,
    alternates: Iterable[Path] = (),
    stdin: bytes | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    output_limit: int = DEFAULT_OUTPUT_LIMIT,
    extra_config: Mapping[str, str] | None = None,
    user_settings: bool = False,
    literal_pathspecs: bool = True,
    sink: Callable[[bytes], None] | None = None,
) -> Completed:
    """Run ``git *arguments`` and return the outcome, whatever its exit code.

    ``git_dir`` is the git directory, never discovered; ``work_tree`` is the working tree, and then also the current
    folder. ``index``, ``object_directory`` and ``alternates`` replace those of the git directory. ``extra_config``
    is added to the overrides of this module. ``user_settings`` lets git see the user's home, only to read settings.
    ``literal_pathspecs`` is turned off for the one command that refuses it. With ``sink``, standard output is passed
    to it in pieces and not kept, so that it has no limit.

    Errors: ``tool_missing`` (git is missing or too old), ``timed_out``, ``disk_full``.
    """
    program = _program()
    environment = _environment(extra_config, user_settings=user_settings)
    environment["GIT_DIR"] = str(git_dir)
    if not literal_pathspecs:
        del environment["GIT_LITERAL_PATHSPECS"]
    if work_tree is not None:
        environment["GIT_WORK_TREE"] = str(work_tree)
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    if object_directory is not None:
        environment["GIT_OBJECT_DIRECTORY"] = str(object_directory)
    listed = [_alternate(str(path)) for path in alternates]
    if listed:
        environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.pathsep.join(listed)
    folder = work_tree or (git_dir if git_dir.is_dir() else Path("/"))
    argv: list[str | bytes] = [program, "--no-pager", *(str(a) if isinstance(a, Path) else a for a in arguments)]
    completed = _run(
        argv, environment, folder, stdin=stdin, timeout_seconds=timeout_seconds, output_limit=output_limit, sink=sink
    )
    places = [git_dir, *filter(None, (object_directory, work_tree, index))]
    if completed.code != 0 and (full := _full_place(completed.stderr, places)) is not None:
        raise UnderstudyError(
            ErrorKind.DISK_FULL,
            f"The disk is full: git {_verb(arguments)} could not write to {full}.",
            hint="Free some space there.",
        )
    return completed


def run_users_git(
    *arguments: str | bytes,
    git_dir: Path,
    work_tree: Path,
    stdin: bytes | None = None,
    timeout_seconds: float = USERS_GIT_SECONDS,
) -> Completed:
    """Run git as the user does in a terminal: with their settings, hooks, filters and signature.

    Only for what the user asks for, in a workspace that they trust. It has no terminal: a question fails. Raises the
    errors of ``run_git``.
    """
    from understudy.process.call_checks import base_environment

    asked = {name: value for name, value in os.environ.items() if name in _OF_THE_USER or name.startswith(_IDENTITY)}
    environment = base_environment(asked) | _marks | {
        "PATH": _search_path(),
        "GIT_DIR": str(git_dir),
        "GIT_WORK_TREE": str(work_tree),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": ":",
        "GIT_PAGER": "cat",
    }  # fmt: skip
    argv: list[str | bytes] = [_program(), "--no-pager", *arguments]
    return _run(
        argv,
        environment,
        work_tree,
        stdin=stdin,
        timeout_seconds=timeout_seconds,
        output_limit=DEFAULT_OUTPUT_LIMIT,
    )


def abort() -> None:
    """End the running calls and refuse new ones (``cancelled``) until ``resume``; callable from any thread."""
    _aborted.set()
    with _running_lock:
        for process in _running:
            _kill(process)


def resume() -> None:
    """Allow calls again after ``abort``."""
    _aborted.clear()


def mark_calls(name: str, value: str) -> None:
    """Set an environment variable for every later git, by which its processes are found if this process is killed."""
    _marks[name] = value


def failure(arguments: Iterable[str | bytes | Path], completed: Completed, place: Path) -> UnderstudyError:
    """Return the error for a call that ended with an exit code other than 0."""
    error_text = completed.stderr.decode(errors="replace").strip()[-600:] or "it printed no message"
    cause = next((code for code in durable.MACHINE_ERRORS if os.strerror(code) in error_text), 0)
    fault = durable.system_failure(OSError(cause, os.strerror(cause)))
    return UnderstudyError(
        ErrorKind.INTERNAL if fault is None else fault.kind,
        f"git {_verb(tuple(arguments))} failed with exit code {completed.code} on {place}: {error_text}",
        hint="If git works there in a terminal, please report this." if fault is None else fault.hint,
    )


def version() -> tuple[int, int]:
    """Return the major and minor version of git; raise ``tool_missing`` when it is missing or too old."""
    return _checked_version(_find())


def _full_place(stderr: bytes, places: list[Path]) -> Path | None:
    """Return which of the places is on a full disk, if that is why git failed; the first one if git alone says so."""
    reason_given = _NO_SPACE.search(stderr)
    if not reason_given and not _NOT_WRITTEN.search(stderr):
        return None
    for place in places:
        with contextlib.suppress(OSError):
            facts = os.statvfs(place if place.is_dir() else place.parent)
            if facts.f_bavail * facts.f_frsize < _ROOM or (facts.f_files and not facts.f_favail):
                return place
    return places[0] if reason_given else None


def _verb(arguments: tuple[str | bytes | Path, ...]) -> str:
    return str(arguments[0]) if arguments else ""


def _search_path() -> str:
    # Relative entries would be resolved in git's working directory, which may be a tree that an agent wrote.
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if entry.startswith("/"))


def _find() -> str:
    program = shutil.which("git", path=_search_path())
    if program is None:
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING, "git is not installed, or not in PATH.", hint="Install git 2.39 or newer."
        )
    return program


def _alternate(path: str) -> str:
    """Return a path as git reads it in a list of alternates: quoted where it would end at a colon."""
    if os.pathsep not in path and not path.startswith('"'):
        return path
    return c_quote(os.fsencode(path))


def _program() -> str:
    program = _find()
    _checked_version(program)
    return program


@functools.lru_cache(maxsize=8)
def _checked_version(program: str) -> tuple[int, int]:
    environment = _environment(None, user_settings=False) | {"GIT_DIR": "/nonexistent"}
    completed = _run(
        [program, "--version"], environment, Path("/"), stdin=None, timeout_seconds=20.0, output_limit=4096
    )
    match = re.search(rb"(\d+)\.(\d+)", completed.stdout)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < MINIMUM_VERSION:
        version_text = completed.stdout.decode(errors="replace").strip() or "an unknown version"
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING, f"{program} is too old: {version_text}.", hint="Install git 2.39 or newer."
        )
    return version


def _environment(extra_config: Mapping[str, str] | None, *, user_settings: bool) -> dict[str, str]:
    environment = _marks | {
        "PATH": _search_path(),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_EDITOR": "false",
        "GIT_PAGER": "cat",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_AUTHOR_NAME": _IDENTITY_NAME,
        "GIT_AUTHOR_EMAIL": _IDENTITY_EMAIL,
        "GIT_COMMITTER_NAME": _IDENTITY_NAME,
        "GIT_COMMITTER_EMAIL": _IDENTITY_EMAIL,
    }
    if user_settings:
        del environment["GIT_CONFIG_NOSYSTEM"], environment["GIT_CONFIG_GLOBAL"]
        for name in ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
            if name in os.environ:
                environment[name] = os.environ[name]
    settings = _CONFIGURATION | dict(extra_config or {})
    for number, (key, value) in enumerate(settings.items()):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    environment["GIT_CONFIG_COUNT"] = str(len(settings))
    return environment


def _run(
    argv: list[str | bytes],
    environment: dict[str, str],
    folder: Path,
    *,
    stdin: bytes | None,
    timeout_seconds: float,
    output_limit: int,
    sink: Callable[[bytes], None] | None = None,
) -> Completed:
    _check_not_aborted(argv)
    try:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        if (fault := durable.system_failure(error)) is not None:
            raise fault from error
        raise UnderstudyError(
            ErrorKind.TOOL_MISSING,
            f"git could not be started in {folder}: {error.strerror}.",
            hint="Run `understudy doctor`.",
        ) from error
    with _running_lock:
        _running.add(process)
    try:
        if _aborted.is_set():
            _kill(process)
        outcome = _pump(process, stdin, time.monotonic() + timeout_seconds, output_limit, sink)
    finally:
        with _running_lock:
            _running.discard(process)
        _end(process)
    _check_not_aborted(argv)
    if outcome is None:
        raise UnderstudyError(
            ErrorKind.TIMED_OUT,
            f"git {os.fsdecode(argv[-1] if len(argv) < 3 else argv[2])} took over {timeout_seconds:g} s in {folder}.",
            hint="Look for a slow or hanging disk, or work in a smaller folder.",
        )
    output, errors, truncated = outcome
    return Completed(process.returncode, output, errors, truncated)


def _pump(
    process: subprocess.Popen[bytes],
    stdin: bytes | None,
    deadline: float,
    output_limit: int,
    sink: Callable[[bytes], None] | None,
) -> tuple[bytes, bytes, bool] | None:
    """Write to the process and read from it until it ends; return None when the deadline passes first."""
    output = bytearray()
    errors = bytearray()
    pending = memoryview(stdin or b"")
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            for key, _ in selector.select(left):
                if key.fileobj is process.stdin:
                    try:
                        pending = pending[os.write(key.fd, pending[:65536]) :]
                    except BlockingIOError:
                        continue
                    except BrokenPipeError:
                        pending = pending[:0]
                    if not pending:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                chunk = os.read(key.fd, 1 << 18)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    errors += chunk[: _ERROR_LIMIT - len(errors)]
                elif sink is not None:
                    sink(chunk)
                else:
                    output += chunk
                    if len(output) > output_limit:
                        del output[output_limit:]
                        return bytes(output), bytes(errors), True
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    return bytes(output), bytes(errors), False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End every process of the call."""
    if process.poll() is None:
        _kill(process)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    # Not waited for yet, so the pid cannot have been reused.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def check_not_aborted() -> None:
    """Raise ``cancelled`` after ``abort``. Long work without git (copying, deleting) calls this once per file."""
    if _aborted.is_set():
        raise UnderstudyError(ErrorKind.CANCELLED, "The work on the worktree was stopped.", hint="Start it again.")


def _check_not_aborted(argv: list[str | bytes]) -> None:
    if _aborted.is_set():
        raise UnderstudyError(
            ErrorKind.CANCELLED,
            f"git {os.fsdecode(argv[2] if len(argv) > 2 else argv[-1])} was stopped.",
            hint="Start it again if needed.",
        )
