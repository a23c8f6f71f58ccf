"""Test the rules for tools that files define: nothing that cannot work or has no effect passes."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.config.discovery import declarations
from understudy.config.editing.new_files import tool_template
from understudy.config.parsing import file_schema
from understudy.config.validation.delegator_rules import Surroundings, check_delegator
from understudy.config.validation.tool_rules import FIELDS, check_tool
from understudy.model.config.delegators import Delegator, Launch, Limits
from understudy.model.config.tool_definitions import EventRule, ToolDefinition
from understudy.model.text import foreign_json

TEXT = 'title = "Mine"\ncommand = ["mine", "{options}"]\n'
JSON = TEXT + 'dialect = "json"\n'
RULE = '[[events]]\nevent = "text"\nwhen = { type = "a" }\ntext = "b"\n'


def defined(text: str, name: str = "mine") -> ToolDefinition:
    return file_schema.from_file({"name": name, **tomllib.loads(text)}, ToolDefinition)


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ('title = "x"\ncommand = []\n', ("command",), "`command` is empty"),
        ('title = "x"\ncommand = ["{model}"]\n', ("command", 0), "cannot have a placeholder"),
        ('title = "x"\ncommand = ["x", "{promt}"]\n', ("command", 1), "{promt} is not a placeholder"),
        ('title = "x"\ncommand = ["x", "a={options}"]\n', ("command", 1), "an argument of its own"),
        ('title = "x"\ncommand = ["x", "{options}", "{options}"]\n', ("command", 2), "occurs twice"),
        ('title = "x"\ncommand = ["x", "a\\u0000"]\n', ("command", 1), "NUL byte"),
        ('title = "x"\ncommand = ["x"]\noptions = { yolo = ["-y"] }\n', ("options",), "does not say where"),
        (TEXT + 'options = { model = ["-m"] }\n', ("options", "model"), "has no {model}"),
        (TEXT + 'options = { model = ["{model}", "{prompt}"] }\n', ("options", "model", 1), "{prompt} is not"),
        (TEXT + "options = { yolo = [] }\n", ("options", "yolo"), "is empty"),
        (TEXT + 'options = { resume = ["-r={sessionId}"] }\n', ("options", "resume"), "names its session"),
        (TEXT + 'prompt_delivery = "file"\n', ("prompt_delivery",), "has no {promptFile}"),
        (TEXT + "version = []\n", ("version",), "is empty"),
        (TEXT + 'completion = "exit"\n', ("completion",), "no effect"),
        (TEXT + RULE, ("events",), "no effect"),
        (TEXT + 'env = { "a b" = "" }\n', ("env", "a b"), "not the name of a variable"),
        (TEXT + 'env = { MY_API_KEY = "abc" }\n', ("env", "MY_API_KEY"), "A key is never written"),
        (TEXT + 'repository_paths = [{ path = "../x", what = "y" }]\n', ("repository_paths", 0, "path"), "inside"),
        (TEXT + 'failures = [{ kind = "timed_out" }]\n', ("failures", 0), "no condition"),
        (
            TEXT + 'failures = [{ kind = "timed_out", exit_codes = [0] }]\n',
            ("failures", 0, "exit_codes", 0),
            "1 to 255",
        ),
        (
            TEXT + 'failures = [{ kind = "timed_out", contains = [" "] }]\n',
            ("failures", 0, "contains", 0),
            "characters",
        ),
        (TEXT + 'failures = [{ kind = "timed_out", when = { a = 1 } }]\n', ("failures", 0, "when"), "no effect"),
        (JSON, (), "needs rules"),
        (JSON + 'completion = "result"\n' + RULE, ("completion",), "needs a rule"),
        (JSON + RULE.replace('"b"', '"b["'), ("events", 0, "text"), "(character 2)"),
        (JSON + RULE.replace("type =", '"a..b" ='), ("events", 0, "when", "a..b"), "(character 3)"),
        (JSON + RULE.replace('"a"', "[]"), ("events", 0, "when", "type"), "must be a text"),
        (JSON + RULE.replace('"a"', "{ b = 1 }"), ("events", 0, "when", "type"), "must be a text"),
        (JSON + RULE.replace('when = { type = "a" }\n', ""), ("events", 0), "`when` is missing"),
        (JSON + RULE.replace('text = "b"\n', ""), ("events", 0), "`text` is missing"),
        (JSON + RULE + 'cost_usd = "c"\n', ("events", 0, "cost_usd"), "no effect on a rule"),
        (JSON + RULE + '[[events]]\nevent = "usage"\nwhen = { a = 1 }\ntotals = true\n', ("events", 1), "no count"),
        (JSON + RULE * 101, ("events", 100), "more than 100 rules"),
    ],
)
def test_what_cannot_work_is_refused_with_its_place(text: str, path: Any, words: str):
    found = list(check_tool(defined(text)))
    assert [(one.path, words in one.message) for one in found] == [(path, True)], found


@pytest.mark.parametrize("name", sorted(declarations.tools()))
def test_the_name_of_a_tool_that_understudy_knows_is_refused(name: str):
    (found,) = check_tool(defined(TEXT, name))
    assert (found.path, f"`{name}` is a tool that Understudy knows" in found.message) == (("name",), True)


def test_the_template_has_every_field_and_works_with_all_of_them():
    text = tool_template("mine")
    assert list(check_tool(defined(text))) == []
    lines = [line.removeprefix("# ") for line in text.splitlines()]
    keys = [line for line in lines if line.startswith("[") or (line.split(" = ")[0].isidentifier() and " = " in line)]
    everything = "\n".join(keys).replace('dialect = "text"', 'dialect = "json"')
    tool = defined(everything)
    assert list(check_tool(tool)) == []
    assert all(name in everything for name in ToolDefinition.__struct_fields__ if name != "name")
    assert {rule.event for rule in tool.events} >= set(FIELDS) - {"thinking", "phase", "plan"}
    for name in {name for fields in FIELDS.values() for field in fields for name in field}:
        assert name in text or name.endswith("_tokens"), name


def test_every_field_of_a_rule_belongs_to_an_event():
    fields = {name for needed, possible in FIELDS.values() for name in (*needed, *possible)}
    assert fields == set(EventRule.__struct_fields__) - {"event", "when"}


@pytest.mark.parametrize(
    ("delegator", "path"),
    [
        ({"model": "m"}, ("model",)),
        ({"launch": Launch(yolo=True)}, ("launch", "yolo")),
        ({"launch": Launch(permission_mode="x")}, ("launch", "permission_mode")),
        ({"launch": Launch(flags=["-x"])}, ("launch", "flags")),
        ({"launch": Launch(command=["x"])}, ("launch",)),
        ({"launch": Launch(output="text")}, ("launch", "output")),
        ({"limits": Limits(max_turns=2)}, ("limits", "max_turns")),
        ({"limits": Limits(answer_seconds=2)}, ("limits", "answer_seconds")),
        ({"model_server": "s"}, ("model_server",)),
        ({"model_properties": {"temperature": 1}}, ("model_properties",)),
        ({"mode": "acp"}, ("mode",)),
    ],
)
def test_a_delegator_cannot_set_what_its_tool_does_not_define(delegator: dict[str, Any], path: Any):
    around = Surroundings(tools={"mine": defined('title = "Mine"\ncommand = ["mine"]\n')})
    found = list(check_delegator(Delegator(name="d", tool="mine", **delegator), around))
    assert path in [one.path[: len(path)] for one in found], found
    assert all("mine" in one.message or one.path == ("model_server",) for one in found)


def test_a_delegator_can_set_what_its_tool_defines():
    text = JSON + RULE + '[[events]]\nevent = "usage"\nwhen = { a = 1 }\ninput_tokens = "b"\n[options]\nyolo = ["-y"]\n'
    text += 'model = ["{model}"]\n[[permission_modes]]\nname = "r"\narguments = []\ndescription = "R."\n'
    around = Surroundings(tools={"mine": defined(text)})
    for launch in (Launch(yolo=True, flags=["-x"]), Launch(permission_mode="r", prompt_prefix="p")):
        delegator = Delegator(name="d", tool="mine", model="m", launch=launch, limits=Limits(max_turns=1))
        assert list(check_delegator(delegator, around)) == []
    (found,) = check_delegator(Delegator(name="d", tool="mine", launch=Launch(permission_mode="q")), around)
    assert found.code == "not_allowed"


PATHS = st.lists(st.sampled_from(["a", ".", "[", "]", "0", "*", "[0]", "[*]", "-", " ", "é"]), max_size=8).map("".join)
DOCUMENTS = st.recursive(
    st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "0", "-", "a0"]), inner),
)


@given(text=PATHS, document=DOCUMENTS)
def test_a_path_is_refused_with_its_position_or_can_be_followed(text: str, document: Any):
    try:
        steps = foreign_json.parse_path(text)
    except foreign_json.PathError as error:
        assert 0 <= error.at <= len(text)  # noqa: PT017 - both outcomes are right
        return
    written = "".join(f".{s}" if isinstance(s, str) else "[*]" if s is None else f"[{s}]" for s in steps)
    assert written == f".{text}"
    assert len(foreign_json.values_at(document, steps)) <= foreign_json.MOST_VALUES


def test_a_path_finds_values():
    document = {"a": [{"b": 1}, {"c": 2}, {"b": None}, {"b": [3, 4]}], "d": {"e-f": "x"}}
    found = {
        path: foreign_json.values_at(document, foreign_json.parse_path(path))
        for path in ("a[*].b", "a[0].b", "d.e-f", "a[9]")
    }
    assert found == {"a[*].b": [1, [3, 4]], "a[0].b": [1], "d.e-f": ["x"], "a[9]": []}
