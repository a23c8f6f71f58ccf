"""Test agents: the front matter of any file, the tiers, and what a delegation makes of one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.config.loading.agent_files import MAX_HEADER_BYTES, agents_of, read_agent, read_header
from understudy.config.parsing.source_file import Source
from understudy.model.config.delegators import Scope
from understudy.model.errors import ErrorKind, UnderstudyError


def agent(text: str):
    return read_agent(Source(Path("/x/a.md"), text.encode()), "agent", "a", Scope.USER)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("Review it.\n", "It has no front matter.", 0),
        ("---\nname: a\nReview it.\n", "The front matter has no closing ---.", 0),
        ("---\nname: a\ntools: [Read\n---\nx\n", "The YAML cannot be read:", 3),
        ("---\nname: a\nname: b\n---\nx\n", "The field `name` occurs twice.", 2),
        ("---\nname: a\ntools: &t [Read]\ndisallowedTools: *t\n---\nx\n", "Anchors and aliases", 2),
        ("---\nname: a\nhooks: " + "[" * 20 + "]" * 20 + "\n---\nx\n", "It is nested more than 12 levels deep.", 2),
        ("---\nname: a\nhooks: [" + "1," * 2000 + "]\n---\nx\n", "It has more than 1000 values.", 2),
        ("---\ndescription: " + "x" * MAX_HEADER_BYTES + "\n---\nx\n", "The front matter is larger than 32 KiB.", 1),
        ("---\n- a\n---\nx\n", "The front matter is not a list of `field: value`.", 1),
        ("---\nname: a\x01\n---\nx\n", "The YAML cannot be read: it contains a control character.", 1),
        ("---\nname: ../../etc\n---\nx\n", "`../../etc` is not a name of an agent.", 1),
        ("---\ntools:\n---\nx\n", "`tools` must name tools.", 1),
        ("---\ntools: Read, --help\n---\nx\n", "`--help` is not the name of a tool.", 1),
        ("---\nmodel: --x\n---\nx\n", "`model` is not the ID of a model.", 1),
        ("---\nmodel: {a: b}\n---\nx\n", "`model` must be a text.", 1),
        ("---\nname: a\n---\n \n", "It has no instructions.", 0),
    ],
)
def test_a_malformed_file_is_a_finding_with_its_line(text: str, message: str, line: int) -> None:
    entry, problems = agent(text)
    assert entry is None
    assert problems[0].message.startswith(message)
    assert problems[0].location is not None
    assert problems[0].location.range.start.line == line


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: f"---\n{text}\n---\nx".encode())))
def test_any_content_is_read_without_an_exception(data: bytes) -> None:
    header, problems = read_header(Source(Path("/x/a.md"), data))
    assert header is not None or [problem.severity for problem in problems] == ["error"]


def test_fields_are_used_or_listed_as_ignored() -> None:
    entry, problems = agent(
        "---\nname: reviewer\ndescription: >\n  Reviews\n  changes.\nmodel: inherit\ntools:\n  - Read\n  - Bash(git log, x)\n"
        "disallowedTools: Write, Edit\npermissionMode: bypassPermissions\nhooks: {Stop: [{command: rm}]}\nmine: 1\n---\n\nDo.\n"
    )
    assert problems == []
    assert entry is not None
    assert (entry.name, entry.description, entry.model, entry.prompt) == ("reviewer", "Reviews changes.", None, "Do.")
    assert (entry.tools, entry.disallowed_tools) == (["Read", "Bash(git log, x)"], ["Write", "Edit"])
    assert entry.honoured == ["name", "description", "model", "tools", "disallowedTools"]
    assert [one.name for one in entry.ignored] == ["permissionMode", "hooks", "mine"]


def test_a_description_without_quotation_marks_is_read_as_claude_code_does() -> None:
    entry, problems = agent('---\nname: a\ndescription: Use it for: this. user: "x" #1\nmodel: opus\n---\nDo.\n')
    assert entry is not None
    assert (entry.description, entry.model) == ('Use it for: this. user: "x" #1', "opus")
    assert [(one.severity, one.location.range.start.line) for one in problems if one.location] == [("warning", 2)]


def write(file: Path, fields: str = "", body: str = "Do it.") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\n{fields}\n---\n{body}\n" if fields else f"---\n---\n{body}\n")


@pytest.fixture
def project(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with agents in every tier."""
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(own_home / "config" / "understudy"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(own_home / "claude"))
    top = tmp_path / "project"
    top.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=top, check=True)
    write(top / ".understudy" / "agents" / "one.md", body="understudy's")
    write(top / ".claude" / "agents" / "one.md", body="claude's")
    write(top / ".claude" / "agents" / "deep" / "two.md", "model: haiku\ntools: Read, Grep")
    write(top / ".claude" / "skills" / "pdf" / "SKILL.md", "allowed-tools: Bash")
    write(own_home / "claude" / "agents" / "two.md")
    write(own_home / "config" / "understudy" / "agents" / "three.md")
    (top / ".claude" / "agents" / "three.md").write_text("broken")
    (top / ".claude" / "agents" / "link.md").symlink_to(own_home / "claude" / "agents" / "two.md")
    (top / "a.py").write_text("x = 1\n")
    return top


def test_the_nearer_tier_wins_and_the_list_says_what_it_hides(project: Path, own_home: Path) -> None:
    found = agents_of(project, trusted=True)
    tiers = {name: (one.scope.value, one.kind, len(one.hides)) for name, one in found.entries.items()}
    assert tiers == {
        "drafter": ("builtin", "agent", 0),
        "one": ("workspace", "agent", 1),
        "pdf": ("workspace", "skill", 0),
        "reader": ("builtin", "agent", 0),
        "three": ("user", "agent", 0),
        "two": ("workspace", "agent", 1),
    }
    assert found.entries["one"].prompt == "understudy's"
    assert found.entries["two"].hides[0].uri == (own_home / "claude" / "agents" / "two.md").as_uri()
    assert [one.message for one in found.problems if one.severity == "error"] == [
        "The file is reached through a link that leads out of the workspace, so it is not read.",
        "It has no front matter.",
    ]
    # The file that would win cannot be used: another one is never taken silently.
    with pytest.raises(UnderstudyError, match="cannot be used") as refused:
        found.require("three")
    assert refused.value.kind is ErrorKind.CONFIG_INVALID


def test_agents_of_an_untrusted_workspace_are_not_read(project: Path) -> None:
    found = agents_of(project, trusted=False)
    assert sorted(found.entries) == ["drafter", "reader", "three", "two"]
    assert found.entries["two"].scope is Scope.USER
    with pytest.raises(UnderstudyError) as refused:
        found.require("pdf")
    assert "trust" in str(refused.value.hint)


def delegate(project: Path, method: str, **params):
    caller = TerminalCaller(project)
    return method_table.call(f"delegations/{method}", {"workspace": str(project), **params}, caller)


def trust(project: Path) -> bool:
    caller = TerminalCaller(project)
    return method_table.call("workspace/trust", {"workspace": str(project), "trusted": True}, caller).trusted


def test_a_changed_agent_has_to_be_trusted_again(project: Path) -> None:
    assert trust(project)
    for file in (".claude/agents/one.md", ".claude/skills/pdf/SKILL.md", ".understudy/agents/one.md"):
        before = method_table.call("workspace/trust", {"workspace": str(project)}, TerminalCaller(project))
        assert before.trusted
        write(project / file, body=f"Changed {file}.")
        after = method_table.call("workspace/trust", {"workspace": str(project)}, TerminalCaller(project))
        assert not after.trusted, file
        trust(project)


@pytest.fixture
def claude(own_home: Path) -> None:
    folder = own_home / "config" / "understudy" / "delegators"
    folder.mkdir(parents=True)
    (folder / "claude.toml").write_text('name = "claude"\ntool = "claude"\nmodel = "opus"\n')
    (folder / "codex.toml").write_text('name = "codex"\ntool = "codex"\nmodel = "gpt-5"\n')
    servers = own_home / "config" / "understudy" / "model-servers"
    servers.mkdir()
    (servers / "local.toml").write_text('name = "local"\nkind = "ollama"\nbase_url = "http://127.0.0.1:9/v1"\n')
    (folder / "loop.toml").write_text('name = "loop"\nmodel_server = "local"\nmodel = "small"\n')
    code = "import pathlib, sys; print(pathlib.Path(sys.argv[1]).read_text())"
    command = json.dumps([sys.executable, "-c", code, "{promptFile}"])
    (folder / "echo.toml").write_text(
        f'name = "echo"\ntool = "generic"\n[launch]\noutput = "text"\ncommand = {command}\n'
    )


@pytest.mark.usefixtures("claude")
@pytest.mark.parametrize(
    ("delegator", "launch", "reason"),
    [
        ("claude", None, "agent two (.claude/agents/deep/two.md, model haiku, only the tools Read, Grep)"),
        (
            "claude",
            {"model": "sonnet"},
            "not its model haiku, because the request names one, only the tools Read, Grep); for this delegation: model sonnet",
        ),
        (
            "loop",
            None,
            "one of Claude Code's, and loop does not use those, only the tools read_file, search_files)",
        ),
        (
            "codex",
            None,
            "its `tools` do not restrict codex, only Claude Code without a terminal and models without an agent)",
        ),
    ],
)
def test_a_preview_shows_what_of_an_agent_applies(project: Path, delegator: str, launch, reason: str) -> None:
    trust(project)
    params = {"recipe": "implement", "task": "x", "delegator": delegator, "agent": "two", "launch": launch}
    found = delegate(project, "preview", **{name: value for name, value in params.items() if value is not None})
    assert found.explain.reason.endswith(reason)
    assert "# Instructions of the agent `two`\n\nDo it.\n\n# What is asked for\n\nx" in found.prompt


@pytest.mark.usefixtures("claude")
def test_claude_code_gets_the_model_and_the_tools(project: Path) -> None:
    from understudy.engine.planning.plan import plan
    from understudy.model.delegation.delegations import StartParams

    trust(project)
    params = StartParams(recipe="implement", task="x", delegator="claude", agent="two", workspace=project.as_uri())
    one = plan(params, {}, None).draft.candidates[0].delegator
    assert one.model == "haiku"
    assert one.launch is not None
    assert one.launch.flags == ["--tools=Read,Grep"]


@pytest.mark.usefixtures("claude")
@pytest.mark.parametrize(
    ("fields", "names", "said"),
    [
        ("tools: Read, Grep", ["read_file", "search_files"], "only the tools read_file, search_files"),
        (
            "tools: [Bash(git log:*), read, WebSearch, mcp__x__y]",
            ["read_file"],
            "are not tools here, Bash(git log:*) permits nothing, because arguments cannot be checked",
        ),
        (
            "disallowedTools: Bash(rm *), MultiEdit, Write",
            ["read_file", "list_files", "search_files"],
            "only the tools read_file, list_files, search_files",
        ),
        ("tools: Read, Edit\ndisallowedTools: edit_file", ["read_file"], "only the tools read_file"),
        ('disallowedTools: "*"', [], "only the tools (none)"),
        ("tools: NotebookEdit", [], "NotebookEdit is not a tool here"),
        ('tools: "*"', None, ""),
    ],
)
def test_a_model_without_an_agent_gets_the_named_tools(project: Path, fields: str, names, said: str) -> None:
    from understudy.engine.planning.plan import plan
    from understudy.model.delegation.delegations import StartParams

    write(project / ".claude" / "agents" / "only.md", fields)
    trust(project)
    params = StartParams(
        recipe="implement",
        task="x",
        delegator="echo",
        fallback=["loop"],
        agent="only",
        workspace=project.as_uri(),
    )
    assert [one.tools for one in plan(params, {}, None).draft.candidates] == [None, names]
    params = StartParams(recipe="implement", task="x", delegator="loop", agent="only", workspace=project.as_uri())
    found = plan(params, {}, None)
    assert found.draft.candidates[0].tools == names
    assert said in found.draft.explain.reason
    shown = found.prompt().shown
    assert ("You may not edit or create files" in shown) == (names is not None and "edit_file" not in names)


def test_each_tool_of_the_loop_has_a_name_in_agent_files() -> None:
    from understudy.model.config.config_entries import LOOP_TOOLS
    from understudy.runners.model_loop.toolbox import FILE_TOOLS, RUN_COMMAND

    assert [one.name for one in (*FILE_TOOLS, RUN_COMMAND)] == list(LOOP_TOOLS)


@pytest.mark.usefixtures("claude")
def test_a_listed_agent_says_whom_its_tools_restrict(project: Path) -> None:
    from click.testing import CliRunner

    from understudy.frontends.cli.setup.agents import agents

    trust(project)
    shown = CliRunner().invoke(agents, ["show", "two", "--workspace", str(project)], standalone_mode=False).output
    assert "Restricts:    a model without an agent to read_file, search_files\n" in shown


@pytest.mark.usefixtures("claude")
def test_the_agent_gets_the_instructions_and_a_retry_too(project: Path) -> None:
    trust(project)
    caller = TerminalCaller(project)
    started = delegate(project, "start", recipe="ask", task="x", delegator="echo", agent="pdf")
    first = method_table.call("delegations/wait", {"id": started.id}, caller)
    retried = method_table.call("delegations/retry", {"id": started.id}, caller)
    for ended in (first, method_table.call("delegations/wait", {"id": retried.id}, caller)):
        assert ended.result is not None
        assert ended.result.text.count("# Instructions of the skill `pdf`\n\nDo it.") == 1
