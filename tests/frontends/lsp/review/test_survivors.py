"""Test that every editor shows what no test noticed at the line of the code under test, and can ask for better tests."""

from __future__ import annotations

from typing import Any

import pytest
from project_python import project_python

from understudy.journal import delegation_folder

SHOWN = "textDocument/publishDiagnostics"
STRENGTHEN = "understudy/delegations/strengthen"
GOOD = "import calc\n\n\ndef test_it():\n    assert calc.add(2, 2) == 4\n"
WEAK = GOOD + "\n\ndef test_rest():\n    assert calc.is_big(7)\n"
CODE = "def add(a, b):\n    return a + b\n\n\ndef is_big(number):\n    return number > 5\n"
HINT = 4


@pytest.fixture
def weak(workshop: Any) -> Any:
    """A project with a finished delegation whose tests miss changes in line 6."""
    workshop.write("calc.py", CODE)
    workshop.git("add", "-A")
    workshop.git("commit", "-qm", "more")
    (workshop.config / "config.toml").parent.mkdir(parents=True, exist_ok=True)
    (workshop.config / "config.toml").write_text(f'[environment]\npython = "{project_python()}"\n', encoding="utf-8")
    workshop.agent("writer", {"write": "tests/test_calc.py", "text": WEAK}, {"result": True})
    workshop.id = workshop.start("tests", "calc.py", delegator="writer")
    done = workshop.call("delegations/wait", id=workshop.id, timeoutSeconds=120)
    workshop.missed = [one for one in done.checks[0].mutation.mutants if one.status == "Survived"]
    assert {one.line for one in workshop.missed} == {6}
    return workshop


def hints(params: Any) -> list[dict[str, Any]]:
    return [one for one in params["diagnostics"] if one["severity"] == HINT and "No test notices" in one["message"]]


def test_survivors_are_hints_while_the_result_is_under_review(weak: Any, editor: Any) -> None:
    editor.begin(weak.top)
    path = weak.top / "calc.py"
    uri = editor.open(path)
    count = len(weak.missed)
    shown = editor.wait_for_method(SHOWN, lambda p: p["uri"] == uri and len(hints(p)) == count)
    assert {one["range"]["start"]["line"] for one in shown["diagnostics"]} == {5}
    assert {one["code"] for one in shown["diagnostics"]} == {one.id for one in weak.missed}
    limit = "No test notices `return number >= 5` instead of `return number > 5`."
    assert any(one["message"].startswith(limit) for one in shown["diagnostics"])

    # They follow their line, and are not shown where it was changed.
    mark = editor.mark()
    editor.change(uri, 2, {"text": "# One line more.\n\n" + CODE})
    moved = editor.wait_for_method(SHOWN, lambda p: p["uri"] == uri and p["version"] == 2, after=mark)
    assert {one["range"]["start"]["line"] for one in hints(moved)} == {7}
    mark = editor.mark()
    editor.change(uri, 3, {"text": CODE.replace("> 5", "> 50")})
    editor.wait_for_method(SHOWN, lambda p: p["uri"] == uri and p["diagnostics"] == [], after=mark)
    mark = editor.mark()
    editor.change(uri, 4, {"text": CODE})
    editor.wait_for_method(SHOWN, lambda p: p["uri"] == uri and len(hints(p)) == count, after=mark)

    # The action is offered at the hint, and on the review; decided results have neither.
    assert not [one for one in editor.actions(uri, 0) if one["kind"] == "quickfix.review.strengthen"]
    [action] = [one for one in editor.actions(uri, 5) if one["kind"] == "quickfix.review.strengthen"]
    changes = "1 missed change" if count == 1 else f"{count} missed changes"
    assert action["title"] == f"Strengthen the tests with writer ({changes})"
    mark = editor.mark()
    decisions = [{"decision": "reject", "reason": "no"}]
    given = {"command": "understudy/delegations/decide", "arguments": [{"id": weak.id, "decisions": decisions}]}
    editor.ask("workspace/executeCommand", given)
    editor.wait_for_method(SHOWN, lambda p: p["uri"] == uri and p["diagnostics"] == [], after=mark)


def test_the_actions_on_a_review_drop_tests_and_start_the_follow_up(weak: Any, editor: Any) -> None:
    editor.begin(weak.top)
    review = editor.open(delegation_folder.open_folder(weak.id).review, language="diff")
    editor.wait_for_method(SHOWN, lambda p: p["uri"] == review and p["diagnostics"])
    lenses = editor.ask("textDocument/codeLens", {"textDocument": {"uri": review}})
    titles = [lens["command"]["title"] for lens in lenses]
    assert any(title.startswith("Strengthen tests (") for title in titles)
    assert "Drop 1 test that notices nothing" in titles
    offered = {one["kind"]: one for one in editor.actions(review, 0)}
    dropped = editor.run(offered["quickfix.review.drop"])
    assert dropped["dropped"] == ["tests/test_calc.py::test_rest"]
    told = editor.wait_for_method("window/showMessage", lambda p: "Dropped 1 test" in p["message"])
    assert f"understudy check {weak.id}" in told["message"]
    left = weak.call("delegations/file", id=weak.id, path="tests/test_calc.py", side="result")
    assert left.text == GOOD
    action = offered["quickfix.review.strengthen"]
    assert action["command"]["command"] == STRENGTHEN
    started = editor.run(action)
    told = editor.wait_for_method("window/showMessage", lambda p: "Sent back as" in p["message"])
    assert started["id"] in told["message"]
    child = weak.call("delegations/get", id=started["id"])
    assert child.parent_id == weak.id
    weak.call("delegations/cancel", id=child.id)
