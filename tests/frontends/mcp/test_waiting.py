"""What happens while a call waits: its limit, progress, questions, folders and resources."""

from __future__ import annotations

import json
import threading

import pytest
from mcp_types import ElicitResult, ListRootsResult, Root
from wait_until import until

from understudy.frontends.mcp import mcp_server
from understudy.journal import worker_files
from understudy.model.delegation import events as e
from understudy.model.delegation.delegations import PermissionOption
from understudy.model.verdicts import Verdict

OPTIONS = [
    PermissionOption(id="opt-always", title="Always", kind="allow_always"),
    PermissionOption(id="opt-yes", title="Yes", kind="allow_once"),
    PermissionOption(id="opt-no", title="No", kind="reject_once"),
]
ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture
def asking(stage, journal):
    """A delegation whose worker is this test, and which asks."""
    writer = journal(workspace=str(stage.top))
    writer.append(e.Started(delegator="quick", model="m", reason="you asked"), attempt=1)
    question = e.Permission(
        request_id="q1", title="Run it?", detail="rm -rf build", options=OPTIONS, deadline_action="opt-no"
    )
    writer.append(question, attempt=1)
    writer.flush_summary()
    return writer


def answers(writer):
    return [one for one in worker_files.read_requests(writer.folder) if isinstance(one, worker_files.Answer)]


def finishes_once_answered(writer) -> threading.Thread:
    def work() -> None:
        until(lambda: answers(writer))
        given = answers(writer)[0]
        writer.append(e.PermissionAnswered(request_id="q1", option=given.option, by=given.by), attempt=1)
        writer.append(e.Finished(verdict=Verdict.NO_CHANGES, reservations=[]), attempt=1)
        writer.flush_summary()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@ERAS
async def test_the_user_answers_through_the_client(asking, direct, mode) -> None:
    asked = []

    async def elicit(context, params):
        asked.append(params)
        return ElicitResult(action="accept", content={"option": "opt-yes"})

    worker = finishes_once_answered(asking)
    async with direct(mode=mode, elicitation_callback=elicit) as tools:
        done = await tools.until(asking.folder.id, "finished")
    worker.join()
    assert (done["status"], done["verdict"]) == ("finished", "no_changes")
    [question] = asked
    assert "Run it?\nrm -rf build" in question.message
    assert question.requested_schema["properties"]["option"]["enum"] == ["opt-yes", "opt-no"]
    assert [(one.option, one.by) for one in answers(asking)] == [("opt-yes", "mcp")]


@ERAS
@pytest.mark.parametrize("action", ["decline", "strange", None])
async def test_a_question_that_is_not_answered_is_in_the_answer(asking, direct, mode, action) -> None:
    async def elicit(context, params):
        if action == "strange":
            return ElicitResult(action="accept", content={"option": "opt-always"})
        return ElicitResult(action=action)

    options = {} if action is None else {"elicitation_callback": elicit}
    async with direct(mode=mode, **options) as tools:
        found = await tools("wait", id=asking.folder.id)
        assert (found["status"], found["next"]) == ("asks", "answer")
        assert [one["option"] for one in found["question"]["options"]] == ["allow_once", "reject_once"]
        assert answers(asking) == []
        refused = await tools.error("answer", id=asking.folder.id, option="allow_always")
        assert refused["names"] == ["allow_once", "reject_once"]
        await tools("answer", id=asking.folder.id, option="reject_once")
    assert [(one.option, one.by) for one in answers(asking)] == [("opt-no", "mcp")]


@ERAS
async def test_the_folder_is_the_first_root(stage, direct, mode, tmp_path) -> None:
    async def roots(context):
        return ListRootsResult(roots=[Root(uri=stage.top.as_uri()), Root(uri=tmp_path.as_uri())])

    stage.go()
    async with direct(mode=mode, here=tmp_path / "home", list_roots_callback=roots) as tools:
        begun = await tools("start", task="Write done.txt", files=["calc.py"], delegator="patient")
        await tools.until(begun["id"], "finished")
    assert begun["workspace"] == str(stage.top)


@ERAS
async def test_a_call_reports_progress_and_ends_in_time(stage, direct, mode, monkeypatch) -> None:
    monkeypatch.setattr(mcp_server, "CALL_SECONDS", 1.0)
    reports: list[float] = []

    async def report(progress, total, message):
        reports.append(progress)

    async with direct(mode=mode) as tools:
        begun = await tools("start", task="Write done.txt", delegator="patient")
        found = await tools.client.call_tool("wait", {"id": begun["id"]}, progress_callback=report)
        running = json.loads(found.content[0].text)
        assert (running["status"], running["id"], running["next"]) == ("running", begun["id"], "wait")
        asked = await tools("ask", question="What is it?", files=["calc.py"], delegator="patient")
        assert (asked["status"], asked["next"]) == ("running", "wait")
        await tools("cancel", id=asked["id"])
        monkeypatch.setattr(mcp_server, "CALL_SECONDS", 45.0)
        stage.go()
        await tools.until(begun["id"], "finished")
    assert reports
    assert reports == sorted(set(reports))


async def test_transcripts_diffs_and_evidence_are_resources(stage, direct) -> None:
    stage.go()
    async with direct() as tools:
        begun = await tools("start", task="Write done.txt", delegator="patient")
        await tools.until(begun["id"], "finished")
        top = f"understudy://delegations/{begun['id']}/"
        listed = [one.uri for one in (await tools.client.list_resources()).resources]
        assert listed == [top + kind for kind in ("transcript", "diff", "evidence", "answer")]
        assert len((await tools.client.list_resource_templates()).resource_templates) == 4
        texts = {}
        for uri in listed:
            [content] = (await tools.client.read_resource(uri)).contents
            texts[uri.removeprefix(top)] = content.text
        assert texts["diff"] == await tools.text("diff", id=begun["id"])
        assert texts["answer"] == "All done."
        assert texts["evidence"].startswith("# Unverified")
        events = [json.loads(line)["type"] for line in texts["transcript"].splitlines()]
        assert events[-1] == "finished"
        with pytest.raises(Exception, match="There is no resource"):
            await tools.client.read_resource(top + "spec.json")


CHOICES = [
    PermissionOption(id="choice1", title="SQLite", kind="allow_once"),
    PermissionOption(id="text", title="Answer with a text", kind="allow_once", takes_text=True),
    PermissionOption(id="decline", title="Do not answer", kind="reject_once"),
]


@pytest.fixture
def questioning(stage, journal):
    """A delegation whose worker is this test, and whose agent asks the user a question."""
    writer = journal(workspace=str(stage.top))
    writer.append(e.Started(delegator="quick", model="m", reason="you asked"), attempt=1)
    asked = {"request_id": "q1", "title": "Which?", "detail": "Which?", "deadline_action": "decline"}
    writer.append(e.Permission(kind="question", options=CHOICES, **asked), attempt=1)
    writer.flush_summary()
    return writer


@ERAS
@pytest.mark.parametrize(
    ("content", "given"),
    [
        ({"option": "choice1"}, ("choice1", None)),
        ({"option": "text", "text": "MySQL"}, ("text", "MySQL")),
        ({"option": "choice1", "text": "ignored"}, ("choice1", None)),
        ({"option": "text"}, None),
        ({"option": "text", "text": 5}, None),
    ],
)
async def test_a_question_of_an_agent_is_answered_with_a_choice_or_a_text(questioning, direct, mode, content, given):
    async def elicit(context, params):
        assert set(params.requested_schema["properties"]) == {"option", "text"}
        return ElicitResult(action="accept", content=content)

    worker = finishes_once_answered(questioning) if given else None
    async with direct(mode=mode, elicitation_callback=elicit) as tools:
        done = await tools.until(questioning.folder.id, "finished" if given else "asks")
    if worker is not None:
        worker.join()
    else:
        shown = [(one["option"], one.get("answer_in")) for one in done["question"]["options"]]
        assert shown == [("choice1", None), ("text", "note"), ("reject_once", None)]
    assert [(one.option, one.note) for one in answers(questioning)] == ([given] if given else [])


async def test_another_agent_may_answer_a_question_with_a_text(questioning, direct) -> None:
    async with direct() as tools:
        done = await tools("answer", id=questioning.folder.id, option="text", note="MySQL")
    assert done["answered"] == "Answer with a text"
    assert [(one.option, one.note) for one in answers(questioning)] == [("text", "MySQL")]
