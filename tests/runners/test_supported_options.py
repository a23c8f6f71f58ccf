"""Test that the options reported as supported by a tool are exactly those that validation accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from understudy.config.discovery import declarations
from understudy.config.reference import supported_options
from understudy.config.validation import start_options
from understudy.config.validation.delegator_rules import Surroundings, check_delegator
from understudy.model.config.config_entries import SupportedOption
from understudy.model.config.delegators import Delegator, Launch, Limits, ModelServer
from understudy.model.delegation.delegations import LaunchOverride
from understudy.model.errors import UnderstudyError
from understudy.model.wire import camel
from understudy.runners.acp.acp_stream import AcpStream
from understudy.runners.acp.acp_stream import Session as AcpSession
from understudy.runners.agent_clis.streams.claude_stream import ClaudeStream
from understudy.runners.agent_clis.streams.codex_stream import CodexStream
from understudy.runners.agent_clis.streams.codex_stream import Session as CodexSession
from understudy.runners.agent_clis.streams.copilot_stream import CopilotStream
from understudy.runners.agent_clis.streams.event_stream import EventLines
from understudy.runners.agent_clis.streams.opencode_stream import OpencodeStream
from understudy.runners.agent_clis.streams.pi_stream import PiStream
from understudy.runners.agent_clis.streams.qwen_stream import QwenStream
from understudy.runners.driver.child_source import TakesMessages

_LAUNCH: dict[str, Any] = {"permission_mode": "plan", "flags": ["-v"], "yolo": True, "prompt_prefix": "p"}
_LIMITS: dict[str, Any] = {"total_seconds": 9.0, "idle_seconds": 9.0, "max_turns": 2, "max_tokens": 9, "max_usd": "1"}
_SERVER = ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:1/v1")
DECLARED = [one for one in (*declarations.tools().values(), *declarations.backends().values()) if one.runner]
IN_TMUX = [one for tool in declarations.tools().values() if (one := tool.in_mode("tmux")) is not None]
OVER_ACP = [one for tool in declarations.tools().values() if (one := tool.in_mode("acp")) is not None]


@pytest.mark.parametrize(
    "tool", [None, *(one.name for one in declarations.tools().values() if one.runner and one.binaries)]
)
@pytest.mark.parametrize("field", [*(f"launch.{name}" for name in _LAUNCH), *_LIMITS])
def test_supported_is_what_is_not_refused(tool: str | None, field: str) -> None:
    declared = declarations.tools()[tool] if tool else declarations.backends()["openai"]
    supported = supported_options.describe(declared)
    where, _, name = field.rpartition(".")
    modes = declared.values("permission_mode")
    value = modes[0] if name == "permission_mode" and modes else _LAUNCH.get(name)
    launch = Launch(**{name: value}) if where else None
    limits = None if where else Limits(**{name: _LIMITS[name]})
    own: dict[str, Any] = {"tool": tool} if tool else {"model_server": "s", "model": "m"}
    own |= {"model": "provider/m"} if declared.own_model is not None else {}
    delegator = Delegator(name="x", launch=launch, limits=limits, **own)
    found = [finding.message for finding in check_delegator(delegator, Surroundings({"s": _SERVER}))]
    if camel(name) in {option.name for option in (supported.launch if where else supported.limits)}:
        assert found == []
    else:
        assert len(found) == 1
        assert name in found[0]


@pytest.mark.parametrize("declared", DECLARED, ids=lambda one: one.name)
def test_every_option_can_be_drawn(declared: Any) -> None:
    supported = supported_options.describe(declared)
    options: list[SupportedOption] = [*supported.delegator, *supported.launch, *supported.limits, *supported.properties]
    for option in options:
        assert option.title != option.name, f"give {option.name} a title in model.capabilities.TITLES"
        assert option.description.endswith(".")
        for value in option.values or []:
            assert value.title
            assert value.description


@pytest.mark.parametrize("declared", DECLARED, ids=lambda one: one.name)
def test_a_declaration_names_fields_that_exist(declared: Any) -> None:
    assert set(declared.launch) <= set(Launch.__struct_fields__)
    assert declared.limits <= set(Limits.__struct_fields__)


@pytest.mark.parametrize("declared", [*DECLARED, *OVER_ACP], ids=lambda one: f"{one.name} {one.runner}")
def test_what_one_delegation_can_change_is_what_an_override_may_have(declared: Any) -> None:
    supported = supported_options.describe(declared)
    own: dict[str, Any] = {"tool": declared.name} if declared.name in declarations.tools() else {"model_server": "s"}
    if declared in OVER_ACP:
        own["mode"] = "acp"
    if "command" in declared.launch:
        own["launch"] = Launch(command=["agent", "{model}"] if own.get("mode") is None else ["agent"])
    if declared.needs_model_server:
        own["model"] = "m"
    if declared.own_model is not None:
        own["model"] = "provider/m"
    server = msgspec.structs.replace(_SERVER, protocols=list(declared.protocols) or None)
    delegator, around = Delegator(name="x", **own), Surroundings({"s": server})
    options = [*supported.delegator, *supported.launch]
    offered = {option.name: option for option in options if option.per_delegation}
    for name in msgspec.structs.fields(LaunchOverride):
        if name.name == "model_properties":
            found = [one.name for one in supported.properties if one.per_delegation]
            override = LaunchOverride(model_properties=dict.fromkeys(found or ["temperature"], "1"))
            may = bool(found)
        elif name.name in {"model", "mode", "permission_mode"}:
            may = (option := offered.get(camel(name.name))) is not None
            values = [one.value for one in (option.values if option is not None else None) or []]
            value = (
                own.get("mode", values[0] if values else "headless")
                if name.name == "mode"
                else (values or [own.get("model", "m")])[0]
            )
            override = LaunchOverride(**{name.name: value})
            if name.name == "mode" and not may:
                continue  # the only one that there is; the field has no other value
        else:
            continue
        if may:
            start_options.apply_launch(override, delegator, around)
        else:
            with pytest.raises(UnderstudyError):
                start_options.apply_launch(override, delegator, around)


def test_over_acp_only_what_the_protocol_has_is_supported() -> None:
    assert [one.name for one in OVER_ACP] == [
        "claude",
        "codex",
        "copilot",
        "gemini",
        "generic",
        "goose",
        "opencode",
        "qwen",
    ]
    server = {"s": _SERVER}
    for one in OVER_ACP:
        test_every_option_can_be_drawn(one)
        assert one.modes[:2] == ("headless", "acp")
        own: dict[str, Any] = {"command": ["agent", "--acp"]} if one.name == "generic" else {"flags": ["-v"]}
        base: dict[str, Any] = {"name": "x", "tool": one.name, "mode": "acp", "model": "m"}
        good = Delegator(**base, launch=Launch(permission_mode="plan", yolo=True, **own))
        assert list(check_delegator(good, Surroundings(server))) == []
        for refused in (
            {"limits": Limits(max_usd="1")},
            {"limits": Limits(max_turns=1)},
            {"model_server": "s"},
            {"model_properties": {"temperature": 0}},
            {"launch": Launch(output="events", **own)},
        ):
            (found,) = check_delegator(Delegator(**{**base, "launch": Launch(**own), **refused}), Surroundings(server))
            assert f"is not supported by the tool `{one.name}` over the Agent Client Protocol." in found.message


def test_in_tmux_each_option_that_is_supported_is_accepted_and_no_other() -> None:
    assert [one.name for one in IN_TMUX] == ["claude", "codex", "cursor", "generic", "opencode"]
    server = {"s": _SERVER}
    for one in IN_TMUX:
        test_every_option_can_be_drawn(one)
        own: dict[str, Any] = {"command": ["agent", "{prompt}"]} if one.name == "generic" else {"flags": ["-v"]}
        base: dict[str, Any] = {"name": "x", "tool": one.name, "mode": "tmux", "model": "provider/m"}
        modes: list[dict[str, Any]] = [{"permission_mode": mode.value} for mode in one.permission_modes]
        modes = modes if "permission_mode" in one.launch else []
        for more in ({}, *modes, *([{"yolo": True}] if "yolo" in one.launch else [])):
            assert list(check_delegator(Delegator(**base, launch=Launch(**own, **more)), Surroundings(server))) == []
        for refused in (
            {"limits": Limits(max_usd="1")},
            {"limits": Limits(after_result_seconds=1)},
            {"limits": Limits(answer_seconds=1)},
            {"model_server": "s"},
            {"model_properties": {"temperature": 0}},
            {"launch": Launch(output="events", **own)},
            {"launch": Launch(unanswered="stop", **own)},
        ):
            (found,) = check_delegator(Delegator(**{**base, "launch": Launch(**own), **refused}), Surroundings(server))
            assert f"is not supported by the tool `{one.name}` in tmux." in found.message


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"tool": "pi", "mode": "acp"}, ("mode",), "not supported by the tool `pi`"),
        ({"model_server": "s", "model": "m", "mode": "acp"}, ("mode",), "not supported by a model server"),
        ({"tool": "goose"}, ("tool",), "not supported yet"),
        ({"tool": "cursor"}, ("tool",), "not supported yet"),
        ({"tool": "ghostwriter", "mode": "tmux"}, ("mode",), "not supported by the tool `ghostwriter`"),
        ({"tool": "generic", "mode": "acp"}, ("launch",), "`launch.command` is missing"),
        (
            {"tool": "generic", "mode": "acp", "launch": Launch(command=["a", "{prompt}"])},
            ("launch", "command", 1),
            "{prompt} has no effect",
        ),
    ],
)
def test_a_mode_that_a_delegator_does_not_have_is_refused(fields: dict[str, Any], path: Any, words: str) -> None:
    (found,) = check_delegator(Delegator(name="x", **fields), Surroundings({"s": _SERVER}))
    assert (found.path, words in found.message) == (path, True), found
    assert found.hint


def test_every_launch_and_limit_field_is_supported_somewhere() -> None:
    everywhere = [mode for one in DECLARED for mode in one.in_each_mode()]
    assert {name for one in everywhere for name in one.launch} == set(Launch.__struct_fields__)
    assert {name for one in DECLARED for name in one.limits} == set(Limits.__struct_fields__)


def test_what_is_declared_about_messages_is_what_the_formats_do() -> None:
    tree = Path("/tree")
    codex = CodexSession(tree="/tree", model=None, resumes=None, approval="never", sandbox={})
    acp = AcpStream(tree, declarations.tools()["gemini"], AcpSession())
    streams: dict[str, Any] = {
        "claude": ClaudeStream(tree),
        "codex": CodexStream(tree, codex),
        "pi": PiStream(tree),
        "qwen": QwenStream(tree, "default"),
        "opencode": OpencodeStream,
        "copilot": CopilotStream,
        "generic": EventLines(),
    }
    taking = {name for name, stream in streams.items() if isinstance(stream, TakesMessages)}
    declared = {one.name: one.messages for one in DECLARED}
    # Our own loop reads no format; see test_a_message_is_part_of_the_next_request.
    assert {name for name, time in declared.items() if time in {"during_turn", "after_turn"}} == taking | {"openai"}
    assert declared["ghostwriter"] == "never"
    assert isinstance(acp, TakesMessages)
    assert {one.messages for one in OVER_ACP} == {"after_turn"}
