"""Which delegators may set `launch.relay`: every other one refuses it, by name."""

from __future__ import annotations

import pytest

from understudy.config.discovery import declarations
from understudy.config.validation import start_options
from understudy.config.validation.delegator_rules import Surroundings, check_delegator
from understudy.model.config.delegators import Delegator, Launch, Limits, ModelServer, Scope
from understudy.model.config.tool_definitions import DefinedOptions, ToolDefinition

WITH = {
    *((tool, "headless") for tool in ("claude", "codex", "opencode", "copilot")),
    *((tool, "acp") for tool in ("claude", "codex", "opencode", "copilot", "goose")),
    ("claude", "tmux"),
}
"""Tools with a command of their own, and the modes in which their agents get relay tools."""
MODES = [
    (name, mode)
    for name, tool in declarations.tools().items()
    for mode in tool.modes
    if "command" not in tool.launch and tool.in_mode(mode) is not None
]
SERVER = ModelServer(name="near", kind="custom", base_url="http://127.0.0.1:9/v1")


def findings(delegator: Delegator, *tools: ToolDefinition) -> list[tuple[tuple[str | int, ...], str]]:
    around = Surroundings({"near": SERVER}, {tool.name: tool for tool in tools})
    return [(one.path, one.message) for one in check_delegator(delegator, around) if one.severity == "error"]


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_a_tool_takes_relay_tools_or_refuses_them_by_name(name, mode):
    delegator = Delegator(name="x", tool=name, mode=mode, model="openai/m", launch=Launch(relay=True))
    found = [message for path, message in findings(delegator) if path == ("launch", "relay")]
    if (name, mode) in WITH:
        assert found == []
    else:
        [message] = found
        assert message.startswith(f"`launch.relay` is not supported by the tool `{name}`")
    off = Delegator(name="x", tool=name, mode=mode, model="openai/m", launch=Launch(relay=False))
    assert not [path for path, _ in findings(off) if path == ("launch", "relay")], "off is off everywhere"


def test_the_table_names_only_what_exists():
    assert set(MODES) >= WITH


@pytest.mark.parametrize("mode", ["headless", "acp", "tmux"])
@pytest.mark.parametrize("slot", [True, False])
def test_a_custom_command_needs_a_place_for_them(mode, slot):
    command = ["agent", *(["--prompt", "{prompt}"] if mode != "acp" else ["--acp"]), *(["{mcpConfig}"] if slot else [])]
    found = findings(Delegator(name="x", tool="generic", mode=mode, launch=Launch(relay=True, command=command)))
    if mode == "acp":
        assert [path for path, _ in found] == ([("launch", "command", 2)] if slot else [])
    else:
        assert [path for path, _ in found] == ([] if slot else [("launch", "relay")])


@pytest.mark.parametrize(
    ("options", "command", "works"),
    [
        (DefinedOptions(relay=["--mcp", "{mcpConfig}"]), ["agent", "{options}"], True),
        (None, ["agent", "--mcp={mcpConfig}"], True),
        (DefinedOptions(yolo=["--yes"]), ["agent", "{options}"], False),
    ],
)
def test_a_defined_tool_takes_them_where_its_definition_says(options, command, works):
    tool = ToolDefinition(name="scribe", title="Scribe", command=command, options=options)
    found = findings(Delegator(name="x", tool="scribe", launch=Launch(relay=True)), tool)
    assert [path for path, _ in found] == ([] if works else [("launch", "relay")])


def test_a_model_without_an_agent_has_them_too():
    assert findings(Delegator(name="x", model_server="near", model="m", launch=Launch(relay=True))) == []


def test_an_agent_that_never_asks_may_limit_how_long_its_questions_wait():
    limits = Limits(answer_seconds=60)
    assert findings(Delegator(name="x", tool="opencode", model="a/m", limits=limits, launch=Launch(relay=True))) == []
    assert [path for path, _ in findings(Delegator(name="x", tool="opencode", model="a/m", limits=limits))] == [
        ("limits", "answer_seconds")
    ]


@pytest.mark.parametrize(
    ("delegator", "taken"),
    [
        (Delegator(name="x", tool="claude"), True),
        (Delegator(name="x", tool="claude", launch=Launch(relay=False)), False),
        (Delegator(name="x", tool="pi"), False),
        (Delegator(name="x", tool="generic", launch=Launch(command=["agent", "{prompt}"])), False),
        (Delegator(name="x", tool="generic", launch=Launch(command=["agent", "{prompt}", "{mcpConfig}"])), True),
    ],
)
def test_the_default_applies_where_it_has_an_effect(delegator, taken):
    supported = declarations.require_capabilities(delegator, None)
    made, names = start_options.with_launch_defaults(Launch(relay=True), delegator, Scope.USER, supported)
    assert bool(made.launch and made.launch.relay) is taken
    assert names == (["relay"] if taken else [])
