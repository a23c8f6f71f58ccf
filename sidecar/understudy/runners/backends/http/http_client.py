"""Check where a request may go, and create the HTTP client for it. No other module creates HTTP clients.

A server (or a delegator) marked ``local`` is resolved once and dialled at the loopback address that was checked, so
that a name service cannot redirect the request. Its client ignores proxies of the environment. No client follows
redirects.
"""

from __future__ import annotations

import importlib
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from understudy.config import locality
from understudy.model.config.delegators import ModelServer
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.driver import clock

if TYPE_CHECKING:
    import ssl
    from types import ModuleType

    import httpx

    from understudy.runners.backends.http.blocking_http import BlockingClient, BlockingResponse

    Client = httpx.AsyncClient | BlockingClient
    Response = httpx.Response | BlockingResponse

CONNECT_SECONDS = 5.0
"""A running server accepts at once; both official clients use five seconds too."""
ANSWERING_SECONDS = 1.0
"""For each address of this machine."""


class Endpoint(msgspec.Struct, frozen=True):
    """A checked address to send requests to."""

    name: str
    base: httpx.URL
    headers: Mapping[str, str]
    extensions: Mapping[str, Any]
    loopback: bool
    key: str | None = None

    def __repr__(self) -> str:
        """Leave out the headers and the key, which are secret."""
        return f"Endpoint({self.name!r}, {self.base!r})"

    def url(self, path: str) -> httpx.URL:
        """Return ``base`` + ``path``, keeping the query of the base."""
        return self.base.copy_with(path=self.base.path.rstrip("/") + path)


async def endpoint(server: ModelServer, *, local: bool, key: str | None) -> Endpoint:
    """Check ``server`` and return where to dial it.

    Error kinds: ``config_invalid`` (not an HTTP URL, credentials in it, unusable headers), ``secret_withheld`` (limited
    to this machine, but the host is another machine), ``connection_failed`` (the name cannot be resolved).
    """
    import_httpx()
    import httpx

    try:
        base = httpx.URL(server.base_url)
    except httpx.InvalidURL as error:
        raise _invalid(server, f"has no usable `base_url`: {error}") from None
    if base.scheme not in {"http", "https"} or not base.host:
        raise _invalid(server, "needs a `base_url` that begins with http:// or https://")
    if base.userinfo:
        raise _invalid(server, "has credentials in its `base_url`, which would end up in logs")
    headers = _headers(server, key)
    extensions: dict[str, Any] = {}
    address = await _loopback_address(server, base, local=local)
    if address is not None and address != base.host:
        headers["Host"] = base.netloc.decode("ascii")
        extensions["sni_hostname"] = base.host
        base = base.copy_with(host=address)
    return Endpoint(server.name, base, headers, extensions, loopback=address is not None, key=key)


def client(where: Endpoint) -> httpx.AsyncClient:
    """Return a client for ``where``; its reads have no timeout, because the caller has timers."""
    import httpx

    limits = httpx.Limits(max_connections=4, max_keepalive_connections=0)
    return httpx.AsyncClient(**_settings(where), limits=limits)


def client_here(where: Endpoint) -> Client:
    """Return what ``client`` does, or without an event loop one that keeps its connections for the next request."""
    if clock.alone() is None:
        return client(where)
    import httpx

    from understudy.runners.backends.http import blocking_http

    place = (where.base.scheme, where.base.netloc, where.headers.get("Host"), where.loopback)
    return blocking_http.client(place, lambda: httpx.Client(**_settings(where), limits=blocking_http.LIMITS))


async def spare(response: Response) -> None:
    """Let the connection of a response whose content has ended be used again, where connections are kept."""
    if clock.alone() is not None:
        await cast("BlockingResponse", response).spare()


def _settings(where: Endpoint) -> dict[str, Any]:
    import httpx

    return {
        "verify": _trusted_authorities(where),
        "timeout": httpx.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS, write=60.0),
        "follow_redirects": False,
        "trust_env": not where.loopback,
    }


def import_httpx() -> None:
    """Import httpx without its own command line, which imports rich and pygments where they are installed (100 ms)."""
    if "httpx" not in sys.modules:
        sys.modules["httpx._main"] = cast("ModuleType", None)  # importing it raises ImportError, which httpx expects
        try:
            importlib.import_module("httpx")
        finally:
            del sys.modules["httpx._main"]


def _trusted_authorities(where: Endpoint) -> ssl.SSLContext | bool:
    """Return what certificates are checked with. Reading all authorities takes 25 ms, which plain HTTP does not need.

    Without authorities, no certificate is accepted. A proxy may have one, but is not used for this machine.
    """
    if where.loopback and where.base.scheme == "http":
        import ssl

        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return True


def _headers(server: ModelServer, key: str | None) -> dict[str, str]:
    headers = {
        "User-Agent": "understudy",
        "Accept": "text/event-stream, application/json",
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
    }
    headers |= server.headers or {}
    if key is not None and key.strip():
        headers["Authorization"] = f"Bearer {key.strip()}"
    for name, value in headers.items():
        if not value.isascii() or any(ord(character) < 0x20 for character in value) or not name.isascii():
            if name == "Authorization":
                raise UnderstudyError(
                    ErrorKind.AUTH_FAILED,
                    f"The key of model server {server.name!r} contains characters that are not allowed in a key.",
                    hint="Set the key again; it may have been copied with extra text.",
                )
            raise _invalid(server, f"has a header {name!r} that contains characters HTTP does not allow")
    return headers


async def _loopback_address(server: ModelServer, base: httpx.URL, *, local: bool) -> str | None:
    """Return the loopback address of the host, ``None`` when it is on another machine and may be."""
    host = base.host
    addresses = await clock.in_thread(locality.loopback_addresses, host)
    if addresses:
        port = base.port or (443 if base.scheme == "https" else 80)
        return addresses[0] if len(addresses) == 1 else await _answering(addresses, port)
    if not local:
        return None
    if not await clock.in_thread(locality.resolve, host):
        raise UnderstudyError(
            ErrorKind.CONNECTION_FAILED,
            f"The host {host!r} of model server {server.name!r} cannot be resolved.",
            hint="Check `base_url`.",
        )
    raise UnderstudyError(
        ErrorKind.SECRET_WITHHELD,
        f"Model server {server.name!r} is limited to this machine, but {host!r} is another machine. Nothing was sent.",
        hint='Use a loopback address in `base_url`, or set `locality = "remote"` if the text may leave this machine.',
    )


async def _answering(addresses: Sequence[str], port: int) -> str:
    """Return the first address that accepts a connection, else the first: ``localhost`` often has two addresses."""
    for address in dict.fromkeys(addresses):
        if await clock.in_thread(_accepts, address, port):
            return address
    return addresses[0]


def _accepts(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), ANSWERING_SECONDS).close()
    except OSError:
        return False
    return True


def _invalid(server: ModelServer, what: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.CONFIG_INVALID,
        f"Model server {server.name!r} {what}.",
        hint="Correct the model server's entry (`understudy servers update`).",
    )
