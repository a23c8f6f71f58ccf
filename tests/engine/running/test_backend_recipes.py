"""Recipes on a model server: text, a file, tests; and what a server may do wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_model_server import ModelServer

TESTS = "```python tests/test_calc.py\nfrom calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n```\n"


@pytest.fixture
def served(project):
    with ModelServer(
        answers={"scholar": "Because.", "author": "```\n# Notes\n\nFirst.\n```\n", "tester": TESTS}
    ) as server:
        folder = project.config / "model-servers"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scripted.toml").write_text(f'name = "scripted"\nkind = "custom"\nbase_url = "{server.base_url}"\n')
        (project.config / "delegators").mkdir(parents=True, exist_ok=True)
        project.server = server
        yield project


def on(project, model, **limits):
    text = f'name = "{model}"\nmodel_server = "scripted"\nmodel = "{model}"\n'
    (project.config / "delegators" / f"{model}.toml").write_text(text)
    return model


def test_ask_answers(served):
    done = served.run("ask", delegator=on(served, "scholar"), task="Why?", contextFiles=[str(served.top / "calc.py")])
    assert (done.verdict, done.result.text) == ("answered", "Because.")
    assert done.usage.output_tokens > 0
    body = served.server.requests[-1].body
    assert "Return the sum." in str(body), "a model behind a server is sent the contents"


def test_ask_works_in_a_workspace_that_is_not_trusted(served):
    served.call("workspace/trust", workspace=str(served.top), trusted=False)
    assert served.run("ask", delegator=on(served, "scholar"), task="Why?").verdict == "answered"


def test_summarize_answers(served):
    assert served.run("summarize", "calc.py", delegator=on(served, "scholar")).verdict == "answered"


def test_write_returns_a_file_to_review(served):
    done = served.run("write", delegator=on(served, "author"), task="Notes.", target=str(served.top / "NOTES.md"))
    assert (done.verdict, done.reservations) == ("unverified", ["no_checks"]), done.error
    assert served.call("delegations/file", id=done.id, path="NOTES.md", side="result").text == "# Notes\n\nFirst.\n"
    assert not (served.top / "NOTES.md").exists()


@pytest.mark.heavy
def test_tests_from_a_model_server_are_verified(served):
    done = served.run("tests", "calc.py", delegator=on(served, "tester"))
    assert done.verdict == "verified", (done.reservations, done.error, done.checks)


@pytest.mark.parametrize(
    ("model", "kind"),
    [("401", "auth_failed"), ("cut", "stream_truncated"), ("length", "output_truncated"), ("empty", "empty_output")],
)
def test_a_faulty_server_is_a_typed_failure(served, model, kind):
    done = served.run("ask", delegator=on(served, model), task="Why?")
    assert done.verdict == "failed"
    assert done.error.kind == kind


def test_a_delegator_can_be_tested_and_a_server_probed(served):
    on(served, "scholar")
    assert served.call("delegators/test", name="scholar").ok
    assert served.call("modelServers/test", name="scripted").ok
    assert served.call("modelServers/models", name="scripted").models


def test_a_delegator_is_tried_before_it_is_saved(served):
    draft = {"name": "new", "modelServer": "scripted", "model": "scholar"}
    tried = served.call("delegators/test", name="new", delegator=draft)
    assert [(step.name, step.ok) for step in tried.steps] == [
        ("configuration", True), ("endpoint", True), ("key", True), ("model", True), ("round_trip", True),
    ]  # fmt: skip
    assert "new" not in {entry.delegator.name for entry in served.call("delegators/list").delegators}
    assert not served.call("delegators/test", name="new", delegator={**draft, "model": "401"}).ok


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"modelServer": "nowhere"}, "nowhere"),
        ({"name": "No Name"}, "No Name"),
        ({"tool": "cluade", "modelServer": None}, "cluade"),
    ],
)
def test_an_invalid_delegator_is_not_tested(served, wrong, says):
    asked = len(served.server.requests)
    draft = {"name": "new", "modelServer": "scripted", "model": "scholar", **wrong}
    tried = served.call("delegators/test", name="new", delegator=draft)
    assert (tried.ok, [step.name for step in tried.steps]) == (False, ["configuration"])
    assert says in tried.steps[0].message
    assert len(served.server.requests) == asked


def test_a_delegator_of_an_untrusted_workspace_is_not_tested(served):
    served.call("workspace/trust", workspace=str(served.top), trusted=False)
    draft = {"name": "new", "modelServer": "scripted", "model": "scholar"}
    tried = served.call("delegators/test", name="new", delegator=draft, scope="workspace", workspace=str(served.top))
    assert (tried.ok, [step.name for step in tried.steps]) == (False, ["configuration"])
    assert "not trusted" in tried.steps[0].message


def test_a_server_takes_its_key_along_unless_another_one_uses_it(served):
    for name in ("first", "second"):
        server = {"name": name, "kind": "custom", "baseUrl": served.server.base_url}
        served.call("modelServers/create", modelServer=server)
        served.call("modelServers/setKey", name=name, key=f"sk-of-the-{name}-server")
    kept = {
        name: Path(served.call("modelServers/get", name=name).model_server.api_key.file) for name in ("first", "second")
    }
    assert all(path.exists() for path in kept.values())
    shares = {
        "name": "third",
        "kind": "custom",
        "baseUrl": served.server.base_url,
        "apiKey": {"file": str(kept["second"])},
    }
    served.call("modelServers/create", modelServer=shares)
    for name in ("first", "second"):
        served.call("modelServers/delete", name=name)
    assert [kept["first"].exists(), kept["second"].exists()] == [False, True]
