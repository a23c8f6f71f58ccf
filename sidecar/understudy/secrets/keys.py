"""Resolve, store and forget API keys.

A key is in an environment variable, in the operating system's keyring, or in a file that only its owner can read. A
keyring backend is used only if it is listed in ``BACKENDS``: with ``keyrings.alt`` installed anywhere in the
environment, the ``keyring`` package by itself silently chooses a backend that keeps keys in plain text, and a
``keyringrc.cfg`` may name any backend. So its own selection (which also takes half a second) is not used.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from understudy.model.config.delegators import NAME_PATTERN, KeyReference, ModelServer
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.secrets.redaction import MIN_LENGTH

SERVICE = "understudy"
"""The service name of the entries in the keyring."""

BACKENDS: tuple[tuple[str, str, str], ...] = (
    ("keyring.backends.macOS", "Keyring", "macOS Keychain"),
    ("keyring.backends.Windows", "WinVaultKeyring", "Windows Credential Locker"),
    ("keyring.backends.SecretService", "Keyring", "Secret Service (GNOME Keyring, KeePassXC)"),
    ("keyring.backends.libsecret", "Keyring", "libsecret"),
    ("keyring.backends.kwallet", "DBusKeyring", "KWallet"),
)
"""The only backends that are used: module, class, and title."""

KEYRING_TIMEOUT_SECONDS = 10.0
"""How long a keyring may take; a locked one asks the user, who may be absent."""

MAX_KEY_BYTES = 8192
"""Longer than any API key in use (service-account tokens have 2-3 KiB), and small enough to read into memory."""

_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_PRINTABLE = re.compile(r"^[\x21-\x7e]+$")
_Answer = TypeVar("_Answer")


class KeyringStatus(msgspec.Struct, frozen=True):
    """The state of the keyring, for ``doctor``."""

    available: bool
    backend: str | None
    message: str


def resolve(
    reference: KeyReference,
    environ: Mapping[str, str],
    *,
    timeout_seconds: float = KEYRING_TIMEOUT_SECONDS,
) -> str:
    """Return the key of ``reference``.

    Raises ``config_invalid`` when the reference does not have exactly one field, and
    ``secret_withheld`` when the key is not available; the message names the place, never the value.
    """
    sources = [field for field in ("from_env", "keyring", "file") if getattr(reference, field) is not None]
    if len(sources) != 1:
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"A key reference needs exactly one of from_env, keyring, file; this one has {len(sources)}.",
            hint='Write, for example, api_key = { from_env = "OPENAI_API_KEY" }.',
        )
    if reference.from_env is not None:
        return from_environment(reference.from_env, environ).strip()
    if reference.keyring is not None:
        return _from_keyring(reference.keyring, timeout_seconds)
    return _from_file(str(reference.file))


def available(servers: Iterable[ModelServer | None], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of model servers by the servers' names, without those that are not available."""
    by_server: dict[str, str] = {}
    for server in servers:
        if server is not None and server.api_key is not None and server.name not in by_server:
            with contextlib.suppress(UnderstudyError):
                by_server[server.name] = resolve(server.api_key, environ)
    return by_server


def redactable_variable(name: str, environ: Mapping[str, str], *, purpose: str) -> str:
    """Return the value of the environment variable ``name`` for the variable ``purpose`` of a delegator.

    Raises what ``from_environment`` does, and ``secret_withheld`` for a value that cannot be kept out of logs.
    """
    value = from_environment(name, environ, purpose=purpose)
    size = len(value.strip())
    if size < MIN_LENGTH:
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"The environment variable {name}, which {purpose} is taken from, has only {size} characters.",
            hint=f"Values under {MIN_LENGTH} characters cannot be kept out of logs. If the value is not a secret, "
            "write it in `env` itself.",
        )
    return value


def from_environment(name: str, environ: Mapping[str, str], *, purpose: str | None = None) -> str:
    """Return the value of the environment variable ``name``; errors mention ``purpose``.

    Raises ``config_invalid`` for an invalid name, ``secret_withheld`` for a variable that is not set.
    """
    if not _VARIABLE.fullmatch(name):
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            "The value of `from_env` is not a valid name of an environment variable.",
            hint="Give the variable's name, not its value.",
        )
    value = environ.get(name, "")
    if not value.strip():
        what = f", which {purpose} is taken from," if purpose is not None else ""
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"The environment variable {name}{what} is not set.",
            hint=f"Set {name} in the environment of the editor or shell that starts Understudy, then restart it.",
        )
    return value


def how_to_correct(server: ModelServer) -> str:
    """Return which key a model server has refused, and how to set another one, as one sentence."""
    reference, name = server.api_key, f"Model server {server.name!r}"
    if reference is None:
        return f"{name} has no key: set one with `understudy servers set-key {server.name}`."
    if reference.from_env is not None:
        return f"{name} takes its key from the environment variable {reference.from_env}: set it to a valid key."
    if reference.file is not None and Path(reference.file).parent != _data_folder() / "keys":
        return f"{name} takes its key from the file {reference.file}: write a valid key to it."
    return (
        f"The stored key of {name[0].lower()}{name[1:]} is not valid: run `understudy servers set-key {server.name}`."
    )


def store_key(name: str, key: str, *, folder: Path | None = None) -> KeyReference:
    """Store a key that the user typed and return a reference to it.

    A key shorter than ``redaction.MIN_LENGTH`` characters is refused, because it cannot be redacted. (A reference to
    such a key elsewhere is allowed: users give words like ``none`` to servers that accept any key, and replacing those
    in every text would damage the texts and protect nothing.)

    The key is stored in the operating system's keyring if an allowed one responds, else in a file ``keys/<name>`` with
    mode 0600 in ``folder`` (default: the user's data folder). Raises ``invalid_params`` for an invalid name or key,
    ``state_unavailable`` when neither place can store it.
    """
    _check_name(name)
    key = key.strip()
    if not key or len(key) > MAX_KEY_BYTES or not _PRINTABLE.fullmatch(key):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"The key of {name} is empty, too long, or contains invalid characters.",
            hint=f"A key is {MIN_LENGTH} to {MAX_KEY_BYTES} printable ASCII characters without spaces.",
        )
    if len(key) < MIN_LENGTH:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"The key of {name} has only {len(key)} characters.",
            hint=f"Keys under {MIN_LENGTH} characters cannot be kept out of logs. Omit it if the server needs no key.",
        )
    backend = _backend()
    if backend is not None:
        # A keyring that is locked or fails must not prevent the user from setting a key.
        with contextlib.suppress(UnderstudyError):
            _bounded(lambda: backend.set_password(SERVICE, name, key), KEYRING_TIMEOUT_SECONDS, name)
            return KeyReference(keyring=name)
    return KeyReference(file=str(_write_file((folder or _data_folder()) / "keys", name, key)))


def forget_key(reference: KeyReference, *, folder: Path | None = None) -> None:
    """Remove a key that ``store_key`` kept; keep a key that Understudy did not store."""
    if reference.keyring is not None:
        backend = _backend()
        entry = reference.keyring
        if backend is not None:
            with contextlib.suppress(UnderstudyError):
                _bounded(lambda: backend.delete_password(SERVICE, entry), KEYRING_TIMEOUT_SECONDS, entry)
    elif reference.file is not None:
        path = Path(reference.file)
        if path.parent == (folder or _data_folder()) / "keys":
            path.unlink(missing_ok=True)


def keyring_status() -> KeyringStatus:
    """Return which keyring would be used, without reading from it."""
    for module, name, title in BACKENDS:
        if _viable(module, name) is not None:
            return KeyringStatus(available=True, backend=title, message=f"Keys are kept in {title}.")
    return KeyringStatus(
        available=False,
        backend=None,
        message="No keyring of the operating system responds; keys are stored in files that only you can read.",
    )


def _from_keyring(entry: str, timeout_seconds: float) -> str:
    backend = _backend()
    if backend is None:
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"The key {entry} is in the keyring, but no keyring of the operating system responds.",
            hint="Start the keyring of your session, or refer to the key by environment variable or file.",
        )
    key = _bounded(lambda: backend.get_password(SERVICE, entry), timeout_seconds, entry)
    if not key:
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"The keyring has no entry {entry} of the service {SERVICE}.",
            hint="Set the key again.",
        )
    return str(key)


def _from_file(name: str) -> str:
    path = Path(name)
    if not path.is_absolute():
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"The path of the key file {name} is not absolute.",
            hint="Use an absolute path: a relative path would depend on the current folder.",
        )
    try:
        # O_NOFOLLOW: a link could lead to a file that others may change. O_NONBLOCK: a pipe would block forever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"The key file {name} cannot be opened: {error.strerror}.",
            hint="It must be a regular file that you own and not a link.",
        ) from error
    try:
        facts = os.fstat(descriptor)
        reason = None
        if not stat.S_ISREG(facts.st_mode):
            reason = "is not a regular file"
        elif facts.st_uid != os.geteuid():
            reason = "belongs to another user"
        elif stat.S_IMODE(facts.st_mode) & 0o077:
            reason = "can be read or changed by other users"
        if reason is not None:
            raise UnderstudyError(
                ErrorKind.SECRET_WITHHELD,
                f"The key file {name} {reason}, so it is not used.",
                hint=f"Run chmod 600 {name} as its owner.",
            )
        data = os.read(descriptor, MAX_KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    key = data.decode("ascii", "replace").strip()
    if not key or len(data) > MAX_KEY_BYTES or not _PRINTABLE.fullmatch(key):
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"The key file {name} does not contain exactly one key.",
            hint="It must contain the key on one line and nothing else.",
        )
    return key


def _write_file(folder: Path, name: str, key: str) -> Path:
    """Write the key so that no other user can read it at any moment."""
    temporary = folder / f".{name}.{os.getpid()}.{threading.get_ident()}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key + "\n")
            file.flush()
            os.fsync(descriptor)
        temporary.replace(folder / name)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise UnderstudyError(
            ErrorKind.STATE_UNAVAILABLE,
            f"The key cannot be written to {folder}: {error.strerror}.",
            hint="Make the folder writable, or refer to the key by environment variable.",
        ) from error
    return folder / name


def _data_folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("understudy", appauthor=False))


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"Invalid name {name!r}.",
            hint="Use lowercase letters, digits, dots, hyphens and underscores; at most 64.",
        )


def _backend() -> Any | None:
    """Return an instance of the first allowed backend that works here."""
    for module, name, _ in BACKENDS:
        kind = _viable(module, name)
        if kind is not None:
            return kind()
    return None


def _viable(module: str, name: str) -> Any | None:
    """Return the backend's class if it works on this machine; the check may take a D-Bus round trip."""

    def look() -> Any | None:
        kind = getattr(importlib.import_module(module), name)
        return kind if kind.viable else None

    try:
        return _bounded(look, KEYRING_TIMEOUT_SECONDS, name)
    except UnderstudyError:
        return None


def _bounded(call: Callable[[], _Answer], timeout_seconds: float, entry: str) -> _Answer:
    """Return what ``call`` returns, or raise ``secret_withheld`` when it fails or takes too long.

    The thread of a call that hangs keeps running: a keyring that waits for the user cannot be
    interrupted, and a daemon thread does not keep the process alive.
    """
    box: list[_Answer] = []
    failures: list[str] = []

    def run() -> None:
        try:
            box.append(call())
        except BaseException as error:  # whatever a backend raises becomes one typed error
            failures.append(type(error).__name__)

    thread = threading.Thread(target=run, name="understudy-keyring", daemon=True)
    thread.start()
    thread.join(timeout_seconds)
    if box:
        return box[0]
    what = f"failed ({failures[0]})" if failures else f"did not answer within {timeout_seconds:g} s"
    raise UnderstudyError(
        ErrorKind.SECRET_WITHHELD,
        f"The keyring {what} when asked for {entry}.",
        hint="Unlock the keyring and try again, or refer to the key by environment variable or file.",
    )
