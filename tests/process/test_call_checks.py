"""A child's environment is built from names, never inherited."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.call_checks import base_environment, is_allowed, proxy_passwords
from understudy.secrets.redaction import Redactor

PASSED = [
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR", "TERM", "LANG", "LC_ALL", "LC_CTYPE"),
    *("XDG_CONFIG_HOME", "XDG_DATA_DIRS", "XDG_CACHE_HOME", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SYSTEMROOT"),
]
KEPT_BACK = [
    *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
    *("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "GIT_DIR", "GIT_SSH_COMMAND", "LD_PRELOAD"),
    *("PYTHONPATH", "NODE_OPTIONS", "BASH_ENV", "VSCODE_IPC_HOOK_CLI", "TMUX", "MY_SECRET_PROXY"),
    *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "UNDERSTUDY_STATE", "UNDERSTUDY_DELEGATION", "VIRTUAL_ENV"),
    *("XDG_RUNTIME_DIR", "XDG_SESSION_ID", "XDG_MY_SECRET"),
]


def test_what_is_named_passes_and_nothing_else(monkeypatch):
    for name in PASSED + KEPT_BACK:
        monkeypatch.setenv(name, f"canary of {name}")
    environment = base_environment()
    assert {name: f"canary of {name}" for name in PASSED}.items() <= environment.items()
    assert not set(KEPT_BACK) & set(environment)
    assert all(is_allowed(name) for name in environment)


def test_what_is_asked_for_by_name_passes_and_wins(monkeypatch):
    monkeypatch.setenv("LANG", "C")
    environment = base_environment({"OPENAI_API_KEY": "k", "LANG": "de_DE.UTF-8"})
    assert environment["OPENAI_API_KEY"] == "k"
    assert environment["LANG"] == "de_DE.UTF-8"
    assert "OPENAI_API_KEY" not in os.environ


@pytest.mark.parametrize("extra", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0"}])
def test_what_no_process_can_have_is_refused(extra):
    with pytest.raises(UnderstudyError) as caught:
        base_environment(extra)
    assert caught.value.kind is ErrorKind.INVALID_PARAMS


def test_passwords_in_proxy_addresses_are_known():
    environment = {
        "HTTPS_PROXY": "http://me:p%40ss@proxy.example:8080",
        "http_proxy": "me:plain@proxy.example",
        "ALL_PROXY": "socks5://t0ken@proxy.example",
        "NO_PROXY": "a,b@c",
        "OTHER": "http://a:b@c",
    }
    found = ["p%40ss", "p@ss", "me:p@ss", "me:p%40ss@proxy.example:8080", "me:p@ss@proxy.example:8080"]
    assert proxy_passwords(environment) == [*found, "plain", "me:plain", "t0ken", "t0ken@proxy.example"]


def test_a_short_password_is_redacted_in_the_address_of_its_proxy():
    environment = {"HTTPS_PROXY": "http://u:pw@proxy.example:8080/"}
    redactor = Redactor({f"proxy {number}": one for number, one in enumerate(proxy_passwords(environment))})
    for address in (
        "http://u:pw@proxy.example:8080",
        "u:pw@proxy.example:8080",
        "http:%2F%2Fu%3apw%40proxy.example:8080",
    ):
        assert "pw" not in redactor.redact(f"curl: (5) Could not resolve proxy: {address}")


@pytest.mark.parametrize(
    ("address", "passed"),
    [
        ("http://me:p%40ss@proxy.example:8080/", "http://proxy.example:8080/"),
        ("me:secret@proxy.example", "proxy.example"),
        ("socks5h://t0ken@proxy.example", "socks5h://proxy.example"),
        ("http://me:p@ss//word@proxy.example", "http://proxy.example"),
        ("http://proxy.example:3128", "http://proxy.example:3128"),
    ],
)
def test_the_password_of_a_proxy_is_passed_only_by_name(monkeypatch, address, passed):
    monkeypatch.setenv("HTTPS_PROXY", address)
    monkeypatch.setenv("no_proxy", "a,b@c")
    environment = base_environment()
    assert (environment["HTTPS_PROXY"], environment["no_proxy"]) == (passed, "a,b@c")
    assert base_environment({"HTTPS_PROXY": address})["HTTPS_PROXY"] == address


def test_a_child_without_a_network_gets_no_proxies(monkeypatch):
    for name in ("http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://proxy.example")
    assert base_environment()["HTTPS_PROXY"] == "http://proxy.example"
    assert "proxy.example" not in str(base_environment(network=False))
    assert base_environment({"HTTPS_PROXY": "mine"}, network=False)["HTTPS_PROXY"] == "mine"


@given(st.text())
def test_any_proxy_text_is_borne(text):
    assert all(isinstance(password, str) for password in proxy_passwords({"HTTP_PROXY": text}))
