"""Build the environment of a child from an allow-list.

An inherited environment contains values of the editor, the shell and other agents: API keys, sockets of an SSH agent,
the marks by which an agent CLI detects that it runs inside another (``CLAUDECODE`` makes Claude Code refuse to start).
So a child gets only the variables listed here and those that its delegator names.
"""

from __future__ import annotations

import os
import re
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
        # where tool chains are installed, if not in the default place; the shims on PATH use these
        *("ASDF_DIR", "ASDF_DATA_DIR", "CARGO_HOME", "GOPATH", "GOROOT", "JAVA_HOME", "MISE_DATA_DIR", "NVM_DIR"),
        *("PNPM_HOME", "PYENV_ROOT", "RUSTUP_HOME", "VOLTA_HOME"),
        # without it, no Windows program starts under WSL
        "SYSTEMROOT",
    ]
)
_PREFIXES = ("LC_", "XDG_")
_PROXIES = frozenset(f"{scheme}_proxy" for scheme in ("all", "ftp", "http", "https", "no", "socks", "ws", "wss"))
"""Listed, because a pattern such as ``*_PROXY`` would pass on any variable that ends so."""
_FINDABLE = 8
"""The redactor does not look for shorter texts: they would be found by chance."""


def base_environment(extra: Mapping[str, str] | None = None, *, network: bool = True) -> dict[str, str]:
    """Return a new environment: the allow-listed part of this process's environment, plus ``extra``.

    Every name in ``extra`` is passed, because the caller asked for it. Without ``network`` the proxy variables are left
    out: their values may contain a password (see ``proxy_passwords``), and the child has no use for them. Raises
    ``invalid_params`` for an invalid name or value.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if is_allowed(name) and (network or name.lower() not in _PROXIES)
    }
    environment.update(extra or {})
    check_environment(environment)
    return environment


def is_allowed(name: str) -> bool:
    """Return whether a variable of this name is passed on to children."""
    return name in _NAMES or name.startswith(_PREFIXES) or name.lower() in _PROXIES


def proxy_passwords(environment: Mapping[str, str]) -> list[str]:
    """Return what is secret in proxy addresses, for the redactor.

    Of ``scheme://user:password@host`` these are the password, as written and decoded, and ``user:password``, which a
    ``Proxy-Authorization`` header contains in base64; of ``scheme://token@host``, the token. What is too short to be
    looked for by itself is found with its host, as programs print the address.
    """
    import urllib.parse

    passwords: list[str] = []
    for name, value in environment.items():
        if name.lower() not in _PROXIES - {"no_proxy"} or "@" not in value:
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
