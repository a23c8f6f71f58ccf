"""Only checked addresses are connected to: public ones, and private ones that are listed."""

from __future__ import annotations

import socket
import threading

import pytest
from receiver_server import serving

from understudy.config import locality
from understudy.integrations.notifications import http_delivery
from understudy.model.errors import ErrorKind, UnderstudyError


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setattr(locality, "_resolved", {})


def named(monkeypatch, *addresses):
    """Let every name resolve to these addresses, and count how often."""
    asked, real = [], socket.getaddrinfo

    def look(host, *args, **options):
        if host.replace(".", "").isdigit():
            return real(host, *args, **options)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look)
    return asked


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),  # noqa: S104
        *("224.0.0.1", "255.255.255.255", "[::1]", "[fe80::1]", "[fd00::1]", "[::ffff:127.0.0.1]", "[::]"),
        *("[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
    ],
)
def test_addresses_that_are_not_public_are_refused(host):
    with pytest.raises(UnderstudyError) as caught:
        http_delivery.check(f"https://{host}/", [])
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED


@pytest.mark.parametrize("host", ["8.8.8.8", "[2606:4700::1111]", "[64:ff9b::808:808]"])
def test_public_addresses_are_accepted(host):
    assert http_delivery.check(f"https://{host}/", []).base.host == host.strip("[]")


@pytest.mark.parametrize("entry", ["127.0.0.1", "127.0.0.0/8", "HOME.example"])
def test_what_is_listed_may_be_private_and_not_encrypted(monkeypatch, entry):
    named(monkeypatch, "127.0.0.1")
    assert http_delivery.check("http://home.example/", [entry]).base.host == "127.0.0.1"


def test_one_private_address_among_public_ones_is_enough_to_refuse(monkeypatch):
    named(monkeypatch, "8.8.8.8", "10.0.0.1")
    with pytest.raises(UnderstudyError, match=r"10\.0\.0\.1"):
        http_delivery.check("https://home.example/", [])


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://8.8.8.8/", ErrorKind.PERMISSION_DENIED),
        ("https://ada:secret@8.8.8.8/", ErrorKind.CONFIG_INVALID),
        ("file:///etc/passwd", ErrorKind.CONFIG_INVALID),
        ("https://", ErrorKind.CONFIG_INVALID),
    ],
)
def test_other_urls_are_refused(url, kind):
    with pytest.raises(UnderstudyError) as caught:
        http_delivery.check(url, [])
    assert caught.value.kind is kind
    assert "secret" not in caught.value.message


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch):
    """A name service that answers otherwise the second time is not asked again."""
    with serving() as server:
        asked = named(monkeypatch, "127.0.0.1")
        port = server.url.rpartition(":")[2]
        dialled = []
        create = socket.create_connection

        def connect(address, *args, **options):
            dialled.append(address[0])
            return create(address, *args, **options)

        monkeypatch.setattr(socket, "create_connection", connect)
        http_delivery.send(f"http://home.example:{port}/in", ["127.0.0.1"], content=b"{}", seconds=10)
        assert (asked, dialled) == (["home.example"], ["127.0.0.1"])
        assert server.next().headers["Host"] == f"home.example:{port}"


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with serving() as server:
        http_delivery.send(server.url, ["127.0.0.1"], content=b"{}", seconds=10)
        assert server.next().path == "/"


def test_a_server_that_does_not_answer_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(UnderstudyError) as caught:
            http_delivery.send(f"http://127.0.0.1:{port}/", ["127.0.0.1"], content=b"{}", seconds=0.2)
    assert caught.value.kind is ErrorKind.TIMED_OUT
    with pytest.raises(UnderstudyError) as caught:
        http_delivery.send(f"http://127.0.0.1:{port}/", ["127.0.0.1"], content=b"{}", seconds=5)
    assert caught.value.kind is ErrorKind.CONNECTION_FAILED


def test_an_answer_that_drips_has_a_limit_in_all():
    """Each read may be quick while the whole answer never ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stop = threading.Event()

        def drip():
            peer, _ = listening.accept()
            with peer:
                peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while not stop.wait(0.02):
                    try:
                        peer.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(UnderstudyError) as caught:
                http_delivery.send(
                    f"http://127.0.0.1:{listening.getsockname()[1]}/", ["127.0.0.1"], content=b"", seconds=0.5
                )
            assert caught.value.kind is ErrorKind.TIMED_OUT
        finally:
            stop.set()
            thread.join()
