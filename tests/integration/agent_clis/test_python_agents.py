"""Test the ready-made definitions of aider and mini-swe-agent: the real programs on the scripted model server."""

import tomllib

import msgspec
import pytest

from understudy.config.editing.new_files import tool_template
from understudy.config.parsing import file_schema
from understudy.model.config.delegators import Delegator, Launch
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.runner import Outcome

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def programs(python_programs):
    return python_programs


async def run(lab, name, scenario, launch=None):
    defined = file_schema.from_file({"name": name, **tomllib.loads(tool_template(name, name))}, ToolDefinition)
    env = {"OPENAI_API_BASE": f"{lab.url(scenario)}/v1", "OPENAI_API_KEY": "key-of-nobody"}
    delegator = Delegator(name=name, tool=name, model="openai/gpt-5.5", launch=launch)
    task = msgspec.structs.replace(lab.task(scenario, env=env), delegator=delegator)
    task.prompt_file.write_text(task.prompt)
    return await lab.run(task, defined)


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["aider", "mini"])
async def test_it_changes_files_and_leaves_nothing_else(lab, name):
    lab.commit()
    outcome = await run(lab, name, "edits")
    assert isinstance(outcome, Outcome), outcome
    assert "Done: it is as you asked." in outcome.text
    assert (lab.tree / "hello.txt").read_text() == "good morning\n"
    assert {path.name for path in lab.tree.iterdir()} == {"greeting.py", "hello.txt", ".git"}


async def test_aider_only_answers_if_it_is_asked_to(lab):
    lab.commit()
    outcome = await run(lab, "aider", "edits", Launch(permission_mode="ask"))
    assert isinstance(outcome, Outcome), outcome
    assert not (lab.tree / "hello.txt").exists()


@pytest.mark.parametrize(
    ("scenario", "kind"),
    [
        ("401", ErrorKind.AUTH_FAILED),
        ("404", ErrorKind.MODEL_NOT_FOUND),
        ("quota", ErrorKind.QUOTA_EXHAUSTED),
        ("context", ErrorKind.CONTEXT_TOO_LONG),
    ],
)
async def test_a_failure_of_mini_has_its_kind(lab, scenario, kind):
    failure = await run(lab, "mini", scenario)
    assert isinstance(failure, UnderstudyError), failure
    assert failure.kind is kind
