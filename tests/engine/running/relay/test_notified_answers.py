"""A question is answered from a notification: with a code that counts once, for this question only."""

from __future__ import annotations

import socket
import threading

import pytest
from receiver_server import serving

from understudy.engine.running import notified_answers
from understudy.engine.running.notified_answers import Code
from understudy.journal import delegation_folder
from understudy.model.config.delegators import KeyReference
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.delegation import events
from understudy.runners.backends.http.http_client import Line

QUESTION = [{"call": "ask_human", "arguments": {"question": "Which database?", "choices": ["sqlite", "dbm"]}}]
CODES = [{"call": "ask_human", "arguments": {"question": name, "choices": ["yes"]}} for name in ("First?", "Second?")]


@pytest.fixture
def server():
    with serving() as place:
        yield place


@pytest.fixture(autouse=True)
def _token(monkeypatch):
    monkeypatch.setenv("BOT", "bot-token")


def add(project, server, kind, **fields):
    receiver = {
        "name": "phone", "kind": kind, "url": server.url, "allowPrivate": ["127.0.0.1"], "events": ["question"],
        "answer": True, **({"topic": "mine"} if kind == "ntfy" else {"chat": "7", "token": {"fromEnv": "BOT"}}),
    }  # fmt: skip
    project.call("notifications/create", receiver=receiver | fields)


def answers(project, identifier):
    return [
        (event.option, event.by) for event in project.events(identifier) if isinstance(event, events.PermissionAnswered)
    ]


def log_of(identifier):
    return (delegation_folder.open_folder(identifier).path / "worker.log").read_text()


def open_codes():
    return list((delegation_folder.state_root() / "notifications" / "codes").iterdir())


def test_a_button_of_ntfy_answers(project, relayed, said, server):
    add(project, server, "ntfy")
    relayed("inquirer", QUESTION)
    identifier = project.start("implement", delegator="inquirer", task="x")
    actions = server.next().json["actions"]
    assert [action["label"] for action in actions] == ["sqlite", "dbm", "Do not answer"]
    topic = actions[0]["url"].rpartition("/")[2]
    assert server.polls.get(timeout=30).path == f"/{topic}/json?since=all"
    server.publish(topic, "a guess")
    server.publish(topic, actions[1]["body"])
    server.publish(topic, actions[0]["body"])
    project.finish(identifier)
    assert [made["answer"] for made in said(identifier)] == [{"status": "answered", "answer": "dbm"}]
    assert answers(project, identifier) == [("choice2", "notification phone")]
    assert "ignored an answer from phone: its code is wrong" in log_of(identifier)
    assert not {action["body"] for action in actions} & set(log_of(identifier).split())


def test_a_button_of_telegram_answers_only_in_its_chat(project, relayed, said, server):
    add(project, server, "telegram")
    relayed("inquirer", QUESTION)
    identifier = project.start("implement", delegator="inquirer", task="x")
    keyboard = server.next().json["reply_markup"]["inline_keyboard"]
    codes = [row[0]["callback_data"] for row in keyboard]
    server.press(codes[1], chat=8)
    server.press(codes[0])
    project.finish(identifier)
    assert [made["answer"] for made in said(identifier)] == [{"status": "answered", "answer": "sqlite"}]
    confirmed = server.next()
    assert confirmed.path.endswith("/answerCallbackQuery")
    assert confirmed.json == {"callback_query_id": "p2", "text": "Answered."}


def test_the_code_of_a_question_that_is_over_is_ignored(project, relayed, said, server):
    add(project, server, "telegram")
    relayed("inquirer", CODES)
    identifier = project.start("implement", delegator="inquirer", task="x")
    first = server.next().json["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
    asking = project.until(identifier, lambda delegation: delegation.waiting_for is not None).waiting_for
    project.call("delegations/answer", id=identifier, requestId=asking.request_id, option="decline")
    second = server.next().json["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
    server.press(first)
    assert server.next().json["text"] == "This question is no longer open."
    server.press(second)
    project.finish(identifier)
    assert answers(project, identifier) == [("decline", "cli"), ("choice1", "notification phone")]
    assert "its code is wrong, was used, or came too late" in log_of(identifier)


def test_without_answer_there_are_no_buttons_and_no_one_listens(project, relayed, server):
    add(project, server, "ntfy", answer=False)
    relayed("inquirer", QUESTION)
    identifier = project.start("implement", delegator="inquirer", task="x")
    assert server.next().json["actions"] == []
    project.call("delegations/cancel", id=identifier)
    project.finish(identifier)
    assert server.polls.empty()


def test_a_code_counts_once_for_its_receiver_and_its_question(project, relayed):
    root = delegation_folder.state_root()
    relayed("inquirer", QUESTION)
    identifier = project.start("implement", delegator="inquirer", task="x")
    asking = project.until(identifier, lambda delegation: delegation.waiting_for is not None).waiting_for
    until = "2999-01-01T00:00:00Z"
    right = notified_answers.issue(root, Code("phone", identifier, asking.request_id, "choice1", until))
    late = notified_answers.issue(root, Code("phone", identifier, "q0-abcdef", "choice1", until))
    wrong = notified_answers.issue(root, Code("phone", identifier, asking.request_id, "choice9", until))
    expired = notified_answers.issue(root, Code("phone", identifier, asking.request_id, "choice1", "2020-01-01"))
    assert "is wrong" in notified_answers.use(root, "other", right)
    assert "not waiting for an answer to 'q0-abcdef'" in notified_answers.use(root, "phone", late)
    assert "may not be chosen" in notified_answers.use(root, "phone", wrong)
    fresh = notified_answers.issue(root, Code("phone", identifier, asking.request_id, "choice2", until))
    assert "is wrong" in notified_answers.use(root, "phone", expired)
    assert notified_answers.use(root, "phone", right).startswith("answered ")
    assert "is wrong, was used" in notified_answers.use(root, "phone", right)
    assert "ignored" in notified_answers.use(root, "phone", fresh)
    project.finish(identifier)
    assert answers(project, identifier) == [("choice1", "notification phone")]
    assert open_codes() == []


@pytest.mark.parametrize("update", [{"update_id": "x"}, {"update_id": 1, "callback_query": 7}, "nothing"])
def test_a_bot_that_talks_nonsense_is_given_up(monkeypatch, server, update):
    server.updates.append(update)
    monkeypatch.setattr(server, "updates_from", lambda _: server.updates)
    receiver = NotificationReceiver(
        name="phone", kind="telegram", url=server.url, allow_private=["127.0.0.1"], chat="7",
        token=KeyReference(from_env="BOT"),
    )  # fmt: skip
    assert heard(monkeypatch, receiver) == ["cannot hear answers from phone: The answer is not Telegram's"] * 3


def test_a_server_that_ends_each_connection_is_given_up(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up():
            for _ in range(3):
                listening.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        receiver = NotificationReceiver(name="phone", kind="ntfy", url=url, allow_private=["127.0.0.1"], topic="x")
        assert heard(monkeypatch, receiver) == ["cannot hear answers from phone: The connection to 127.0.0.1 broke"] * 3
        thread.join()


def heard(monkeypatch, receiver):
    """Listen until it is given up, and return the beginnings of what is logged."""
    monkeypatch.setattr(notified_answers, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(notified_answers, "MOST_FAILURES", 3)
    logged = []
    notified_answers.listen(delegation_folder.state_root(), receiver, "back", Line(), logged.append)
    assert "bot-token" not in str(logged)
    return [text.partition(" (")[0] if "broke" in text else ":".join(text.split(":")[:2]) for text in logged]
