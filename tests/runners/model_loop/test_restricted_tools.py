"""Test what a model may do whose agent file names its tools: nothing else, in no way."""

from __future__ import annotations

import pytest
from model_work import DONE, PROTOCOLS, Work, call

from understudy.model.errors import UnderstudyError

BLOCK = "calc.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE\n"
NEW = "new.py\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n"


def files(work: Work) -> dict[str, str]:
    return {one.name: one.read_text() for one in work.tree.iterdir() if one.is_file()}


def offered(body: dict) -> list[str]:
    return [one.get("function", one)["name"] for one in body.get("tools", [])]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_only_the_named_tools_are_offered_and_executed(work: Work, protocol: str) -> None:
    before = files(work)
    calls = [
        call("write_file", path="calc.py", content="x"),
        call("edit_file", path="calc.py", old_string="a - b", new_string="a + b"),
        call("run_command", command="touch ran"),
        call("read_file", path="calc.py"),
    ]
    outcome = await work.run({"calls": calls}, DONE, protocol=protocol, tools=["read_file", "search_files"])
    assert not isinstance(outcome, UnderstudyError)
    assert [offered(body) for body in work.requests] == [["read_file", "search_files"]] * 2
    refused = "There is no tool {!r}. The tools are: read_file, search_files."
    assert [one.split("\n")[0] for one in work.results[:3]] == [
        refused.format(name) for name in ("write_file", "edit_file", "run_command")
    ]
    assert "return a - b" in work.results[3]
    assert files(work) == before


@pytest.mark.parametrize(
    ("tools", "answer", "changed"),
    [
        (["read_file"], BLOCK, set()),
        (["read_file"], NEW, set()),
        ([], BLOCK, set()),
        (["edit_file"], BLOCK, {"calc.py"}),
        (["edit_file"], NEW, set()),
        (["write_file"], BLOCK + NEW, {"calc.py", "new.py"}),
        (None, BLOCK + NEW, {"calc.py", "new.py"}),
    ],
)
async def test_edits_in_an_answer_are_no_way_around(work: Work, tools, answer: str, changed: set[str]) -> None:
    before = files(work)
    await work.run({"text": answer}, DONE, DONE, tools=tools)
    after = files(work)
    assert {name for name in after if after[name] != before.get(name)} == changed


async def test_test_files_in_an_answer_need_permission_to_write(work: Work) -> None:
    before = files(work)
    answer = "test_calc.py\n```python\nfrom calc import add\n\ndef test_add():\n    assert add(1, 2) == 3\n```\n"
    await work.run({"text": answer}, DONE, recipe="tests", tools=["read_file"], files=["calc.py"])
    assert files(work) == before


async def test_a_model_without_permission_to_change_ends_with_its_first_answer(work: Work) -> None:
    outcome = await work.run({"text": "It subtracts."}, DONE, tools=["read_file"])
    assert outcome.text == "It subtracts."
    assert len(work.requests) == 1
    assert "SEARCH" not in str(work.requests)


async def test_without_any_tool_none_is_offered(work: Work) -> None:
    outcome = await work.run({"text": "It subtracts."}, tools=[])
    assert outcome.text == "It subtracts."
    assert "tools" not in work.requests[0]
