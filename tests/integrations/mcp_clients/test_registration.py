"""Test that the MCP server is registered with the commands of clients, and that no file of the user is changed."""

from __future__ import annotations

import json
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from understudy.integrations.mcp_clients import registration
from understudy.integrations.mcp_clients.client_table import CLIENTS
from understudy.integrations.mcp_clients.registration import Wanted
from understudy.model.config.other_agents import McpClientChange, RegistrationState
from understudy.model.errors import ErrorKind, UnderstudyError

BY_COMMAND = ("claude", "codex", "gemini", "qwen", "copilot")
EDITORS = {"vscode": "code", "vscode-insiders": "code-insiders", "vscodium": "codium"}
BY_FILE = ("claude-desktop", "cursor", "zed", "opencode")

CLIENT = f"""#!{sys.executable} -IS
# A client that keeps its entries in one file, and prints them as the real ones do.
import json, os, pathlib, sys
kind, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
home = pathlib.Path(os.environ.get("CODEX_HOME", os.environ["HOME"])) if kind == "codex" else pathlib.Path(os.environ["HOME"])
with (home / "calls").open("a") as calls:
    calls.write(json.dumps([kind, *arguments]) + "\\n")
(home / "environment").write_text(json.dumps(dict(os.environ, cwd=os.getcwd())))
path = home / f"{{kind}}.entries"
entries = json.loads(path.read_text()) if path.exists() else {{}}
if (home / f"{{kind}}.fails").exists():
    sys.exit("\\x1b[31mIt does\\nnot work.\\x1b[0m")
if arguments[0] == "--add-mcp":
    entry = json.loads(arguments[1])
    file = home / (home / "file").read_text()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({{"servers": {{entry.pop("name"): entry}}}}, indent="\\t"))
    sys.exit()
action, words = arguments[1], [word for word in arguments[2:] if word not in ("--scope", "user", "--")]
if action == "add":
    name, words = words[0], words[1:]
    while words[0] in ("-e", "--env"):
        words = words[2:]
    entries[name] = words
elif action == "remove":
    entries.pop(words[0], None)
elif action == "list":
    for name, words in entries.items():
        print("\\x1b[31m✗\\x1b[0m " + name + ": " + " ".join(words) + " (stdio) - Disconnected", file=sys.stderr)
elif words[0] not in entries:
    sys.exit(f'Error: Server "{{words[0]}}" not found.' if kind == "copilot" else f"No MCP server named '{{words[0]}}' found.")
elif kind == "copilot":
    print(words[0] + "\\n  Type: local\\n  Command: " + " ".join(entries[words[0]]) + "\\n  Tools: * (all)")
else:
    command, *rest = entries[words[0]]
    print(words[0] + ":\\n  Type: stdio\\n  Command: " + command + "\\n  Args: " + " ".join(rest) + "\\n  Environment:")
path.write_text(json.dumps(entries))
"""


class Home:
    """A home folder, a workspace below it, and a folder with programs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workspace, self.programs = folder, folder / "project", folder / "bin"
        self.workspace.mkdir(parents=True)
        self.programs.mkdir()
        self.environment = {"HOME": str(folder), "PATH": str(self.programs)}

    def have(self, *programs: str) -> None:
        for name in programs:
            (self.programs / name).write_text(CLIENT)
            (self.programs / name).chmod(0o755)

    def run(self, *names: str, install: bool = True, here: bool = False, **options: Any) -> list[McpClientChange]:
        given = {"request": Wanted(), "dry_run": False, "environment": self.environment, **options}
        return registration.change(list(names) or None, self.workspace if here else None, install=install, **given)

    def remove(self, *names: str, **options: Any) -> list[McpClientChange]:
        return self.run(*names, install=False, **options)

    def states(self) -> dict[str, RegistrationState]:
        return {one.name: one.state for one in registration.listed(None, Wanted(), self.environment)}

    def command(self) -> list[str]:
        """How a client starts the server."""
        return [*registration._program(self.environment), "mcp"]

    def put(self, name: str, content: str) -> Path:
        path = Path(next(one.path for one in registration.listed(None, Wanted(), self.environment) if one.name == name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def calls(self) -> list[list[str]]:
        """What the programs were asked to change."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [call for line in lines if not {"get", "list"} & set(call := json.loads(line))]


@pytest.fixture
def home(tmp_path: Path, own_home: Path) -> Home:
    return Home(tmp_path / "person")


def test_a_client_is_changed_by_its_own_commands_only(home: Home) -> None:
    home.have(*BY_COMMAND)
    planned = home.run(dry_run=True)
    assert home.calls() == []
    done = home.run()
    assert [(one.name, one.problem, one.after) for one in done] == [
        (name, None, RegistrationState.REGISTERED) for name in CLIENTS if name in BY_COMMAND
    ]
    start = home.command()
    assert sorted(home.calls()) == sorted(
        [
            ["claude", "mcp", "add", "--scope", "user", "understudy", "--", *start],
            ["codex", "mcp", "add", "understudy", "--", *start],
            ["copilot", "mcp", "add", "understudy", "--", *start],
            ["gemini", "mcp", "add", "--scope", "user", "understudy", *start],
            ["qwen", "mcp", "add", "--scope", "user", "understudy", *start],
        ]
    )
    assert [one.commands for one in planned] == [one.commands for one in done]
    assert {name for name, state in home.states().items() if state is RegistrationState.REGISTERED} == set(BY_COMMAND)
    made = len(home.calls())
    assert [one.commands for one in home.run()] == [[]] * 5, "registered twice, nothing changes"
    assert len(home.calls()) == made
    assert {one.after for one in home.remove()} == {RegistrationState.ABSENT}
    assert set(home.states().values()) == {RegistrationState.ABSENT}
    assert home.remove() == []


def test_variables_that_decide_what_is_used_are_registered_and_no_others(home: Home, tmp_path: Path) -> None:
    home.have(*BY_COMMAND)
    state = str(tmp_path / "state of mine")
    home.environment |= {"UNDERSTUDY_STATE": state, "LAB_KEY": "hunter2", "CODEX_HOME": str(home.workspace)}
    home.run(*BY_COMMAND, request=Wanted("helper", ("delegate-local",)))
    for call in home.calls():
        assert call[call.index("helper") + 1 :][:2] in (
            ["-e", f"UNDERSTUDY_STATE={state}"],
            ["--env", f"UNDERSTUDY_STATE={state}"],
        )
        assert call[-3:] == ["mcp", "--tools", "delegate-local"]
    assert json.loads((home.workspace / "calls").read_text().splitlines()[0])[0] == "codex", "its own home counts"
    seen = json.loads((home.folder / "environment").read_text())
    assert "LAB_KEY" not in seen
    assert seen["cwd"] == "/", "no project, which could name what a client runs"


def test_an_editor_is_told_the_entry_and_the_user_what_to_remove(home: Home) -> None:
    for name, program in EDITORS.items():
        home.have(program)
        path = next(one.path for one in registration.listed(None, Wanted(), home.environment) if one.name == name)
        (home.folder / "file").write_text(path)
        (made,) = home.run(name)
        assert (made.problem, made.after) == (None, RegistrationState.REGISTERED)
        assert "MCP: List Servers" in (made.next or "")
        command, *arguments = home.command()
        entry = {"type": "stdio", "command": command, "args": arguments}
        assert json.loads(Path(path).read_text()) == {"servers": {"understudy": entry}}
        (left,) = home.remove(name)
        assert left.next == f"Remove the entry `understudy` from `servers` in {path}."
        assert left.after is RegistrationState.REGISTERED
    assert [one.name for one in home.remove()] == list(EDITORS)


def test_a_missing_file_is_created_and_removed_while_nothing_in_it_has_changed(home: Home) -> None:
    for name in BY_FILE:
        (planned,) = home.run(name, dry_run=True)
        path = Path(planned.path)
        assert planned.writes
        assert not path.exists()
        (made,) = home.run(name, request=Wanted(tool_sets=("delegate-local",)))
        assert (made.problem, made.after) == (None, RegistrationState.REGISTERED)
        assert path.read_text() == made.snippet
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        (gone,) = home.remove(name)
        assert (gone.problem, gone.after) == (None, RegistrationState.ABSENT)
        assert not path.exists()
        home.run(name)
        path.write_text(path.read_text() + "\n")
        (left,) = home.remove(name)
        assert left.next == f"Remove the entry `understudy` from `{CLIENTS[name].container}` in {path}."
        assert path.exists()


def test_an_existing_file_is_never_changed(home: Home) -> None:
    for name in BY_FILE:
        for content in ("", "{}", '{\n  // mine\n  "a": 1,\n}\n'):
            path = home.put(name, content)
            (made,) = home.run(name)
            assert not made.writes
            assert (made.next or "").startswith(f"Put this entry into `{CLIENTS[name].container}` in {path}.")
            assert "understudy" in made.snippet
            assert path.read_text() == content


def test_what_an_earlier_version_wrote_into_files_is_found(home: Home) -> None:
    command, *arguments = home.command()
    entry = {"command": "/old/understudy", "args": ["mcp"]}
    cursor = home.put("cursor", json.dumps({"mcpServers": {"a": {}, "understudy": entry}}))
    zed = home.put("zed", f'{{\n  // mine\n  "context_servers": {{"understudy": {json.dumps(entry)}}}\n}}\n')
    opencode = home.put("opencode", json.dumps({"mcp": {"understudy": {"command": [command, *arguments]}}, "a": 1}))
    states = home.states()
    assert [states[name] for name in ("cursor", "zed", "opencode")] == [
        RegistrationState.OUTDATED,
        RegistrationState.UNKNOWN,
        RegistrationState.REGISTERED,
    ]
    assert {one.next for one in home.remove()} == {
        f"Remove the entry `understudy` from `mcpServers` in {cursor}.",
        f"Remove the entry `understudy` from `context_servers` in {zed}.",
        f"Remove the entry `understudy` from `mcp` in {opencode}.",
    }
    home.have("codex")
    (home.folder / "codex.entries").write_text('{"understudy": ["/old/understudy", "mcp"]}')
    (made,) = home.run("codex")
    assert [argv[2] for argv in made.commands] == ["remove", "add"]
    assert made.after is RegistrationState.REGISTERED


def test_an_entry_of_someone_else_stays(home: Home) -> None:
    home.have("claude", "gemini")
    for name in ("claude", "gemini"):
        (home.folder / f"{name}.entries").write_text('{"understudy": ["other", "mcp"]}')
    home.put("cursor", '{"mcpServers": {"understudy": {"url": "http://127.0.0.1:1/mcp"}}}')
    for action in (home.run, home.remove):
        for refused in action("claude", "gemini", "cursor"):
            assert refused.before is refused.after is RegistrationState.FOREIGN
            assert "does not start Understudy" in (refused.problem or "")
    assert home.calls() == []
    assert home.run("claude", request=Wanted("helper"))[0].problem is None


def test_a_client_that_cannot_be_changed_is_named_and_the_others_are_changed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.have("claude", "copilot", "qwen")
    (home.folder / "claude.fails").touch()
    problems = {one.name: one.problem or "" for one in home.run("claude", "codex", "copilot")}
    assert problems["claude"].startswith("`claude mcp get understudy` exited with code 1: It does not work. Run it in")
    assert problems["codex"] == "The program 'codex' was not found. Install it, or add its folder to PATH."
    assert problems["copilot"] == ""
    listed = {one.name: one for one in registration.listed(None, Wanted(), home.environment)}
    assert listed["claude"].state is RegistrationState.UNKNOWN
    assert listed["copilot"].state is RegistrationState.REGISTERED
    assert not listed["codex"].found
    (home.programs / "qwen").write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    monkeypatch.setattr(registration, "COMMAND_SECONDS", 0.2)
    (late,) = home.run("qwen")
    assert (late.problem or "").startswith("`qwen mcp list` did not end within 0.2 s. Run it in a terminal")


def test_a_command_that_reports_no_error_and_does_nothing_is_a_problem(home: Home) -> None:
    (home.programs / "gemini").write_text("#!/bin/sh\n")
    (home.programs / "gemini").chmod(0o755)
    (made,) = home.run("gemini")
    assert "Gemini CLI reported no error, but the entry `understudy` is absent." in (made.problem or "")
    assert made.after is RegistrationState.UNKNOWN


def test_a_workspace_has_files_of_its_own_and_runs_no_program(home: Home) -> None:
    home.have(*BY_COMMAND, *EDITORS.values())
    names = [name for name, client in CLIENTS.items() if client.workspace_file]
    done = home.run(*names, here=True)
    assert [one.problem for one in done] == [None] * len(names)
    entry = json.loads((home.workspace / ".mcp.json").read_bytes())["mcpServers"]["understudy"]
    assert entry == {"type": "stdio", "command": "understudy", "args": ["mcp"]}
    codex = tomllib.loads((home.workspace / ".codex/config.toml").read_text())
    assert codex == {"mcp_servers": {"understudy": {"command": "understudy", "args": ["mcp"]}}}
    assert {one.after for one in home.remove(here=True)} == {RegistrationState.ABSENT}
    assert [path for path in home.workspace.rglob("*") if path.is_file()] == []
    assert not (home.folder / "calls").exists()
    with pytest.raises(UnderstudyError, match="no configuration of its own in a workspace"):
        home.run("copilot", here=True)


def test_a_link_of_a_workspace_is_not_followed_out_of_it(home: Home) -> None:
    (home.workspace / ".mcp.json").symlink_to(home.folder / "elsewhere.json")
    (refused,) = home.run("claude", here=True)
    assert "is not a file of this project" in (refused.problem or "")
    assert not (home.folder / "elsewhere.json").exists()


def test_codex_is_to_pass_on_the_variables_with_keys(home: Home, own_home: Path) -> None:
    folder = own_home / "config/understudy/model-servers"
    folder.mkdir(parents=True)
    (folder / "lab.toml").write_text(
        'name = "lab"\nkind = "custom"\nbase_url = "https://lab.example/v1"\n[api_key]\nfrom_env = "LAB_KEY"\n'
    )
    home.have("codex")
    assert '`env_vars = ["LAB_KEY"]`' in (home.run("codex")[0].next or "")


@pytest.mark.parametrize("name", ["", "a b", "x" * 33, "ä", '"', "-x"])
def test_names_that_a_client_cannot_read_are_refused(home: Home, name: str) -> None:
    with pytest.raises(UnderstudyError) as wrong:
        home.run("claude", request=Wanted(name))
    assert wrong.value.kind is ErrorKind.INVALID_PARAMS


def test_an_unknown_client(home: Home) -> None:
    with pytest.raises(UnderstudyError) as wrong:
        home.run("cluade")
    assert "claude" in (wrong.value.hint or "")
