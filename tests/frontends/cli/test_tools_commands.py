"""Test the commands that define a tool, test it, and use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from understudy.frontends.cli import app
from understudy.model.errors import UnderstudyError

AGENT = f"""#!{sys.executable}
import json, pathlib, sys
prompt = sys.stdin.read()
for line in (
    {{"type": "start", "session": {{"id": "s-1"}}}},
    {{"type": "message", "role": "assistant", "content": [{{"text": "ready"}}], "argv": sys.argv[1:]}},
    {{"type": "usage", "tokens": {{"in": 12, "out": 3}}}},
    {{"type": "end", "ok": "fail" not in sys.argv, "error": {{"message": "Please log in."}}}},
):
    print(json.dumps(line), flush=True)
"""
DEFINITION = """
title = "Scribe"
command = ["scribe", "{options}"]
dialect = "json"
options = { model = ["{model}"], resume = ["{sessionId}"] }
[[events]]
event = "session"
when = { type = "start" }
session_id = "session.id"
[[events]]
event = "text"
when = { type = "message", role = "assistant" }
text = "content[*].text"
[[events]]
event = "usage"
when = { type = "usage" }
input_tokens = "tokens.in"
output_tokens = "tokens.out"
[[events]]
event = "result"
when = { type = "end", ok = true }
[[events]]
event = "failure"
when = { type = "end", ok = false }
message = "error.message"
[[failures]]
kind = "auth_failed"
contains = ["log in"]
hint = "Run `scribe login`."
"""


@pytest.fixture
def config(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration folder; the program is on PATH, and the current folder is a repository."""
    folder = own_home / "config" / "understudy"
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "bin" / "scribe"
    program.parent.mkdir()
    program.write_text(AGENT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    monkeypatch.chdir(project)
    return folder


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app.group, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert (result.return_value or 0) == code, result.output
    return click.unstyle(result.output)


def test_a_new_tool_works_as_written_and_after_an_edit(config: Path):
    assert f"Wrote {config}/tools/scribe.toml" in run("tools", "new", "scribe")
    assert "✓ round trip" in run("tools", "test", "scribe")
    (config / "tools/scribe.toml").write_text(DEFINITION)
    said = run("tools", "test", "scribe", "--model", "small")
    assert "✓ binary" in said
    assert "✓ round trip: It replied" in said
    assert "✓ events: 1 session, 1 text, 1 usage." in said
    assert "✓ usage: 12 tokens read, 3 written, turns: 1." in said
    assert "✓ session: s-1." in said
    failed = run("tools", "test", "scribe", "--model", "fail", code=1)
    assert "✗ round trip: Scribe failed: Please log in. Run `scribe login`." in failed
    assert "✓ events: 1 session, 1 text, 1 usage." in failed
    assert "understudy-trial" not in failed, "the folder of the test is gone"
    assert "scribe " in run("tools")
    assert "add --from-tool scribe" in run("tools", "scribe")
    run("delegators", "add", "--from-tool", "scribe", "--model", "small")
    (entry,) = [
        one
        for one in json.loads(run("delegators", "list", "--json"))["delegators"]
        if one["delegator"].get("tool") == "scribe"
    ]
    assert (entry["state"]["ready"], entry["toolDisplayName"]) == (True, "Scribe")


def test_the_test_of_a_tool_shows_what_its_definition_leaves_out(config: Path):
    run("tools", "new", "scribe")
    (config / "tools/scribe.toml").write_text(DEFINITION.replace('type = "usage"', 'type = "tokens"'))
    assert '✓ unused: 1 line matches no rule; the first is {"type": "usage"' in run("tools", "test", "scribe")
    (config / "tools/scribe.toml").write_text(DEFINITION)
    assert "unused" not in run("tools", "test", "scribe")
    (config / "tools/scribe.toml").write_text('title = "Scribe"\ncommand = ["scribe"]\ndialect = "text"\n')
    assert "✓ unused: The output is JSON, and is used as text." in run("tools", "test", "scribe")


def test_a_misspelt_tool_gets_the_name_that_was_meant(config: Path):
    run("tools", "new", "scribe")
    for wanted, meant in (("scrib", "scribe"), ("codx", "codex")):
        with pytest.raises(UnderstudyError) as refused:
            run("delegators", "add", "--from-tool", wanted)
        assert (refused.value.kind, refused.value.hint) == ("unknown_tool", f"Did you mean {meant!r}?")
        with pytest.raises(UnderstudyError) as refused:
            run("tools", wanted)
        assert refused.value.hint == f"Did you mean {meant!r}?"


def test_a_definition_is_never_overwritten(config: Path):
    run("tools", "new", "scribe")
    for name, words in (("scribe", "already defined"), ("claude", "Understudy knows"), ("A b", "cannot be the name")):
        with pytest.raises(UnderstudyError, match=words):
            run("tools", "new", name)
    assert [path.name for path in (config / "tools").iterdir()] == ["scribe.toml"]


@pytest.mark.parametrize("text", ["title = 1\n", 'title = "x"\ncommand = ["x", "{promt}"]\n'])
def test_a_definition_with_errors_is_not_run(config: Path, text: str, capsys: pytest.CaptureFixture[str]):
    (config / "tools").mkdir(parents=True)
    (config / "tools/scribe.toml").write_text(text)
    with pytest.raises(UnderstudyError, match="The definition of the tool 'scribe' has errors") as refused:
        run("tools", "test", "scribe")
    assert refused.value.kind == "config_invalid"


def test_a_workspace_must_be_trusted_to_define_a_tool(config: Path):
    with pytest.raises(UnderstudyError, match="not trusted"):
        run("tools", "new", "scribe", "--scope", "workspace")
    run("trust", "--yes")
    run("tools", "new", "scribe", "--scope", "workspace")
    assert "✓ round trip" in run("tools", "test", "scribe")
    Path(".understudy/tools/scribe.toml").write_text(DEFINITION)
    with pytest.raises(UnderstudyError, match="There is no tool 'scribe'"):
        run("tools", "test", "scribe")


def test_a_delegation_runs_on_a_defined_tool(config: Path):
    run("tools", "new", "scribe")
    (config / "tools/scribe.toml").write_text(DEFINITION)
    (config / "delegators").mkdir()
    (config / "delegators/quick.toml").write_text('tool = "scribe"\nmodel = "small"\n')
    Path("a.py").write_text("x = 1\n")
    run("trust", "--yes")
    assert "ready" in run("start", "explain", "a.py", "--delegator", "quick")


def test_looking_at_the_list_starts_nothing_that_a_workspace_defines(config: Path, tmp_path: Path):
    run("trust", "--yes")
    run("tools", "new", "listed", "--scope", "workspace")
    ran = tmp_path / "ran"
    text = f'title = "Listed"\ncommand = ["sh"]\nversion = ["-c", "echo 1.0.0; touch {ran}"]\n'
    Path(".understudy/tools/listed.toml").write_text(text)
    run("trust", "--yes")
    assert "listed" in run("tools", "--refresh")
    assert not ran.exists()
    user = config / "tools/mine.toml"
    user.parent.mkdir(parents=True)
    user.write_text(text.replace("Listed", "Mine"))
    run("tools", "--refresh")
    assert ran.exists(), "the user's own definition is asked"


def test_a_known_tool_that_is_not_driven_begins_with_its_ready_made_definition(config: Path) -> None:
    with pytest.raises(UnderstudyError, match="Understudy knows the tool `cursor`") as known:
        run("tools", "new", "cursor")
    command = str(known.value.hint).partition(": ")[2].split()
    assert command == ["understudy", "tools", "new", "my-cursor", "--like", "cursor"]
    run(*command[1:])
    definition = (config / "tools" / "my-cursor.toml").read_text()
    assert 'command = ["cursor-agent"' in definition
    assert "understudy tools test my-cursor" in definition
    with pytest.raises(UnderstudyError, match="There is no ready-made definition of 'claude'") as other:
        run("tools", "new", "mine", "--like", "claude")
    assert "crush, cursor, goose" in str(other.value.hint)
    assert not (config / "tools" / "mine.toml").exists()
