"""Test that every option that a tool accepts changes what its program gets: arguments, variables, files or input.

A row of ``EFFECTS`` is what the program gets with the option, and without it only if this is how the tool works anyway
(``USUAL``). An option, a value or a tool without a row fails, and so does a row without an option.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from understudy.config.discovery import declarations
from understudy.model.config.delegators import Launch, ModelServer
from understudy.model.errors import UnderstudyError

DECLARED = {one.name: one for one in declarations.tools().values() if one.runner and one.protocols}
ELSEWHERE = {"branch", "prompt_prefix", "prompt_suffix", "relay", "unanswered", "use_worktree"}
"""Options that Understudy itself carries out, whatever the tool: the tests of ``engine`` have them."""
FLAGS = {"opencode": "--variant=high"}
"""A flag of the tool, where not every one is taken."""
RECORDINGS = {"qwen": "allowed"}
"""A recording in which the tool asks for a command."""
_GEMINI = 'files=\n[[rule]]\ntoolName = ["write_file", "replace", "web_fetch"]\ndecision = "allow"\npriority = 1\n'
_OPENCODE = "env.OPENCODE_CONFIG_CONTENT"
EFFECTS: dict[str, dict[str, str]] = {
    "claude": {
        "mode acceptEdits": "argv=acceptEdits",
        "mode default": "argv=default",
        "mode dontAsk": "argv=dontAsk",
        "mode plan": "argv=plan",
        "mode bypassPermissions": "argv=bypassPermissions",
        "yolo": "argv=bypassPermissions",
        "flags": "argv=--a-flag",
    },
    "codex": {
        "mode on-request": "params.approvalPolicy=on-request",
        "mode untrusted": "params.approvalPolicy=untrusted",
        "mode never": "params.approvalPolicy=never",
        "mode read-only": "params.sandboxPolicy.type=readOnly",
        "mode danger-full-access": "params.sandboxPolicy.type=dangerFullAccess",
        "yolo": "params.sandboxPolicy.type=dangerFullAccess",
        "flags": "argv=--a-flag",
        "model_reasoning_effort": 'argv=model_reasoning_effort="low"',
        "model_reasoning_summary": 'argv=model_reasoning_summary="low"',
        "model_verbosity": 'argv=model_verbosity="low"',
        "service_tier": 'argv=service_tier="low"',
    },
    "copilot": {
        "mode write": "argv=--allow-tool=write",
        "mode allow-all-tools": "argv=--allow-all-tools",
        "mode read-only": "argv=--deny-tool=write",
        "mode allow-all": "argv=--allow-all",
        "yolo": "argv=--allow-all",
        "flags": "argv=--a-flag",
        "model_reasoning_effort": "argv=--reasoning-effort=low",
        "contextWindow": "env.COPILOT_PROVIDER_MAX_PROMPT_TOKENS=7777",
        "maxTokens": "env.COPILOT_PROVIDER_MAX_OUTPUT_TOKENS=7777",
    },
    "gemini": {
        "mode auto_edit": _GEMINI,
        "mode default": "files=",
        "mode yolo": 'toolName = "*"',
        "yolo": 'toolName = "*"',
        "flags": "argv=--a-flag",
        "temperature": "generateContentConfig.temperature=0.25",
        "maxTokens": "generateContentConfig.maxOutputTokens=7777",
    },
    "opencode": {
        "mode build": "argv=build",
        "mode edit": f"{_OPENCODE}.agent.understudy.permission.edit=allow",
        "mode read-only": f"{_OPENCODE}.agent.understudy.permission.glob=allow",
        "mode auto": "argv=--auto",
        "yolo": "argv=--auto",
        "flags": "argv=--variant=high",
        "temperature": f"{_OPENCODE}.provider.understudy.models.m.options.temperature=0.25",
    },
    "pi": {
        "mode all-tools": "",
        "mode read-only": "argv=read,grep,find,ls",
        "yolo": "",
        "flags": "argv=--a-flag",
        "thinking": "argv=low",
        "contextWindow": "models.contextWindow=7777",
        "maxTokens": "models.maxTokens=7777",
    },
    "qwen": {
        "mode auto-edit": "argv=--approval-mode=default",
        "mode default": "argv=--approval-mode=default",
        "mode plan": "argv=--approval-mode=plan",
        "mode yolo": "response.response.behavior=allow",
        "yolo": "response.response.behavior=allow",
        "flags": "argv=--a-flag",
        "temperature": "extra_body.temperature=0.25",
    },
}
USUAL = {
    ("claude", "mode acceptEdits"),
    ("codex", "mode on-request"),
    ("copilot", "mode write"),
    ("gemini", "mode auto_edit"),
    ("opencode", "mode build"),
    ("pi", "mode all-tools"),
    ("pi", "yolo"),  # it has no permissions
    ("qwen", "mode auto-edit"),
    ("qwen", "mode default"),  # its questions are answered by Understudy: test_qwen.py
}
"""What is the same without the option."""


def options_of(name: str) -> dict[str, dict[str, Any]]:
    """Return what a delegator of a tool may set, by the name of its row, with a value."""
    tool = DECLARED[name]
    found: dict[str, dict[str, Any]] = {}
    for field in tool.launch.keys() - ELSEWHERE:
        if field == "permission_mode":
            found |= {f"mode {mode}": {"launch": Launch(permission_mode=mode)} for mode in tool.values(field)}
        else:
            value = {"yolo": True, "flags": [FLAGS.get(name, "--a-flag")]}.get(field)
            assert value is not None, f"give {field} a value here and a row for each tool"
            found[field] = {"launch": Launch(**{field: value})}
    for one in ["temperature"] if tool.properties else tool.own_properties:
        value = 0.25 if one == "temperature" else 7777 if one in {"contextWindow", "maxTokens"} else "low"
        found[one] = {"properties": {one: value}}
    return found


def test_every_option_of_every_tool_has_a_row() -> None:
    assert {name: sorted(EFFECTS.get(name, {})) for name in DECLARED} == {
        name: sorted(options_of(name)) for name in DECLARED
    }
    assert EFFECTS.keys() == DECLARED.keys()


def atoms(value: Any, at: str = "") -> Iterator[str]:
    """Yield every single value of JSON, also of JSON in a text, with its place."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from atoms(inner, f"{at}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from atoms(inner, at)
    else:
        yield f"{at}={value}".lstrip(".")


async def given(stage: Any, *, model: str = "m", env: dict[str, str] | None = None, **options: Any) -> set[str]:
    """Return everything that the program of a stage gets."""
    protocol = DECLARED[stage.tool].protocols[0]
    server = ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:9/v1", protocols=[protocol])
    recording = RECORDINGS.get(stage.tool, "edits")
    task = stage.task(recording, env=env, model_server=server, key=lambda: "sk-0123456789", **options)
    environment = {**task.environment, "IS_SANDBOX": "1", **(env or {})}
    delegator = msgspec.structs.replace(task.delegator, model=model)
    ended = await stage.run(msgspec.structs.replace(task, environment=environment, delegator=delegator))
    assert stage.heard.exists() or not isinstance(ended, UnderstudyError), ended
    found: set[str] = set()
    for line in stage.heard.read_text().splitlines():
        try:
            found |= set(atoms(json.loads(line)))
        except ValueError:
            found.add(f"stdin={line}")
    changing = "|".join([re.escape(task.delegation_id), re.escape(str(stage.folder)), "understudy-[a-z]+-[a-z0-9_]{8}"])
    return {re.sub(changing, "", one) for one in found}


ROWS = [(tool, row) for tool, rows in EFFECTS.items() for row in rows]


@pytest.mark.parametrize(("tool", "row"), ROWS, ids=[f"{tool} {row}" for tool, row in ROWS])
async def test_an_accepted_option_has_its_effect(tool: str, row: str, stage_for: Any) -> None:
    without, there = (
        await given(stage_for(tool, "without")),
        await given(stage_for(tool, "with"), **options_of(tool)[row]),
    )
    effect = EFFECTS[tool][row]

    def has(found: set[str]) -> bool:
        part = " = " in effect or "." in effect  # of a longer text, or a value at a longer path
        return effect in found or (part and any(effect in one for one in found))

    if effect:
        assert has(there), sorted(there - without)
    assert has(without) == ((tool, row) in USUAL and bool(effect)), sorted(there ^ without)


@pytest.mark.parametrize("tool", DECLARED)
async def test_variables_and_the_model_reach_the_program(tool: str, stage_for: Any) -> None:
    without = await given(stage_for(tool, "without"))
    there = await given(stage_for(tool, "with"), model="another-model", env={"MINE": "a value"})
    assert "env.MINE=a value" in there - without
    assert any("another-model" in one for one in there - without)
    assert not any("another-model" in one for one in without)
