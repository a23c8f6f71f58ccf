"""Test what each tool's configuration becomes, that nothing is replaced, and that no key is copied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from understudy.config.editing.edit import Editor
from understudy.config.importing import import_plan
from understudy.config.loading.loader import load
from understudy.model.config.delegators import Delegator, KeyReference, Limits, ModelServer, Scope
from understudy.model.errors import ErrorKind, UnderstudyError

Planned = Callable[..., import_plan.ImportPlan]
SECRET = "sk-test-0123456789abcdef"

PROFILES = f"""\
default_profile = "near"

[profiles.near]
backend = "openai-compat"
base_url = "http://localhost:1234/v1"
default_model = "coder-32b"
temperature = 0.4

[profiles.far]
backend = "anthropic"
base_url = "https://api.anthropic.com/v1"
default_model = "claude-small"
api_key_env = "ANTHROPIC_API_KEY"
timeout = 45

[profiles.far.extra_headers]
X-Title = "mine"
X-Api-Key = "{SECRET}"

[profiles.typed]
backend = "openai-compat"
base_url = "https://models.example/v1"
default_model = "m"
api_key = "{SECRET}"
retries = 3
"""

MCP = """\
{
  "mcpServers": {
    "other": {"command": "x", "env": {"TOKEN": "unrelated"}},
    "delegate-local": {
      "command": "uv",
      "args": ["run", "python", "server.py"],
      "env": {
        "DELEGATE_LOCAL_URL": "http://localhost:4000/v1/messages",
        "DELEGATE_LOCAL_KEY": "${PROXY_KEY}",
        "DELEGATE_LOCAL_MODEL": "local-coder",
        "DELEGATE_LOCAL_CODING_MODEL": "deepseek-coder",
        "DELEGATE_LOCAL_MAX_TURNS": "20",
        "DELEGATE_DISPATCH_TIMEOUT": "900",
        "DELEGATE_CONCURRENCY_DEFAULT": "2",
        "DELEGATE_CONCURRENCY_GLM": "6",
        "DELEGATE_STREAMING": "1",
        "DELEGATE_UNHEARD_OF": "1"
      }
    }
  }
}
"""


def written(editor: Editor, made: import_plan.ImportPlan) -> tuple[dict[str, ModelServer], dict[str, Delegator]]:
    made.write(editor)
    found = load(None, trusted=False)
    assert [problem.message for problem in found.problems] == []
    servers = {name: entry.model_server for name, entry in found.model_servers.items()}
    own = {name: entry.delegator for name, entry in found.delegators.items() if entry.scope is Scope.USER}
    return servers, own


def left_out(made: import_plan.ImportPlan) -> dict[str, int]:
    """Return the settings that are not carried over, with their lines."""
    return {one.setting: one.location.range.start.line + 1 if one.location else 0 for one in made.not_carried}


def content(user: Path) -> dict[str, bytes]:
    return {str(path.relative_to(user)): path.read_bytes() for path in user.rglob("*.toml")}


def test_profiles_of_agent_delegate(planned: Planned, editor: Editor, user: Path) -> None:
    made = planned("agent-delegate", PROFILES)
    assert content(user) == {}, "planning wrote something"
    assert left_out(made) == {"profiles.far.extra_headers.X-Api-Key": 18, "profiles.typed.retries": 25} | {
        "profiles.typed.api_key": 24
    }
    assert [(one.model_server, one.key.value) for one in made.keys] == [("typed", SECRET)]
    assert SECRET not in made.diff() + repr(made)
    servers, delegators = written(editor, made)
    assert servers == {
        "near": ModelServer(name="near", kind="lmstudio", base_url="http://localhost:1234/v1"),
        "far": ModelServer(
            name="far",
            kind="anthropic",
            base_url="https://api.anthropic.com/v1",
            protocols=["anthropic"],
            api_key=KeyReference(from_env="ANTHROPIC_API_KEY"),
            headers={"X-Title": "mine"},
        ),
        "typed": ModelServer(name="typed", kind="custom", base_url="https://models.example/v1"),
    }
    assert delegators == {
        "near": Delegator(name="near", model_server="near", model="coder-32b", model_properties={"temperature": 0.4}),
        "far": Delegator(name="far", model_server="far", model="claude-small", limits=Limits(total_seconds=45)),
        "typed": Delegator(name="typed", model_server="typed", model="m"),
    }
    assert load(None, trusted=False).defaults.delegator == "near"
    assert not any(SECRET.encode() in data for data in content(user).values())


def test_the_registration_of_delegate_local(planned: Planned, editor: Editor) -> None:
    made = planned("delegate-local", MCP)
    env = "mcpServers.delegate-local.env"
    assert left_out(made) == {
        f"{env}.DELEGATE_CONCURRENCY_GLM": 15,
        f"{env}.DELEGATE_STREAMING": 16,
        f"{env}.DELEGATE_UNHEARD_OF": 17,
    }
    servers, delegators = written(editor, made)
    assert servers == {
        "delegate-local": ModelServer(
            name="delegate-local",
            kind="litellm",
            base_url="http://localhost:4000/v1",
            protocols=["auto"],
            api_key=KeyReference(from_env="PROXY_KEY"),
            max_concurrent=2,
        )
    }
    limits = Limits(max_turns=20, total_seconds=900)
    assert {name: (one.model, one.limits) for name, one in delegators.items()} == {
        "delegate-local": ("local-coder", limits),
        "delegate-local-coding": ("deepseek-coder", limits),
    }


def test_the_environment_of_delegate_local(editor: Editor, tmp_path: Path) -> None:
    variables = {"DELEGATE_LOCAL_MODEL": "gpt-9", "DELEGATE_LOCAL_KEY": SECRET, "DELEGATE_LOCAL_MAX_TURNS": "many"}
    made = import_plan.make_plan(import_plan.read_source("delegate-local", None, None, variables, tmp_path), editor)
    assert left_out(made) == {"DELEGATE_LOCAL_MAX_TURNS": 0}
    servers, _ = written(editor, made)
    # The tool converts the address for models with this prefix.
    assert servers["delegate-local"].protocols == ["auto"]
    assert servers["delegate-local"].api_key == KeyReference(from_env="DELEGATE_LOCAL_KEY")


def test_servers_of_other_projects_are_not_read(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / ".claude.json").write_text('{"projects": {"/elsewhere": ' + MCP + "}}")
    with pytest.raises(UnderstudyError, match="nothing to import"):
        import_plan.read_source("delegate-local", None, Path("/here"), {}, tmp_path)
    draft = import_plan.read_source("delegate-local", None, Path("/elsewhere"), {}, tmp_path)
    assert [one.entry.name for one in draft.servers] == ["delegate-local"]


@pytest.mark.parametrize(("source", "text"), [("agent-delegate", PROFILES), ("delegate-local", MCP)])
def test_a_second_import_changes_nothing(planned: Planned, editor: Editor, user: Path, source: str, text: str) -> None:
    written(editor, planned(source, text))
    before = content(user)
    again = planned(source, text)
    assert again.files == []
    assert again.diff() == ""
    assert len(again.unchanged) == len([name for name in before if "/" in name])
    again.write(editor)
    assert content(user) == before


def test_a_key_that_was_stored_since_does_not_make_a_second_server(planned: Planned, editor: Editor) -> None:
    servers, _ = written(editor, planned("agent-delegate", PROFILES))
    changed = msgspec.structs.replace(servers["typed"], api_key=KeyReference(from_env="TYPED"))
    editor.update("typed", changed)
    again = planned("agent-delegate", PROFILES)
    assert again.files == []
    assert again.keys == []


def test_an_entry_of_the_same_name_is_kept(planned: Planned, editor: Editor, user: Path) -> None:
    mine = '# mine\n[[model_servers]]\nname = "near"\nkind = "custom"\nbase_url = "http://127.0.0.1:1/v1"\n'
    mine += '[[delegators]]\nname = "far"\nmodel_server = "near"\nmodel = "x"\n[defaults]\ndelegator = "far"\n'
    (user / "config.toml").write_text(mine)
    made = planned("agent-delegate", PROFILES)
    reasons = {one.setting: one.reason for one in made.not_carried}
    assert "`near-2`" in reasons["profiles.near"]
    assert "`far-2`" in reasons["profiles.far"]
    assert "`far`" in reasons["default_profile"]
    servers, delegators = written(editor, made)
    assert (user / "config.toml").read_text() == mine
    assert servers["near-2"].base_url == "http://localhost:1234/v1"
    assert delegators["near"].model_server == "near-2"
    assert delegators["far-2"].model_server == "far"
    assert planned("agent-delegate", PROFILES).files == []


def test_a_default_file_that_the_user_edited_stays(planned: Planned, editor: Editor, user: Path) -> None:
    (user / "defaults.toml").write_text("# mine\n[recipes]\n")
    made = planned("agent-delegate", PROFILES)
    assert "default_profile" in left_out(made)
    written(editor, made)
    assert (user / "defaults.toml").read_text() == "# mine\n[recipes]\n"


def test_a_delegator_without_its_server_is_left_out(planned: Planned, editor: Editor) -> None:
    text = PROFILES.replace("https://models.example/v1", f"https://me:{SECRET}@models.example/v1")
    made = planned("agent-delegate", text)
    assert [one.setting for one in made.not_carried].count("profiles.typed") == 2
    assert SECRET not in made.diff() + repr(made.not_carried)
    servers, delegators = written(editor, made)
    assert "typed" not in servers
    assert "typed" not in delegators


def test_nothing_to_import_names_the_place(editor: Editor, tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"profiles\.toml") as caught:
        import_plan.read_source("agent-delegate", None, None, {}, tmp_path)
    assert caught.value.kind is ErrorKind.INVALID_PARAMS
