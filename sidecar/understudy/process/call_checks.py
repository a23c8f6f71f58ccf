"""What is checked before a program starts: where it is, why it cannot start, and the environment that it gets.

An inherited environment contains values of the editor, the shell and other agents: API keys, sockets of an SSH agent,
the marks by which an agent CLI detects that it runs inside another (``CLAUDECODE`` makes Claude Code refuse to start).
So a child gets only the variables listed here and those that its delegator names.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.model.errors import ErrorKind, UnderstudyError

_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC})
_NAMES = frozenset(
    [
        # who and where
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR", "TERM", "COLORTERM"),
        # language
        *("LANG", "LANGUAGE", "__CF_USER_TEXT_ENCODING"),
        # how a company's network is reached and which certificates it signs with
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
        *("CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "CARGO_HTTP_CAINFO", "DENO_CERT"),
        # where tool chains are installed, if not in the default place; the shims on PATH use these
        *("ASDF_DIR", "ASDF_DATA_DIR", "CARGO_HOME", "GOPATH", "GOROOT", "JAVA_HOME", "MISE_DATA_DIR", "NVM_DIR"),
        *("PNPM_HOME", "PYENV_ROOT", "RUSTUP_HOME", "VOLTA_HOME"),
        # where the user's files are, if not in the default place; not the sockets in XDG_RUNTIME_DIR, nor the desktop's
        *("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_STATE_HOME", "XDG_CACHE_HOME"),
        # without it, no Windows program starts under WSL
        "SYSTEMROOT",
    ]
)
_PREFIXES = ("LC_",)
_PROXIES = frozenset(f"{scheme}_proxy" for scheme in ("all", "ftp", "http", "https", "no", "socks", "ws", "wss"))
"""Listed, because a pattern such as ``*_PROXY`` would pass on any variable that ends so."""
_SECRET_PROXIES = _PROXIES - {"no_proxy"}
_PASSWORD = re.compile(r"^([\w+.-]*://)?.*@", re.DOTALL)
"""What comes before the host of an address; kept is the scheme."""
_FINDABLE = 8
"""The redactor does not look for shorter texts: they would be found by chance."""


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


def open_log(log: Path) -> int:
    """Open a log for appending, created if missing, without following a link; raise ``state_unavailable``."""
    try:
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"The log {str(log)!r} cannot be written: {error.strerror}.",
            hint="Check that its folder exists and belongs to you, and that the disk has space.",
        ) from error


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


def base_environment(extra: Mapping[str, str] | None = None, *, network: bool = True) -> dict[str, str]:
    """Return a new environment: the allow-listed part of this process's environment, plus ``extra``.

    Every name in ``extra`` is passed, because the caller asked for it. Proxies are passed without their user and
    password, and without ``network`` not at all. Raises ``invalid_params`` for an invalid name or value.
    """
    environment = {
        name: _PASSWORD.sub(r"\1", value) if name.lower() in _SECRET_PROXIES else value
        for name, value in os.environ.items()
        if is_allowed(name) and (network or name.lower() not in _PROXIES)
    }
    environment.update(extra or {})
    check_environment(environment)
    return environment


def is_allowed(name: str) -> bool:
    """Return whether a variable of this name is passed on to children."""
    return name in _NAMES or name.startswith(_PREFIXES) or name.lower() in _PROXIES


def proxies() -> dict[str, str]:
    """Return the proxy variables of this process with their passwords, for what the user's own command downloads."""
    return {name: value for name, value in os.environ.items() if name.lower() in _PROXIES}


def proxy_passwords(environment: Mapping[str, str]) -> list[str]:
    """Return what is secret in proxy addresses, for the redactor.

    Of ``scheme://user:password@host`` these are the password, as written and decoded, and ``user:password``, which a
    ``Proxy-Authorization`` header contains in base64; of ``scheme://token@host``, the token. What is too short to be
    looked for by itself is found with its host, as programs print the address.
    """
    import urllib.parse

    passwords: list[str] = []
    for name, value in environment.items():
        if name.lower() not in _SECRET_PROXIES or "@" not in value:
            continue
        before, _, host = value.rpartition("@")
        pair = before.rpartition("//")[2]
        password = pair.partition(":")[2] or pair
        passwords += [password, urllib.parse.unquote(password), urllib.parse.unquote(pair)]
        if len(urllib.parse.unquote(pair)) < _FINDABLE:
            passwords += [f"{each}@{re.split('[/?#]', host)[0]}" for each in (pair, urllib.parse.unquote(pair))]
    return [each for each in dict.fromkeys(passwords) if each]


def check_environment(environment: Mapping[str, str]) -> None:
    """Raise ``invalid_params`` for an invalid variable: an empty name, ``=`` in the name, or a NUL byte."""
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"The environment variable {name!r} cannot be passed to a program.",
                hint="Use a non-empty name without '='; neither name nor value may contain a NUL byte.",
            )
