"""Test that the editor shows running delegations as progress, and a message when they finish."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wait_until import until

START = "understudy/delegations/start"
CREATE = "window/workDoneProgress/create"
PROGRESS = "$/progress"
ASK = "window/showMessageRequest"
SAY = "window/showMessage"
WAITS = ({"phase": "Reading the code"}, {"hang": True})
WRITES = ({"phase": "Writing"}, {"write": "notes.md", "text": "Notes.\n"}, {"say": "Done."}, {"result": True})
STEPS = (
    {
        "event": {
            "type": "plan",
            "entries": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}],
        }
    },
    {"phase": "Half of it"},
    {"hang": True},
)


def run(editor: Any, workshop: Any, recipe: str = "docs", **params: Any) -> str:
    given = {"recipe": recipe, "files": [(workshop.top / "calc.py").as_uri()], **params}
    found = editor.ask("workspace/executeCommand", {"command": START, "arguments": [given]})
    return found["id"]


def reports(editor: Any, token: Any = None) -> list[dict[str, Any]]:
    return [one["value"] for one in editor.all_of(PROGRESS) if token in {None, one["token"]}]


def ends(editor: Any) -> list[dict[str, Any]]:
    return [value for value in reports(editor) if value["kind"] == "end"]


def is_kind(kind: str) -> Callable[[Any], bool]:
    return lambda params: params["value"]["kind"] == kind


def test_a_delegation_has_one_token_from_beginning_to_end(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *WRITES)
    editor.begin(workshop.top)
    editor.answers[ASK] = lambda _: None
    identifier = run(editor, workshop)
    ended = editor.wait_for_method(PROGRESS, is_kind("end"))
    (created,) = editor.all_of(CREATE)
    token = created["token"]
    assert isinstance(token, str)
    assert identifier in token
    found = reports(editor, token)
    assert [value["kind"] for value in found][:1] == ["begin"]
    assert found[0]["title"].startswith("quick: ")
    assert found[0]["cancellable"] is True
    assert "percentage" not in found[0], "nothing is known of how much there is"
    assert [value["kind"] for value in found].count("end") == 1
    assert ended["value"]["message"] == "unverified: no required check ran"
    assert {one["token"] for one in editor.all_of(PROGRESS)} == {token}
    message = editor.wait_for_method(ASK)
    assert message["type"] == 2
    assert "is unverified: no required check ran." in message["message"]
    assert "1 change waits in 1 file for your decision." in message["message"]
    assert [item["title"] for item in message["actions"]] == ["Review"]
    run(editor, workshop)
    until(lambda: len(ends(editor)) == 2)
    first, second = editor.all_of(CREATE)
    assert first != second


def test_checking_again_has_its_own_progress(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *WRITES)
    (workshop.config / "config.toml").write_text('[[checks]]\nname = "slow"\nargv = ["sleep", "1"]\n')
    editor.begin(workshop.top)
    identifier = run(editor, workshop, checks=["slow"])
    until(lambda: len(ends(editor)) == 1)
    editor.notify("window/workDoneProgress/cancel", {"token": editor.all_of(CREATE)[0]["token"]})
    again = editor.request("understudy/delegations/check", {"id": identifier})
    shown = editor.wait_for_method(PROGRESS, lambda params: params["token"] != editor.all_of(CREATE)[0]["token"])
    assert "checking" in shown["value"]["message"]
    assert editor.result_of(again)["verdict"] != "cancelled", "the old token must have no effect"
    until(lambda: len(ends(editor)) == 2)
    assert len(editor.all_of(CREATE)) == 2


def test_cancelling_the_progress_cancels_the_delegation(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *STEPS)
    editor.begin(workshop.top)
    identifier = run(editor, workshop)
    shown = editor.wait_for_method(PROGRESS, lambda params: "Half of it" in params["value"].get("message", ""))
    assert re.search(r"running · Half of it · \d+:\d\d", shown["value"]["message"])
    assert shown["value"]["percentage"] == 50
    editor.notify("window/workDoneProgress/cancel", {"token": "unknown"})
    time_told = len(reports(editor))
    until(lambda: len(reports(editor)) >= time_told + 3)
    # When a report arrives depends on what else the machine does; what it says depends on when it was sent.
    elapsed = [re.search(r"(\d+):(\d\d)$", value["message"]).groups() for value in reports(editor)[time_told:]]
    seconds = [60 * int(minutes) + int(rest) for minutes, rest in elapsed]
    assert seconds == sorted(set(seconds)), "the elapsed time is reported at most once a second"
    editor.notify("window/workDoneProgress/cancel", {"token": shown["token"]})
    editor.notify("window/workDoneProgress/cancel", {"token": shown["token"]})
    ended = editor.wait_for_method(PROGRESS, is_kind("end"))
    assert ended["value"]["message"].startswith("cancelled: ")
    assert workshop.call("delegations/get", id=identifier).verdict == "cancelled"
    told = editor.wait_for_method(SAY, lambda params: "cancelled" in params["message"])
    assert told["type"] == 3
    assert f"understudy show {identifier}" in told["message"]
    assert len(ends(editor)) == 1


def test_many_events_cause_few_reports(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *({"phase": f"Step {number}"} for number in range(2000)), {"hang": True})
    editor.begin(workshop.top)
    began = time.monotonic()
    run(editor, workshop)
    editor.wait_for_method(PROGRESS, lambda params: "Step 1999" in params["value"].get("message", ""))
    found = len(reports(editor))
    assert found < 8 + 2.5 * (time.monotonic() - began), "two a second, and one for each change of state"


def test_the_token_that_the_client_chose_is_used(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *WRITES)
    editor.begin(workshop.top, capabilities={})
    run(editor, workshop, workDoneToken="mine")
    editor.wait_for_method(PROGRESS, is_kind("end"))
    assert editor.all_of(CREATE) == []
    assert {one["token"] for one in editor.all_of(PROGRESS)} == {"mine"}
    assert [value["kind"] for value in reports(editor)].count("begin") == 1


def test_a_client_that_refuses_a_token_gets_no_progress(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *WRITES)
    editor.begin(workshop.top)
    del editor.answers[CREATE]
    run(editor, workshop)
    editor.wait_for_method(ASK)
    assert editor.all_of(PROGRESS) == []
    assert len(editor.all_of(CREATE)) == 1


def test_a_client_that_lost_the_request_for_a_token_is_asked_again(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *WAITS)
    editor.begin(workshop.top)
    lost: list[str] = []

    def lose_the_first(params: Any) -> Any:
        lost.append(params["token"])
        return sys.modules[type(editor).__module__].NO_ANSWER if len(lost) == 1 else None

    editor.answers[CREATE] = lose_the_first
    identifier = run(editor, workshop)
    editor.wait_for_method(PROGRESS, is_kind("begin"))
    assert {one["token"] for one in editor.all_of(PROGRESS)} == {lost[1]} != {lost[0]}
    editor.ask("understudy/delegations/cancel", {"id": identifier})
    editor.wait_for_method(PROGRESS, is_kind("end"))


def test_a_client_that_cannot_show_documents_gets_the_path(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *WRITES)
    editor.begin(workshop.top, capabilities={})
    identifier = run(editor, workshop)
    told = editor.wait_for_method(SAY, lambda params: "unverified" in params["message"])
    assert f"understudy review {identifier}" in told["message"]
    assert "review.diff" in told["message"]
    assert editor.all_of(CREATE) == editor.all_of(PROGRESS) == editor.all_of(ASK) == []


@pytest.mark.parametrize("name", ["Neovim", "emacs", "Eglot", None])
def test_a_result_does_not_interrupt_typing(workshop: Any, editor: Any, name: str | None) -> None:
    """If buttons would take the keyboard focus, a message without them names the file."""
    workshop.agent("quick", *WRITES)
    editor.begin(workshop.top, clientInfo={"name": name} if name else None)
    identifier = run(editor, workshop)
    told = editor.wait_for_method(SAY, lambda params: "unverified" in params["message"])
    assert f"{identifier}/review.diff" in told["message"]
    assert editor.all_of(ASK) == []
    assert len(ends(editor)) == 1


def test_a_subscribed_client_receives_only_events(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *WRITES)
    editor.begin(workshop.top)
    editor.ask("understudy/delegations/subscribe", {})
    run(editor, workshop)
    editor.wait_for_method("understudy/event", lambda params: params["events"][-1]["type"] == "finished")
    assert editor.all_of(CREATE) == editor.all_of(PROGRESS) == editor.all_of(ASK) == editor.all_of(SAY) == []


def test_subscribing_ends_what_was_shown(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *WAITS)
    editor.begin(workshop.top)
    run(editor, workshop)
    editor.wait_for_method(PROGRESS, is_kind("begin"))
    editor.ask("understudy/delegations/subscribe", {})
    editor.wait_for_method(PROGRESS, is_kind("end"))
    assert len(ends(editor)) == 1


def test_delegations_of_other_processes_are_shown_if_their_folder_is_open(
    workshop: Any, editor: Any, tmp_path: Path
) -> None:
    other = workshop.repository(tmp_path / "other")
    workshop.trust(other)
    workshop.agent("quick", *WAITS)
    editor.begin(other)
    identifier = workshop.start("docs", "calc.py")
    here = workshop.start("docs", str(other / "calc.py"))
    begun = editor.wait_for_method(PROGRESS, is_kind("begin"))
    assert here in begun["token"]
    until(lambda: workshop.call("delegations/get", id=identifier).activity == "Reading the code")
    assert len(editor.all_of(CREATE)) == 1, "the other folder is not open"
    folder = {"uri": workshop.top.as_uri(), "name": "project"}
    editor.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [folder], "removed": []}})
    shown = editor.wait_for_method(PROGRESS, lambda params: identifier in params["token"])
    assert shown["value"]["kind"] == "begin"
    editor.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": [folder]}})
    gone = editor.wait_for_method(PROGRESS, lambda params: identifier in params["token"] and is_kind("end")(params))
    assert gone["value"]["message"] == "no longer shown here"
    workshop.call("delegations/cancel", id=here)
    editor.wait_for_method("window/logMessage", lambda params: here in params["message"])
    assert editor.all_of(SAY) == editor.all_of(ASK) == [], "its end is reported in the editor that started it"


def test_a_new_editor_shows_what_still_runs(workshop: Any, editor: Any, start_editor: Callable[..., Any]) -> None:
    workshop.agent("quick", *WAITS)
    editor.begin(workshop.top)
    identifier = run(editor, workshop)
    editor.wait_for_method(PROGRESS, lambda params: "Reading" in params["value"].get("message", ""))
    editor.process.kill()
    again = start_editor()
    again.begin(workshop.top)
    shown = again.wait_for_method(PROGRESS, lambda params: "Reading" in params["value"].get("message", ""))
    again.notify("window/workDoneProgress/cancel", {"token": shown["token"]})
    again.wait_for_method(PROGRESS, is_kind("end"))
    assert workshop.call("delegations/get", id=identifier).verdict == "cancelled"


def test_review_opens_the_diff(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *WRITES)
    editor.begin(workshop.top)
    editor.answers[ASK] = lambda params: params["actions"][0]
    identifier = run(editor, workshop)
    shown = editor.wait_for_method("window/showDocument")
    assert shown["uri"].endswith(f"{identifier}/review.diff")


def test_a_failure_says_what_happened_and_what_to_do(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", "crash")
    editor.begin(workshop.top)
    identifier = run(editor, workshop)
    told = editor.wait_for_method(SAY, lambda params: "failed" in params["message"])
    assert told["type"] == 1
    assert "the model server went away" in told["message"]
    assert f"understudy show {identifier}" in told["message"]


@pytest.mark.parametrize("capable", [True, False])
def test_an_answer_is_shown_as_a_document(workshop: Any, start_editor: Callable[..., Any], capable: bool) -> None:
    text = "It adds two numbers.\n" * 100
    workshop.agent("quick", {"say": text}, {"result": True})
    editor = start_editor()
    editor.answers[ASK] = lambda params: params["actions"][0]
    window = {"showDocument": {"support": True}, "showMessage": {"messageActionItem": {}}}
    editor.begin(workshop.top, capabilities={"window": window if capable else {}})
    identifier = run(editor, workshop, "explain")
    if capable:
        shown = editor.wait_for_method("window/showDocument")
        assert Path(shown["uri"].removeprefix("file://")).read_text().strip() == text.strip()
        assert [item["title"] for item in editor.all_of(ASK)[0]["actions"]] == ["Show the answer"]
    else:
        told = editor.wait_for_method(SAY)
        assert "answered: the model answered." in told["message"]
        assert f"understudy show {identifier}" in told["message"]
        assert "It adds two numbers." in told["message"]
        assert len(told["message"]) < 1000


def test_unused_client_notifications_are_ignored(workshop: Any, editor: Any) -> None:
    editor.begin(workshop.top)
    editor.notify("workspace/didChangeConfiguration", {"settings": {"understudy": {"x": 1}}})
    editor.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": "file:///x", "type": 2}]})
    assert editor.ask("understudy/version")["protocolVersion"] == 2
    assert editor.all_of(SAY) == editor.all_of("window/logMessage") == []
    assert editor.errors == b""
