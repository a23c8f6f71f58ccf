"""Test which delegator a request gets when the one that is configured for it can never start."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.config.loading import loader
from understudy.engine.planning import delegator_choice
from understudy.model.errors import ErrorKind, UnderstudyError

INCOMPLETE = "The delegator names neither a model server nor a model, and the tool `opencode` needs one."


def write(folder: Path, name: str, text: str) -> None:
    (folder / "delegators" / f"{name}.toml").write_text(f'name = "{name}"\n{text}\n')


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(tmp_path))
    (tmp_path / "delegators").mkdir()
    (tmp_path / "defaults.toml").write_text('delegator = "opencode"\n')
    write(tmp_path, "opencode", 'tool = "opencode"\nfallback = ["other", "claude"]')
    write(tmp_path, "other", 'tool = "opencode"\nfallback = ["opencode"]')
    write(tmp_path, "claude", 'tool = "claude"')
    return tmp_path


def choose(explicit: str | None = None) -> tuple[str, str]:
    loaded = loader.load(None, trusted=False)
    recipe = loaded.recipes["implement"]
    entry, explanation = delegator_choice.choose(loaded, recipe, explicit, with_fallback=True)
    return entry.delegator.name, explanation.reason


def test_one_without_a_model_that_its_tool_needs_is_not_ready(user: Path) -> None:
    entry = loader.load(None, trusted=False).delegators["opencode"]
    assert not entry.state.ready
    assert [one.message for one in entry.state.problems] == [INCOMPLETE]
    assert "opencode models" in (entry.state.problems[0].hint or "")


def test_those_in_its_fallback_take_over_at_once(user: Path) -> None:
    assert choose() == ("claude", "it takes over from opencode")
    with pytest.raises(UnderstudyError) as refused:
        choose("opencode")
    assert refused.value.kind is ErrorKind.CONFIG_INVALID


def test_none_takes_over_where_the_request_wants_none(user: Path, tmp_path: Path) -> None:
    top = tmp_path / "project"
    top.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    caller = TerminalCaller(top)
    found = method_table.call("delegations/preview", {"recipe": "implement", "task": "x"}, caller)
    assert found.explain.delegator == "claude"
    with pytest.raises(UnderstudyError, match="No delegator can run"):
        method_table.call("delegations/preview", {"recipe": "implement", "task": "x", "fallback": []}, caller)


@pytest.mark.parametrize("is_there", [True, False])
def test_work_for_a_local_model_does_not_leave_the_machine(user: Path, is_there: bool) -> None:
    (user / "model-servers").mkdir()
    if is_there:
        (user / "model-servers" / "here.toml").write_text(
            'name = "here"\nkind = "ollama"\nbase_url = "http://127.0.0.1:1/v1"\n'
        )
    write(user, "opencode", 'tool = "opencode"\nmodel_server = "here"\nfallback = ["claude"]')
    with pytest.raises(UnderstudyError, match="No delegator can run"):
        choose()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"tool": "opencode"}, INCOMPLETE),
        ({"tool": "opencode", "model": "gpt-5"}, "`model` names no provider, which the tool `opencode` needs."),
        ({"tool": "copilot", "modelServer": "s"}, "`model` is missing."),
    ],
)
def test_one_that_can_never_start_is_refused_when_it_is_added(user: Path, more: dict[str, str], message: str) -> None:
    caller = TerminalCaller(user)
    server = {"name": "s", "kind": "custom", "baseUrl": "http://127.0.0.1:1/v1", "protocols": ["openai"]}
    method_table.call("modelServers/create", {"modelServer": server, "scope": "user"}, caller)
    with pytest.raises(UnderstudyError) as refused:
        method_table.call("delegators/create", {"delegator": {"name": "new", **more}, "scope": "user"}, caller)
    assert message in refused.value.message
    assert not (user / "delegators" / "new.toml").exists()
