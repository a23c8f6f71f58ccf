"""Test permission requests in the editor: one at a time, with a deadline, and the first answer counts."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wait_until import until

from understudy.journal import worker_files
from understudy.model.delegation import events as e
from understudy.model.delegation.delegations import PermissionOption
from understudy.model.verdicts import Verdict

ASK = "window/showMessageRequest"
SAY = "window/showMessage"
RUNNERS = Path(__file__).parents[3] / "runners"
OPTIONS = [
    PermissionOption(id="opt-always", title="Yes, and never ask again", kind="allow_always"),
    PermissionOption(id="opt-yes", title="Yes", kind="allow_once"),
    PermissionOption(id="opt-no", title="No", kind="reject_once"),
    PermissionOption(id="opt-never", title="Never", kind="reject_always"),
]


def asks(writer: Any, number: int = 1, title: str = "Run `rm -rf build`?") -> None:
    question = e.Permission(
        request_id=f"q{number}", title=title, detail="rm -rf build", options=OPTIONS, deadline_action="opt-no"
    )
    writer.append(question, attempt=1)
    writer.flush_summary()


def is_answered(writer: Any, number: int = 1, option: str = "opt-no", by: str = "cli") -> None:
    writer.append(e.PermissionAnswered(request_id=f"q{number}", option=option, by=by), attempt=1)
    writer.flush_summary()


@pytest.fixture
def running(workshop: Any, journal: Callable[..., Any]) -> Callable[[], Any]:
    """Start delegations whose worker is this test."""

    def begin() -> Any:
        writer = journal(workspace=str(workshop.top))
        writer.append(e.Started(delegator="quick", model="m", reason="you asked"), attempt=1)
        writer.flush_summary()
        return writer

    return begin


def answers_to(writer: Any) -> list[tuple[str, str, str]]:
    given = [item for item in worker_files.read_requests(writer.folder) if isinstance(item, worker_files.Answer)]
    return [(one.request_id, one.option, one.by) for one in given]


def keep_open(editor: Any) -> None:
    """Leave questions open until the test answers them."""
    no_answer = sys.modules[type(editor).__module__].NO_ANSWER
    editor.answers[ASK] = lambda _: no_answer


def question(editor: Any, number: int) -> dict[str, Any]:
    """Wait for the question with this number, from 0, and return its message."""

    def those() -> list[dict[str, Any]]:
        with editor.changed:
            return [message for message in editor.heard if message.get("method") == ASK]

    until(lambda: len(those()) > number)
    return those()[number]


def reply(editor: Any, to: dict[str, Any], title: str | None) -> None:
    result = None if title is None else {"title": title}
    editor.send({"jsonrpc": "2.0", "id": to["id"], "result": result})


def test_a_question_offers_later_first_and_nothing_permanent(
    workshop: Any, running: Callable[[], Any], editor: Any
) -> None:
    writer = running()
    editor.begin(workshop.top)
    editor.answers[ASK] = lambda params: params["actions"][1]
    asks(writer)
    put = editor.wait_for_method(ASK)
    assert [item["title"] for item in put["actions"]] == ["Later", "Yes", "No"]
    assert put["message"] == "quick asks for permission in “Write tests: wrap.py”: Run `rm -rf build`?\n\nrm -rf build"
    until(lambda: answers_to(writer))
    assert answers_to(writer) == [("q1", "opt-yes", "lsp")]
    is_answered(writer, option="opt-yes", by="lsp")
    asks(writer, 2, title="And now?")
    assert "And now?" in question(editor, 1)["params"]["message"]


@pytest.mark.parametrize("how", ["later", "null", "error", "strange"])
def test_a_dismissed_question_is_not_an_answer(
    workshop: Any, running: Callable[[], Any], editor: Any, how: str
) -> None:
    writer = running()
    editor.begin(workshop.top)
    answers = {"later": {"title": "Later"}, "null": None, "strange": {"title": "Yes, and never ask again"}}
    if how != "error":
        editor.answers[ASK] = lambda _: answers[how]
    asks(writer)
    editor.wait_for_method(
        SAY if how == "later" else "window/logMessage",
        lambda params: f"understudy answer {writer.folder.id}" in params["message"],
    )
    assert answers_to(writer) == []
    assert len(editor.all_of(ASK)) == 1
    asks(writer)
    editor.ask("understudy/version")
    assert len(editor.all_of(ASK)) == 1, "the same question is not asked twice"


def test_one_question_at_a_time(workshop: Any, running: Callable[[], Any], editor: Any) -> None:
    first, second = running(), running()
    editor.begin(workshop.top)
    keep_open(editor)
    asks(first, title="First?")
    one = question(editor, 0)
    asks(second, title="Second?")
    until(lambda: workshop.call("delegations/get", id=second.folder.id).waiting_for)
    editor.wait_for_method("$/progress", lambda params: "asks: Second?" in str(params["value"].get("message")))
    assert len(editor.all_of(ASK)) == 1
    reply(editor, one, "No")
    two = question(editor, 1)
    assert "Second?" in two["params"]["message"]
    assert answers_to(first) == [("q1", "opt-no", "lsp")]
    reply(editor, two, "Yes")
    until(lambda: answers_to(second))


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("cli", "was already answered with “No” (by cli)"),
        ("deadline", "was answered automatically at its deadline, with “No”"),
    ],
)
def test_a_late_answer_is_reported_and_the_next_question_is_asked(
    workshop: Any, running: Callable[[], Any], editor: Any, by: str, words: str
) -> None:
    first, second = running(), running()
    editor.begin(workshop.top)
    keep_open(editor)
    asks(first)
    one = question(editor, 0)
    asks(second, title="Second?")
    workshop.call("delegations/answer", id=first.folder.id, requestId="q1", option="opt-no")
    is_answered(first, by=by)
    two = question(editor, 1)
    assert "Second?" in two["params"]["message"], "a request that was answered elsewhere must not block the next one"
    reply(editor, one, "Yes")
    told = editor.wait_for_method(SAY)
    assert told["type"] == 3
    assert words in told["message"]
    assert [option for _, option, _ in answers_to(first)] == ["opt-no"]


def test_a_client_without_buttons_gets_the_command(workshop: Any, running: Callable[[], Any], editor: Any) -> None:
    writer = running()
    editor.begin(workshop.top, capabilities={"window": {"showMessage": {}}})
    asks(writer)
    told = editor.wait_for_method(SAY)
    assert "Run `rm -rf build`?" in told["message"]
    assert f"understudy answer {writer.folder.id}" in told["message"]
    assert editor.all_of(ASK) == []


def test_a_subscribed_client_is_not_asked(workshop: Any, running: Callable[[], Any], editor: Any) -> None:
    writer = running()
    editor.begin(workshop.top)
    editor.ask("understudy/delegations/subscribe", {})
    asks(writer)
    editor.wait_for_method("understudy/event", lambda params: params["events"][-1]["type"] == "permission")
    is_answered(writer)
    writer.append(e.Finished(verdict=Verdict.NO_CHANGES, reservations=[]), attempt=1)
    editor.wait_for_method("understudy/event", lambda params: params["events"][-1]["type"] == "finished")
    assert editor.all_of(ASK) == editor.all_of(SAY) == []


def test_a_client_that_will_subscribe_gets_no_message_before(
    workshop: Any, running: Callable[[], Any], editor: Any
) -> None:
    writer = running()
    asks(writer)
    editor.begin(workshop.top, options={"subscribes": True})
    asks(running(), 2)
    editor.ask("understudy/delegations/list", {})
    editor.ask("understudy/delegations/subscribe", {"after": {}})
    editor.wait_for_method("understudy/event", lambda params: params["events"][-1]["type"] == "permission")
    assert editor.all_of(ASK) == editor.all_of(SAY) == []


def test_an_editor_that_connects_later_is_asked_too(workshop: Any, running: Callable[[], Any], editor: Any) -> None:
    writer = running()
    asks(writer)
    editor.answers[ASK] = lambda params: params["actions"][2]
    editor.begin(workshop.top)
    until(lambda: answers_to(writer))
    assert answers_to(writer) == [("q1", "opt-no", "lsp")]


def test_a_real_dialogue_continues_with_the_answer(workshop: Any, editor: Any, tmp_path: Path) -> None:
    """A recorded agent CLI asks twice, and waits for each answer of the user."""
    heard = tmp_path / "heard.jsonl"
    program = tmp_path / "programs" / "claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{RUNNERS / "replay.py"}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    folder = workshop.config / "delegators"
    folder.mkdir(parents=True)
    (folder / "recorded.toml").write_text(
        'name = "recorded"\ntool = "claude"\nmodel = "m"\n[env]\n'
        f'PATH = "{program.parent}:/usr/bin:/bin"\nREPLAY_HEARD = "{heard}"\n'
        f'REPLAY = "{RUNNERS / "recordings" / "claude" / "two_questions.jsonl"}"\n'
    )
    editor.begin(workshop.top)
    titles: list[str] = []

    def answer(params: Any) -> Any:
        if "asks for permission" not in params["message"]:
            return None
        titles.append(params["message"])
        return next(item for item in params["actions"] if item["title"] != "Later")

    editor.answers[ASK] = answer
    given = {"recipe": "implement", "files": [(workshop.top / "calc.py").as_uri()], "task": "Do it."}
    command = {"command": "understudy/delegations/start", "arguments": [given]}
    found = editor.ask("workspace/executeCommand", command)
    workshop.call("delegations/wait", id=found["id"], timeoutSeconds=60)
    events = workshop.call("delegations/events", id=found["id"]).events
    answered = [event for event in events if isinstance(event, e.PermissionAnswered)]
    assert [event.by for event in answered] == ["lsp"] * len(titles)
    assert len(titles) == 2, events


def test_a_question_of_an_agent_has_its_choices_and_names_the_command_for_a_text(
    workshop: Any, running: Callable[[], Any], editor: Any
) -> None:
    writer = running()
    editor.begin(workshop.top)
    editor.answers[ASK] = lambda params: params["actions"][2]
    options = [
        PermissionOption(id="choice1", title="SQLite", kind="allow_once"),
        PermissionOption(id="choice2", title="PostgreSQL", kind="allow_once"),
        PermissionOption(id="text", title="Answer with a text", kind="allow_once", takes_text=True),
        PermissionOption(id="decline", title="Do not answer", kind="reject_once"),
    ]
    asked = e.Permission(
        request_id="q1", title="Which?", detail="Which?", kind="question", options=options, deadline_action="decline"
    )
    writer.append(asked, attempt=1)
    writer.flush_summary()
    put = editor.wait_for_method(ASK)
    assert [item["title"] for item in put["actions"]] == ["Later", "SQLite", "PostgreSQL", "Do not answer"]
    command = f"Answer it in a terminal: understudy answer {writer.folder.id} TEXT"
    assert put["message"] == f"quick asks you in “Write tests: wrap.py”: Which?\n\n{command}"
    until(lambda: answers_to(writer))
    assert answers_to(writer) == [("q1", "choice2", "lsp")]
