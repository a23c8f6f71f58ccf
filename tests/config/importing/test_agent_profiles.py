"""Test agent profiles: nothing of any profile is lost, what works here works, and the rest is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import msgspec
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.config.editing.edit import Editor
from understudy.config.loading.loader import load
from understudy.model.config.delegators import Delegator, Launch, RemoteAgent, Scope
from understudy.model.errors import ErrorKind, UnderstudyError

FULL = {
    "name": "Research Assistant",
    "provider": "claude",
    "model": "opus",
    "system_prompt": "Be brief.",
    "skills": ["reading"],
    "mcp_servers": ["files"],
    "tools": ["grep"],
    "x_operator": {
        "display_name": "Researcher",
        "launch_config": {
            "yolo": True,
            "permission_mode": "acceptEdits",
            "flags": ["--verbose"],
            "docker": True,
            "create_branch": True,
            "prompt_prefix": "First.",
            "prompt_suffix": "Last.",
        },
    },
    "x_agnt": {"memory": {"window": None}, "creditLimit": 10**30},
    "future": [{"é": "\ud83e"}],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(tmp_path / "config"))
    return tmp_path


def call(name: str, /, **given: Any) -> Any:
    return method_table.call(f"delegators/{name}", given, TerminalCaller(Path("/")))


def imported(values: Any, **given: Any) -> Any:
    text = values if isinstance(values, str) else json.dumps(values)
    return call("importProfile", text=text, **given)


def exported(name: str, **given: Any) -> Any:
    return json.loads(call("exportProfile", names=[name], **given).text)


def delegator(name: str) -> Delegator:
    return load(None, trusted=False).delegators[name].delegator


def reasons(found: Any) -> dict[str, str]:
    return {one.setting: one.reason for one in found.not_carried_over}


def test_what_a_delegator_has_is_taken_and_the_rest_is_named(place: Path) -> None:
    found = imported(FULL)
    made = delegator("research-assistant")
    assert (made.tool, made.model, made.display_name) == ("claude", "opus", "Researcher")
    assert made.launch == Launch(prompt_prefix="Be brief.\n\nFirst.", prompt_suffix="Last.")
    assert {"skills", "mcp_servers", "tools", "x_agnt", "future"} <= reasons(found).keys()
    assert "x_operator.launch_config.docker" in reasons(found)
    for name in ("yolo", "permission_mode", "flags", "branch"):
        assert "--with-permissions" in reasons(found)[f"launch.{name}"]


def test_permissions_are_taken_over_on_request(place: Path) -> None:
    imported(FULL, permissions=True)
    launch = delegator("research-assistant").launch
    assert launch is not None
    assert (launch.yolo, launch.permission_mode, launch.flags) == (True, "acceptEdits", ["--verbose"])
    assert launch.branch == "understudy/{id}"


def test_the_original_is_kept_with_its_bytes_for_its_owner_only(place: Path) -> None:
    file = place / "agent-profile.json"
    data = b'\xef\xbb\xbf{ "name" :"\\u0041", "provider": null,\r\n "n": 1.50e+400 }\r\n\r\n'
    file.write_bytes(data)
    call("importProfile", path=file.as_uri())
    assert call("exportProfile", names=["a"]).text.encode() == data
    kept = place / "config" / "delegators" / "a.profile.json"
    assert kept.read_bytes() == data
    assert kept.stat().st_mode & 0o777 == 0o600


def test_an_export_has_what_changed_since_and_everything_else(place: Path) -> None:
    imported(FULL)
    editor = Editor(None, state=place / "state")
    made = delegator("research-assistant")
    launch = msgspec.structs.replace(made.launch, prompt_prefix="Be brief.\n\nNow.", prompt_suffix=None)
    editor.update("research-assistant", msgspec.structs.replace(made, name="reader", model="sonnet", launch=launch))
    expected = json.loads(json.dumps(FULL))
    expected |= {"name": "reader", "model": "sonnet"}
    expected["x_operator"]["launch_config"]["prompt_prefix"] = "Now."
    del expected["x_operator"]["launch_config"]["prompt_suffix"]
    assert exported("reader") == expected
    folder = place / "config" / "delegators"
    assert sorted(one.name for one in folder.iterdir()) == ["reader.profile.base", "reader.profile.json", "reader.toml"]
    editor.delete("delegator", "reader")
    assert list(folder.iterdir()) == []


def test_a_new_delegator_does_not_get_the_profile_of_an_old_one(place: Path) -> None:
    imported({"name": "a", "provider": "claude", "x": 1})
    (place / "config" / "delegators" / "a.toml").unlink()
    Editor(None, state=place / "state").create(Delegator(name="a", tool="claude", model="m"), Scope.USER)
    assert "x" not in exported("a")


def test_names_are_generated_and_an_import_is_repeated_without_effect(place: Path) -> None:
    assert imported({"name": "A b"}).files[0].name == "a-b"
    again = imported({"name": "A b"})
    assert (again.files, again.written, [one.name for one in again.unchanged]) == ([], False, ["a-b"])
    assert imported({"name": "A b", "x": 1}).files[0].name == "a-b-2"
    assert exported("a-b-2")["name"] == "A b"
    assert imported({"provider": "claude", "model": "vendor/opus"}).files[0].name == "claude-opus"
    assert imported({}).files[0].name == "agent"


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        ({"provider": "unheard-of"}, "cannot be started here"),
        ({"provider": "claude", "x_operator": {"model_server": "lab"}}, "There is no model server `lab`."),
        ({"provider": 5, "model": ["x"]}, "cannot be started here"),
    ],
)
def test_what_cannot_run_here_is_kept_and_never_started(place: Path, profile: dict[str, Any], why: str) -> None:
    found = imported({"name": "far", **profile})
    assert why in " ".join(one.reason for one in found.not_carried_over)
    assert delegator("far").remote_agent is not None
    assert exported("far") == {"name": "far", **profile}


def test_a_remote_agent_is_listed_and_never_started(place: Path) -> None:
    imported({"name": "r", "provider": "anthropic", "model": "m", "remote_agent": {"platform": "agnt", "id": "R A"}})
    assert delegator("r").remote_agent == RemoteAgent(platform="agnt", id="R A")
    entry = next(one for one in call("list").delegators if one.delegator.name == "r")
    assert not entry.state.ready
    assert [one.severity for one in entry.state.problems] == ["information"]
    for refused in (lambda: call("test", name="r"), lambda: call("setDefault", delegator="r")):
        with pytest.raises(UnderstudyError) as caught:
            refused()
        assert caught.value.kind is ErrorKind.REMOTE_ONLY_DELEGATOR


def test_a_dry_run_writes_nothing_and_a_stale_one_is_a_conflict(place: Path) -> None:
    seen = imported({"name": "a", "provider": "claude"}, dryRun=True)
    assert seen.files
    assert not seen.written
    assert not (place / "config" / "delegators").exists()
    imported({"name": "a", "provider": "codex"})
    with pytest.raises(UnderstudyError) as caught:
        imported({"name": "a", "provider": "claude"}, revision=seen.revision)
    assert caught.value.kind is ErrorKind.CONFLICT


def test_a_key_in_a_profile_is_in_no_diff_and_no_delegator(place: Path) -> None:
    secret = "sk-test-0123456789abcdef"
    found = imported({"name": secret, "provider": secret, "model": secret, "x_agnt": {"apiKey": secret}})
    assert secret not in found.diff
    for file in (place / "config" / "delegators").glob("*.toml"):
        assert secret not in file.read_text()


def test_agnt_gets_one_node_for_each(place: Path) -> None:
    imported({"name": "r", "remote_agent": {"platform": "agnt", "id": "R A"}})
    imported({"name": "o", "remote_agent": {"platform": "openai", "id": "asst_1"}})
    imported({"name": "c", "provider": "claude", "system_prompt": "S"})
    found = call("exportProfile", names=["r", "c"], format="agnt", task="Do it.")
    workflow = json.loads(found.text)
    first, second = workflow["nodes"]
    assert {"id", "type", "text", "x", "y", "parameters"} == first.keys() == second.keys()
    assert (first["type"], first["parameters"]["agentId"], first["parameters"]["message"]) == (
        "agnt-agent",
        "R A",
        "Do it.",
    )
    assert (second["type"], second["parameters"]["prompt"]) == ("operator-run-step", "S\n\nDo it.")
    assert workflow["edges"] == [{"id": "r->c", "start": {"id": "r"}, "end": {"id": "c"}}]
    assert [one.setting for one in found.left_out] == ["c: launch"]
    with pytest.raises(UnderstudyError) as caught:
        call("exportProfile", names=["o"], format="agnt")
    assert caught.value.kind is ErrorKind.REMOTE_ONLY_DELEGATOR


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": 1,\n"a": 2}', 2),
        ('{"a":\n NaN}', 2),
        ('{"a":\n}', 2),
        ("[]", 1),
        ("[" * 100_000, 1),
        ('{"a": ' + "[" * 150 + "]" * 150 + "}", 1),
    ],
)
def test_what_is_no_profile_is_refused_with_its_line(place: Path, text: str, line: int) -> None:
    file = place / "p.json"
    file.write_text(text)
    with pytest.raises(UnderstudyError) as caught:
        call("importProfile", path=file.as_uri())
    assert caught.value.kind is ErrorKind.CONFIG_INVALID
    assert caught.value.location is not None
    assert caught.value.location.range.start.line + 1 == line
    with pytest.raises(UnderstudyError, match=rf"\(line {line}\)"):
        imported(text)


texts = st.text(max_size=6) | st.sampled_from(["claude", "codex", "lab", "\ud800", "\x00", "sk-test-0123456789abcdef"])
numbers = st.integers() | st.integers(10**25, 10**40) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def maybe(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={key: value | json_values for key, value in known.items()})


launches = maybe(
    yolo=st.booleans(), permission_mode=texts, flags=st.lists(texts), prompt_prefix=texts, use_worktrees=st.booleans()
)
profiles = st.builds(
    lambda known, other: {**other, **known},
    maybe(
        name=texts,
        provider=texts,
        model=texts,
        system_prompt=texts,
        skills=st.lists(texts),
        remote_agent=maybe(platform=texts, id=texts),
        x_operator=maybe(
            display_name=texts, model_server=texts, model_properties=maybe(a=texts), launch_config=launches
        ),
        x_understudy=maybe(tool=texts, env=st.dictionaries(texts, texts, max_size=2), launch=maybe(yolo=st.booleans())),
    ),
    st.dictionaries(texts, json_values, max_size=3),
)


@settings(max_examples=examples(30), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(profiles, st.sampled_from([None, 1]), st.booleans())
def test_the_export_of_an_import_is_the_identity(
    profile: dict[str, Any], indent: int | None, permissions: bool
) -> None:
    text = json.dumps(profile, indent=indent)
    with TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"UNDERSTUDY_CONFIG": folder}):
        made = imported(text, permissions=permissions)
        name = next(one.name for one in made.files if one.kind == "delegator")
        assert call("exportProfile", names=[name]).text == text
        entry = load(None, trusted=False).delegators[name]
        assert [one for one in entry.state.problems if one.severity == "error"] == []
        assert imported(text, permissions=permissions).files == []
        # What is not changed with the delegator stays, digit by digit.
        changed = msgspec.structs.replace(entry.delegator, display_name="another")
        Editor(None, state=Path(folder, "state")).update(name, changed)
        again = exported(name)
        theirs = again.pop("x_operator", None)
        assert isinstance(theirs, dict)
        assert theirs["display_name"] == "another"
        mine = again.pop("x_understudy", None)
        assert (mine is None) is ("x_understudy" not in profile)
        rest = {key: value for key, value in profile.items() if key not in {"x_operator", "x_understudy"}}
        assert again == json.loads(json.dumps(rest))


@settings(max_examples=examples(15), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.builds(
        Delegator,
        name=st.just("d"),
        display_name=st.none() | st.just("D"),
        tool=st.just("claude"),
        model=st.sampled_from(["", "opus"]),
        env=st.none() | st.just({"A": "1"}),
        launch=st.none()
        | st.builds(
            Launch,
            yolo=st.none() | st.booleans(),
            flags=st.none() | st.just(["-x"]),
            unanswered=st.sampled_from([None, "allow"]),
            branch=st.sampled_from([None, "understudy/{id}", "mine/{id}"]),
            prompt_prefix=st.none() | st.just("p"),
        ).filter(lambda launch: launch != Launch()),
    )
)
def test_the_import_of_an_export_is_the_same_delegator(made: Delegator) -> None:
    with TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"UNDERSTUDY_CONFIG": folder}):
        editor = Editor(None, state=Path(folder, "state"))
        editor.create(made, Scope.USER)
        text = call("exportProfile", names=["d"]).text
        editor.delete("delegator", "d")
        imported(text, permissions=True)
        assert delegator("d") == made


def test_a_profile_of_a_delegator_without_one_has_operators_core(place: Path) -> None:
    Editor(None, state=place / "state").create(
        Delegator(name="d", tool="claude", model="opus", env={"API_KEY": "sk-test-0123456789abcdef", "B": "1"}),
        Scope.USER,
    )
    found = call("exportProfile", names=["d"])
    values = json.loads(found.text)
    assert {"name", "provider", "model", "skills", "mcp_servers", "tools"} <= values.keys()
    assert "sk-test" not in found.text
    assert [one.setting for one in found.left_out] == ["env.API_KEY"]
    assert values["x_understudy"]["env"] == {"B": "1"}


def test_operators_delegators_keep_what_is_for_other_services(planned: Callable[..., Any], place: Path) -> None:
    made = planned(
        "operator",
        '[[delegators]]\nname = "r"\nllm_tool = "claude"\nmodel = "m"\n[delegators.remote_agent]\nplatform = "agnt"\n'
        'id = "R"\n[delegators.x_agnt]\nlimit = 1\n[delegators.unmapped_core]\nskills = ["a"]\n',
    )
    assert [(one.kind, one.name) for one in made.files] == [("delegator", "r"), ("profile", "r")]
    made.write(Editor(None, state=place / "state"))
    assert exported("r") == {
        "name": "r",
        "provider": "claude",
        "model": "m",
        "skills": ["a"],
        "mcp_servers": [],
        "tools": [],
        "remote_agent": {"platform": "agnt", "id": "R"},
        "x_agnt": {"limit": 1},
    }


def test_a_profile_lets_no_agent_delegate_further(place: Path) -> None:
    """It costs, and what is delegated runs here."""
    values = {"name": "boss", "provider": "claude", "x_understudy": {"tool": "claude", "launch": {"relay": True}}}
    found = imported(values)
    assert delegator("boss").launch is None
    assert "--with-permissions" in reasons(found)["launch.relay"]
    imported(values | {"name": "chief"}, permissions=True)
    assert delegator("chief").launch == Launch(relay=True)
    imported(values | {"name": "worker", "x_understudy": {"tool": "claude", "launch": {"relay": False}}})
    assert delegator("worker").launch == Launch(relay=False)
