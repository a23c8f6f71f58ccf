"""One meaning of local, by resolved address."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from understudy.config import locality
from understudy.model.config.delegators import Delegator, ModelServer

NAMES = {
    "all-loopback.test": ["127.0.0.1", "::1"],
    "mixed.test": ["127.0.0.1", "192.0.2.1"],
    "elsewhere.test": ["192.0.2.1"],
}


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def look(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        if host not in NAMES:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in NAMES[host]]

    monkeypatch.setattr(socket, "getaddrinfo", look)
    monkeypatch.setattr(locality, "_resolved", {})
    return asked


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", True),
        ("[::1]", True),
        ("[::ffff:127.0.0.1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("api.localhost", True),
        ("all-loopback.test", True),
        ("mixed.test", False),
        ("elsewhere.test", False),
        ("unknown.test", False),
        ("192.168.1.5", False),
        ("127.0.0.1.evil.test", False),
        ("localhost.evil.test", False),
        ("[::ffff:192.0.2.1]", False),
        ("", False),
    ],
)
def test_an_address_is_local_by_what_it_resolves_to(host: str, local: bool) -> None:
    assert locality.is_loopback(f"http://{host}:1234/v1") is local


def test_localhost_is_never_looked_up_and_other_names_once(resolver: list[str]) -> None:
    for _ in range(3):
        locality.is_loopback("http://localhost/v1")
        locality.is_loopback("http://elsewhere.test/v1")
    assert resolver == ["elsewhere.test"]


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait() and [])
    monkeypatch.setattr(locality, "RESOLVE_SECONDS", 0.1)
    assert not locality.is_loopback("http://slow.test/v1")
    release.set()


@pytest.mark.parametrize(
    ("url", "server", "delegator", "local"),
    [
        ("http://127.0.0.1/v1", None, None, True),
        ("http://127.0.0.1/v1", "remote", None, False),
        ("http://127.0.0.1/v1", None, "remote", False),
        ("http://elsewhere.test/v1", None, None, False),
        ("http://elsewhere.test/v1", "local", "remote", True),
        ("http://elsewhere.test/v1", None, "local", True),
    ],
)
def test_a_declaration_counts_before_the_address(url: str, server: Any, delegator: Any, local: bool) -> None:
    where = ModelServer(name="s", kind="custom", base_url=url, locality=server)
    who = Delegator(name="d", model_server="s", locality=delegator)
    assert locality.is_local(who, where) is local
    assert not locality.is_local(who, None)
