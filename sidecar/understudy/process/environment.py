"""What a child may see of our environment: an allow-list, by name.

An inherited environment carries whatever the editor, the shell and other agents left in it: API keys, sockets of an
SSH agent, the marks by which one agent CLI recognises that it runs inside another (``CLAUDECODE`` makes Claude Code
refuse). So a child gets what is named here and what its delegator asks for by name, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from understudy.model.errors import ErrorKind, UnderstudyError

_NAMES = frozenset(
    [
        # who and where
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR", "TERM", "COLORTERM"),
        # language
        *("LANG", "LANGUAGE", "__CF_USER_TEXT_ENCODING"),
        # how a company's network is reached and which certificates it signs with
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
        *("CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "CARGO_HTTP_CAINFO", "DENO_CERT"),
        # where tool chains were installed when not in their default place; the shims on PATH look here
        *("ASDF_DIR", "ASDF_DATA_DIR", "CARGO_HOME", "GOPATH", "GOROOT", "JAVA_HOME", "MISE_DATA_DIR", "NVM_DIR"),
        *("PNPM_HOME", "PYENV_ROOT", "RUSTUP_HOME", "VOLTA_HOME"),
        # without it no Windows program under WSL starts
        "SYSTEMROOT",
    ]
)
_PREFIXES = ("LC_", "XDG_")
_PROXIES = frozenset(f"{scheme}_proxy" for scheme in ("all", "ftp", "http", "https", "no", "socks", "ws", "wss"))
"""Listed rather than matched by their ending: ``*_PROXY`` would let anything through that ends so."""


def base_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a fresh environment: the allow-listed part of ours, overlaid with ``extra``.

    A name in ``extra`` is passed whatever it is called: whoever names it wants it. Values of proxy variables may
    hold a password (see ``proxy_passwords``). Raises ``invalid_params`` for a name or value no process can have.
    """
    environment = {name: value for name, value in os.environ.items() if is_allowed(name)}
    environment.update(extra or {})
    check_environment(environment)
    return environment


def is_allowed(name: str) -> bool:
    """Say whether a variable of this name is passed on to children."""
    return name in _NAMES or name.startswith(_PREFIXES) or name.lower() in _PROXIES


def proxy_passwords(environment: Mapping[str, str]) -> list[str]:
    """Return the passwords inside proxy addresses, as they stand there and decoded: what a redactor must know."""
    import urllib.parse  # noqa: PLC0415 - rarely needed, and slow to import for a quick command

    passwords: list[str] = []
    for name, value in environment.items():
        if name.lower() not in _PROXIES or "@" not in value:
            continue
        before_host = value.rpartition("@")[0].rpartition("//")[2]
        _, separator, password = before_host.partition(":")
        if separator and password:
            passwords += [password, urllib.parse.unquote(password)]
    return list(dict.fromkeys(passwords))


def check_environment(environment: Mapping[str, str]) -> None:
    """Raise ``invalid_params`` for a variable that no process can have: an empty name, ``=`` in it, a NUL."""
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"The environment variable {name!r} cannot be given to a program.",
                hint="Names are not empty and hold no '='; neither names nor values hold a NUL byte.",
            )
