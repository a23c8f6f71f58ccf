"""Test that a misspelt slot in a command is found, and that braces of programs are not."""

from __future__ import annotations

import pytest

from understudy.config.validation import delegator_rules
from understudy.config.validation.delegator_rules import Surroundings
from understudy.model.config.delegators import Delegator, Launch
from understudy.model.config.tool_definitions import NAMES


def findings(*command: str) -> list[str]:
    thing = Delegator(name="mine", tool="generic", launch=Launch(command=list(command)))
    return [one.message for one in delegator_rules.check_delegator(thing, Surroundings({})) if one.severity == "error"]


@pytest.mark.parametrize(
    "word",
    ["{promptFil}", "{Prompt}", "{PROMPT}", "{modle}", "{sessionID}", "{workdir}", "{task}", "{promptFile", "{model"],
)
def test_a_misspelt_slot_is_refused_with_the_slots(word):
    assert findings("agent", word) == [f"{word} is not a placeholder."]


@pytest.mark.parametrize("argument", ["--file={promptFil}", "a {Model} b"])
def test_also_inside_an_argument(argument):
    assert len(findings("agent", argument)) == 1


@pytest.mark.parametrize("argument", [*(f"--x={{{name}}}" for name in NAMES if name != "promptFile")])
def test_slots_are_accepted(argument):
    assert findings("agent", argument) == []


@pytest.mark.parametrize(
    "argument", ["awk '{print $1}'", '{"a": {}}', "x={print}", "${HOME}", "{}", "{1}", "{model: .a}", "{print"]
)
def test_braces_of_programs_are_kept(argument):
    assert findings("agent", "{prompt}", argument) == []
