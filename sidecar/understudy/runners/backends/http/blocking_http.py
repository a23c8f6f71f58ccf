"""HTTP for coroutines without an event loop (``driver.clock.run_alone``): httpx's client, and its waits.

All threads share one client per server, so that an answer need not wait for a new connection. A client has no state of
the requests: keys are headers of each request, cookies are refused, redirects are not followed.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Self

import httpcore
import httpx
from httpcore._backends.sync import SyncStream

from understudy.runners.driver import clock

IDLE_SECONDS = 15.0
"""How long an unused connection is kept; many servers close theirs after that time, too."""
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=IDLE_SECONDS)
MOST_CLIENTS = 16
"""More are kept only while all of them are in use."""
SPARE_SECONDS = 0.02
"""Wait for the end of a body whose content has ended: its connection can be used again only after that."""
_SPARE_CHUNKS = 4
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", *_PROXY_VARIABLES, *map(str.lower, _PROXY_VARIABLES))
"""What httpx reads of the environment."""


class BlockingClient:
    """What an exchange uses of ``httpx.AsyncClient``, in a thread that may wait. Closing it keeps its connections."""

    def __init__(self, client: httpx.Client) -> None:
        """Use a client that others use, too."""
        self._client = client

    @property
    def timeout(self) -> httpx.Timeout:
        """The limits of a request."""
        return self._client.timeout

    def build_request(self, method: str, url: httpx.URL, **parts: Any) -> httpx.Request:
        """Return a request."""
        return self._client.build_request(method, url, **parts)

    async def send(self, request: httpx.Request, *, stream: bool) -> BlockingResponse:
        """Send a request, again if its connection was an old one that the server closes."""
        waits = clock.alone()
        while True:
            opened = waits.connections if waits is not None else 0
            try:
                return BlockingResponse(self._client.send(request, stream=stream))
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
                is_answer = isinstance(error, httpx.RemoteProtocolError) and "without sending" not in str(error)
                if waits is None or waits.connections > opened or is_answer:
                    raise

    async def __aenter__(self) -> Self:
        """Do nothing."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: the connections are kept."""


class BlockingResponse:
    """What an exchange uses of an ``httpx.Response``."""

    def __init__(self, response: httpx.Response) -> None:
        """Wrap a response whose body is not read yet."""
        self._response = response
        self._chunks: Iterator[bytes] = iter(())
        self.status_code = response.status_code
        self.headers = response.headers

    async def aiter_raw(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        self._chunks = self._response.iter_raw()
        for chunk in self._chunks:
            yield chunk

    async def spare(self) -> None:
        """Read the end of a body that has nothing left to say, if it is there, so that its connection can be kept."""
        with suppress(TimeoutError, httpx.HTTPError, httpx.StreamError):
            async with clock.timeout(SPARE_SECONDS):
                for _ in range(_SPARE_CHUNKS):
                    if next(self._chunks, None) is None:
                        return

    async def aclose(self) -> None:
        """Close it; an unread rest costs its connection."""
        self._response.close()


_clients: dict[tuple[object, ...], httpx.Client] = {}
_lock = threading.Lock()


def client(place: tuple[object, ...], make: Callable[[], httpx.Client]) -> BlockingClient:
    """Return the client for a ``place``; ``make`` creates it unless there is one for it and this environment."""
    key = (os.getpid(), *place, *(os.environ.get(name) for name in _VARIABLES))
    with _lock:
        found = _clients.pop(key, None)
        if found is None:
            found = _prepared(make())
        _clients[key] = found  # the last one is the one that was used last
        idle = [one for one, unused in _clients.items() if unused is not found and _is_idle(unused)]
        for one in idle[: max(len(_clients) - MOST_CLIENTS, 0)]:
            for transport in _transports(_clients.pop(one)):
                transport.close()
    return BlockingClient(found)


def _is_idle(unused: httpx.Client) -> bool:
    return all(connection.is_idle() for one in _transports(unused) for connection in one._pool.connections)  # noqa: SLF001 - as below


def _transports(made: httpx.Client) -> list[httpx.HTTPTransport]:
    every = (made._transport, *made._mounts.values())  # noqa: SLF001 - httpx does not name them
    return [one for one in every if isinstance(one, httpx.HTTPTransport)]


def _prepared(made: httpx.Client) -> httpx.Client:
    made.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
    backend = _Backend()
    for transport in _transports(made):
        transport._pool._network_backend = backend  # noqa: SLF001 - httpx has no other way to wait
    return made


class _Backend(httpcore.NetworkBackend):
    """Opens connections whose waits end when a limit passes, or when the request is cancelled."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of ``host`` that accepts."""
        waits = clock.alone()
        if waits is None:
            return httpcore.SyncBackend().connect_tcp(host, port, timeout, local_address, socket_options)
        waits.connections += 1
        until = time.monotonic() + (timeout or 60.0)
        try:
            found = _addresses(waits, host, port, until)
        except TimeoutError:
            raise httpcore.ConnectTimeout("The name was not resolved in time.") from None
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from None
        last: OSError | None = None
        for number, (family, address) in enumerate(found):
            share = (until - time.monotonic()) / (len(found) - number)
            try:
                connection = _connected(waits, family, address, time.monotonic() + share)
            except OSError as error:
                last = error
                continue
            for option in socket_options or ():
                connection.setsockopt(*option)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _Stream(SyncStream(connection))
        if isinstance(last, TimeoutError):
            raise httpcore.ConnectTimeout("The connection was not accepted in time.")
        raise httpcore.ConnectError(str(last))

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        """Connect to a socket of this machine."""
        return httpcore.SyncBackend().connect_unix_socket(path, timeout, socket_options)

    def sleep(self, seconds: float) -> None:
        """Pause between two tries."""
        waits = clock.alone()
        time.sleep(seconds) if waits is None else waits.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    """A connection; ``timeout`` applies beside the limits of the coroutine."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        waits = clock.alone()
        if waits is None:
            return self._inner.read(max_bytes, timeout)
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._inner.read(max_bytes, waits.seconds(until))
            except httpcore.ReadTimeout:
                if until is not None and time.monotonic() >= until:
                    raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        waits = clock.alone()
        connection = self._inner.get_extra_info("socket")
        if waits is None or not isinstance(self._inner, SyncStream):  # TLS inside of TLS has buffers of its own
            self._inner.write(buffer, timeout)
            return
        until = None if timeout is None else time.monotonic() + timeout
        rest = memoryview(buffer)
        while rest:
            connection.settimeout(waits.seconds(until))
            try:
                rest = rest[connection.send(rest) :]
            except TimeoutError:
                if until is not None and time.monotonic() >= until:
                    raise httpcore.WriteTimeout("The server does not read the request.") from None
            except OSError as error:
                raise httpcore.WriteError(str(error)) from None

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _addresses(waits: clock.Alone, host: str, port: int, until: float) -> list[tuple[Any, Any]]:
    """Return the addresses of a host; the resolver runs in a thread, because nothing can interrupt it."""

    def look(flags: int = 0) -> list[tuple[Any, Any]]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
        return [(entry[0], entry[4]) for entry in found]

    with suppress(OSError):
        return look(socket.AI_NUMERICHOST)
    answer: list[list[tuple[Any, Any]] | OSError | UnicodeError] = []

    def resolve() -> None:
        try:
            answer.append(look())
        except (OSError, UnicodeError) as error:
            answer.append(error)

    thread = threading.Thread(target=resolve, name="understudy-resolve", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(waits.seconds(until))
        if thread.is_alive() and time.monotonic() >= until:
            raise TimeoutError
    if isinstance(answer[0], Exception):
        raise answer[0]
    return answer[0]


def _connected(waits: clock.Alone, family: Any, address: Any, until: float) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        _require_none(connection.connect_ex(address), errno.EINPROGRESS, errno.EINTR)
        poller = select.poll()
        poller.register(connection, select.POLLOUT)
        while not poller.poll(waits.seconds(until) * 1000):
            if time.monotonic() >= until:
                _require_none(errno.ETIMEDOUT)
        _require_none(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    except BaseException:
        connection.close()
        raise
    return connection


def _require_none(code: int, *expected: int) -> None:
    if code and code not in expected:
        raise OSError(code, os.strerror(code))
