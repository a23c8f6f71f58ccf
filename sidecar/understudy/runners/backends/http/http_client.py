"""Check where a request to a model server may go, and create the HTTP client for it.

A server (or a delegator) marked ``local`` is resolved once and dialled at the loopback address that was checked, so
that a name service cannot redirect the request. Its client ignores proxies of the environment. No client follows
redirects.

``EventDecoder`` parses server-sent events.
"""

from __future__ import annotations

import functools
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.config import locality
from understudy.model.config.delegators import ModelServer
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    import ssl

    import httpx

CONNECT_SECONDS = 5.0
"""A running server accepts at once; both official clients use five seconds too."""
ANSWERING_SECONDS = 1.0
"""For each address of this machine."""
MAX_LINE_BYTES = 1 << 20
"""Real events have a few hundred bytes; httpx2 limits an event to 1 MiB too."""
_BOM = b"\xef\xbb\xbf"


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


def endpoint(server: ModelServer, *, local: bool, key: str | None) -> Endpoint:
    """Check ``server`` and return where to dial it.

    Error kinds: ``config_invalid`` (not an HTTP URL, credentials in it, unusable headers), ``secret_withheld`` (limited
    to this machine, but the host is another machine), ``connection_failed`` (the name cannot be resolved).
    """
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
    address = _loopback_address(server, base, local=local)
    if address is not None and address != base.host:
        headers["Host"] = base.netloc.decode("ascii")
        extensions["sni_hostname"] = base.host
        base = base.copy_with(host=address)
    return Endpoint(server.name, base, headers, extensions, loopback=address is not None, key=key)


def client(where: Endpoint) -> httpx.Client:
    """Return a client for ``where``; its reads have no timeout, because the caller has timers."""
    import httpx

    return httpx.Client(
        verify=trusted_authorities(where),
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS, write=60.0),
        follow_redirects=False,
        trust_env=not where.loopback,
        limits=httpx.Limits(max_connections=4, max_keepalive_connections=0),
    )


class Ended(Exception):  # noqa: N818 - like GeneratorExit: no reader waits for the result
    """Another thread has ended what this one waits for."""


class Line:
    """The connection of requests that are sent one after the other, which another thread can end."""

    def __init__(self) -> None:
        """Begin without a connection."""
        self._ended = threading.Event()
        self._stream: Any = None

    def end(self) -> None:
        """End pauses and reads at once, and let nothing more be sent."""
        self._ended.set()
        self.hang_up()

    def hang_up(self) -> None:
        """End what is being sent or read."""
        connection = self._stream.get_extra_info("socket") if self._stream is not None else None
        if connection is not None:
            with suppress(OSError):  # closed meanwhile
                # Not what TLS makes of it, which would take the connection from the thread that reads it.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    @property
    def is_ended(self) -> bool:
        """Whether ``end`` was called."""
        return self._ended.is_set()

    def pause(self, seconds: float) -> None:
        """Wait; raise ``Ended`` if it is ended meanwhile."""
        if self._ended.wait(seconds):
            raise Ended

    def extensions(self, where: Endpoint, client: httpx.Client) -> dict[str, Any]:
        """Return the extensions of a request on it."""
        return {**where.extensions, "timeout": client.timeout.as_dict(), "trace": self.trace}

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Follow the connection of a request: the extension ``trace`` of httpcore."""
        if event.endswith((".connect_tcp.started", ".connect_tcp.complete", ".start_tls.complete")):
            self._stream = info.get("return_value")
            if self._ended.is_set():
                if self._stream is not None:
                    self._stream.close()
                raise Ended


def fetch(
    where: Endpoint,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str],
    content: bytes | None = None,
    seconds: float,
    most: int,
) -> tuple[int, bytes]:
    """Send one request and return the status and at most ``most`` bytes of the body.

    Raises ``TimeoutError`` after ``seconds``, and the errors of httpx.
    """
    line, kept = Line(), bytearray()
    timer = threading.Timer(seconds, line.end)
    timer.daemon = True
    timer.start()
    try:
        with client(where) as opened:
            extensions = line.extensions(where, opened)
            request = opened.build_request(
                method, where.url(path), content=content, headers=headers, extensions=extensions
            )
            response = opened.send(request, stream=True)
            try:
                for chunk in response.iter_raw():
                    kept += chunk[: most - len(kept)]
                    if len(kept) >= most:
                        break
            finally:
                response.close()
        line.pause(0)
    except Exception as error:
        if line.is_ended:
            raise TimeoutError from error
        raise
    finally:
        timer.cancel()
    return response.status_code, bytes(kept)


def trusted_authorities(where: Endpoint) -> ssl.SSLContext:
    """Return what certificates are checked with. Reading all authorities takes 25 ms, which plain HTTP does not need.

    Without authorities, no certificate is accepted. A proxy may have one, but is not used for this machine.
    """
    if where.loopback and where.base.scheme == "http":
        import ssl

        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return _all_authorities(
        not where.loopback, *(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE"))
    )


@functools.lru_cache(maxsize=4)
def _all_authorities(trust_env: bool, *_: str | None) -> ssl.SSLContext:
    """Return them as httpx reads them; the other arguments are what it reads of the environment."""
    import httpx

    return httpx.create_ssl_context(trust_env=trust_env)


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


def _loopback_address(server: ModelServer, base: httpx.URL, *, local: bool) -> str | None:
    """Return the loopback address of the host, ``None`` when it is on another machine and may be."""
    host = base.host
    addresses = locality.loopback_addresses(host)
    if addresses:
        port = base.port or (443 if base.scheme == "https" else 80)
        return addresses[0] if len(addresses) == 1 else _answering(addresses, port)
    if not local:
        return None
    if not locality.resolve(host):
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


def _answering(addresses: Sequence[str], port: int) -> str:
    """Return the first address that accepts a connection, else the first: ``localhost`` often has two addresses."""
    for address in dict.fromkeys(addresses):
        if _accepts(address, port):
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


class EventDecoder:
    """Turns bytes into the data of server-sent events, without I/O: any chunking of the same bytes gives the same.

    The rules are the HTML standard's
    (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream): lines end in LF, CRLF or
    CR; a byte order mark at the start is skipped; an event ends with an empty line. Two deviations: ``end`` returns an
    event at the end of the stream that lacks its empty line (servers forget the line after ``[DONE]``), and text that
    is not UTF-8 is an error, because replacement characters would end up in a user's file.
    One line and one event may each use at most ``max_bytes`` of memory.
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        """Start at the beginning of a stream."""
        self._max = max_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._first = True
        self._skip_line_feed = False

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of events that ``chunk`` completes; raise ``malformed_output`` for too much, or no UTF-8."""
        events: list[str] = []
        if self._skip_line_feed and chunk:
            self._skip_line_feed = False
            chunk = chunk.removeprefix(b"\n")
        if chunk.endswith(b"\r"):
            # The next chunk may begin with the line feed of this CR; the line itself is complete.
            self._skip_line_feed = True
        pieces = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for piece in pieces[:-1]:
            self._grow(piece)
            self._end_line(events)
        self._grow(pieces[-1])
        return events

    def end(self) -> list[str]:
        """Return the last event if its empty line is missing; its data may be cut off."""
        events: list[str] = []
        if self._line:
            self._end_line(events)
        self._dispatch(events)
        return events

    def _grow(self, piece: bytes) -> None:
        if len(self._line) + len(piece) > self._max:
            raise UnderstudyError(
                ErrorKind.MALFORMED_OUTPUT,
                f"The model server sent a line of more than {self._max} bytes.",
                hint="It may not be an event stream: check the model server's `base_url`.",
            )
        self._line += piece

    def _end_line(self, events: list[str]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._first:
            line = line.removeprefix(_BOM)
            self._first = False
        if not line:
            self._dispatch(events)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data_bytes += len(value) + 1
            if self._data_bytes > self._max:
                raise UnderstudyError(
                    ErrorKind.MALFORMED_OUTPUT,
                    f"The model server sent an event of more than {self._max} bytes.",
                    hint="It may not be a model's event stream: check the model server's `base_url`.",
                )
            self._data.append(value)
        # A comment (empty field name), `event`, `id` and `retry` mean nothing here: the data says what it is.

    def _dispatch(self, events: list[str]) -> None:
        if self._data:
            try:
                data = b"\n".join(self._data).decode("utf-8")
            except UnicodeDecodeError:
                raise UnderstudyError(
                    ErrorKind.MALFORMED_OUTPUT,
                    "The model server sent text that is not UTF-8.",
                    hint="Retry; if it happens again, report it to the server's maintainers.",
                ) from None
            events.append(data)
        self._data = []
        self._data_bytes = 0
