"""The commands for notifications, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from receiver_server import serving

from understudy.frontends.cli import app
from understudy.model.errors import ErrorKind, UnderstudyError


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app.group, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.output


def listed() -> dict[str, object]:
    [entry] = json.loads(run("notifications", "list", "--json"))["notifications"]
    return dict(entry)


def test_a_receiver_is_added_tested_listed_and_removed() -> None:
    with serving() as server:
        added = run(
            *("notifications", "add", "hook", "--kind", "webhook", "--url", server.url, "--event", "question"),
            *("--allow-private", "127.0.0.1"),
        )
        assert "Added receiver hook" in added
        assert "hook  webhook  question  none sent" in run("notifications")
        assert "hook took a notification" in run("notifications", "test", "hook")
        assert server.next().json["event"] == "test"
        assert "1 sent, the last " in run("notifications")
        server.answers = [(404, {})]
        with pytest.raises(UnderstudyError, match="status 404"):
            run("notifications", "test", "hook")
        assert "1 failure since: 127.0.0.1 answered with status 404." in run("notifications")
    assert "Removed hook" in run("notifications", "remove", "hook")
    assert json.loads(run("notifications", "list", "--json"))["notifications"] == []


def test_secrets_are_referred_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_TOKEN", "a-secret-token")
    run("notifications", "add", "bot", "--kind", "telegram", "--chat", "7", "--token-env", "BOT_TOKEN", "--answer")
    assert listed()["receiver"]["token"] == {"fromEnv": "BOT_TOKEN"}  # type: ignore[index]
    run("notifications", "remove", "bot")
    run("notifications", "add", "team", "--kind", "slack", "--url-file", "url")
    assert listed()["receiver"]["secretUrl"] == {"file": str(tmp_path / "url")}  # type: ignore[index]
    with pytest.raises(click.UsageError, match="Use only one of --token-env"):
        run(*("notifications", "add", "b", "--kind", "ntfy", "--topic", "t", "--token-env", "A", "--token-file", "B"))


def test_a_receiver_that_cannot_work_is_refused_by_its_options() -> None:
    with pytest.raises(UnderstudyError, match="--url is not encrypted"):
        run("notifications", "add", "hook", "--kind", "webhook", "--url", "http://example.org/")


def test_an_unknown_name_is_a_typed_error() -> None:
    run("notifications", "add", "desk", "--kind", "desktop")
    with pytest.raises(UnderstudyError) as caught:
        run("notifications", "test", "dest")
    assert (caught.value.kind, caught.value.hint) == (ErrorKind.UNKNOWN_NOTIFICATION, "Did you mean 'desk'?")


def test_private_addresses_are_refused() -> None:
    run("notifications", "add", "hook", "--kind", "webhook", "--url", "https://127.0.0.1:9/")
    with pytest.raises(UnderstudyError) as caught:
        run("notifications", "test", "hook")
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED
