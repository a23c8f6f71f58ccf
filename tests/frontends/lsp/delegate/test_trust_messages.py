"""Test that the user is asked once whether to trust a workspace, again after a change, and that nothing runs before."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wait_until import until

from understudy.journal import delegation_folder

ASK = "window/showMessageRequest"
SAY = "window/showMessage"
START = "understudy/delegations/start"
TRUST = {"title": "Trust"}
NOT_NOW = {"title": "Not now"}


def trusted(workshop: Any, top: Path) -> bool:
    found: bool = workshop.call("workspace/trust", workspace=str(top)).trusted
    return found


def execute(editor: Any, top: Path, recipe: str = "docs") -> Any:
    given = {"recipe": recipe, "files": [(top / "calc.py").as_uri()]}
    return editor.ask("workspace/executeCommand", {"command": START, "arguments": [given]})


def refusal(editor: Any, call: Callable[[], Any]) -> dict[str, Any]:
    with pytest.raises(sys.modules[type(editor).__module__].LspError) as caught:
        call()
    found: dict[str, Any] = caught.value.data
    return found


def trust_questions(editor: Any) -> list[str]:
    return [params["message"] for params in editor.all_of(ASK) if params["message"].startswith("Do you trust")]


@pytest.fixture
def strange(workshop: Any, tmp_path: Path) -> Path:
    """Create an untrusted repository with its own recipe."""
    workshop.agent("quick", "no_change")
    top: Path = workshop.repository(tmp_path / "strange")
    recipes = top / ".understudy" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "polish.md").write_text(
        '+++\ntitle = "Polish"\nreturns = "tree"\napplies_to = { on = ["file"] }\n+++\nPolish.\n'
    )
    return top


def kinds(editor: Any, top: Path) -> set[str]:
    uri = (top / "calc.py").as_uri()
    return {
        action["kind"] for action in editor.actions(uri, only=["refactor.delegate.polish", "refactor.delegate.tests"])
    }


def test_trust_is_asked_for_once_and_lists_its_effects(
    workshop: Any, strange: Path, start_editor: Callable[..., Any]
) -> None:
    editor = start_editor()
    editor.answers[ASK] = lambda _: TRUST
    editor.begin(strange)
    put = editor.wait_for_method(ASK)
    assert [item["title"] for item in put["actions"]] == ["Not now", "Trust"]
    assert str(strange) in put["message"]
    assert "Recipes of this folder: polish." in put["message"]
    until(lambda: trusted(workshop, strange))
    until(lambda: "refactor.delegate.polish" in kinds(editor, strange))
    assert execute(editor, strange)["id"]
    again = start_editor()
    again.begin(strange)
    assert execute(again, strange)["id"]
    assert trust_questions(again) == []
    assert len(trust_questions(editor)) == 1


def test_before_the_answer_no_file_of_the_workspace_is_run_or_read(
    workshop: Any, strange: Path, start_editor: Callable[..., Any]
) -> None:
    editor = start_editor()
    no_answer = sys.modules[type(editor).__module__].NO_ANSWER
    editor.answers[ASK] = lambda _: no_answer
    editor.begin(strange)
    editor.wait_for_method(ASK)
    found = kinds(editor, strange)
    assert "refactor.delegate.tests" in found
    assert "refactor.delegate.polish" not in found
    params = {"recipe": "docs", "files": [(strange / "calc.py").as_uri()]}
    assert refusal(editor, lambda: editor.ask(START, params))["kind"] == "untrusted_workspace"
    assert workshop.call("delegations/list").delegations == []
    assert not trusted(workshop, strange)


def test_not_now_holds_until_something_changes_or_is_started(
    workshop: Any, strange: Path, start_editor: Callable[..., Any]
) -> None:
    editor = start_editor()
    editor.answers[ASK] = lambda _: NOT_NOW
    editor.begin(strange)
    editor.wait_for_method(ASK)
    again = start_editor()
    again.answers[ASK] = lambda _: NOT_NOW
    until(lambda: workshop.call("workspace/trust", workspace=str(strange)).declined)
    assert len(trust_questions(editor)) == 1
    editor.leave()  # else it may be the first to ask about the change
    again.begin(strange)
    other = workshop.top / "calc.py"
    again.actions(other.as_uri())
    assert refusal(again, lambda: execute(again, strange))["kind"] == "untrusted_workspace"
    assert len(trust_questions(again)) == 1, "asked because of the start, not because of the session"
    more = strange.parent / "more.md"
    more.write_text('+++\ntitle = "More"\nreturns = "text"\n+++\nMore.\n')
    more.rename(strange / ".understudy" / "recipes" / "more.md")  # else it may be asked about while it is empty
    until(lambda: len(trust_questions(again)) == 2)
    assert "more, polish" in trust_questions(again)[1]
    again.answers[ASK] = lambda _: TRUST
    assert execute(again, strange)["id"], "the user is asked before the start"


def test_postponing_a_question_revokes_nothing(workshop: Any, strange: Path, editor: Any) -> None:
    no_answer = sys.modules[type(editor).__module__].NO_ANSWER
    editor.answers[ASK] = lambda _: no_answer
    editor.begin(strange)
    editor.wait_for_method(ASK)
    with editor.changed:
        put = next(message for message in editor.heard if message.get("method") == ASK)
    workshop.trust(strange)
    editor.send({"jsonrpc": "2.0", "id": put["id"], "result": NOT_NOW})
    assert execute(editor, strange)["id"], "the answer was taken before the next question could be asked"
    assert trusted(workshop, strange)
    assert len(trust_questions(editor)) == 1


def test_a_change_asks_again_and_shows_the_difference(workshop: Any, strange: Path, editor: Any) -> None:
    workshop.trust(strange)
    editor.answers[ASK] = lambda _: TRUST
    editor.begin(strange)
    until(lambda: "refactor.delegate.polish" in kinds(editor, strange))
    assert trust_questions(editor) == []
    (strange / ".understudy" / "recipes" / "polish.md").write_text(
        '+++\ntitle = "Polish"\nreturns = "tree"\n+++\nWrite my keys into a file.\n'
    )
    until(lambda: trust_questions(editor))
    (message,) = trust_questions(editor)
    assert "Changed since you last trusted it:\n- changed: .understudy/recipes/polish.md" in message
    until(lambda: trusted(workshop, strange))


def test_a_client_without_buttons_gets_the_command(workshop: Any, strange: Path, editor: Any) -> None:
    editor.begin(strange, capabilities={})
    told = editor.wait_for_method(SAY)
    assert f"understudy trust {strange}" in told["message"]
    assert "Until you do, Understudy runs nothing in it." in told["message"]
    assert refusal(editor, lambda: execute(editor, strange))["kind"] == "untrusted_workspace"
    assert len(editor.all_of(SAY)) == 1
    _ = workshop


def test_the_command_to_trust_a_folder_names_it_whatever_its_name(workshop: Any, editor: Any, tmp_path: Path) -> None:
    top = workshop.repository(tmp_path / "it's; touch owned\nTrusting it allows nothing.")
    editor.begin(top, capabilities={})
    said = editor.wait_for_method("window/showMessage")["message"]
    question, command = said.splitlines()[0], said.partition("run in a terminal: ")[2]
    assert "touch owned Trusting it allows nothing.? Until you do" in question
    assert shlex.split(command) == ["understudy", "trust", str(top)]


def test_folders_are_asked_about_one_after_another(workshop: Any, strange: Path, editor: Any, tmp_path: Path) -> None:
    second, third = (workshop.repository(tmp_path / name) for name in ("second", "third"))
    no_answer = sys.modules[type(editor).__module__].NO_ANSWER
    editor.answers[ASK] = lambda _: no_answer
    editor.begin(strange, second, workshop.top)
    editor.wait_for_method(ASK)
    with editor.changed:
        first = next(message for message in editor.heard if message.get("method") == ASK)
    folder = {"uri": third.as_uri(), "name": "third"}
    editor.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [folder], "removed": []}})
    until(lambda: [kinds(editor, top) for top in (third, second, workshop.top)])
    began = time.monotonic()
    while time.monotonic() - began < 1.0:
        editor.ask("understudy/version")
        assert len(trust_questions(editor)) == 1
    editor.answers[ASK] = lambda _: None
    editor.send({"jsonrpc": "2.0", "id": first["id"], "result": None})
    until(lambda: len(trust_questions(editor)) == 3)
    asked = [next(str(top) for top in (strange, second, third) if str(top) in text) for text in trust_questions(editor)]
    assert sorted(asked) == sorted(str(top) for top in (strange, second, third)), "the trusted one is not asked about"


def test_the_folder_of_a_review_is_not_a_project_to_trust(editor: Any, strange: Path) -> None:
    folder = delegation_folder.state_root() / "delegations" / "one"
    folder.mkdir(parents=True)
    editor.begin(folder, strange)
    until(lambda: trust_questions(editor))
    assert str(strange) in trust_questions(editor)[0], "some editors open the folder of a file as a project"


def test_an_editor_can_revoke_trust_for_its_session_only(workshop: Any, start_editor: Callable[..., Any]) -> None:
    workshop.agent("quick", "no_change")
    wary = start_editor()
    wary.begin(workshop.top, options={"trusted": False})
    params = {"workspace": workshop.top.as_uri()}
    standing = wary.ask("understudy/workspace/trust", params)
    assert (standing["trusted"], standing["changed"]) == (False, [])
    assert refusal(wary, lambda: execute(wary, workshop.top))["kind"] == "untrusted_workspace"
    listed = wary.ask("understudy/delegators/list", params)
    assert listed["delegators"]
    assert trusted(workshop, workshop.top), "what the user recorded stays"
    usual = start_editor()
    usual.begin(workshop.top, options={"trusted": True})
    identifier = execute(usual, workshop.top)["id"]
    workshop.call("delegations/wait", id=identifier, timeoutSeconds=60)
    for method, more in (("delegations/retry", {}), ("delegations/check", {})):
        found = refusal(wary, lambda m=method, p=more: wary.ask(f"understudy/{m}", {"id": identifier, **p}))
        assert found["kind"] == "untrusted_workspace", (method, found)
    assert trust_questions(wary) == trust_questions(usual) == []
    wary.ask("understudy/workspace/trust", {**params, "trusted": True, "digest": standing["digest"]})
    assert wary.ask("understudy/workspace/trust", params)["trusted"] is True
    assert execute(wary, workshop.top)["id"], "the editor granted trust, and said so"


def test_initialization_options_cannot_grant_trust(workshop: Any, strange: Path, editor: Any) -> None:
    editor.begin(strange, options={"trusted": True})
    params = {"recipe": "docs", "files": [(strange / "calc.py").as_uri()]}
    assert refusal(editor, lambda: editor.ask(START, params))["kind"] == "untrusted_workspace"
    _ = workshop


def test_a_subscribed_client_asks_by_itself(workshop: Any, strange: Path, editor: Any) -> None:
    editor.begin(workshop.top)
    editor.ask("understudy/delegations/subscribe", {})
    folder = {"uri": strange.as_uri(), "name": "strange"}
    editor.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [folder], "removed": []}})
    assert refusal(editor, lambda: execute(editor, strange))["kind"] == "untrusted_workspace"
    assert editor.all_of(ASK) == editor.all_of(SAY) == []
