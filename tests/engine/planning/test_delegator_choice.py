"""Test which delegator a request gets when the one that is configured for it can never start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.config.loading import loader
from understudy.config.validation import start_options
from understudy.config.validation.delegator_rules import Surroundings
from understudy.engine.planning import delegator_choice
from understudy.model.config.delegators import Delegator, Launch, Limits
from understudy.model.delegation.delegations import LaunchOverride, StartParams
from understudy.model.errors import ErrorKind, UnderstudyError

INCOMPLETE = "The delegator names neither a model server nor a model, and the tool `opencode` needs one."
CLAUDE = Delegator(name="x", tool="claude", model="m", launch=Launch(yolo=True, prompt_prefix="p"))
CODEX = Delegator(name="y", tool="codex", model_properties={"model_verbosity": "low"})


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


def test_a_route_takes_no_remote_candidate_in_place_of_a_local_one(user: Path) -> None:
    (user / "model-servers").mkdir()
    server = user / "model-servers" / "here.toml"
    server.write_text('name = "here"\nkind = "ollama"\nbase_url = "http://127.0.0.1:1/v1"\n')
    write(user, "opencode", 'tool = "opencode"\nmodel_server = "here"')
    (user / "routes").mkdir()
    route = user / "routes" / "first-here.toml"
    route.write_text('candidates = ["opencode", "claude"]\n')
    with pytest.raises(UnderstudyError, match="opencode runs on this machine; claude may send") as refused:
        choose("first-here")
    assert refused.value.kind is ErrorKind.SECRET_WITHHELD
    route.write_text('candidates = ["opencode", "claude"]\nremote = true\n')
    assert choose("first-here")[0] == "claude"
    server.write_text('name = "here"\nlocality = "local"\nbase_url = 5\n')
    with pytest.raises(UnderstudyError, match="It is not known where opencode sends texts") as refused:
        choose("first-here")
    assert refused.value.kind is ErrorKind.SECRET_WITHHELD
    route.write_text('candidates = ["claude", "opencode"]\n')
    assert choose("first-here")[0] == "claude"


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


def test_what_the_request_names_replaces_the_delegators_own() -> None:
    made = start_options.apply_launch(LaunchOverride(model="n", permission_mode="plan"), CLAUDE, Surroundings())
    assert (made.model, made.launch) == ("n", Launch(permission_mode="plan", prompt_prefix="p"))
    made = start_options.apply_launch(
        LaunchOverride(model_properties={"model_reasoning_effort": "high"}), CODEX, Surroundings()
    )
    assert made.model_properties == {"model_verbosity": "low", "model_reasoning_effort": "high"}
    assert (
        start_options.apply_launch(
            LaunchOverride(mode="acp"), Delegator(name="o", tool="opencode"), Surroundings()
        ).mode
        == "acp"
    )
    made = start_options.apply_launch(LaunchOverride(use_worktree=False), CLAUDE, Surroundings())
    assert made.launch == Launch(yolo=True, prompt_prefix="p", use_worktree=False)
    made = start_options.apply_launch(LaunchOverride(use_worktree=True), made, Surroundings())
    assert made.launch == Launch(yolo=True, prompt_prefix="p", use_worktree=True)
    assert start_options.apply_launch(None, CODEX, Surroundings()) is CODEX


@pytest.mark.parametrize(
    ("delegator", "override", "words", "parameter"),
    [
        (CLAUDE, LaunchOverride(permission_mode="whatever"), "launch.permission_mode", "permissionMode"),
        (CLAUDE, LaunchOverride(model_properties={"temperature": 1}), "model_properties", "modelProperties"),
        (
            CODEX,
            LaunchOverride(model_properties={"modle_verbosity": "low"}),
            "modle_verbosity",
            "modelProperties.modle_verbosity",
        ),
        (Delegator(name="p", tool="pi"), LaunchOverride(mode="acp"), "mode", "mode"),
        (Delegator(name="o", tool="opencode", limits=Limits(max_turns=1)), LaunchOverride(mode="acp"), "turns", "mode"),
        (Delegator(name="g", tool="ghostwriter"), LaunchOverride(model="m"), "model", "model"),
        (
            Delegator(name="c", tool="generic", launch=Launch(command=["x"])),
            LaunchOverride(model="m"),
            "model",
            "model",
        ),
        (
            Delegator(name="g", tool="ghostwriter"),
            LaunchOverride(use_worktree=False),
            "launch.use_worktree",
            "useWorktree",
        ),
        (
            Delegator(name="b", tool="claude", launch=Launch(branch="x/{id}")),
            LaunchOverride(use_worktree=False),
            "launch.branch",
            None,
        ),
    ],
)
def test_what_has_no_effect_is_refused_by_name(
    delegator: Delegator, override: LaunchOverride, words: str, parameter: str | None
) -> None:
    with pytest.raises(UnderstudyError) as raised:
        start_options.apply_launch(override, delegator, Surroundings())
    assert raised.value.kind is ErrorKind.INVALID_PARAMS
    assert words in raised.value.message
    assert raised.value.hint
    assert raised.value.info().parameter == (parameter and f"launch.{parameter}")


def limits_of(limits: Limits | None = None, **named: float | str) -> Limits | None:
    params = StartParams(recipe="implement", limits=limits, launch=LaunchOverride(limits=named))
    return start_options.limits_of(params)


def test_limits_have_the_names_and_units_of_the_configuration() -> None:
    found = limits_of(total_seconds="60", answer_seconds=2.5, max_turns="3", max_usd=0.5)
    assert found == Limits(total_seconds=60.0, answer_seconds=2.5, max_turns=3, max_usd="0.5")
    assert limits_of(totalSeconds=60) == Limits(total_seconds=60.0), "as on the wire, too"
    assert limits_of(Limits(max_turns=3), total_seconds=1) == Limits(max_turns=3, total_seconds=1.0)
    assert limits_of(Limits(max_turns=3)) == Limits(max_turns=3)
    assert start_options.limits_of(StartParams(recipe="implement")) is None


@pytest.mark.parametrize(
    ("limits", "named", "message", "hint"),
    [
        (None, {"total_second": 1}, "A delegation has no limit `total_second`", "Did you mean `total_seconds`?"),
        (None, {"slots": 1}, "A delegation has no limit `slots`", "Valid names: "),
        (None, {"max_turns": "many"}, "`max_turns` must be a whole number, not 'many'", "max_turns=20"),
        (None, {"total_seconds": "1 h"}, "`total_seconds` must be a number", "total_seconds=600"),
        (Limits(max_turns=3), {"max_turns": 4}, "`max_turns` is named twice", "Leave one of the two out."),
        (None, {"max_turns": 4, "maxTurns": 4}, "`max_turns` is named twice", "Leave one of the two out."),
    ],
)
def test_a_limit_that_is_none_is_refused_by_name(
    limits: Limits | None, named: dict[str, int | str], message: str, hint: str
) -> None:
    with pytest.raises(UnderstudyError) as raised:
        limits_of(limits, **named)
    assert raised.value.kind is ErrorKind.INVALID_PARAMS
    assert message in raised.value.message
    assert hint in (raised.value.hint or "")


def test_limits_of_one_delegation_apply_or_are_refused(project: Any) -> None:
    project.agent("stall", "stall")
    done = project.run("implement", delegator="stall", task="x", launch={"limits": {"idle_seconds": 0.5}})
    assert (done.verdict, done.error.kind) == ("timed_out", ErrorKind.STALLED)
    for named, kind, word in (
        ({"answer_seconds": 1}, ErrorKind.CONFIG_INVALID, "`answer_seconds` is not supported"),
        ({"total_seconds": 0}, ErrorKind.INVALID_PARAMS, "`total_seconds` must be above zero"),
    ):
        with pytest.raises(UnderstudyError) as raised:
            project.call(
                "delegations/preview", recipe="implement", delegator="stall", task="x", workspace=str(project.top),
                launch={"limits": named},
            )  # fmt: skip
        assert (raised.value.kind, word in raised.value.message) == (kind, True), raised.value


def test_the_explanation_names_the_changes() -> None:
    given = LaunchOverride(use_worktree=False, limits={"total_seconds": 60})
    assert start_options.described(given) == "; for this delegation: useWorktree false, total_seconds 60"
    given = LaunchOverride(model="n", permission_mode="plan", model_properties={"effort": "high"})
    assert start_options.described(given) == "; for this delegation: model n, permissionMode plan, effort high"
    assert start_options.described(None) == start_options.described(LaunchOverride()) == ""


def test_an_override_reaches_the_program_and_the_journal(project: Any) -> None:
    program = "import json, pathlib, sys; pathlib.Path('m.txt').write_text(sys.argv[1]); "
    program += "print(json.dumps({'type': 'result', 'ok': True}))"
    project.delegator("echo", sys.executable, "-c", program, "{model}", extra='model = "a"')
    done = project.run("implement", "calc.py", delegator="echo", task="x", launch={"model": "b"})
    assert project.call("delegations/file", id=done.id, path="m.txt", side="result").text == "b"
    assert done.attempts[0].model == "b"
    reasons = [getattr(event, "reason", "") for event in project.events(done.id)]
    assert any("for this delegation: model b" in reason for reason in reasons)

    def model_of(**params: Any) -> str | None:
        again = project.finish(project.call("delegations/retry", id=done.id, **params).id)
        model: str | None = again.attempts[0].model
        return model

    assert model_of() == model_of(delegator="echo") == "b"
    assert model_of(launch={"model": "c"}) == "c"
    with pytest.raises(UnderstudyError, match="model_properties"):
        project.call("delegations/retry", id=done.id, launch={"modelProperties": {"x": 1}})
