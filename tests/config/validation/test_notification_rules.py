"""Receivers of notifications that cannot work, or would disclose a secret, are refused."""

from __future__ import annotations

import pytest

from understudy.config.validation.notification_rules import check_receiver
from understudy.model.config.delegators import KeyReference, Scope
from understudy.model.config.notifications import NotificationReceiver

TOKEN = KeyReference(from_env="TOKEN")


def problems(scope=Scope.USER, **fields):
    return [finding.message for finding in check_receiver(NotificationReceiver(name="x", **fields), scope)]


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "desktop"},
        {"kind": "webhook", "url": "https://example.org/in", "token": TOKEN},
        {"kind": "webhook", "url": "http://10.0.0.1/", "allow_private": ["10.0.0.1"]},
        {"kind": "webhook", "secret_url": TOKEN},
        {"kind": "ntfy", "topic": "abc", "answer": True},
        {"kind": "slack", "secret_url": TOKEN},
        {"kind": "telegram", "chat": "-100123", "token": TOKEN, "answer": True},
    ],
)
def test_these_work(fields):
    assert problems(**fields) == []


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"kind": "desktop", "url": "https://example.org/"}, "`url` has no effect"),
        ({"kind": "slack", "secret_url": TOKEN, "answer": True}, "`answer` has no effect"),
        ({"kind": "webhook"}, "either `url` or `secret_url`"),
        ({"kind": "webhook", "url": "https://x.org/", "secret_url": TOKEN}, "either `url` or `secret_url`"),
        ({"kind": "webhook", "url": "https://example.org/?token=abc"}, "contains a key or password"),
        ({"kind": "webhook", "url": "https://ada:pw@example.org/"}, "contains a key or password"),
        ({"kind": "webhook", "url": "http://example.org/"}, "not encrypted"),
        ({"kind": "webhook", "url": "example.org"}, "not an http or https URL"),
        ({"kind": "ntfy"}, "needs `topic`"),
        ({"kind": "ntfy", "topic": "a/b"}, "A topic has"),
        ({"kind": "slack"}, "needs `secret_url`"),
        ({"kind": "telegram", "token": TOKEN}, "needs `chat`"),
        ({"kind": "telegram", "token": TOKEN, "chat": "ada"}, "number of a chat"),
        ({"kind": "telegram", "token": TOKEN, "chat": "@news", "answer": True}, "a channel"),
        ({"kind": "telegram", "token": KeyReference(), "chat": "1"}, "exactly one of"),
        ({"kind": "desktop", "events": []}, "`events` is empty"),
        ({"kind": "desktop", "workspaces": ["calc"]}, "not an absolute path"),
        ({"kind": "ntfy", "topic": "a", "allow_private": ["a host"]}, "not a host"),
    ],
)
def test_these_are_refused(fields, word):
    assert any(word in message for message in problems(**fields)), problems(**fields)


def test_a_workspace_sends_nothing():
    assert problems(Scope.WORKSPACE, kind="desktop") == ["A workspace cannot send notifications."]
