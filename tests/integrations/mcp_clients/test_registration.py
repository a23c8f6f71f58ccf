"""Test that registering the MCP server and removing it restores every byte, and that no edit of the user is lost."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.files.user_file import UserFile
from understudy.integrations.mcp_clients import registration, shown_diff
from understudy.integrations.mcp_clients.client_table import CLIENTS
from understudy.integrations.mcp_clients.registration import Wanted
from understudy.model.config.other_agents import McpClientChange, RegistrationState
from understudy.model.errors import ErrorKind, UnderstudyError

SERVERS = {
    "claude": ".claude.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
    "zed": ".config/zed/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "qwen": ".qwen/settings.json",
    "copilot": ".copilot/mcp-config.json",
}
CODE = Path("Library/Application Support/Code/User" if sys.platform == "darwin" else ".config/Code/User")


class Home:
    """A home folder, and a workspace below it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "project"
        self.workspace.mkdir(parents=True)
        self.environment = {"HOME": str(folder), "PATH": os.environ["PATH"]}

    def path(self, name: str) -> Path:
        return self.folder / (CODE / "mcp.json" if name == "vscode" else SERVERS[name])

    def put(self, name: str, content: bytes) -> Path:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def run(self, *names: str, install: bool = True, here: bool = False, **options: Any) -> list[McpClientChange]:
        given = {"wanted": Wanted(), "dry_run": False, "environment": self.environment, **options}
        workspace = self.workspace if here else None
        return registration.change(list(names) or None, workspace, install=install, **given)[0]

    def remove(self, *names: str, **options: Any) -> list[McpClientChange]:
        return self.run(*names, install=False, **options)

    def states(self) -> dict[str, RegistrationState]:
        found = registration.listed(None, Wanted(), self.environment)
        return {one.name: one.state for one in found}

    def program(self) -> tuple[str, list[str]]:
        """How a client starts the server."""
        command, *more = registration._program(self.environment)
        return command, [*more, "mcp"]

    def everything(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in self.folder.rglob("*"):
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[str(path.relative_to(self.folder))] = (stat.S_IMODE(path.lstat().st_mode), content)
        return found


@pytest.fixture
def home(tmp_path: Path, own_home: Path) -> Home:
    return Home(tmp_path / "person")


def test_every_client_gets_an_entry_and_loses_it_again(home: Home) -> None:
    before = home.everything()
    done = home.run(*CLIENTS)
    assert [one.problem for one in done] == [None] * len(CLIENTS)
    assert set(home.states().values()) == {RegistrationState.REGISTERED}
    program, arguments = home.program()
    servers = json.loads(home.path("claude").read_bytes())["mcpServers"]
    state = {"UNDERSTUDY_STATE": os.environ["UNDERSTUDY_STATE"]}
    assert servers == {"understudy": {"type": "stdio", "command": program, "args": arguments}}
    assert tomllib.loads(home.path("codex").read_text())["mcp_servers"]["understudy"]["command"] == program
    assert json.loads(home.path("vscode").read_bytes())["servers"]["understudy"]["type"] == "stdio"
    assert json.loads(home.path("zed").read_bytes())["context_servers"]["understudy"]["args"] == arguments
    assert json.loads(home.path("opencode").read_bytes())["mcp"]["understudy"]["command"] == [program, *arguments]
    assert stat.S_IMODE(home.path("claude").stat().st_mode) == 0o600
    after = home.everything()
    assert [one.diff for one in home.run(*CLIENTS)] == [""] * len(CLIENTS), "registered twice, nothing changes"
    assert home.everything() == after
    home.environment |= state
    assert home.states()["claude"] is RegistrationState.OUTDATED, "its server would use another state folder"
    home.run("claude")
    assert json.loads(home.path("claude").read_bytes())["mcpServers"]["understudy"]["env"] == state
    assert [one.name for one in home.remove()] == list(CLIENTS)
    assert home.everything() == before


def test_clients_that_are_here_are_the_default(home: Home) -> None:
    assert home.run() == []
    home.put("zed", b"")
    (home.folder / ".claude").mkdir()
    assert [one.name for one in home.run(dry_run=True)] == ["claude", "zed"]
    assert home.path("zed").read_bytes() == b""
    assert [one.name for one in home.run()] == ["claude", "zed"]
    assert [one.name for one in home.remove()] == ["claude", "zed"]
    assert home.path("zed").read_bytes() == b""


FILES = {
    "claude": [b"", b"{}", b"{ }\n", b'\xef\xbb\xbf{"mcpServers":{}}', b'{\r\n\t"a": 1e999,\r\n\t"mcpServers": {\r\n\t}\r\n}\r\n',
               b'{"mcpServers": {"b": {"command": "x"}},\n"z": "\\ud800"}', b'{\n  "mcpServers": {}\n}'],
    "vscode": [b"// mine\n", b'{\n  // a\n  "servers": { /* b */ }, // c\n}\n', b'{"servers": {"b": {},},}', b"\r\n{\r\n}\r\n"],
    "codex": [b"", b"# mine", b'\xef\xbb\xbfmodel = "x"\r\n', b'mcp_servers = { a = { command = "x" } }\n\n\n',
              b'[mcp_servers.a]\ncommand = """\n[mcp_servers.understudy]\n"""'],
}  # fmt: skip


@given(st.data())
def test_any_file_is_the_same_afterwards(data: Any) -> None:
    """The formats have property tests of their own; this one goes through the files."""
    name = data.draw(st.sampled_from(sorted(FILES)))
    content = data.draw(st.sampled_from(FILES[name]))
    mode = data.draw(st.sampled_from([0o600, 0o644, 0o640]))
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, UNDERSTUDY_STATE=f"{folder}/state"):
        home = Home(Path(folder) / "person")
        path = home.put(name, content)
        path.chmod(mode)
        linked = data.draw(st.booleans())
        if linked:
            shutil.move(path, home.folder / "dotfile")
            path.symlink_to(home.folder / "dotfile")
        before = home.everything()
        (planned,) = home.run(name, dry_run=True)
        assert home.everything() == before
        (done,) = home.run(name)
        assert (done.problem, done.diff) == (None, planned.diff)
        assert (done.after, home.states()[name]) == (RegistrationState.REGISTERED,) * 2
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert path.is_symlink() is linked
        if data.draw(st.booleans()):
            path.write_bytes(path.read_bytes() + (b"# below\n" if name == "codex" else b"\n"))
            home.remove(name)
            assert path.read_bytes() == content + (b"# below\n" if name == "codex" else b"\n")
            return
        home.remove(name)
        assert home.everything() == before


def test_only_our_entry_goes_from_a_file_that_was_edited(home: Home) -> None:
    path = home.path("claude")
    home.run("claude")
    values = json.loads(path.read_bytes())
    values["mcpServers"]["other"] = {"command": "x"}
    values["numStartups"] = 3
    path.write_text(json.dumps(values))
    home.remove("claude")
    assert json.loads(path.read_bytes()) == {"mcpServers": {"other": {"command": "x"}}, "numStartups": 3}


def test_a_table_that_was_made_for_the_entry_goes_with_it_after_another_program_wrote_the_file(home: Home) -> None:
    path = home.put("claude", b'{"numStartups": 3}')
    home.run("claude")
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"numStartups": 4}, indent=4))
    home.remove("claude")
    assert json.loads(path.read_bytes()) == {"numStartups": 4}


def test_without_the_record_of_an_install_the_entry_goes_all_the_same(home: Home) -> None:
    path = home.put("vscode", b'{\n  "servers": {\n    "a": {} // mine\n  },\n}\n')
    before = path.read_bytes()
    home.run("vscode", "codex")
    shutil.rmtree(Path(os.environ["UNDERSTUDY_STATE"]) / "mcp-clients")
    assert [one.problem for one in home.remove()] == [None, None]
    assert path.read_bytes() == before
    assert home.path("codex").read_bytes() == b""


def test_an_entry_of_someone_else_stays(home: Home) -> None:
    for name, content in (
        ("claude", b'{"mcpServers": {"understudy": {"command": "other", "args": ["mcp"]}}}'),
        ("codex", b'[mcp_servers.understudy]\nurl = "http://127.0.0.1:1/mcp"\n'),
    ):
        path = home.put(name, content)
        for action in (home.run, home.remove):
            (refused,) = action(name)
            assert refused.before is RegistrationState.FOREIGN
            assert "does not start Understudy" in (refused.problem or "")
            assert path.read_bytes() == content
        assert home.run(name, wanted=Wanted("helper"))[0].problem is None
        assert home.remove(name, wanted=Wanted("helper"))[0].problem is None
        assert path.read_bytes() == content


def test_what_was_added_to_an_outdated_entry_stays(home: Home) -> None:
    path = home.put(
        "claude",
        b'{"mcpServers": {"a": {}, "understudy": {"command": "/old/understudy", "args": ["mcp"], "env": {"X": "1"}}}}',
    )
    codex = home.put(
        "codex",
        b'[mcp_servers.understudy]\ncommand = "/old/understudy"\nargs = ["mcp"]\n'
        b'[mcp_servers.understudy.tools.start]\napproval_mode = "approve"\n',
    )
    assert {one.before for one in home.run("claude", "codex")} == {RegistrationState.OUTDATED}
    program = home.program()[0]
    entry = json.loads(path.read_bytes())["mcpServers"]["understudy"]
    assert (entry["command"], entry["env"]["X"]) == (program, "1")
    entry = tomllib.loads(codex.read_text())["mcp_servers"]["understudy"]
    assert (entry["command"], entry["tools"]) == (program, {"start": {"approval_mode": "approve"}})
    home.remove()
    assert json.loads(path.read_bytes()) == {"mcpServers": {"a": {}}}
    assert codex.read_bytes() == b""


def test_files_that_cannot_be_changed_stay_and_the_others_are_changed(home: Home) -> None:
    home.put("claude", b'{"a": 1,}')
    home.put("cursor", b'{"mcpServers": {}}').chmod(0o444)
    home.put("gemini", b"{\n  \xff\n}")
    home.put("codex", b"a = \n")
    home.path("qwen").mkdir(parents=True)
    before = home.everything()
    found = {one.name: one.problem or "" for one in home.run("claude", "cursor", "gemini", "codex", "qwen")}
    assert ".claude.json: Line 1, column 8: this file cannot have a comma" in found["claude"]
    assert "is read-only" in found["cursor"]
    assert "Line 2, column 3: it is not UTF-8." in found["gemini"]
    assert "config.toml: Line 1, column 5: " in found["codex"]
    assert "it is not a regular file" in found["qwen"]
    assert home.everything() == before
    assert home.states()["claude"] is RegistrationState.UNREADABLE
    assert home.run("codex", "zed")[1].problem is None


def test_a_change_in_the_meantime_is_not_lost(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.put("claude", b'{"a": 1}')
    _, revision = registration.change(
        ["claude"], None, Wanted(), install=True, dry_run=True, environment=home.environment
    )
    path.write_bytes(b'{"a": 2}')
    with pytest.raises(UnderstudyError) as changed:
        home.run("claude", revision=revision)
    assert changed.value.kind is ErrorKind.CONFLICT
    write = UserFile.write

    def late(self: UserFile, before: bytes | None, after: bytes | None) -> None:
        path.write_bytes(b'{"a": 3}')
        write(self, before, after)

    monkeypatch.setattr(UserFile, "write", late)
    (refused,) = home.run("claude")
    assert "changed in the meantime" in (refused.problem or "")
    assert (refused.after, refused.diff) == (RegistrationState.ABSENT, "")
    assert path.read_bytes() == b'{"a": 3}'


def test_a_workspace_gets_an_entry_for_any_machine(home: Home) -> None:
    before = home.everything()
    done = home.run("claude", "vscode", "codex", "opencode", here=True)
    assert [one.problem for one in done] == [None] * 4
    entry = json.loads((home.workspace / ".mcp.json").read_bytes())["mcpServers"]["understudy"]
    assert entry == {"type": "stdio", "command": "understudy", "args": ["mcp"]}
    assert (home.workspace / ".vscode/mcp.json").exists()
    assert home.states()["claude"] is RegistrationState.ABSENT
    home.remove(here=True)
    assert home.everything() == before
    with pytest.raises(UnderstudyError, match="no configuration of its own in a workspace"):
        home.run("copilot", here=True)


def test_a_link_of_a_workspace_is_not_followed_out_of_it(home: Home) -> None:
    path = home.put("claude", b"{}")
    (home.workspace / ".mcp.json").symlink_to(path)
    (refused,) = home.run("claude", here=True)
    assert "is not a file of this project" in (refused.problem or "")
    assert path.read_bytes() == b"{}"


def test_other_places_of_configurations(home: Home) -> None:
    legacy = home.folder / ".claude/.config.json"
    legacy.parent.mkdir()
    legacy.write_text("{}")
    jsonc = home.folder / ".config/opencode/opencode.jsonc"
    jsonc.parent.mkdir(parents=True)
    jsonc.write_text("// mine\n{}\n")
    home.environment |= {"CODEX_HOME": str(home.folder / "elsewhere")}
    done = home.run("claude", "opencode", "codex")
    assert [one.path for one in done] == [str(legacy), str(jsonc), str(home.folder / "elsewhere/config.toml")]
    assert [one.problem for one in done] == [None] * 3
    assert jsonc.read_text().startswith("// mine\n{\n")
    home.remove()
    assert jsonc.read_text() == "// mine\n{}\n"


def test_codex_passes_on_the_variables_with_keys(home: Home, own_home: Path) -> None:
    folder = own_home / "config/understudy/model-servers"
    folder.mkdir(parents=True)
    (folder / "lab.toml").write_text(
        'name = "lab"\nkind = "custom"\nbase_url = "https://lab.example/v1"\n[api_key]\nfrom_env = "LAB_KEY"\n'
    )
    home.run("codex", "claude", wanted=Wanted(tool_sets=("delegate-local",)))
    entry = tomllib.loads(home.path("codex").read_text())["mcp_servers"]["understudy"]
    assert entry["env_vars"] == ["LAB_KEY"]
    assert entry["args"][-3:] == ["mcp", "--tools", "delegate-local"]
    assert b"LAB_KEY" not in home.path("claude").read_bytes()


@pytest.mark.parametrize("name", ["", "a b", "x" * 33, "ä", '"'])
def test_names_that_a_client_cannot_read_are_refused(home: Home, name: str) -> None:
    with pytest.raises(UnderstudyError) as wrong:
        home.run("claude", wanted=Wanted(name))
    assert wrong.value.kind is ErrorKind.INVALID_PARAMS


def test_an_unknown_client(home: Home) -> None:
    with pytest.raises(UnderstudyError) as wrong:
        home.run("cluade")
    assert "claude" in (wrong.value.hint or "")


SECRET = "hunter2-AbC"
WITH_SECRETS = {
    "claude": [
        f'{{"mcpServers":{{"a":{{"command":"x","env":{{"KEY":"{SECRET}"}}}}}},"oauth":"{SECRET}"}}',
        f'{{\n  "mcpServers": {{\n    "a": {{\n      "env": {{"KEY": "{SECRET}"}}\n    }}\n  }}\n}}\n',
        f'{{\n  "mcpServers": {{\n    "understudy": {{\n      "command": "/old/understudy", "args": ["mcp", "--key={SECRET}"],\n      "env": {{"KEY": "{SECRET}"}}\n    }}\n  }}\n}}\n',
    ],
    "zed": [f'{{\n  // "KEY": "{SECRET}"\n  "context_servers": {{ // {SECRET}\n  }} /* {SECRET}\n{SECRET} */\n}}\n'],
    "codex": [
        f'[mcp_servers.a]\ncommand = "x"\nenv = {{ KEY = "{SECRET}" }}\n',
        f"[mcp_servers.a.env]\nKEY = '{SECRET}'\n",
        f'[mcp_servers.a.env]\n# KEY = "{SECRET}"\nKEY = """\n{SECRET}\n{SECRET}"""\n',
        f"mcp_servers = {{ a = {{ env = {{ KEY = '{SECRET}' }} }} }}\n",
    ],
}


@pytest.mark.parametrize(("client", "text"), [(name, text) for name, texts in WITH_SECRETS.items() for text in texts])
def test_a_diff_shows_no_value_of_another_entry(home: Home, client: str, text: str) -> None:
    """It ends up in terminals, logs and the output of `--json`; lines around the entry may be keys of other servers."""
    path = home.put(client, text.encode())
    program = home.program()[0]
    for options in ({"dry_run": True}, {}):
        [made] = home.run(client, **options)
        assert made.problem is None
        assert program in made.diff
        assert SECRET not in made.diff
        assert made.diff.count("\n@@ ") == 1
    [made] = home.remove(client)
    assert made.problem is None
    assert program in made.diff
    assert SECRET not in made.diff
    assert SECRET.encode() in path.read_bytes() or "understudy" in text


def test_a_change_of_a_hidden_value_is_a_change() -> None:
    before, after = '{"a": "1"}\n', '{"a": "2"}\n'
    assert shown_diff.unified(before, after, "x", "y") == "--- x\n+++ y\n"
    assert shown_diff.unified(before, before, "x", "y") == ""


def test_an_error_about_a_file_shows_no_value(home: Home) -> None:
    home.put("claude", f'{{"mcpServers": {{"a": {{"env": {{"KEY" "{SECRET}"}}}}}}}}'.encode())
    [made] = home.run("claude")
    assert made.problem is not None
    assert SECRET not in made.problem
