"""Prompts of the SDK's client against the real agent: progress, results, decisions, replies."""

from __future__ import annotations

import pytest
from acp import schema
from acp.exceptions import RequestError

WRITES = [
    {"phase": "Writing"},
    {"think": "It needs a file."},
    {"event": {"type": "plan", "entries": [{"content": "Write it", "status": "in_progress"}]}},
    {"event": {"type": "tool_call", "callId": "1", "name": "Write", "title": "Write x", "input": {"path": "made.txt"}}},
    {"write": "made.txt", "text": "made\n"},
    {"event": {"type": "tool_result", "callId": "1", "ok": True, "output": "wrote it"}},
    {"event": {"type": "usage", "inputTokens": 10, "outputTokens": 2, "costUsd": "0.25"}},
    {"say": "All done."},
    {"result": True},
]
CHANGES = [
    {"write": "lines.txt", "text": "first\n" + "".join(f"line {n}\n" for n in range(2, 40)) + "last\n"},
    {"write": "calc.py", "append": "\n\ndef sub(a, b):\n    return a - b\n"},
    {"result": True},
]


async def test_a_prompt_is_a_delegation_with_progress_a_diff_and_a_verdict(stage, connect) -> None:
    stage.script("quick", WRITES)
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        done = await editor.say(session, "Write made.txt")
        assert done.stop_reason == "end_turn"
        assert (done.usage.input_tokens, done.usage.output_tokens) == (10, 2)
        assert "All done." in editor.text()
        assert "It needs a file." in editor.thoughts()
        assert [(e.content, e.status) for e in editor.of(schema.AgentPlanUpdate)[0].entries] == [
            ("Write it", "in_progress")
        ]
        usage = editor.of(schema.UsageUpdate)[-1]
        assert (usage.used, usage.cost.amount) == (12, 0.25)
        [write] = [one for one in editor.of(schema.ToolCallStart) if one.title == "Write x"]
        assert (write.kind, write.status) == ("edit", "in_progress")
        assert [one.path for one in write.locations] == [str(stage.top / "made.txt")]
        [ended] = [one for one in editor.of(schema.ToolCallProgress) if one.tool_call_id == write.tool_call_id]
        assert (ended.status, ended.content[0].content.text) == ("completed", "wrote it")
        [diff] = editor.diffs()
        assert (diff.path, diff.old_text, diff.new_text) == (str(stage.top / "made.txt"), None, "made\n")
        assert "**Unverified**: no required check ran." in editor.text()
        assert "/accept" in editor.text()
        [(question, options)] = editor.questions
        assert "Accept this change" in question.title
        assert {one.kind for one in options} == {"allow_once", "reject_once"}
    # The question was not answered, so no file of the user changed.
    assert not (stage.top / "made.txt").exists()
    [delegation] = stage.delegations()
    assert (delegation.asked_by.frontend, delegation.asked_by.client) == ("acp", "editor 1")
    assert delegation.asked_by.session == session
    assert delegation.review.pending == 1


async def test_each_hunk_is_a_diff_and_has_a_number_that_commands_take(stage, connect) -> None:
    stage.script("quick", CHANGES)
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        await editor.say(session, "Change them")
        shown = [(diff.path, diff.old_text, diff.new_text) for diff in editor.diffs()]
        lines = str(stage.top / "lines.txt")
        assert shown == [
            (
                str(stage.top / "calc.py"),
                "def add(a, b):\n    return a + b\n",
                "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n",
            ),
            (lines, "line 1\nline 2\nline 3\nline 4\n", "first\nline 2\nline 3\nline 4\n"),
            (lines, "line 37\nline 38\nline 39\nline 40\n", "line 37\nline 38\nline 39\nlast\n"),
        ]
        titles = [one.title for one in editor.of(schema.ToolCallStart) if one.content]
        assert titles == ["[1] Modified calc.py", "[2, 3] Modified lines.txt"]
        await editor.say(session, "/accept 3")
        assert (stage.top / "lines.txt").read_text().endswith("line 39\nlast\n")
        assert (stage.top / "lines.txt").read_text().startswith("line 1\n")
        await editor.say(session, "/reject calc.py is not needed")
        await editor.say(session, "/undo")
        assert (stage.top / "lines.txt").read_text().endswith("line 40\n")
        await editor.say(session, "/accept")
        assert (stage.top / "lines.txt").read_text().startswith("first\n")
        assert "sub" not in (stage.top / "calc.py").read_text()
        await editor.say(session, "/evidence")
        await editor.say(session, "/diff")
        assert "No change is waiting" in editor.text()
        found = stage.call("delegations/diff", id=stage.delegations()[0].id)
        assert [hunk.reason for file in found.files for hunk in file.hunks] == ["is not needed", None, None]


@pytest.mark.parametrize(
    ("answer", "made", "counts"),
    [("Accept", True, (0, 1, 0)), ("Reject", False, (0, 0, 1)), ("Decide later", False, (1, 0, 0))],
)
async def test_the_question_after_a_result_decides(stage, connect, answer, made, counts) -> None:
    stage.script("quick", WRITES)
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        editor.answers.append(answer)
        await editor.say(session, "Write made.txt")
    assert (stage.top / "made.txt").exists() == made
    review = stage.delegations()[0].review
    assert (review.pending, review.accepted, review.rejected) == counts


@pytest.mark.parametrize("words", ["9", "tests/nothing.py", "made.txt nothing.py", "please"])
async def test_a_name_that_the_result_does_not_have_accepts_nothing(stage, connect, words) -> None:
    stage.script("quick", WRITES)
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        await editor.say(session, "Write made.txt")
        with pytest.raises(RequestError):
            await editor.say(session, f"/accept {words}")
        with pytest.raises(RequestError):
            await editor.say(session, "/reject tests/nothing.py")
    assert stage.delegations()[0].review.pending == 1
    assert not (stage.top / "made.txt").exists()


async def test_a_client_that_allows_everything_does_not_accept_what_programs_execute(stage, connect) -> None:
    flagged = {"write": ".github/workflows/ci.yml", "text": "on: push\n"}
    stage.script("quick", [flagged, {"write": "made.txt", "text": "made\n"}, {"result": True}])
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        editor.answers.append("Accept")
        await editor.say(session, "Write both")
        assert "ci.yml" not in editor.questions[0][0].content[0].content.text
        assert ".github/workflows/ci.yml" in editor.text()
    assert (stage.top / "made.txt").exists()
    assert not (stage.top / ".github").exists()


async def test_files_that_programs_execute_are_named_before_they_are_accepted(stage, connect) -> None:
    stage.script("quick", [{"write": ".github/workflows/ci.yml", "text": "on: push\n"}, {"result": True}])
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        await editor.say(session, "Write it")
        assert not editor.questions
        assert ".github/workflows/ci.yml" in editor.text()
        with pytest.raises(RequestError, match="--include-flagged"):
            await editor.say(session, "/accept")
        # A file of the repository whose name says so, beside the command.
        trap = stage.top / ".github/workflows/ci.yml --include-flagged .github/workflows/ci.yml"
        trap.parent.mkdir(parents=True)
        trap.write_text("x")
        link = schema.ResourceContentBlock(type="resource_link", name="x", uri=trap.as_uri())
        with pytest.raises(RequestError, match="--include-flagged"):
            await editor.say(session, "/accept", link)
        assert not (stage.top / ".github/workflows/ci.yml").exists()
        await editor.say(session, "/accept --include-flagged")
    assert (stage.top / ".github/workflows/ci.yml").read_text() == "on: push\n"


async def test_a_second_prompt_replies_and_another_delegator_begins_again(stage, connect) -> None:
    stage.script("quick", WRITES)
    stage.script("other", [{"say": "Me, too."}, {"result": True}])
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        await editor.say(session, "Write made.txt")
        await editor.say(session, "And again")
        second, first = stage.delegations()
        assert (second.parent_id, first.superseded_by) == (first.id, second.id)
        await editor.connection.set_session_mode(session_id=session, mode_id="other")
        await editor.say(session, "Something else")
        third = stage.delegations()[0]
        assert (third.parent_id, third.delegator) == (None, "other")
        assert "Me, too." in editor.text()
        assert {one.asked_by.session for one in stage.delegations()} == {session}


async def test_a_text_recipe_answers_and_a_second_question_knows_the_first_answer(stage, connect) -> None:
    stage.script("quick", [{"say": "It adds."}, {"result": True}])
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        await editor.say(session, "/ask What does calc.py do?")
        assert "It adds." in editor.text()
        assert editor.questions == []
        assert "verdict" not in editor.text().lower()
        await editor.say(session, "And why?")
        second, first = stage.delegations()
        assert (first.recipe, first.verdict, second.recipe) == ("ask", "answered", "ask")
        assert "It adds." in stage.call("delegations/logs", id=second.id).prompt
        assert "`calc.py`" in stage.call("delegations/logs", id=first.id).prompt


async def test_links_selections_and_unsaved_texts_are_part_of_the_request(stage, connect) -> None:
    stage.script("quick", [{"write": "calc.py", "append": "# seen\n"}, {"result": True}])
    calc, lines = (stage.top / name for name in ("calc.py", "lines.txt"))
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="quick")
        unsaved = schema.TextResourceContents(uri=calc.as_uri(), text="def add(a, b):\n    return b + a  # unsaved\n")
        selected = schema.TextResourceContents(uri=f"{lines.as_uri()}#L2:3", text="line 2\nline 3\n")
        elsewhere = schema.TextResourceContents(uri="zed:///agent/thread/1", text="what was said before")
        await editor.say(
            session,
            "Fix",
            schema.ResourceContentBlock(type="resource_link", name="lines.txt", uri=lines.as_uri()),
            "and",
            *(
                schema.EmbeddedResourceContentBlock(type="resource", resource=one)
                for one in (unsaved, selected, elsewhere)
            ),
        )
        prompt = stage.call("delegations/logs", id=stage.delegations()[0].id).prompt
        assert "Fix `lines.txt` and `calc.py`" in prompt
        assert "`lines.txt` (lines 2 to 3)" in prompt
        assert "what was said before" in prompt
        # The base is what the user sees, so that the diff has the agent's change only.
        [diff] = editor.diffs()
        assert "# unsaved" in diff.old_text
        assert diff.new_text == diff.old_text + "# seen\n"
        picture = schema.ImageContentBlock(type="image", data="AA==", mime_type="image/png")
        with pytest.raises(RequestError, match="no images"):
            await editor.say(session, "See", picture)


@pytest.mark.heavy
async def test_tests_take_the_files_that_the_command_names(stage, connect) -> None:
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="ghostwriter")
        await editor.say(session, "/tests calc.py, with every edge")
        assert stage.delegations()[0].recipe == "tests"
        assert any(path.endswith(".py") for path in (diff.path for diff in editor.diffs()))
        with pytest.raises(RequestError, match="needs a file to work on"):
            await editor.say(session, "/tests")
        with pytest.raises(RequestError, match="no command /nothing"):
            await editor.say(session, "/nothing")


async def test_an_agent_that_fails_says_why(stage, connect) -> None:
    error = {"kind": "quota_exhausted", "message": "The month is used up."}
    stage.script("poor", [{"result": {"ok": False, "error": error}}])
    async with connect() as editor:
        session = await editor.open(stage.top, delegator="poor")
        assert (await editor.say(session, "Try")).stop_reason == "end_turn"
        assert "The month is used up." in editor.text()
        assert "**Failed**" in editor.text()


async def test_delegators_and_recipes_are_options_and_commands(stage, connect) -> None:
    stage.script("quick", WRITES)
    async with connect() as editor:
        made = await editor.connection.new_session(cwd=str(stage.top), mcp_servers=[])
        delegator, recipe = made.config_options
        assert (delegator.id, delegator.category, delegator.current_value) == (
            "delegator",
            "model",
            "understudy:default",
        )
        assert [one.value for one in delegator.options] == ["understudy:default", "quick"]
        assert "tests" in [one.value for one in recipe.options]
        assert [one.id for one in made.modes.available_modes] == ["understudy:default", "quick"]
        await editor.until(lambda: editor.of(schema.AvailableCommandsUpdate))
        commands = {one.name for one in editor.of(schema.AvailableCommandsUpdate)[0].available_commands}
        assert {"tests", "implement", "ask", "accept", "reject", "undo", "diff"} <= commands
        for option, value in (("delegator", "missing"), ("recipe", "nothing"), ("colour", "red")):
            with pytest.raises(RequestError):
                await editor.connection.set_config_option(config_id=option, session_id=made.session_id, value=value)
        changed = await editor.connection.set_config_option(
            config_id="delegator", session_id=made.session_id, value="quick"
        )
        assert changed.config_options[0].current_value == "quick"
        await editor.until(lambda: editor.of(schema.CurrentModeUpdate))
