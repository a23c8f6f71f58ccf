"""Requests to receivers: to an address that was checked, without redirects, proxies and logs.

A name is resolved and its addresses are checked right before each connection, which goes to the address that was
checked, so that no other answer of the name service counts. httpx's client is not used: it logs URLs, and Telegram
wants the token of a bot in the URL.
"""

from __future__ import annotations

import contextlib
import ipaddress
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from understudy.config import locality
from understudy.config.validation.notification_rules import network
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import retry_time
from understudy.runners.backends.http import http_client
from understudy.runners.backends.http.http_client import Line

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 5.0
MOST_BYTES = 256 * 1024
"""The most of an answer that is read."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Target(msgspec.Struct, frozen=True):
    """A URL whose address was checked."""

    host: str
    base: httpx.URL
    """The URL with the address as its host."""
    netloc: str


def check(url: str, allow_private: Sequence[str]) -> Target:
    """Resolve the host of ``url`` and return where to connect.

    Error kinds: ``config_invalid`` (not a usable URL), ``connection_failed`` (it cannot be resolved),
    ``permission_denied`` (an address is not public and not listed, or is not encrypted and not listed).
    """
    import httpx

    try:
        base = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        base = httpx.URL("")
    if base.scheme not in {"http", "https"} or not base.host or base.userinfo:
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID, "The URL of the receiver is not an http or https URL without a user name."
        )
    addresses = locality.resolve(base.host)
    if not addresses:
        raise UnderstudyError(
            ErrorKind.CONNECTION_FAILED, f"The host {base.host} cannot be resolved.", hint="Check the URL."
        )
    for text in addresses:
        address = ipaddress.ip_address(text.partition("%")[0])
        listed = _is_listed(base.host, address, allow_private)
        if not listed and not _is_public(address):
            raise UnderstudyError(
                ErrorKind.PERMISSION_DENIED,
                f"{base.host} has the address {address}, which is not a public one. Nothing was sent.",
                hint="If it is your own host, list it in `allow_private`.",
            )
        if not listed and base.scheme == "http":
            raise UnderstudyError(
                ErrorKind.PERMISSION_DENIED,
                f"The connection to {base.host} would not be encrypted. Nothing was sent.",
                hint="Use https, or list your own host in `allow_private`.",
            )
    return Target(base.host, base.copy_with(host=addresses[0]), base.netloc.decode("ascii"))


def send(
    url: str,
    allow_private: Sequence[str],
    *,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float,
    line: Line | None = None,
) -> bytes:
    """Send a request, POST if it has content, and return the body of a successful answer.

    ``line`` lets another thread end it. Error kinds: those of ``check`` and of ``failure_of``, ``timed_out``,
    ``connection_failed`` (nothing was sent), ``stream_truncated`` (it may have been received).
    """
    kept = bytearray()
    with opened(url, allow_private, content=content, headers=headers, seconds=seconds, line=line) as response:
        for chunk in response.iter_raw():
            kept += chunk[: MOST_BYTES - len(kept)]
            if len(kept) >= MOST_BYTES:
                break
    return bytes(kept)


@contextlib.contextmanager
def opened(
    url: str,
    allow_private: Sequence[str],
    *,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float,
    line: Line | None = None,
) -> Iterator[httpx.Response]:
    """Yield a successful answer to be read; raises what ``send`` does, also from the block."""
    import httpx

    target, line = check(url, allow_private), line or Line()
    sent = {"Host": target.netloc, "User-Agent": "understudy", "Accept-Encoding": "identity", **(headers or {})}
    extensions = {
        "timeout": httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds)).as_dict(),
        "sni_hostname": target.host,
        "trace": line.trace,
    }
    where = http_client.Endpoint(target.host, target.base, sent, extensions, loopback=target.base.scheme == "http")
    timed_out = threading.Event()

    def stop() -> None:
        timed_out.set()
        line.hang_up()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        with httpx.HTTPTransport(verify=http_client.trusted_authorities(where), trust_env=False) as transport:
            request = httpx.Request(
                "GET" if content is None else "POST", target.base, headers=sent, content=content, extensions=extensions
            )
            response = transport.handle_request(request)
            response.request = request
            try:
                if not response.is_success:
                    raise failure_of(target.host, response.status_code, response.headers.get("retry-after"))
                yield response
                if timed_out.is_set():
                    raise TimeoutError  # a body without a length seems to end where the connection does
            finally:
                response.close()
    except (httpx.HTTPError, http_client.Ended, OSError) as error:
        if timed_out.is_set() or isinstance(error, (httpx.ReadTimeout, httpx.WriteTimeout)):
            raise UnderstudyError(ErrorKind.TIMED_OUT, f"{target.host} did not answer within {seconds:g} s.") from None
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            raise UnderstudyError(ErrorKind.CONNECTION_FAILED, f"{target.host} cannot be reached: {error}.") from None
        raise UnderstudyError(
            ErrorKind.STREAM_TRUNCATED, f"The connection to {target.host} broke ({type(error).__name__})."
        ) from None
    finally:
        timer.cancel()


def failure_of(host: str, status: int, retry_after: str | None = None) -> UnderstudyError:
    """Return the error of an answer that is not a success."""
    kinds = {401: ErrorKind.AUTH_FAILED, 403: ErrorKind.AUTH_FAILED, 429: ErrorKind.RATE_LIMITED}
    kind = kinds.get(status, ErrorKind.OVERLOADED if status >= 500 else ErrorKind.BAD_REQUEST)
    hint = None
    if 300 <= status < 400:
        hint = "Redirects are not followed: use the URL that it leads to."
    elif kind is ErrorKind.AUTH_FAILED:
        hint = "Check the token of the receiver."
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return UnderstudyError(
        kind,
        f"{host} answered with status {status}.",
        hint=hint,
        retry_at=retry_time(time.time() + seconds) if seconds is not None else None,
        status=status,
    )


def _is_listed(host: str, address: _Address, allow_private: Sequence[str]) -> bool:
    for entry in allow_private:
        net = network(entry)
        if entry.lower() == host.lower() or (net is not None and address in net):
            return True
    return False


def _is_public(address: _Address) -> bool:
    inner: _Address | None = None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if inner is not None:
        return _is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved
