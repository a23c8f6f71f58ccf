"""Test the import of tools that start agent CLIs: agent-delegator, sideagent and Operator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.config.editing.edit import Editor
from understudy.config.importing import import_plan
from understudy.config.loading.loader import load
from understudy.model.config.delegators import Delegator, EnvReference, KeyReference, Launch, RemoteAgent, Scope
from understudy.model.errors import UnderstudyError

Planned = Callable[..., import_plan.ImportPlan]
SECRET = "sk-test-0123456789abcdef"

DELEGATOR = """\
{
\t"preferred_models": {
\t\t"implementation": "unheard-of",
\t\t"code_review": "claude:claude-sonnet-4-6",
\t\t"research": "gemini:gemini-pro"
\t},
\t"provider_priority": ["opencode", "claude", "unheard-of"],
\t"worktree_ttl_hours": 24,
\t"routing_matrix": {"_any_agent_": {"subagent-driven": {}}},
\t"custom": true
}
"""

SIDEAGENT = f"""\
default_profile: deepseek
profiles:
  spark:
    command: /opt/homebrew/bin/codex
    interface: codex
    headless: true
    args: [--yolo, --model, gpt-spark, -c, 'model_reasoning_effort="high"', --search]
    env:
    prompt: argument
  deepseek:
    command: claude
    interface: claude
    args:
      - --dangerously-skip-permissions
    env:
      ANTHROPIC_BASE_URL: https://api.deepseek.com/anthropic
      ANTHROPIC_AUTH_TOKEN:
        from_env: DEEPSEEK_API_KEY
      OTHER_API_KEY: {SECRET}
      TELEMETRY: '0'
  script:
    command: ./agent.sh
    args: [--task, '{{prompt_file}}']
    prompt: prompt-file-arg
    headless: true
  keyed:
    command: x
    args: [--api-key, {SECRET}]
"""

OPERATOR = f"""\
[git]
use_worktrees = false

[[model_servers]]
name = "ollama-local"
kind = "ollama"
base_url = "http://localhost:11434"

[[model_servers]]
name = "gateway"
kind = "openai-compat"
base_url = "https://models.example/v1"
api_key_env = "GATEWAY_KEY"
extra_env = {{ A = "b" }}

[[delegators]]
name = "Claude Opus"
llm_tool = "claude"
model = "opus"
model_properties = {{ reasoning_effort = "high" }}

[delegators.launch_config]
yolo = true
permission_mode = "delegate"
flags = ["--verbose", "{SECRET}"]
prompt_suffix = "Be concise."
docker = true

[[delegators]]
name = "codex-qwen"
llm_tool = "codex"
model = "qwen"
model_server = "ollama-local"

[[delegators]]
name = "remote"
[delegators.remote_agent]
platform = "agnt"
id = "Research Assistant"

[[delegators]]
name = "claude-gateway"
llm_tool = "claude"
model = "x"
model_server = "gateway"
"""


def written(editor: Editor, made: import_plan.ImportPlan) -> dict[str, Delegator]:
    made.write(editor)
    found = load(None, trusted=False)
    assert [problem.message for problem in found.problems] == []
    return {name: entry.delegator for name, entry in found.delegators.items() if entry.scope is Scope.USER}


def left_out(made: import_plan.ImportPlan) -> dict[str, int]:
    return {one.setting: one.location.range.start.line + 1 if one.location else 0 for one in made.not_carried}


def test_agent_delegator(planned: Planned, editor: Editor) -> None:
    made = planned("agent-delegator", DELEGATOR)
    assert left_out(made) == {
        "preferred_models.implementation": 3,
        "preferred_models.research": 5,
        "provider_priority[0]": 7,
        "provider_priority[2]": 7,
        "routing_matrix": 9,
        "custom": 10,
    }
    sonnet = "claude-claude-sonnet-4-6"
    assert written(editor, made) == {
        "claude": Delegator(name="claude", tool="claude"),
        sonnet: Delegator(name=sonnet, tool="claude", model="claude-sonnet-4-6", fallback=["claude"]),
        "gemini-gemini-pro": Delegator(name="gemini-gemini-pro", tool="gemini", model="gemini-pro"),
    }
    assert load(None, trusted=False).worktrees.keep_days == 1
    defaults = load(None, trusted=False).defaults
    assert (defaults.delegator, defaults.recipes) == ("claude", {"review": "claude-claude-sonnet-4-6"})
    assert planned("agent-delegator", DELEGATOR).files == []


README = """{
  "preferred_models": {
    "implementation": "federated-coding",
    "code_review": "claude:claude-sonnet-4-6",
    "research": "federated-sonnet"
  },
  "provider_priority": ["opencode", "claude", "copilot"],
  "worktree_ttl_hours": 24,
  "cooldown": {"failure_threshold": 4, "base_minutes": 5, "max_minutes": 90},
  "disable_dashboard": false
}
"""


def test_the_readme_of_agent_delegator_keeps_its_order(planned: Planned, editor: Editor) -> None:
    made = planned("agent-delegator", README)
    assert left_out(made).keys() == {"preferred_models.research", "disable_dashboard"}
    delegators = written(editor, made)
    found = load(None, trusted=False)
    coding = "opencode-deepseek-v4-pro"
    assert (found.defaults.delegator, found.defaults.recipes) == (
        coding,
        {"implement": coding, "review": "claude-claude-sonnet-4-6"},
    )
    assert delegators[coding].model == "opencode-go/deepseek-v4-pro"
    assert delegators[coding].fallback == [
        "opencode-minimax-m2.7",
        "opencode-deepseek-v4-flash",
        "claude-claude-sonnet-4-6",
        "opencode-minimax-m2.5-free",
        "opencode-gpt-5-nano",
        "codex-gpt-4o-mini",
        "claude",
        "copilot",
    ]
    assert delegators["claude-claude-sonnet-4-6"].fallback == [coding, "claude", "copilot"]
    pauses = found.fallback
    assert (pauses.failures, pauses.pause_minutes, pauses.longest_pause_minutes) == (4, 5, 90)
    assert planned("agent-delegator", README).files == []


def test_an_agent_without_a_model_is_left_out_with_the_command_that_adds_it(planned: Planned, editor: Editor) -> None:
    made = planned("agent-delegator", '{"provider_priority": ["opencode", "claude", "copilot"]}')
    (left,) = [one for one in made.not_carried if one.setting == "provider_priority[0]"]
    assert left.reason.startswith("opencode needs a model with its provider")
    delegators = written(editor, made)
    assert load(None, trusted=False).defaults.delegator == "claude"
    assert delegators["claude"].fallback == ["copilot"]


def test_logical_models_of_the_file_become_chains(planned: Planned, editor: Editor) -> None:
    text = """{
      "logical_models": {"mine": {"display": "x", "providers": ["codex:gpt-5", "antigravity:g", "claude:opus"]}},
      "preferred_models": {"testing": "mine", "debugging": "missing"}
    }"""
    made = planned("agent-delegator", text)
    assert left_out(made) == {"preferred_models.debugging": 3}
    delegators = written(editor, made)
    assert load(None, trusted=False).defaults.recipes == {"tests": "codex-gpt-5"}
    assert delegators["codex-gpt-5"].fallback == ["antigravity", "claude-opus"]
    command = delegators["antigravity"].launch
    assert command is not None
    assert command.command is not None
    assert command.command[0] == "agy"


def test_names_are_those_that_are_written(planned: Planned, editor: Editor) -> None:
    """A delegator of the user has the name of one that takes over."""
    editor.create(Delegator(name="claude", tool="claude", model="haiku"), Scope.USER)
    written(editor, planned("agent-delegator", '{"provider_priority": ["codex", "claude", "copilot"]}'))
    assert load(None, trusted=False).delegators["codex"].delegator.fallback == ["claude-2", "copilot"]
    assert planned("agent-delegator", '{"provider_priority": ["codex", "claude", "copilot"]}').files == []


def test_an_agent_that_needs_a_model_gets_one_that_the_file_names(planned: Planned, editor: Editor) -> None:
    text = README.replace("federated-coding", "opencode:gpt-5").replace(
        "claude:claude-sonnet-4-6", "opencode:openai/gpt-5"
    )
    delegators = written(editor, planned("agent-delegator", text))
    name = load(None, trusted=False).defaults.delegator
    assert name == "opencode-gpt-5"
    assert delegators[name].model == "openai/gpt-5"
    assert delegators[name].fallback == ["claude", "copilot"]
    assert [one.model for one in delegators.values() if one.tool == "opencode"] == ["openai/gpt-5"]


def test_sideagent(planned: Planned, editor: Editor) -> None:
    made = planned("sideagent", SIDEAGENT)
    assert left_out(made) == {
        "profiles.spark.command": 4,
        "profiles.deepseek": 10,
        "profiles.deepseek.env.OTHER_API_KEY": 19,
        "profiles.keyed.args": 28,
        "profiles.keyed": 26,
    }
    assert SECRET not in made.diff() + repr(made.not_carried)
    assert written(editor, made) == {
        "spark": Delegator(
            name="spark",
            tool="codex",
            model="gpt-spark",
            model_properties={"model_reasoning_effort": "high"},
            launch=Launch(yolo=True, flags=["--search"]),
        ),
        "deepseek": Delegator(
            name="deepseek",
            tool="claude",
            launch=Launch(yolo=True),
            env={
                "ANTHROPIC_BASE_URL": "https://api.deepseek.com/anthropic",
                "ANTHROPIC_AUTH_TOKEN": EnvReference(from_env="DEEPSEEK_API_KEY"),
                "OTHER_API_KEY": EnvReference(from_env="OTHER_API_KEY"),
                "TELEMETRY": "0",
            },
        ),
        "script": Delegator(
            name="script", tool="generic", launch=Launch(command=["./agent.sh", "--task", "{promptFile}"])
        ),
    }
    assert load(None, trusted=False).defaults.delegator == "deepseek"
    assert planned("sideagent", SIDEAGENT).files == []


def test_profiles_that_sideagent_runs_in_a_terminal_run_hands_free(planned: Planned, editor: Editor) -> None:
    """Claude Code and cursor-agent ask in a terminal whether to trust a folder, and each worktree is a new one."""
    text = "profiles:\n" + "".join(
        f"  {name}: {{command: {command}, interface: {name}, args: [{flag}]}}\n"
        for name, command, flag in (
            ("claude", "claude", "--dangerously-skip-permissions"),
            ("codex", "/opt/codex", "--yolo"),
            ("cursor", "cursor-agent", "--force"),
            ("generic", "agent", "--all"),
        )
    )
    made = planned("sideagent", text)
    notes = {one.setting for one in made.not_carried if "--mode tmux" in one.reason}
    assert notes == {"profiles.claude", "profiles.codex", "profiles.cursor"}
    delegators = written(editor, made)
    assert {name: entry.mode for name, entry in delegators.items()} == {
        "claude": None,
        "codex": None,
        "cursor": None,
        "generic": "tmux",
    }
    cursor = delegators["cursor"].launch
    assert cursor is not None
    assert cursor.command == ["cursor-agent", "--print", "--trust", "--force", "--", "{prompt}"]


@pytest.mark.parametrize(("tool", "reaches"), [("codex", True), ("copilot", True), ("claude", False)])
def test_the_effort_of_operator_reaches_the_tool(planned: Planned, editor: Editor, tool: str, reaches: bool) -> None:
    text = f'[[delegators]]\nname = "a"\nllm_tool = "{tool}"\nmodel = "x"\nmodel_properties.reasoning_effort = "high"\n'
    made = planned("operator", text)
    assert bool(made.not_carried) is not reaches
    effort = {"model_reasoning_effort": "high"} if reaches else None
    assert written(editor, made)["a"].model_properties == effort


def test_operator(planned: Planned, editor: Editor) -> None:
    made = planned("operator", OPERATOR)
    found = left_out(made)
    assert found["git"] == 1
    assert found["model_servers[1].extra_env"] == 14
    assert found["delegators[0].launch_config.docker"] == 27
    assert "delegators[2].remote_agent" not in found
    assert {name for name in found if name.startswith("delegators[0]: ")} == {
        "delegators[0]: launch.permission_mode",
        "delegators[0]: launch.flags",
        "delegators[0]: model_properties",
    }
    assert SECRET not in made.diff() + repr(made.not_carried)
    delegators = written(editor, made)
    assert delegators == {
        "claude-opus": Delegator(
            name="claude-opus", tool="claude", model="opus", launch=Launch(yolo=True, prompt_suffix="Be concise.")
        ),
        "codex-qwen": Delegator(name="codex-qwen", tool="codex", model="qwen", model_server="ollama-local"),
        "remote": Delegator(name="remote", remote_agent=RemoteAgent(platform="agnt", id="Research Assistant")),
    }, "a delegator that cannot use its server must not go to another one"
    servers = {name: entry.model_server for name, entry in load(None, trusted=False).model_servers.items()}
    assert servers["ollama-local"].base_url == "http://localhost:11434/v1"
    assert servers["gateway"].api_key == KeyReference(from_env="GATEWAY_KEY")
    assert planned("operator", OPERATOR).files == []


@pytest.mark.parametrize("prompt", ["argument", "stdin"])
def test_a_program_without_a_terminal_gets_what_sideagent_adds(planned: Planned, editor: Editor, prompt: str) -> None:
    text = (
        f"default_profile: a\nheadless: true\nprofiles:\n  a: {{command: agent, interface: cursor, prompt: {prompt}}}\n"
    )
    launch = written(editor, planned("sideagent", text))["a"].launch
    given = ["--", "{prompt}"] if prompt == "argument" else []
    assert launch == Launch(command=["agent", "--print", "--trust", *given])


WRITTEN_BY_INIT = {
    # `agent-delegate profiles init`, 0.2.0
    "agent-delegate": """\
default_profile = "ollama"

[profiles.ollama]
backend = "openai-compat"
base_url = "http://localhost:11434/v1"
default_model = "qwen3-coder:480b-cloud"

[profiles.haiku]
backend = "anthropic"
base_url = "https://api.anthropic.com/v1"
api_key_env = "ANTHROPIC_API_KEY"
default_model = "claude-haiku-4-5"
""",
    # `agent-delegator init`, 0.4.0
    "agent-delegator": """\
{
  "preferred_models": {
    "implementation": "federated-coding",
    "code_review": "claude:claude-sonnet-4-6"
  },
  "provider_priority": [
    "claude",
    "opencode",
    "copilot"
  ],
  "worktree_ttl_hours": 24,
  "cooldown_minutes": 5,
  "disable_dashboard": false
}
""",
}


@pytest.mark.parametrize("source", WRITTEN_BY_INIT)
def test_what_the_tools_write_themselves_has_nothing_unknown(planned: Planned, editor: Editor, source: str) -> None:
    made = planned(source, WRITTEN_BY_INIT[source])
    assert [one for one in made.not_carried if "does not know" in one.reason] == []
    delegators = written(editor, made)
    default = load(None, trusted=False).defaults.delegator
    assert default == {"agent-delegate": "ollama", "agent-delegator": "claude"}[source]
    if source == "agent-delegator":
        assert delegators["claude"].fallback == ["opencode-deepseek-v4-pro", "copilot"]
        assert planned(source, WRITTEN_BY_INIT[source]).files == []


def test_variables_that_have_no_effect_here_are_named(tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text(WRITTEN_BY_INIT["agent-delegate"])
    variables = {"AGENT_DELEGATE_CONFIG": str(file), "AGENT_DELEGATE_LOG_DIR": "/logs", "OTHER": "x"}
    draft = import_plan.read_source("agent-delegate", None, None, variables, tmp_path)
    assert [(one.setting, one.location) for one in draft.dropped] == [("AGENT_DELEGATE_LOG_DIR", None)]
    (tmp_path / ".agent-delegator.json").write_text("{}")
    variables = {"AGENT_DELEGATOR_PROVIDER_PRIORITY": "codex, claude", "AGENT_DELEGATOR_NO_DASHBOARD": "1"}
    draft = import_plan.read_source("agent-delegator", None, tmp_path, variables, tmp_path)
    assert [one.entry.name for one in draft.delegators] == ["codex", "claude"]
    assert [one.setting for one in draft.dropped] == ["AGENT_DELEGATOR_NO_DASHBOARD"]


def test_size_limits_become_the_table_of_inputs(tmp_path: Path, editor: Editor, user: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text("")
    variables = {
        "AGENT_DELEGATE_CONFIG": str(file),
        "AGENT_DELEGATE_MAX_FILE_BYTES": "1000",
        "AGENT_DELEGATE_MAX_CORPUS_BYTES": " 5000 ",
    }

    def planned() -> import_plan.ImportPlan:
        return import_plan.make_plan(import_plan.read_source("agent-delegate", None, None, variables, tmp_path), editor)

    made = planned()
    assert made.not_carried == []
    assert "+max_bytes = 5000\n" in made.diff()
    made.write(editor)
    line = "#:schema schema/config.schema.json\n"
    assert (user / "config.toml").read_text() == f"{line}[input]\nmax_bytes = 5000\nmax_file_bytes = 1000\n"
    assert (user / "schema" / "config.schema.json").is_file()
    limits = load(None, trusted=False).input
    assert (limits.max_bytes, limits.max_file_bytes) == (5000, 1000)
    again = planned()
    assert (again.files, again.not_carried) == ([], [])

    # The user's own file is never changed.
    own = "[input]\nmax_bytes = 7\n"
    (user / "config.toml").write_text(own)
    variables["AGENT_DELEGATE_MAX_CORPUS_BYTES"] = "9"
    refused = {one.setting: one.reason for one in planned().not_carried}
    assert refused["AGENT_DELEGATE_MAX_CORPUS_BYTES"] == "Your `max_bytes` in `[input]` is 7, and it is not replaced."
    assert refused["AGENT_DELEGATE_MAX_FILE_BYTES"].endswith("Add to its table `[input]`: max_file_bytes = 1000")
    with pytest.raises(UnderstudyError):
        made.write(editor)
    assert (user / "config.toml").read_text() == own


@pytest.mark.parametrize("value", ["many", "-1", "0", "1.5", "9" * 40])
def test_a_size_limit_that_is_no_number_is_named(tmp_path: Path, value: str) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text("")
    variables = {"AGENT_DELEGATE_CONFIG": str(file), "AGENT_DELEGATE_MAX_FILE_BYTES": value}
    draft = import_plan.read_source("agent-delegate", None, None, variables, tmp_path)
    assert draft.settings == {}
    assert [one.setting for one in draft.dropped] == ["AGENT_DELEGATE_MAX_FILE_BYTES"]
