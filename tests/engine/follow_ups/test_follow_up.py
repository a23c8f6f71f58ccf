"""Checks that run again, queues that go on, and keys that stay where they are."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from project_python import project_python
from wait_until import until

from understudy.engine.planning import prompt
from understudy.frontends.acp import result_updates
from understudy.frontends.cli.output import verdict_card
from understudy.frontends.cli.terminal.terminal import Paint
from understudy.frontends.mcp.tools import tool_answers
from understudy.journal import delegation_folder, worker_files
from understudy.model.backends import openai
from understudy.model.config.delegators import AppliesTo, Delegator, Recipe, Scope
from understudy.model.delegation.delegations import StartParams
from understudy.model.errors import Position, Range, UnderstudyError
from understudy.reports import evidence_page
from understudy.store import store

DONE = "say(type='result', ok=True, text='done')"
HONEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"


def writer(text=HONEST):
    return f"pathlib.Path('tests').mkdir()\npathlib.Path('tests/test_calc.py').write_text({text!r})\n{DONE}"


def kinds(project, identifier):
    return [type(event).__struct_config__.tag for event in project.events(identifier)]


def checking(project, tmp_path):
    """Return a project with a finished, verified delegation whose check can be held up."""
    gate = tmp_path / "gate"
    project.settings(f"""
        [environment]
        python = "{project_python()}"

        [[checks]]
        name = "gated"
        argv = ["{sys.executable}", "-c", "import os, time\\nwhile os.path.exists('{gate}'): time.sleep(0.02)"]
    """)
    project.program("doer", f"pathlib.Path('new.md').write_text('x')\n{DONE}")
    done = project.run("implement", delegator="doer", task="x")
    assert done.verdict == "verified"
    return done.id, gate


@pytest.mark.heavy
def test_configured_checks_run_for_tests_that_no_known_runner_runs(project):
    check = f"""
        [[checks]]
        name = "suite"
        argv = ["{sys.executable}", "-c", "import pathlib; assert pathlib.Path('test/slug.test.js').exists()"]
        """
    project.settings(f"[environment]\npython = '{project_python()}'")
    make = (
        "pathlib.Path('test').mkdir()\npathlib.Path('test/slug.test.js').write_text('import test from \"node:test\"')"
    )
    (project.top / "package.json").write_text('{"scripts": {"test": "node --test"}}')
    project.program("doer", f"{make}\n{DONE}")
    before = project.run("tests", "calc.py", delegator="doer")
    assert before.reservations == ["no_checks"]
    notes = [event.text for event in project.events(before.id) if hasattr(event, "text")]
    assert any("names neither vitest nor jest" in text for text in notes)
    project.settings(check)
    again = project.call("delegations/check", id=before.id)
    assert [result.name for result in again.checks] == ["suite"], "a check that was added since runs, too"
    project.program("doer", f"{make}\n{DONE}")
    after = project.run("tests", "calc.py", delegator="doer")
    assert [(result.name, result.ok) for result in after.checks] == [("suite", True)]
    assert (after.verdict, after.reservations) == ("unverified", ["not_mutation_tested"])
    notes = [event.text for event in project.events(after.id) if hasattr(event, "text")]
    assert any("does not name its tests" in text for text in notes)
    assert not any("vitest" in text for text in notes)


@pytest.mark.heavy
def test_what_was_linked_since_is_in_the_worktree_of_a_repeated_check(project):
    modules = project.top / "modules"
    modules.mkdir()
    (modules / "runner").write_text("x")
    (project.top / ".gitignore").write_text("modules\ndata.bin\n")
    (project.top / "data.bin").write_text("x")
    project.program("doer", f"pathlib.Path('new.txt').write_text('x')\n{DONE}")
    before = project.run("implement", delegator="doer", task="x")
    assert before.reservations == ["no_checks"]
    code = "assert open('modules/runner').read() == open('data.bin').read() == 'x'"
    project.settings(f"""
        [worktrees]
        link = ["modules"]
        copy = ["data.bin"]

        [[checks]]
        name = "linked"
        argv = ["{sys.executable}", "-c", "{code}"]
        """)
    for _ in range(2):
        again = project.call("delegations/check", id=before.id)
        assert [(result.name, result.ok) for result in again.checks] == [("linked", True)], again.checks
        assert [file.path for file in again.result.files] == ["new.txt"]
    linked = [one for one in project.events(before.id) if "is a link into your checkout" in getattr(one, "text", "")]
    assert len(linked) == 1


def test_checks_are_outdated_after_an_edit_until_they_run_again(project, tmp_path):
    identifier, _ = checking(project, tmp_path)
    head = project.call("delegations/diff", id=identifier).head
    project.call("delegations/amend", id=identifier, path="new.md", text="y", head=head)
    found = project.call("delegations/get", id=identifier)
    assert (found.verdict, found.reservations) == ("unverified", ["checks_outdated"])
    card = verdict_card.card(found, Paint(on=False))
    assert "○ check gated: exit code 0" in card
    assert "before your edits" in card
    assert f"next: understudy check {identifier}\n      understudy review {identifier}\n" in card
    assert tool_answers.brief(found)["checks"] == {"gated": "passed before your edits"}
    assert "- check gated: passed before your edits (" in result_updates.verdict_text(found)
    assert "### gated: passed before your edits" in evidence_page.evidence_page(found, None)
    assert project.call("delegations/check", id=identifier).verdict == "verified"


def start_check(project, identifier):
    import threading

    thread = threading.Thread(target=lambda: project.call("delegations/check", id=identifier))
    thread.start()
    project_until_checking(project, identifier)
    return thread


def project_until_checking(project, identifier):
    until(lambda: project.call("delegations/get", id=identifier).state == "checking")


@pytest.mark.heavy
def test_a_cancelled_recheck_leaves_the_verdict_and_can_run_again(project, tmp_path):
    identifier, gate = checking(project, tmp_path)
    gate.touch()
    thread = start_check(project, identifier)
    after = project.call("delegations/cancel", id=identifier)
    thread.join(60)
    assert after.verdict == "verified"
    gate.unlink()
    assert project.call("delegations/check", id=identifier).verdict == "verified"
    assert kinds(project, identifier).count("finished") == 3


@pytest.mark.heavy
def test_a_killed_recheck_leaves_the_verdict(project, tmp_path):
    identifier, gate = checking(project, tmp_path)
    gate.touch()
    thread = start_check(project, identifier)
    os.kill(json.loads(delegation_folder.open_folder(identifier).lock.read_bytes())["pid"], signal.SIGKILL)
    thread.join(60)
    gate.unlink()
    assert project.call("delegations/get", id=identifier).verdict == "verified"
    assert project.call("delegations/check", id=identifier).verdict == "verified"


def test_a_recheck_whose_worker_cannot_begin_says_so(project, tmp_path):
    identifier, _ = checking(project, tmp_path)
    (delegation_folder.open_folder(identifier).path / "spec.json").write_text("{")
    with pytest.raises(UnderstudyError) as caught:
        project.call("delegations/check", id=identifier)
    assert caught.value.kind == "interrupted"
    assert project.call("delegations/get", id=identifier).verdict == "verified"


def test_no_check_runs_again_without_trust(project, tmp_path):
    identifier, _ = checking(project, tmp_path)
    project.call("workspace/trust", workspace=str(project.top), trusted=False)
    with pytest.raises(UnderstudyError) as caught:
        project.call("delegations/check", id=identifier)
    assert caught.value.kind == "untrusted_workspace"


@pytest.fixture
def single(project):
    """Return a project with one slot, and a delegation that holds it until its gate opens."""
    project.settings(f'[environment]\npython = "{project_python()}"\n\n[limits]\nslots = 1\n')
    gate = project.config / "gate"
    project.program("gate", f"while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.02)\n{DONE}")
    project.program("quick", DONE)
    first = project.start("implement", delegator="gate", task="holds the slot")
    project.until(first, lambda d: d.state == "running")
    project.gate, project.first = gate, first
    yield project
    gate.touch()
    project.finish(first)


def queued(project, name="quick", **params):
    identifier = project.start("implement", delegator=name, task="waits", **params)
    project.until(identifier, lambda d: d.state == "queued" and d.base is not None)
    return identifier


def test_a_damaged_one_in_the_queue_does_not_hold_up_the_others(single):
    damaged, fine = queued(single), queued(single)
    (delegation_folder.open_folder(damaged).path / "spec.json").write_text("{")
    single.gate.touch()
    assert single.finish(fine).verdict == "no_changes"
    assert single.finish(damaged).verdict == "failed"
    assert store.queued(delegation_folder.state_root()) == []


@pytest.mark.heavy
def test_a_worker_that_always_dies_before_it_starts_is_given_up(single, monkeypatch):
    dying = queued(single)
    (delegation_folder.open_folder(dying).path / "worktree.json").write_text("{")
    single.gate.touch()
    assert single.finish(dying).verdict in {"failed", "interrupted"}


def test_a_worktree_of_a_dead_worker_is_recreated(single):
    waiting = queued(single)
    record = json.loads((delegation_folder.open_folder(waiting).path / "worktree.json").read_bytes())
    Path(record["tree"]).mkdir()
    (Path(record["tree"]) / "half").write_text("left by a worker that died")
    single.gate.touch()
    done = single.finish(waiting)
    assert (done.verdict, done.error) == ("no_changes", None)
    assert not (Path(done.worktree) / "half").exists()


@pytest.mark.heavy
def test_a_queued_delegation_keeps_its_own_keys(single, monkeypatch):
    single.program("keyed", "say(type='result', ok=True, text='got ' + str(len(os.environ['AGENT_KEY'])))")
    file = single.config / "delegators" / "keyed.toml"
    file.write_text(file.read_text() + '\n[env]\nAGENT_KEY = { from_env = "KEY_OF_THE_ASKER" }\n')
    monkeypatch.setenv("KEY_OF_THE_ASKER", "0123456789")
    waiting = single.start("ask", delegator="keyed", task="x")
    single.until(waiting, lambda d: d.state == "queued")
    monkeypatch.delenv("KEY_OF_THE_ASKER")
    single.gate.touch()
    done = single.finish(waiting)
    assert (done.verdict, done.result.text) == ("answered", "got 10")


def test_a_queued_text_delegation_sees_the_files_at_the_request(project):
    from agent_model_server import ModelServer

    with ModelServer(answers={"scholar": "Because."}) as server:
        folder = project.config / "model-servers"
        folder.mkdir(parents=True)
        (folder / "scripted.toml").write_text(f'name = "scripted"\nkind = "custom"\nbase_url = "{server.base_url}"\n')
        (project.config / "delegators").mkdir(exist_ok=True)
        (project.config / "delegators" / "scholar.toml").write_text(
            'name = "scholar"\nmodel_server = "scripted"\nmodel = "scholar"\n'
        )
        identifier = project.start("explain", "calc.py", delegator="scholar")
        project.write("calc.py", "changed after the request\n")
        project.finish(identifier)
        assert "changed after the request" not in str(server.requests[-1].body)


@pytest.mark.heavy
def test_an_old_cancel_is_not_for_the_checks_of_later(project, tmp_path):
    identifier, _ = checking(project, tmp_path)
    folder = delegation_folder.open_folder(identifier)
    worker_files.append_request(folder, worker_files.Cancel(by="late", at="2020-01-01T00:00:00.000Z"))
    assert project.call("delegations/check", id=identifier).verdict == "verified"


def test_a_limit_without_effect_is_refused_by_name(project):
    project.delegator("plain", "true", output="text")
    with pytest.raises(UnderstudyError) as caught:
        project.start("implement", delegator="plain", task="x", limits={"maxUsd": "1"})
    assert caught.value.kind == "config_invalid"
    assert "max_usd" in caught.value.message


ASK = Recipe(
    name="ask", title="Ask", returns="text", applies_to=AppliesTo(on=["file"]), scope=Scope.BUILTIN, prompt="Answer."
)
REMOTE = Delegator(name="far", model_server="far", model="m")


def build(content, path=".env", first=0, last=0, local=False):
    asked = StartParams(
        recipe="ask",
        task="?",
        range=Range(start=Position(line=first, character=0), end=Position(line=last, character=0)),
    )
    return prompt.build(
        recipe=ASK,
        params=asked,
        delegator=REMOTE,
        supported=openai.CAPABILITIES,
        files=[path],
        context=[],
        target=None,
        read=lambda _: content,
        local=local,
    )


def test_a_withheld_file_is_not_sent_as_a_selection_either():
    built = build(b"TOKEN=hidden\n")
    assert "hidden" not in built.text
    assert built.files[0].withheld
    assert "hidden" in build(b"TOKEN=hidden\n", local=True).text


@pytest.mark.parametrize("content", [b"a\nb\x0cb\nc\n", b"a\r\nb\x0cb\r\nc\r\n", b"a\rb\x0cb\rc"])
def test_a_selection_counts_lines_as_editors_do(content):
    chosen = build(content, path="notes.txt", first=1, last=1).text.split("# Selected")[1].split("# Files")[0]
    assert "b\x0cb" in chosen
    assert "a" not in chosen.split("<<<")[1].split("\n", 1)[1].split("b\x0cb")[0]
    assert "c\n" not in chosen.split("b\x0cb")[1].replace("\r", "\n").split(">>>")[0].strip("\n")


def test_a_task_has_a_bound():
    with pytest.raises(UnderstudyError) as caught:
        prompt.build(
            recipe=ASK,
            params=StartParams(recipe="ask", task="x" * (prompt.ALL_BYTES + 1)),
            delegator=REMOTE,
            supported=openai.CAPABILITIES,
            files=[],
            context=[],
            target=None,
            read=lambda _: None,
            local=True,
        )
    assert caught.value.kind == "input_too_large"


def test_a_check_that_was_added_later_judges_a_result_that_had_none(project):
    project.program("doer", f"pathlib.Path('new.txt').write_text('x')\n{DONE}")
    done = project.run("implement", delegator="doer", task="x")
    assert "no_checks" in done.reservations
    check = {"name": "later", "argv": [sys.executable, "-c", "open('new.txt')"]}
    entry = project.call("checks/create", check=check, scope="workspace", workspace=str(project.top))
    assert entry.location.uri.endswith("/.understudy/checks/later.toml")
    again = project.call("delegations/check", id=done.id)
    assert [result.name for result in again.checks] == ["later"]
    assert "no_checks" not in again.reservations
