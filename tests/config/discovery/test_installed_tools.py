"""Agent CLIs and model servers are found without running anything that was not asked for."""

from __future__ import annotations

import http.server
import json
import threading
from concurrent import futures
from pathlib import Path
from typing import ClassVar

import pytest

from understudy.config.discovery import declarations, installed_tools, server_presets
from understudy.config.discovery.server_presets import ServerKind
from understudy.config.validation import delegator_rules
from understudy.model.capabilities import Capabilities
from understudy.model.config.delegators import Delegator, Launch


@pytest.fixture
def binaries(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


@pytest.fixture
def program(binaries, tmp_path):
    def make(name: str, body: str, folder: Path = binaries) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_text(f"#!/bin/sh\necho run >> {tmp_path}/ran-{name}\n{body}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def detect(binaries, tmp_path):
    def look(path: str | None = None, **options):
        found = installed_tools.detect(cache=tmp_path / "cache", path=path or f"{binaries}:/usr/bin:/bin", **options)
        return {entry.name: entry for entry in found}

    return look


def runs(tmp_path: Path, name: str) -> int:
    file = tmp_path / f"ran-{name}"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_every_known_tool_is_listed_found_or_not(detect, program):
    path = program("claude", "echo '2.1.329 (Claude Code)'")
    found = detect()
    assert {
        "claude",
        "codex",
        "opencode",
        "gemini",
        "qwen",
        "copilot",
        "cursor",
        "aider",
        "pi",
        "mini",
        "goose",
        "crush",
    } < set(found)
    claude = found["claude"]
    assert (claude.found, claude.path, claude.version, claude.runnable, claude.problems) == (
        True,
        str(path),
        "2.1.329",
        True,
        [],
    )
    assert (found["goose"].found, found["goose"].path, found["goose"].runnable) == (False, None, False)
    assert found["ghostwriter"].found
    assert found["ghostwriter"].runnable
    assert found["generic"].found


def test_an_older_node_is_named_where_it_decides_which_release_npm_installs(detect, program, binaries):
    node = program("node", "echo v20.20.2")
    program("qwen", "echo 0.15.10")
    program("claude", "echo '2.1.197 (Claude Code)'")
    found = detect(str(binaries))
    older, needs_node = found["qwen"].problems
    assert "0.15.10" in older.message
    assert needs_node.message == f"The newest Qwen Code needs Node.js 22; {node} is version 20.20.2."
    assert [problem.message.split(";")[0] for problem in found["pi"].problems] == ["The newest pi needs Node.js 22.19"]
    assert found["claude"].problems == found["gemini"].problems == [], "it runs, or would"
    assert "with Node.js 22 or later" in declarations.tools()["qwen"].install_hint


def test_no_program_in_the_workspace_or_the_current_folder_is_started(
    detect, program, tmp_path, workspace, monkeypatch
):
    inside = program("claude", "echo 1.0.0", workspace / "bin").parent
    program("codex", "echo 1.0.0", tmp_path / "here" / "bin")
    program("gemini", "echo 1.0.0", workspace)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "claude").symlink_to(inside / "claude")
    (tmp_path / "way-in").symlink_to(inside)
    monkeypatch.chdir(tmp_path / "here")
    path = f":.:bin:../here/bin:{tmp_path}/here/bin:{inside}:{workspace}:{tmp_path}/links:{tmp_path}/way-in:{tmp_path}/links/../project/bin"
    found = detect(path=path, workspace=workspace)
    assert not any(found[name].found for name in ("claude", "codex", "gemini"))
    assert [runs(tmp_path, name) for name in ("claude", "codex", "gemini")] == [0, 0, 0]


def test_what_was_found_is_remembered_until_the_program_changes(detect, program, tmp_path):
    program("claude", "echo 1.0.0")
    assert [detect()["claude"].version for _ in range(3)] == ["1.0.0"] * 3
    assert runs(tmp_path, "claude") == 1
    detect(refresh=True)
    assert runs(tmp_path, "claude") == 2
    program("claude", "echo 1.0.10")
    assert detect()["claude"].version == "1.0.10"
    for content in ("", "[]", json.dumps({f"{tmp_path}/bin/claude": 3}), '{"x": {"file": 1, "said": {}}}', "[" * 9000):
        (tmp_path / "cache" / "tools.json").write_text(content)
        assert detect()["claude"].version == "1.0.10"


def test_two_tools_with_one_program_have_answers_of_their_own(detect, program):
    path = program("claude", 'test "$1" = --evil && echo 99.0.0 || echo 1.0.0')
    evil = Capabilities(name="evil", title="Evil", binaries=(str(path),), version_arguments=("--evil",))
    for _ in range(2):
        found = detect(defined=[evil])
        assert (found["evil"].version, found["claude"].version) == ("99.0.0", "1.0.0")


def test_a_program_that_fails_is_named_and_asked_again_the_next_time(detect, program, tmp_path):
    program("codex", "echo broken >&2; exit 3")
    (problem,) = detect()["codex"].problems
    assert "exited with code 3" in problem.message
    assert detect()["codex"].found
    assert runs(tmp_path, "codex") == 2


def test_probes_run_at_the_same_time(detect, program, monkeypatch, tmp_path):
    monkeypatch.setattr(installed_tools, "PROBE_SECONDS", 60.0)
    # Each waits until the other has begun.
    program("aider", f"until [ -e {tmp_path}/ran-codex ]; do sleep 0.01; done; echo aider 0.86.2")
    program("codex", f"until [ -e {tmp_path}/ran-aider ]; do sleep 0.01; done; echo codex-cli 0.4.0")
    found = detect()
    assert (found["aider"].version, found["codex"].version) == ("0.86.2", "0.4.0")


def test_a_program_that_hangs_is_given_up(detect, program, monkeypatch):
    monkeypatch.setattr(installed_tools, "PROBE_SECONDS", 0.5)
    program("qwen", "exec sleep 600")
    assert "did not print its version" in detect()["qwen"].problems[0].message


def test_other_programs_of_the_same_name_are_not_taken_for_agents(detect, program, binaries):
    program("goose", "echo 'goose version: v3.24.1'")
    program("mini", "echo 'a small thing'")
    program("pi", "echo '3.14159 is all I say'; exit 0")
    found = detect()
    assert not any(found[name].found for name in ("goose", "mini", "pi"))
    assert "another program" in found["goose"].problems[0].message
    program("pi", "echo 0.73.1")
    program("mini", "echo 'Usage: mini. Run mini-swe-agent in your local environment.'")
    found = detect()
    assert found["pi"].version == "0.73.1"
    assert found["mini"].found


def test_a_connection_test_sees_no_key_and_runs_outside_the_workspace(detect, program, tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-0123456789")
    program("claude", f"env > {tmp_path}/seen; pwd >> {tmp_path}/seen; echo 1.0.0")
    detect()
    seen = (tmp_path / "seen").read_text()
    assert "sk-0123456789" not in seen
    assert seen.splitlines()[-1] == "/"


def test_folders_and_plain_files_are_no_programs(detect, binaries):
    (binaries / "claude").mkdir()
    (binaries / "codex").write_text("not executable")
    found = detect()
    assert not found["claude"].found
    assert not found["codex"].found


def kind(name: str, port: int) -> ServerKind:
    return ServerKind(kind=name, title=name, base_url=f"http://127.0.0.1:{port}/v1")


class Answer(http.server.BaseHTTPRequestHandler):
    body = b""
    asked: ClassVar[list] = []

    def do_GET(self):
        self.asked.append((self.path, dict(self.headers), self.client_address[0]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def asked():
    return []


@pytest.fixture
def serve(asked):
    running = []

    def start(body: bytes) -> int:
        handler = type("Handler", (Answer,), {"body": body, "asked": asked})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        running.append(server)
        return server.server_port

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def test_a_model_server_is_recognised_by_its_list_of_models(serve):
    port = serve(json.dumps({"object": "list", "data": [{"id": "qwen"}, {"id": "llama"}]}).encode())
    others = [
        serve(body)
        for body in (
            b"",
            b"<html>",
            b"[]",
            b'{"data": 3}',
            b'{"data": [{"id": 3}]}'.replace(b'{"id": 3}', b"3"),
            b"[" * 9000,
        )
    ]
    found = server_presets.running(
        [kind("ollama", port), *(kind(f"other{other}", other) for other in others), kind("lmstudio", 1)]
    )
    assert found == {"ollama": ["qwen", "llama"]}


def test_only_this_machine_is_asked(serve, asked):
    port = serve(b'{"data": []}')
    away = [ServerKind(kind=host, title="x", base_url=f"http://{host}:{port}/v1") for host in ("localhost.", "example")]
    assert server_presets.running([*away, ServerKind(kind="custom", title="none")]) == {}
    assert asked == []


def test_a_port_that_never_answers_is_given_up(monkeypatch):
    import socket

    monkeypatch.setattr(server_presets, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert server_presets.running([kind("ollama", listening.getsockname()[1])]) == {}


def test_a_server_that_dribbles_is_given_up(monkeypatch):
    import socket

    monkeypatch.setattr(server_presets, "TOTAL_SECONDS", 0.5)
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def dribble():
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not stop.wait(0.05):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=dribble)
        thread.start()
        assert server_presets.running([kind("ollama", listening.getsockname()[1])]) == {}
        stop.set()
        thread.join(10)


def test_no_proxy_and_no_key_go_along(serve, asked, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    port = serve(b'{"data": []}')
    assert server_presets.running([kind("vllm", port)]) == {"vllm": []}
    ((path, headers, address),) = asked
    assert (path, address) == ("/v1/models", "127.0.0.1")
    assert set(headers) == {"Host", "Accept-Encoding", "Accept"}


AGENTS = {name: tool for name, tool in declarations.tools().items() if tool.binaries}


def test_hundreds_of_tools_from_files_are_not_asked_all_at_once(detect, program, monkeypatch):
    program("own", "echo 1.2.3")
    pools = []

    class Pool(futures.ThreadPoolExecutor):
        def __init__(self, **options):
            pools.append(options["max_workers"])
            super().__init__(**options)

    monkeypatch.setattr(futures, "ThreadPoolExecutor", Pool)
    several = [Capabilities(name=f"own{number}", title="Own", binaries=("own",)) for number in range(200)]
    found = detect(defined=several)
    assert pools == [installed_tools.MOST_AT_ONCE]
    assert {found[one.name].found for one in several} == {True}


def test_every_agent_says_how_to_install_it_and_log_in():
    assert {*AGENTS} >= {"claude", "codex", "opencode", "gemini", "copilot", "cursor", "qwen", "pi", "aider", "mini"}
    assert {*AGENTS} >= {"goose", "crush"}
    for tool in AGENTS.values():
        install = tool.install
        assert install is not None, tool.name
        assert [text[-1] for text in (install.about, install.login)] == [".", "."], tool.name
        assert install.url.startswith("https://"), tool.name
        # These are typed into a terminal: one line each, and nothing that asks for more rights.
        for line in (install.command, install.login_command or ""):
            assert line.isprintable(), tool.name
            assert "sudo" not in line, tool.name


@pytest.mark.parametrize("tool", [tool for tool in AGENTS.values() if tool.command], ids=lambda tool: tool.name)
def test_a_ready_made_command_is_valid_and_runs_the_program_of_its_agent(tool):
    assert tool.runner is None
    assert tool.command[0] in tool.binaries
    assert tool.command.count("{prompt}") == 1
    delegator = Delegator(name=tool.name, tool="generic", launch=Launch(command=list(tool.command)))
    assert not list(delegator_rules.check_delegator(delegator, delegator_rules.Surroundings({})))
