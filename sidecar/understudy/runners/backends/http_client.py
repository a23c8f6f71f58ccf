"""Where a request may go, and with what. The only file that makes HTTP clients.

A server (or a delegator) marked ``local`` is dialled at a loopback address that was checked just before, by that
address, so that no name service can move it; proxies of the environment are not used; nothing follows a redirect.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from understudy.model.delegators import Delegator, ModelServer
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 5.0
"""A server that runs accepts at once; both official clients use five seconds too."""


def is_local(delegator: Delegator | None, server: ModelServer) -> bool:
    """Return whether nothing but this machine may be talked to."""
    return server.locality == "local" or (delegator is not None and delegator.locality == "local")


@dataclass(frozen=True)
class Endpoint:
    """A checked place to send requests to."""

    name: str
    base: httpx.URL
    headers: Mapping[str, str]
    extensions: Mapping[str, Any]
    loopback: bool

    def url(self, path: str) -> httpx.URL:
        """Return ``base`` + ``path``, keeping a query that the base has."""
        return self.base.copy_with(path=self.base.path.rstrip("/") + path)


async def endpoint(server: ModelServer, *, local: bool, key: str | None) -> Endpoint:
    """Check ``server`` and return where to dial it.

    Kinds: ``config_invalid`` (no http URL, credentials in it, unusable headers), ``secret_withheld`` (bound to this
    machine, but the host is another one), ``connection_failed`` (the name cannot be resolved).
    """
    import httpx  # noqa: PLC0415 - 80 ms

    try:
        base = httpx.URL(server.base_url)
    except httpx.InvalidURL as error:
        raise _invalid(server, f"has no usable `baseUrl`: {error}") from None
    if base.scheme not in {"http", "https"} or not base.host:
        raise _invalid(server, "needs a `baseUrl` that begins with http:// or https://")
    if base.userinfo:
        raise _invalid(server, "has credentials in its `baseUrl`, which would end up in logs")
    headers = _headers(server, key)
    extensions: dict[str, Any] = {}
    loopback = _literal_loopback(base.host)
    if local or base.host == "localhost":
        address = await _loopback_address(server, base, local=local)
        if address is not None:
            loopback = True
            headers["Host"] = base.netloc.decode("ascii")
            extensions["sni_hostname"] = base.host
            base = base.copy_with(host=address)
    return Endpoint(server.name, base, headers, extensions, loopback)


def client(where: Endpoint) -> httpx.AsyncClient:
    """Return a client for ``where``; its reads have no limit of their own, the caller's timers are the limit."""
    import httpx  # noqa: PLC0415 - 80 ms

    return httpx.AsyncClient(
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS, write=60.0),
        follow_redirects=False,
        trust_env=not where.loopback,
        limits=httpx.Limits(max_connections=4, max_keepalive_connections=0),
    )


def _headers(server: ModelServer, key: str | None) -> dict[str, str]:
    headers = {
        "User-Agent": "understudy",
        "Accept": "text/event-stream, application/json",
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
                    f"The key of model server {server.name!r} holds characters that no key has.",
                    hint="Set the key again; perhaps more than the key was copied.",
                )
            raise _invalid(server, f"has a header {name!r} that cannot be sent")
    return headers


def _literal_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


async def _loopback_address(server: ModelServer, base: httpx.URL, *, local: bool) -> str | None:
    """Return the loopback address of the host, None where another one is allowed and the host has it."""
    port = base.port or (443 if base.scheme == "https" else 80)
    if _literal_loopback(base.host):
        return base.host
    addresses: list[str] = []
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(base.host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in found]
    except (OSError, TimeoutError) as error:
        raise UnderstudyError(
            ErrorKind.CONNECTION_FAILED,
            f"The host {base.host!r} of model server {server.name!r} cannot be resolved: {error or 'no answer'}.",
            hint="Check `baseUrl`.",
        ) from None
    if addresses and all(ipaddress.ip_address(address.split("%")[0]).is_loopback for address in addresses):
        return await _answering(addresses, port)
    if not local:
        return None
    raise UnderstudyError(
        ErrorKind.SECRET_WITHHELD,
        f"Model server {server.name!r} is bound to this machine, but {base.host!r} is another one; nothing was sent.",
        hint='Use a loopback address in `baseUrl`, or set `locality = "remote"` if the text may leave.',
    )


async def _answering(addresses: list[str], port: int) -> str:
    """Return the first address that accepts (``localhost`` is often two, with the server on one); else the first."""
    for address in dict.fromkeys(addresses):
        try:
            async with asyncio.timeout(1.0):
                _, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError):
            continue
        writer.close()
        return address
    return addresses[0]


def _invalid(server: ModelServer, what: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.CONFIG_INVALID,
        f"Model server {server.name!r} {what}.",
        hint="Correct the model server's entry (`understudy servers update`).",
    )
