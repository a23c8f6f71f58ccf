"""Test files that define tools: where they apply, what a workspace may define, and what its trust covers."""

from __future__ import annotations

import subprocess

import msgspec

from understudy.config import locations
from understudy.config.discovery import installed_tools
from understudy.config.loading.loader import load, snapshot
from understudy.config.trust import records
from understudy.model.config.delegators import Scope

TOOL = 'title = "Mine"\ncommand = ["mine", "{options}"]\n'


def problems_of(configuration, name: str) -> list[str]:
    """Return the errors of a delegator."""
    state = configuration.delegators[name].state
    assert state.ready == (not [one for one in state.problems if one.severity == "error"])
    return [one.message for one in state.problems if one.severity == "error"]


def test_several_delegators_share_a_definition(user, write, loaded):
    write(user / "tools/mine.toml", TOOL + 'options = { yolo = ["-y"] }\n')
    write(user / "delegators/one.toml", 'tool = "mine"\n')
    write(user / "delegators/two.toml", 'tool = "mine"\nlaunch = { yolo = true }\n')
    write(user / "delegators/three.toml", 'tool = "mine"\nmodel = "m"\n')
    found = loaded()
    assert (problems_of(found, "one"), problems_of(found, "two")) == ([], [])
    assert "no arguments for it" in problems_of(found, "three")[0]
    assert found.delegators["one"].tool_display_name == "Mine"
    assert found.tools["mine"].scope is Scope.USER
    before = locations.fingerprint(None)
    write(user / "tools/mine.toml", TOOL)
    assert locations.fingerprint(None) != before


def test_a_problem_has_its_place_and_keeps_delegators_from_starting(user, write, loaded, lines):
    write(user / "tools/mine.toml", TOOL + "optoins = {}\n")
    write(user / "tools/other.toml", TOOL + 'completion = "exit"\n')
    write(user / "delegators/one.toml", 'tool = "mine"\n')
    write(user / "delegators/two.toml", 'tool = "other"\n')
    found = loaded()
    assert "mine.toml:3:1: error: Unknown key `optoins`. (Did you mean `options`?)" in lines(found)
    assert any(line.startswith("other.toml:3:14: error: `completion` has no effect") for line in lines(found))
    assert problems_of(found, "one") == ["The tool `mine` has errors."]
    assert problems_of(found, "two") == ["The tool `other` has errors."]
    draft = snapshot(None, trusted=False).remarks(user / "tools/new.toml", b'title = "x"\ncommand = ["x", "{promt}"]\n')
    assert [(one.message, one.location.range.start.line) for one in draft] == [
        ("{promt} is not a placeholder here.", 1)
    ]


def test_a_tool_that_understudy_knows_cannot_be_replaced(user, write, loaded, lines):
    write(user / "tools/claude.toml", TOOL)
    write(user / "delegators/one.toml", 'tool = "claude"\nlaunch = { permission_mode = "plan" }\n')
    found = loaded()
    assert "`claude` is a tool that Understudy knows" in lines(found)[0]
    assert (problems_of(found, "one"), found.tools) == ([], {})
    assert found.delegators["one"].tool_display_name == "Claude Code"


def test_a_workspace_defines_tools_only_while_it_is_trusted(user, workspace, write):
    write(workspace / ".understudy/tools/mine.toml", TOOL)
    write(workspace / ".understudy/delegators/own.toml", 'tool = "mine"\n')
    write(user / "delegators/personal.toml", 'tool = "mine"\n')
    assert load(workspace, trusted=False).tools == {}
    found = load(workspace, trusted=True)
    assert problems_of(found, "own") == []
    assert problems_of(found, "personal") == ["There is no tool `mine`."]


def test_a_workspace_replaces_no_tool_of_the_user(user, workspace, write, lines):
    write(user / "tools/mine.toml", TOOL)
    write(user / "delegators/personal.toml", 'tool = "mine"\n')
    write(workspace / ".understudy/tools/mine.toml", TOOL.replace("Mine", "Theirs"))
    found = load(workspace, trusted=True)
    assert any("A workspace file may not replace your tool of this name." in line for line in lines(found))
    assert (found.tools["mine"].definition.title, problems_of(found, "personal")) == ("Mine", [])


def test_a_workspace_sets_no_address(workspace, write, lines):
    write(workspace / ".understudy/tools/mine.toml", TOOL + 'env = { MY_BASE_URL = "http://x" }\n')
    write(workspace / ".understudy/delegators/own.toml", 'tool = "mine"\n')
    found = load(workspace, trusted=True)
    assert any("A workspace file may not set MY_BASE_URL" in line for line in lines(found))
    assert problems_of(found, "own") == ["The tool `mine` has errors."]


def test_variables_of_the_user_go_to_no_tool_of_a_workspace(user, workspace, write):
    delegator = 'tool = "mine"\nenv = { TOKEN = { from_env = "MY_TOKEN" } }\n'
    write(user / "delegators/personal.toml", delegator)
    write(workspace / ".understudy/delegators/own.toml", delegator)
    write(workspace / ".understudy/tools/mine.toml", TOOL)
    assert "may not pass on your variable MY_TOKEN" in problems_of(load(workspace, trusted=True), "own")[0]
    (workspace / ".understudy/tools/mine.toml").unlink()
    write(user / "tools/mine.toml", TOOL)
    assert problems_of(load(workspace, trusted=True), "own") == []


def test_a_change_of_a_definition_or_of_what_its_tool_obeys_asks_for_trust_again(user, workspace, write, state):
    obeys = '[[repository_paths]]\npath = ".mine/"\nwhat = "hooks of Mine"\n'
    path = write(workspace / ".understudy/tools/mine.toml", TOOL + 'env = { A = "1" }\n' + obeys)
    script = TOOL.replace('"mine"', '"python3"') + 'options = { yolo = ["run.sh"] }\n' + obeys
    write(workspace / "run.sh", "")
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    subprocess.run(["git", "add", "run.sh"], cwd=workspace, check=True)
    assert "Tool mine runs mine {options} and sets A." in records.record(workspace, state, trusted=True).allows
    changes = [
        (path, TOOL.replace('"mine"', '"./run.sh"') + obeys, "now: Tool mine runs ./run.sh {options}."),
        (workspace / ".mine/hooks.json", "{}", "now: Agents read hooks of Mine (.mine/, 1 file)."),
        (workspace / ".mine/hooks.json", "[]", "changed: .mine/hooks.json"),
        (workspace / "run.sh", "other", "changed: run.sh"),
        (path, script, "now: Tool mine may add run.sh."),
        (workspace / "run.sh", "another", "changed: run.sh"),
    ]
    for changed, text, said in changes:
        write(changed, text)
        found = records.status(workspace, state)
        assert (found.trusted, said in found.changed) == (False, True), found.changed
        assert records.record(workspace, state, trusted=True).trusted
    write(user / "tools/own.toml", TOOL + obeys.replace(".mine", ".own"))
    assert records.status(workspace, state).trusted
    write(workspace / ".own/x", "")
    assert not records.status(workspace, state).trusted


def test_the_program_of_a_definition_is_found_and_asked_for_its_version_only_if_that_is_defined(
    user, write, loaded, tmp_path
):
    program = write(tmp_path / "bin/mine", f"#!/bin/sh\ntouch {tmp_path}/started\necho mine 1.2.3 $1\n")
    program.chmod(0o755)
    write(user / "tools/mine.toml", TOOL)
    write(user / "tools/absolute.toml", TOOL.replace('"mine"', f'"{program}"'))
    write(user / "tools/inside.toml", TOOL.replace('"mine"', '"./mine"'))
    write(user / "tools/missing.toml", TOOL.replace('"mine"', '"gone"'))

    def detected():
        defined = [one.definition.capabilities() for one in loaded().tools.values()]
        found = installed_tools.detect(path=str(program.parent), cache=tmp_path / "cache", defined=defined)
        return {one.name: (one.found, one.path, one.version) for one in found if one.name in loaded().tools}

    assert detected() == {
        "mine": (True, str(program), None),
        "absolute": (True, str(program), None),
        "inside": (True, None, None),
        "missing": (False, None, None),
    }
    assert not (tmp_path / "started").exists()
    write(user / "tools/mine.toml", TOOL + 'version = ["version"]\n')
    assert detected()["mine"] == (True, str(program), "1.2.3")


def test_the_definition_of_a_tool_is_part_of_a_specification(user, write, loaded):
    from journals import spec_of_a_test

    write(user / "tools/mine.toml", TOOL + 'failures = [{ kind = "timed_out", exit_codes = [3] }]\n')
    definition = loaded().tools["mine"].definition
    spec = spec_of_a_test("x", slots=1)
    spec.candidates[0].tool_definition = definition
    from understudy.model.delegation import spec as specs

    assert specs.decode(msgspec.json.encode(spec)).candidates[0].tool_definition == definition
