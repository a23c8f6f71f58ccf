"""Trust is bound to what it allows, and a change asks again."""

from __future__ import annotations

import json
import os
import stat

import pytest

from understudy.config.trust import records
from understudy.model.errors import ErrorKind, UnderstudyError


def refused(call) -> UnderstudyError:
    with pytest.raises(UnderstudyError) as caught:
        call()
    return caught.value


def test_a_new_workspace_is_neither_trusted_nor_known(workspace, state):
    found = records.status(workspace, state)
    assert (found.trusted, found.known, found.changed) == (False, False, [])
    assert found.allows == [
        "Agents work in copies of this folder, or in it if you choose that, and run its tests and checks."
    ]
    assert not state.exists()


def test_trust_is_kept_for_this_workspace_alone_and_can_be_revoked(workspace, state, tmp_path):
    assert records.record(workspace, state, trusted=True).trusted
    (tmp_path / "other").mkdir()
    assert not records.status(tmp_path / "other", state).trusted
    (tmp_path / "link").symlink_to(workspace)
    assert records.status(tmp_path / "link", state).trusted
    assert records.status(workspace / ".." / workspace.name, state).trusted
    withdrawn = records.record(workspace, state, trusted=False)
    assert (withdrawn.trusted, withdrawn.known) == (False, True)


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".understudy/config.toml",
            ".understudy/local/config.toml",
            ".understudy/recipes/x.md",
            ".understudy/anything",
        ),
        *(
            ".claude/agents/a.md",
            ".claude/skills/s/SKILL.md",
            ".claude/settings.json",
            ".claude/hooks/h.sh",
            ".mcp.json",
        ),
        *(
            ".opencode/x",
            ".codex/config.toml",
            ".gemini/settings.json",
            ".cursor/mcp.json",
            ".vscode/mcp.json",
            ".worktreeinclude",
        ),
    ],
)
def test_a_change_in_what_agents_obey_asks_again_and_shows_what(workspace, state, write, path):
    records.record(workspace, state, trusted=True)
    write(workspace / path, "{}")
    added = records.status(workspace, state)
    assert (added.trusted, added.known) == (False, True)
    assert f"added: {path}" in added.changed
    assert records.record(workspace, state, trusted=True).trusted
    write(workspace / path, "{ }")
    assert f"changed: {path}" in records.status(workspace, state).changed
    write(workspace / path, "{}")
    assert records.status(workspace, state).trusted
    (workspace / path).chmod(0o755)
    assert f"changed: {path}" in records.status(workspace, state).changed
    (workspace / path).unlink()
    assert f"removed: {path}" in records.status(workspace, state).changed


def test_ordinary_work_does_not_ask_again(workspace, state, write):
    records.record(workspace, state, trusted=True)
    for path in (
        "src/a.py",
        "CLAUDE.md",
        ".git/config",
        ".vscode/settings.json",
        ".claude/worktrees/x/.claude/settings.json",
    ):
        write(workspace / path, "x")
    assert records.status(workspace, state).trusted


def test_the_effects_of_trust_are_described(workspace, state, write):
    write(
        workspace / ".understudy/config.toml",
        '[[delegators]]\nname = "d"\ntool = "generic"\nlaunch = { command = ["agent", "a b"] }\n'
        '[[model_servers]]\nname = "s"\nkind = "custom"\nbase_url = "https://models.example.com/v1"\n'
        '[[checks]]\nname = "unit"\nargv = ["make", "test"]\n[worktrees]\nsetup = ["npm", "ci"]\nlink = ["node_modules"]\ncopy = [".env"]\n'
        '[environment]\npython = ".venv/bin/python"\n',
    )
    write(
        workspace / ".mcp.json",
        json.dumps({"mcpServers": {"db": {"command": "npx", "args": ["db-mcp"]}, "web": {"url": "https://m.example"}}}),
    )
    write(
        workspace / ".claude/settings.json",
        json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "curl evil"}]}]}}),
    )
    write(workspace / ".claude/agents/a.md", "x")
    assert records.status(workspace, state).allows == [
        "Agents work in copies of this folder, or in it if you choose that, and run its tests and checks.",
        "Delegator d uses the tool generic, which runs agent 'a b'.",
        "Model server s sends text to https://models.example.com/v1.",
        "Check unit runs make test.",
        "Each new copy is set up with npm ci.",
        "Agents can write to node_modules of this folder through a link.",
        "Files that match .env are copied to the agents, too.",
        f"Checks use the interpreter {workspace}/.venv/bin/python.",
        "An agent that reads .mcp.json starts the MCP server db: npx db-mcp.",
        "An agent that reads .mcp.json starts the MCP server web: https://m.example.",
        "An agent that reads .claude/settings.json runs the hook curl evil.",
        "Agents read agent definitions of Claude Code (.claude/agents/, 1 file).",
    ]
    records.record(workspace, state, trusted=True)
    write(workspace / ".mcp.json", json.dumps({"mcpServers": {"db": {"command": "sh", "args": ["-c", "x"]}}}))
    assert records.status(workspace, state).changed == [
        "now: An agent that reads .mcp.json starts the MCP server db: sh -c x.",
        "no longer: An agent that reads .mcp.json starts the MCP server db: npx db-mcp.",
        "no longer: An agent that reads .mcp.json starts the MCP server web: https://m.example.",
        "changed: .mcp.json",
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 9000,
        b'{"mcpServers": 3, "hooks": {"command": 1}}',
        b'{"mcpServers": {"a": 1, "b": {"args": {}}}}',
    ],
)
def test_files_that_make_no_sense_are_covered_all_the_same(workspace, state, write, content):
    write(workspace / ".mcp.json", content)
    write(workspace / ".claude/settings.json", content)
    found = records.status(workspace, state)
    assert any(".mcp.json" in line for line in found.allows)
    assert records.record(workspace, state, trusted=True).trusted


def test_output_cannot_control_the_terminal(workspace, state, write):
    write(workspace / ".mcp.json", json.dumps({"mcpServers": {"\x1b[2Ja\u202eb\u2028": {"command": "x\n\ry\u009b"}}}))
    (workspace / ".claude/agents").mkdir(parents=True)
    write(workspace / ".claude/agents" / "a\x1b[31m.md", "x")
    records.record(workspace, state, trusted=True)
    write(workspace / ".claude/agents" / "b\n\x1b.md", "x")
    found = records.status(workspace, state)
    for line in [*found.allows, *found.changed]:
        assert not set("\x1b\n\r\u202e\u2028\u009b") & set(line)


def test_a_link_is_covered_with_what_it_means(workspace, state, write, tmp_path):
    target = write(workspace / "tools" / "settings.json", "{}")
    (workspace / ".claude").mkdir()
    (workspace / ".claude/settings.json").symlink_to(target)
    (workspace / ".claude/skills").symlink_to(workspace / "tools")
    (workspace / "tools" / "loop").symlink_to(workspace / "tools")
    records.record(workspace, state, trusted=True)
    target.write_text("{ }")
    assert not records.status(workspace, state).trusted
    records.record(workspace, state, trusted=True)
    outside = write(tmp_path / "outside.json", "{}")
    (workspace / ".claude/settings.json").unlink()
    (workspace / ".claude/settings.json").symlink_to(outside)
    found = records.status(workspace, state)
    assert not found.trusted
    assert ".claude/settings.json is a link that leads out of this folder." in found.allows


def test_special_files_do_not_block(workspace, state):
    (workspace / ".understudy").mkdir()
    os.mkfifo(workspace / ".understudy/config.toml")
    os.mkfifo(workspace / ".mcp.json")
    assert records.record(workspace, state, trusted=True).trusted


def test_a_folder_that_is_too_large_to_look_at_cannot_be_trusted(workspace, state, write, monkeypatch):
    records.record(workspace, state, trusted=True)
    monkeypatch.setattr(records, "MAX_FILES", 3)
    for number in range(5):
        write(workspace / ".understudy" / str(number), "x")
    assert not records.status(workspace, state).trusted
    assert "too many" in refused(lambda: records.record(workspace, state, trusted=True)).message
    monkeypatch.setattr(records, "MAX_FILES", 4000)
    monkeypatch.setattr(records, "MAX_BYTES", 3)
    assert "too much" in refused(lambda: records.record(workspace, state, trusted=True)).message


@pytest.mark.parametrize("when", ["load", "tracked_programs", "describe_effects"])
@pytest.mark.parametrize("kind", ["recipe", "hooks"])
def test_what_is_shown_belongs_to_the_digest_whenever_a_file_changes(
    workspace, state, write, monkeypatch, *, when, kind
):
    """Else the user would trust what another program wrote while the effects were listed, and was not shown."""
    write(workspace / ".understudy/recipes/first.md", '+++\ntitle = "First"\nreturns = "text"\n+++\nFirst.\n')
    write(
        workspace / ".claude/settings.json",
        '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "harmless"}]}]}}',
    )
    place = {"load": records, "tracked_programs": records.effects, "describe_effects": records.effects}[when]
    original = getattr(place, when)
    changes = [
        lambda: (
            write(
                workspace / ".understudy/recipes/second.md", '+++\ntitle = "Second"\nreturns = "text"\n+++\nSecond.\n'
            )
            if kind == "recipe"
            else write(
                workspace / ".claude/settings.json", '{"hooks": {"Stop": [{"hooks": [{"command": "harmful"}]}]}}'
            )
        )
    ]

    def changed_afterwards(*arguments, **named):
        found = original(*arguments, **named)
        if changes:
            changes.pop()()
        return found

    monkeypatch.setattr(place, when, changed_afterwards)
    shown = records.status(workspace, state)
    monkeypatch.undo()
    now = records.status(workspace, state)
    assert not changes
    assert (shown.hash, shown.allows) == (now.hash, now.allows)
    assert any(("first, second" if kind == "recipe" else "harmful") in line for line in shown.allows)


def test_a_file_that_is_there_only_while_the_effects_are_listed_is_not_trusted(workspace, state, write, monkeypatch):
    evil = workspace / ".understudy/config.toml"
    text = '[[delegators]]\nname = "mine"\ntool = "generic"\nlaunch = { command = ["/bin/evil"] }\n'
    load, describe = records.load, records.effects.describe_effects

    def loaded(*arguments, **named):
        found = load(*arguments, **named)
        write(evil, text)
        return found

    def described(*arguments, **named):
        evil.unlink()
        return describe(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(records, "load", loaded)
        patch.setattr(records.effects, "describe_effects", described)
        shown = records.status(workspace, state)
    write(evil, text)
    refused(lambda: records.record(workspace, state, trusted=True, seen=shown.hash))


def test_a_file_that_is_harmless_only_while_it_is_described_is_not_trusted(workspace, state, write, monkeypatch):
    settings = workspace / ".claude/settings.json"
    text = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "evil-one"}]}]}}'
    write(settings, text)
    describe = records.effects.describe_effects

    def described(*arguments, **named):
        write(settings, text.replace("evil-one", "harmless"))
        found = describe(*arguments, **named)
        write(settings, text)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(records.effects, "describe_effects", described)
        shown = records.status(workspace, state)
    refused(lambda: records.record(workspace, state, trusted=True, seen=shown.hash))
    now = records.status(workspace, state)
    assert any("evil-one" in line for line in now.allows)
    assert records.record(workspace, state, trusted=True, seen=now.hash).trusted


def test_a_workspace_whose_files_keep_changing_is_not_trusted(workspace, state, write, monkeypatch):
    original, writes = records.load, iter(range(1000))

    def changed_afterwards(*arguments, **named):
        found = original(*arguments, **named)
        write(workspace / ".understudy/config.toml", f"# {next(writes)}\n")
        return found

    monkeypatch.setattr(records, "load", changed_afterwards)
    assert records.status(workspace, state).allows
    error = refused(lambda: records.record(workspace, state, trusted=True))
    assert (error.kind, error.message) == (ErrorKind.CONFLICT, records.CHANGING)


def test_changes_between_question_and_answer_are_not_trusted(workspace, state, write):
    shown = records.status(workspace, state)
    write(workspace / ".mcp.json", "{}")
    error = refused(lambda: records.record(workspace, state, trusted=True, seen=shown.hash))
    assert error.kind is ErrorKind.CONFLICT
    assert not records.status(workspace, state).trusted
    assert records.record(workspace, state, trusted=True, seen=records.status(workspace, state).hash).trusted


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_text("{"),
        lambda file: file.write_text("[]"),
        lambda file: file.write_text(file.read_text().replace('"trusted": true', '"trusted": "yes"')),
        lambda file: file.write_text(file.read_text().replace('"workspace": "/', '"workspace": "/x/')),
        lambda file: file.chmod(0o666),
        lambda file: (file.rename(file.with_suffix(".x")), file.symlink_to(file.with_suffix(".x"))),
    ],
)
def test_an_unreliable_record_is_ignored(workspace, state, spoil):
    records.record(workspace, state, trusted=True)
    [file] = (state / "trust").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    spoil(file)
    found = records.status(workspace, state)
    assert (found.trusted, found.known) == (False, False)


def test_a_workspace_with_a_name_that_is_not_utf8(tmp_path, state):
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    from pathlib import Path

    workspace = Path(os.fsdecode(folder))
    (workspace / ".understudy").mkdir()
    Path(os.fsdecode(folder + b"/.understudy/\xff")).write_text("x")
    assert records.record(workspace, state, trusted=True).trusted
    assert records.status(workspace, state).trusted


def test_whether_it_is_trusted_is_what_the_status_says_without_a_look_at_strange_files(
    workspace, state, write, monkeypatch
):
    write(workspace / ".understudy" / "config.toml", "[limits]\nmax_turns = 3\n")
    with monkeypatch.context() as strange:
        strange.setattr(records, "digest", None)  # is not called
        assert not records.is_trusted(workspace, state)
    records.record(workspace, state, trusted=True)
    assert records.is_trusted(workspace, state)
    write(workspace / ".understudy" / "config.toml", "[limits]\nmax_turns = 4\n")
    assert not records.is_trusted(workspace, state), "its files have changed"
    records.record(workspace, state, trusted=False)
    with monkeypatch.context() as declined:
        declined.setattr(records, "digest", None)
        assert not records.is_trusted(workspace, state)
