"""Test that real clients find the server that ``mcp install`` registered, and forget it again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

CLIENTS = {
    "claude": (".claude.json", '{"numStartups": 3}\n', "✔ Connected"),
    "codex": (".codex/config.toml", '# mine\n[mcp_servers.other]\ncommand = "true"\nenabled = false\n', "enabled"),
    "gemini": (".gemini/settings.json", '{\n  // mine\n  "security": { "folderTrust": { "enabled": false } }\n}\n', "Connected"),
    "qwen": (".qwen/settings.json", '{"mcpServers":{}}', "Connected"),
    "opencode": (".config/opencode/opencode.json", "", "connected"),
    "copilot": (".copilot/mcp-config.json", '{"mcpServers": {}}\n', "understudy"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_finds_the_server(name: str, programs: Path, own_home: Path, tmp_path: Path) -> None:
    file, content, shown = CLIENTS[name]
    home, project = tmp_path / "person", tmp_path / "project"
    project.mkdir()
    path = home / file
    path.parent.mkdir(parents=True)
    if content:
        path.write_text(content)
    if name == "opencode":
        (path.parent / "node_modules").mkdir()
        (path.parent / "package.json").write_text('{"dependencies": {"@opencode-ai/plugin": "*"}}')
        there = '{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}'
        (path.parent / "package-lock.json").write_text(there)
    environment = {
        "HOME": str(home),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "UNDERSTUDY_STATE": os.environ["UNDERSTUDY_STATE"],
        "GIT_CONFIG_NOSYSTEM": "1",
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=project, env=environment, check=False, capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def state() -> str:
        clients = json.loads(run(*understudy, "status", "--json"))["clients"]
        return str(next(one["state"] for one in clients if one["name"] == name))

    understudy = (sys.executable, "-m", "understudy", "mcp")
    assert state() == "absent"
    run(*understudy, "install", name, "--yes")
    assert state() == "registered"
    lines = run(str(programs / name), "mcp", "list").splitlines()
    found = [line for line in lines if "understudy" in line and str(home) not in line]
    assert any(shown in line for line in found), lines
    assert b"UNDERSTUDY_STATE" in path.read_bytes()
    run(*understudy, "uninstall", name, "--yes")
    assert state() == "absent"
    assert not path.exists() or b"understudy" not in path.read_bytes()
    assert not content or path.exists()
