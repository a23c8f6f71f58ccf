"""Test code actions that delegate: where they are offered, what they start, and the reasons that they show."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from wait_until import until

START = "understudy/delegations/start"
CHOOSE = "understudy-delegate/choose"
ASK = "window/showMessageRequest"
CHOICE = "Delegate…"
NO_CHANGE = "no_change"
WRITES = ({"write": "notes.md", "text": "Notes.\n"}, {"result": True})


def diagnostic(message: str, line: int, source: str = "pylint") -> dict[str, Any]:
    place = {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 3}}
    return {"range": place, "message": message, "severity": 1, "source": source, "code": "E1", "data": {"kept": [1]}}


def named(actions: list[dict[str, Any]], title: str) -> dict[str, Any]:
    return next(action for action in actions if action["title"] == title)


def kinds(actions: list[dict[str, Any]]) -> set[str]:
    return {action["kind"] for action in actions}


@pytest.fixture
def agent(workshop: Any) -> str:
    return workshop.agent("quick", NO_CHANGE)


def titles(actions: list[dict[str, Any]]) -> list[str]:
    return [action["title"] for action in actions]


def choosing(editor: Any, *answers: str | None) -> list[list[str]]:
    """Answer the questions of the server one after the other; return what each of them offers."""
    left, offered = list(answers), []

    def answer(params: dict[str, Any]) -> dict[str, str] | None:
        if not params["message"].startswith(("What should", "Several delegators")):
            return None  # the message at the end of a delegation
        offered.append([item["title"] for item in params["actions"]])
        title = left.pop(0)
        return None if title is None else {"title": title}

    editor.answers[ASK] = answer
    return offered


def finished(workshop: Any, identifier: str) -> Any:
    found = workshop.call("delegations/wait", id=identifier, timeoutSeconds=60)
    assert found.state == "finished", found
    return found


def test_a_file_is_offered_tests_and_a_choice_of_the_rest(workshop: Any, agent: str, editor: Any) -> None:
    told = editor.begin(workshop.top)
    assert told["capabilities"]["codeActionProvider"]["resolveProvider"] is False
    uri = editor.open(workshop.top / "calc.py")
    found = editor.actions(uri)
    assert titles(found) == ["Delegate tests for this file", CHOICE]
    assert kinds(found) == {"refactor.delegate.tests", "refactor.delegate"}
    assert not any(action.get("isPreferred") for action in found)
    assert all("command" in action for action in found), "VS Code may drop a command that is resolved later"
    command = named(found, "Delegate tests for this file")["command"]
    assert command["command"] == START
    assert command["arguments"] == [{"recipe": "tests", "files": [uri], "workspace": workshop.top.as_uri()}]
    assert command["tooltip"] == "Uses quick: it is the only delegator configured."
    assert command["title"] == f"Delegate tests for this file: {command['tooltip']}"
    _ = agent


@pytest.mark.parametrize("client", [None, {"name": "Eglot", "version": "1.17"}])
def test_the_word_at_the_cursor_is_not_a_selection(
    workshop: Any, agent: str, editor: Any, client: dict[str, str] | None
) -> None:
    editor.begin(workshop.top, clientInfo=client)
    uri = editor.open(workshop.top / "calc.py")
    assert "Delegate tests for this file" in [one["title"] for one in editor.actions(uri, 0, 4, end=(0, 7))]
    assert "Delegate tests for the selection" in [one["title"] for one in editor.actions(uri, 0, 0, end=(0, 7))]
    _ = agent


def test_a_single_word_is_a_selection_where_editors_send_what_is_selected(
    workshop: Any, agent: str, editor: Any
) -> None:
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    assert "Delegate tests for the selection" in [one["title"] for one in editor.actions(uri, 0, 4, end=(0, 7))]
    _ = agent


def test_a_selection_adds_its_range_and_recipes_that_need_instructions(workshop: Any, agent: str, editor: Any) -> None:
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    listed = editor.actions(uri, 0, 0, end=(1, 4))
    assert titles(listed) == ["Delegate tests for this file", "Delegate tests for the selection", CHOICE]
    names = ("refactor.delegate.explain", "refactor.delegate.ask", "refactor.delegate.implement")
    found = editor.actions(uri, 0, 0, end=(1, 4), only=list(names))
    assert kinds(found) == set(names), "an editor can name any recipe, for example in a key binding"
    chosen = named(found, "Delegate an explanation of the selection")
    (params,) = chosen["command"]["arguments"]
    assert params["range"] == {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 4}}
    assert "task" not in params
    asked = named(found, "Delegate an answer about the selection")
    assert asked["command"]["arguments"][0]["task"] == "The selected lines contain the question."
    preview = editor.ask("understudy/delegations/preview", asked["command"]["arguments"][0])
    assert "# Selected: lines 1 to 2 of `calc.py`" in preview["prompt"]
    assert "def add(a, b):" in preview["prompt"]
    _ = agent


def test_diagnostics_get_a_quick_fix_that_contains_them(workshop: Any, agent: str, editor: Any) -> None:
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    problems = [diagnostic("Undefined name 'b'", 1), diagnostic("Line   too\nlong", 0)]
    ours = diagnostic("+1 line", 0, source="understudy")
    found = editor.actions(uri, 1, 2, diagnostics=[*problems, ours])
    fixes = [action for action in found if action["kind"] == "quickfix.delegate"]
    assert found[: len(fixes)] == fixes, "a fix comes before the rest"
    fix = named(fixes, "Delegate a fix for 2 problems")
    assert fix["diagnostics"] == problems
    (params,) = fix["command"]["arguments"]
    assert params["diagnostics"] == problems
    assert params["range"] == {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 3}}
    assert editor.ask("understudy/delegations/preview", params)["prompt"].count("Undefined name 'b'") == 1
    alone = editor.actions(uri, 0, 0, diagnostics=[problems[1]])
    assert named(alone, "Delegate a fix for “Line too long”")["kind"] == "quickfix.delegate"
    assert "quickfix.delegate" not in kinds(editor.actions(uri, 0, 0, diagnostics=[ours])), (
        "no fix is offered for our own diagnostics"
    )
    _ = agent


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (["refactor"], {"refactor.delegate.tests", "refactor.delegate"}),
        (["refactor.delegate.docs"], {"refactor.delegate.docs"}),
        (["refactor.delegate.tests"], {"refactor.delegate.tests"}),
        (["quickfix"], {"quickfix.delegate"}),
        (["source", "source.fixAll", "refactor.extract", "refactor.delegate.te"], set()),
        ([""], {"refactor.delegate.tests", "quickfix.delegate"}),
    ],
)
def test_kinds_can_be_requested_by_prefix(
    workshop: Any, agent: str, editor: Any, only: list[str], expected: set[str]
) -> None:
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    found = kinds(editor.actions(uri, diagnostics=[diagnostic("x", 0)], only=only))
    assert expected <= found
    assert bool(found) == bool(expected)
    assert all(any(kind == one or kind.startswith(f"{one}.") or not one for one in only) for kind in found)
    _ = agent


def test_nothing_is_offered_automatically_or_outside_the_files_of_the_user(
    workshop: Any, agent: str, editor: Any, own_home: Any
) -> None:
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    assert editor.actions(uri, triggerKind=2, diagnostics=[diagnostic("x", 0)]) == []
    for other in ("untitled:Untitled-1", "git:/x/calc.py", (workshop.top / "missing.py").as_uri()):
        assert editor.actions(other) == []
    inside = own_home / "state" / "understudy" / "note.md"
    inside.write_text("x")
    assert editor.actions(editor.open(inside)) == []
    assert len(editor.actions(editor.open(workshop.top / "new.py", "x = 1\n"))) == 2, (
        "what is only in the editor is a file"
    )
    _ = agent


def test_an_action_starts_from_the_unsaved_text(workshop: Any, editor: Any) -> None:
    workshop.agent("quick", *WRITES)
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    editor.change(uri, 2, {"text": "def add(a, b):\n    return a - b  # not saved\n"})
    offered = choosing(editor, "Delegate documentation for this file")
    found = editor.run(named(editor.actions(uri), CHOICE))
    assert offered == [
        [
            "Delegate tests for this file", "Delegate documentation for this file", "Delegate a review of this file",
            "Delegate an explanation of this file", "Delegate a summary of this file",
        ]
    ]  # fmt: skip
    assert found["explain"]["delegator"] == "quick"
    done = finished(workshop, found["id"])
    assert (done.verdict, done.review.pending) == ("unverified", 1)
    assert "# not saved" in workshop.file(found["id"], "calc.py", "base")
    assert "# not saved" not in (workshop.top / "calc.py").read_text()


def test_recipes_and_delegators_appear_without_a_restart(
    workshop: Any, agent: str, start_editor: Callable[..., Any], tmp_path: Path
) -> None:
    # What is remembered expires never, so that only the change itself can make the recipe appear.
    (tmp_path / "sitecustomize.py").write_text(
        "from understudy.frontends.lsp.delegate import code_actions\ncode_actions.KEPT_SECONDS = 1e9\n"
    )
    editor = start_editor(cold=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    every = [f"refactor.delegate.{name}" for name in ("polish", "sort")]
    assert "refactor.delegate.polish" not in kinds(editor.actions(uri, only=every))
    recipes = workshop.config / "recipes"
    recipes.mkdir()
    (recipes / "polish.md").write_text(
        '+++\ntitle = "Polish"\nreturns = "tree"\napplies_to = { languages = ["python"], on = ["selection"] }\n+++\nPolish.\n'
    )
    (recipes / "sort.md").write_text(
        '+++\ntitle = "Sort"\nreturns = "tree"\napplies_to = { languages = ["rust"], on = ["file"] }\n+++\nSort.\n'
    )
    until(lambda: "refactor.delegate.polish" in kinds(editor.actions(uri, 0, 0, end=(1, 0), only=every)))
    now = kinds(editor.actions(uri, only=every))
    assert "refactor.delegate.polish" not in now, "it is for selections"
    assert "refactor.delegate.sort" not in now, "it is for Rust"
    other = editor.open(workshop.write("lib.rs", "fn main() {}\n"), language="rust")
    theirs = editor.actions(other, only=every)
    assert "refactor.delegate.sort" in kinds(theirs)
    assert named(theirs, "Delegate “Sort” for this file")
    _ = agent


def test_without_a_default_the_user_is_asked_for_one_of_many_delegators(workshop: Any, editor: Any) -> None:
    names = [f"agent-{number}" for number in range(8)]
    for name in names:
        workshop.agent(name, NO_CHANGE)
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    found = editor.actions(uri, 0, 0, end=(1, 0))
    assert titles(found) == ["Delegate tests for this file", "Delegate tests for the selection", CHOICE]
    action = named(found, "Delegate tests for the selection")
    assert action["command"]["command"] == CHOOSE

    offered = choosing(editor, "agent-6", None, CHOICE, "Delegate documentation for the selection", "agent-2")
    started = editor.run(action)
    assert [sorted(titles) for titles in offered] == [sorted([*names, "ghostwriter"])]
    assert started["explain"]["delegator"] == "agent-6"
    assert workshop.call("delegations/get", id=started["id"]).recipe == "tests"
    assert editor.run(action) is None, "the message was closed"
    assert editor.run(named(found, CHOICE)) is None, "no such choice"
    assert editor.run(named(found, CHOICE))["explain"]["delegator"] == "agent-2"
    assert len(workshop.call("delegations/list").delegations) == 2

    # With a default delegator nothing is asked, not even where the action was listed before.
    workshop.write(".understudy/config.toml", '[defaults]\ndelegator = "agent-1"\n')
    workshop.trust()
    until(lambda: named(editor.actions(uri), "Delegate tests for this file")["command"]["command"] == START)
    assert choosing(editor) == []
    assert editor.run(action)["explain"]["delegator"] == "agent-1"


def test_a_delegator_that_was_removed_meanwhile_starts_nothing(workshop: Any, editor: Any) -> None:
    """An editor keeps a list of actions for as long as its menu is open."""
    for name in ("one", "two"):
        workshop.agent(name, NO_CHANGE)
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    action = named(editor.actions(uri), "Delegate tests for this file")

    def remove(_: Any) -> dict[str, str]:
        (workshop.config / "delegators" / "two.toml").unlink()
        return {"title": "two"}

    editor.answers[ASK] = remove
    with pytest.raises(sys.modules[type(editor).__module__].LspError) as refused:
        editor.run(action)
    assert refused.value.data["kind"] == "unknown_delegator"
    assert "two" in refused.value.message
    assert workshop.call("delegations/list").delegations == []


def test_an_editor_without_questions_lists_every_recipe(workshop: Any, start_editor: Callable[..., Any]) -> None:
    for name in ("one", "two"):
        workshop.agent(name, NO_CHANGE)
    editor = start_editor()
    support = {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}}, "disabledSupport": True}
    editor.begin(workshop.top, capabilities={"textDocument": {"codeAction": support}})
    found = editor.actions(editor.open(workshop.top / "calc.py"))
    assert len(found) == 5
    reason = named(found, "Delegate tests for this file")["disabled"]["reason"]
    assert "Several delegators are configured" in reason
    assert "delegators default" in reason


def test_a_recipe_without_a_delegator_is_shown_with_the_reason(workshop: Any, start_editor: Callable[..., Any]) -> None:
    workshop.agent("one", NO_CHANGE)
    workshop.write(".understudy/config.toml", '[limits]\nidle_seconds = "soon"\n')
    workshop.trust()
    editor = start_editor()
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    action = named(editor.actions(uri), "Delegate tests for this file")
    assert "The configuration has an error, so limits or checks may be missing" in action["disabled"]["reason"]
    assert "command" not in action
    plain = start_editor()
    plain.begin(workshop.top, capabilities={"textDocument": {"codeAction": {"codeActionLiteralSupport": {}}}})
    assert plain.actions(plain.open(workshop.top / "calc.py")) == [], "a client that cannot show it as disabled"


def test_without_a_delegator_the_reason_says_how_to_add_one(workshop: Any, editor: Any) -> None:
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    found = editor.actions(uri)
    assert "disabled" not in named(found, "Delegate tests for this file"), "ghostwriter needs nothing"
    documented = editor.actions(uri, only=["refactor.delegate.docs"])
    reason = named(documented, "Delegate documentation for this file")["disabled"]["reason"]
    assert "understudy delegators add" in reason


def test_an_old_client_gets_commands_alone(workshop: Any, agent: str, start_editor: Callable[..., Any]) -> None:
    literal = start_editor()
    literal.begin(
        workshop.top,
        capabilities={
            "textDocument": {"codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}}}}
        },
    )
    action = named(literal.actions(literal.open(workshop.top / "calc.py")), "Delegate tests for this file")
    assert action["command"]["command"] == START
    old = start_editor()
    old.begin(workshop.top, capabilities={})
    commands = old.actions(old.open(workshop.top / "calc.py"))
    assert {command["command"] for command in commands} == {START}
    assert any(command["title"].startswith("Delegate tests for this file") for command in commands)
    _ = agent


def test_a_file_belongs_to_its_folder_and_to_its_submodule(
    workshop: Any, agent: str, editor: Any, tmp_path: Any
) -> None:
    other = workshop.repository(tmp_path / "other")
    library = workshop.repository(tmp_path / "library")
    workshop.git("submodule", "add", "-q", str(library), "vendor/library")
    editor.begin(workshop.top, other)
    expected = {
        workshop.top / "calc.py": workshop.top,
        other / "calc.py": other,
        workshop.top / "vendor" / "library" / "calc.py": workshop.top / "vendor" / "library",
    }
    for file, top in expected.items():
        action = named(editor.actions(editor.open(file)), "Delegate tests for this file")
        (params,) = action["command"]["arguments"]
        assert params["workspace"] == top.as_uri(), file
    _ = agent


@pytest.mark.heavy
def test_a_large_repository_costs_no_more(workshop: Any, agent: str, editor: Any) -> None:
    for number in range(10_000):
        folder = workshop.top / f"package{number % 100}"
        folder.mkdir(exist_ok=True)
        (folder / f"module{number}.py").write_text("x = 1\n")
    editor.begin(workshop.top)
    uri = editor.open(workshop.top / "calc.py")
    assert editor.actions(uri)
    server = psutil.Process(editor.process.pid)
    before = server.cpu_times()
    for _ in range(100):
        editor.actions(uri)
    after = server.cpu_times()
    assert (after.user + after.system - before.user - before.system) / 100 < 0.1
    _ = agent
