"""Each kind of receiver is called in its own way, and tried again only where it did not get the notification."""

from __future__ import annotations

import json
import logging
import stat
import sys

import pytest
from receiver_server import serving

from understudy.integrations.notifications import receivers
from understudy.integrations.notifications.message import Button, Message
from understudy.model.config.delegators import KeyReference
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.errors import ErrorKind, UnderstudyError

SECRET = "T0ken-of-a-bot"
MESSAGE = Message(event="question", title="Question: Wrap <text>", text="The agent asks & waits.", key="k-1")
BUTTONS = [Button("Allow once", "allow", "code-1"), Button("Reject", "reject", "code-2")]


@pytest.fixture
def server():
    with serving() as place:
        yield place


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("THE_TOKEN", SECRET)


def receiver(kind, **fields):
    return NotificationReceiver(name="r", kind=kind, allow_private=["127.0.0.1"], **fields)


def deliver(one, **options):
    receivers.deliver(one, MESSAGE, pauses=(0.0, 0.0), **options)


def test_a_webhook_gets_json_with_a_key_that_is_the_same_for_each_try(server):
    server.answers = [(503, {}), (429, {"Retry-After": "0"})]
    deliver(receiver("webhook", url=f"{server.url}/in?a=b", token=KeyReference(from_env="THE_TOKEN")))
    tries = [server.next() for _ in range(3)]
    assert {one.path for one in tries} == {"/in?a=b"}
    assert {one.headers["Authorization"] for one in tries} == {f"Bearer {SECRET}"}
    assert {one.headers["Idempotency-Key"] for one in tries} == {"k-1"}
    assert tries[0].json == {"event": "question", "title": MESSAGE.title, "text": MESSAGE.text, "key": "k-1"}


def test_slack_gets_its_own_escapes_at_a_secret_url(server, tmp_path):
    file = tmp_path / "url"
    file.write_text(f"{server.url}/services/x\n")
    file.chmod(0o600)
    deliver(receiver("slack", secret_url=KeyReference(file=str(file))))
    got = server.next()
    assert got.path == "/services/x"
    assert got.json == {"text": "Question: Wrap &lt;text&gt;\nThe agent asks &amp; waits."}


def test_ntfy_gets_buttons_that_publish_their_code(server):
    deliver(receiver("ntfy", url=server.url, topic="mine"), buttons=BUTTONS, reply_topic="back")
    got = server.next()
    assert (got.path, got.json["topic"], got.json["priority"]) == ("/", "mine", 4)
    assert [(one["label"], one["url"], one["body"]) for one in got.json["actions"]] == [
        ("Allow once", f"{server.url}/back", "code-1"),
        ("Reject", f"{server.url}/back", "code-2"),
    ]
    assert "Authorization" not in got.headers


def test_telegram_gets_a_keyboard_and_no_log_gets_the_token(server, caplog):
    caplog.set_level(logging.DEBUG)
    one = receiver("telegram", url=server.url, chat="7", token=KeyReference(from_env="THE_TOKEN"))
    deliver(one, buttons=BUTTONS)
    got = server.next()
    assert got.path == f"/bot{SECRET}/sendMessage"
    assert got.json["chat_id"] == "7"
    assert got.json["reply_markup"]["inline_keyboard"][0] == [{"text": "Allow once", "callback_data": "code-1"}]
    server.answers = [(401, {})]
    with pytest.raises(UnderstudyError) as caught:
        deliver(one)
    assert caught.value.kind is ErrorKind.AUTH_FAILED
    assert SECRET not in caplog.text + caught.value.message


@pytest.mark.skipif(sys.platform != "linux", reason="osascript on macOS")
def test_the_desktop_shows_it(tmp_path, monkeypatch):
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/shown\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    receivers.deliver(NotificationReceiver(name="desk", kind="desktop"), MESSAGE)
    shown = (tmp_path / "shown").read_text().splitlines()
    assert shown == ["--app-name=Understudy", "--", MESSAGE.title, MESSAGE.text]
    program.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(UnderstudyError, match="notify-send exited with code 1"):
        receivers.deliver(NotificationReceiver(name="desk", kind="desktop"), MESSAGE)


@pytest.mark.parametrize(
    ("status", "kind", "tries"),
    [
        (302, ErrorKind.BAD_REQUEST, 1),
        (404, ErrorKind.BAD_REQUEST, 1),
        (403, ErrorKind.AUTH_FAILED, 1),
        (500, ErrorKind.OVERLOADED, 1),  # it may have been received
        (503, ErrorKind.OVERLOADED, 3),
    ],
)
def test_what_may_have_been_received_is_not_sent_again_and_no_redirect_is_followed(server, status, kind, tries):
    server.answers = [(status, {"Location": f"{server.url}/elsewhere"})] * 4
    with pytest.raises(UnderstudyError) as caught:
        deliver(receiver("webhook", url=server.url))
    assert caught.value.kind is kind
    assert [one.path for one in server.received.queue] == ["/"] * tries


def test_a_receiver_that_wants_a_long_pause_is_not_waited_for(server):
    server.answers = [(429, {"Retry-After": "3600"})]
    with pytest.raises(UnderstudyError) as caught:
        deliver(receiver("webhook", url=server.url))
    assert caught.value.kind is ErrorKind.RATE_LIMITED
    assert server.received.qsize() == 1


def test_a_secret_that_is_not_there_names_its_place(server, monkeypatch):
    monkeypatch.delenv("THE_TOKEN")
    with pytest.raises(UnderstudyError, match="THE_TOKEN") as caught:
        deliver(receiver("webhook", url=server.url, token=KeyReference(from_env="THE_TOKEN")))
    assert caught.value.kind is ErrorKind.SECRET_WITHHELD
    assert server.received.empty()
    assert SECRET not in json.dumps(caught.value.message)
