"""Decide whether an address is on this machine, for validation, planning, prompts and connections.

An address is local when its host resolves only to loopback addresses. ``localhost`` and names below it
are loopback by RFC 6761 and are not looked up. Other names are resolved once per minute and process, within
``RESOLVE_SECONDS``; a name that cannot be resolved is not local.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from urllib.parse import urlsplit

from understudy.model.config.delegators import Delegator, ModelServer

RESOLVE_SECONDS = 2.0
"""A resolver answers within milliseconds or fails after its own timeout of five seconds; do not wait for that."""
KEPT_SECONDS = 60.0
"""How long an answer of the resolver is used."""
LOOPBACK = ("127.0.0.1", "::1")
"""The addresses of ``localhost``, the usual one first."""

_resolved: dict[str, tuple[float, tuple[str, ...]]] = {}
_MOST_NAMES = 256


def is_bound(delegator: Delegator | None, server: ModelServer | None) -> bool:
    """Return whether the user declared that nothing may leave this machine."""
    return any(thing is not None and thing.locality == "local" for thing in (delegator, server))


def is_local(delegator: Delegator | None, server: ModelServer | None) -> bool:
    """Return whether requests stay on this machine: as declared, otherwise by the address of ``server``."""
    if server is None:
        return False
    if is_bound(delegator, server):
        return True
    declared_remote = server.locality == "remote" or (delegator is not None and delegator.locality == "remote")
    return not declared_remote and is_loopback(server.base_url)


def is_loopback(url: str) -> bool:
    """Return whether every address of the host of ``url`` is a loopback address; may wait for the resolver."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return bool(loopback_addresses(host))


def loopback_addresses(host: str) -> tuple[str, ...]:
    """Return the addresses of ``host`` if all of them are loopback addresses, otherwise an empty tuple."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return LOOPBACK
    addresses = resolve(host)
    parsed = [_address(address) for address in addresses]
    return addresses if parsed and all(one is not None and one.is_loopback for one in parsed) else ()


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port, to which a key is bound."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        return parts.scheme, (parts.hostname or "").rstrip("."), port
    except ValueError:
        return "", url, None


def resolve(host: str) -> tuple[str, ...]:
    """Return the addresses of a host; an empty tuple if the resolver fails or takes too long."""
    if _address(host) is not None:
        return (host,)
    now = time.monotonic()
    cached = _resolved.get(host)
    if cached is not None and cached[0] > now:
        return cached[1]
    answer: list[str] = []

    def look() -> None:
        try:
            import socket

            infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return
        answer.extend(dict.fromkeys(str(entry[4][0]) for entry in infos))

    # The resolver of the C library cannot be interrupted, so it runs in a thread that may outlive this call.
    thread = threading.Thread(target=look, name="understudy-resolve", daemon=True)
    thread.start()
    thread.join(RESOLVE_SECONDS)
    addresses = () if thread.is_alive() else tuple(answer)
    if len(_resolved) >= _MOST_NAMES:
        _resolved.clear()
    _resolved[host] = (now + KEPT_SECONDS, addresses)
    return addresses


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
