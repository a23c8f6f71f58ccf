"""Read the token that clients of the HTTP transport must send."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from understudy.model.errors import ErrorKind, UnderstudyError

TOKEN_VARIABLE = "UNDERSTUDY_MCP_TOKEN"  # noqa: S105 - the name of a variable
LEAST_TOKEN = 16
"""Characters: fewer could be guessed."""
_MOST_TOKEN = 4096


def read_token(token_file: str | None) -> str:
    """Return the token from a private file, else from the environment. Errors: ``secret_withheld``."""
    if token_file is None:
        token = os.environ.get(TOKEN_VARIABLE, "")
        where = f"the variable {TOKEN_VARIABLE}"
    else:
        token = _from_file(Path(token_file).expanduser())
        where = token_file
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"There is no token in {where}, or it is not at least {LEAST_TOKEN} ASCII characters without blanks.",
            hint="Make one: (umask 077; openssl rand -hex 32 > ~/.understudy-token), then pass --token-file.",
        )
    return token


def _from_file(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"The token file {path} cannot be read: {error.strerror}.",
            hint="Check the path.",
        ) from None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise UnderstudyError(
                ErrorKind.SECRET_WITHHELD,
                f"{path} is not a file that only you can read.",
                hint=f"Change its mode: chmod 600 {path}",
            )
        return file.read(_MOST_TOKEN).decode("ascii", "replace").strip()
