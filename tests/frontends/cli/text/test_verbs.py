"""``ask`` and ``summarize``: what is sent, what is printed, and what the ledger keeps."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import forked
import pytest
import screens
from wait_until import until

from understudy.config import locations
from understudy.journal import delegation_folder, ledger


def test_an_answer_goes_to_stdout_and_its_attempt_to_the_ledger(served):
    name = served.on("scholar")
    asked = served.run("ask", "-t", "Why?", "src", "-d", name)
    assert (asked.code, asked.out, asked.err) == (0, "Because.\n", "")
    assert "Why?" in served.sent
    assert re.findall(r"`(.*)`\n<<<", served.sent) == ["src/a.py", "src/B.py"]
    (entry,) = ledger.read()
    assert (entry.recipe, entry.delegator, entry.model, entry.model_server) == ("ask", name, "scholar", "scripted")
    assert (entry.verdict, entry.failure, entry.workspace) == ("answered", None, str(served.top))
    assert entry.size == sum((served.top / "src" / name).stat().st_size for name in ("a.py", "B.py"))
    assert entry.usage.output_tokens > 0
    assert entry.asked_by.frontend == "cli"
    assert not (delegation_folder.state_root() / "delegations").exists(), "a text recipe makes no delegation"


def test_an_answer_is_not_lost_where_the_ledger_cannot_be_written(served):
    ledger_folder = delegation_folder.state_root() / "ledger"
    ledger_folder.write_text("a file where the folder should be")
    asked = served.run("ask", "-t", "Why?", "src", "-d", served.on("scholar"))
    assert (asked.code, asked.out) == (0, "Because.\n")
    assert f"The request is not in the ledger. Cannot use {ledger_folder}" in " ".join(asked.err.split())
    refused = served.run("ask", "-t", "Why?", "src", "-d", served.on("401"))
    assert refused.code == 1
    assert "answered 401" in refused.err, "the reason is the server's"


def test_the_envelope_of_an_answer(served):
    name = served.on("scholar")
    found = served.run("ask", "--json", "--paths", "src", "src/a.py", "--question", "Why?", "--profile", name).envelope
    assert (found["ok"], found["command"], found["content"]) == (True, "ask", "Because.")
    assert (found["profile"], found["model"]) == (name, "scholar")
    assert set(found["usage"]) == {
        *("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "total_duration_ms")
    }


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        *(("401", "auth_failed"), ("cut", "stream_truncated"), ("length", "output_truncated")),
        *(("empty", "empty_output"), ("html", "malformed_output"), ("redirect", "connection_failed")),
    ],
)
def test_a_failure_of_the_server_is_an_envelope_and_in_the_ledger(served, model, kind):
    asked = served.run("ask", "--json", "-t", "Why?", "src", "-d", served.on(model))
    assert asked.code == 1
    error = asked.envelope["error"]
    assert (asked.envelope["ok"], error["type"], error["kind"]) == (False, "backend_error", kind)
    (entry,) = ledger.read()
    assert (entry.verdict, entry.failure) == ("failed", kind)


@pytest.mark.parametrize(
    ("arguments", "type_"),
    [
        (["ask", "-t", "x", "missing.py"], "corpus_error"),
        (["ask", "-t", "x", "*.nothing"], "corpus_error"),
        (["ask", "-t", "x", "src", ""], "corpus_error"),
        (["ask"], "corpus_error"),
        (["ask", "-t", "x", "src", "-d", "absent"], "resolve_error"),
        (["ask", "-t", "x", "src", "-d", "ghostwriter"], "resolve_error"),
        (["summarize"], "empty_stdin"),
    ],
)
def test_a_request_that_cannot_be_made_is_an_envelope_with_code_2(
    served, requests: Callable[[], int], arguments, type_
):
    served.on("scholar")
    asked = served.run(*arguments, "--json", stdin=b"")
    assert (asked.code, asked.envelope["ok"], asked.envelope["error"]["type"]) == (2, False, type_)
    assert requests() == 0
    assert list(ledger.read()) == []


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["ask", "-t", "x", "missing.py"], {}),
        (["summarize"], {}),
        (["write", "-t", "x"], {}),
        (["write", "-t", "x", "--target", "src/a.py"], {"target": "src/a.py"}),
        (["write", "-t", "x", "--target", "../a.py"], {"target": "../a.py"}),
        (
            ["write", "-t", "x", "missing.py", "--target", "n.py", "--model", "other"],
            {"target": "n.py", "model": "other"},
        ),
    ],
)
def test_the_envelope_of_every_error_says_who_would_have_done_what(served, arguments, facts):
    """In the form of agent-delegate 0.2.0."""
    name = served.on("scholar")
    envelope = served.run(*arguments, "--json", stdin=b"").envelope
    assert {key: envelope[key] for key in ("profile", "model", "target") if key in envelope} == {
        "profile": name,
        "model": "scholar",
        **facts,
    }
    unknown = served.run("ask", "-t", "x", "src", "-d", "absent", "--json").envelope
    assert (unknown["profile"], "model" in unknown) == ("absent", False)
    assert served.run("ask", "-t", "x", "src", "-d", served.on("401"), "--json").envelope["error"]["status"] == 401


def test_the_export_for_token_meter_has_the_bytes_of_agent_delegate(served, monkeypatch):
    """Compared with what 0.2.0 logs for the same requests, field by field; only times and processes differ."""
    monkeypatch.setenv("CODEX_SESSION_ID", "c-1")
    name = served.on("author")
    served.run("ask", "-t", "x", "src", "-d", name)
    served.run("write", "-t", "x", "--target", "new-ü.py", "-d", name)
    lines = served.run("ledger", "--export", "token-meter").out.splitlines()
    for line, command, target in zip(lines, ("ask", "write"), ({}, {"target": "new-ü.py"}), strict=True):
        record = json.loads(line)
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["ts"])
        same = {
            "ts": record["ts"],
            "command": command,
            "profile": name,
            "backend": "openai-compat",
            "model": "author",
            "prompt_eval_count": record["prompt_eval_count"],
            "eval_count": record["eval_count"],
            "cached_tokens": 4,
            "reasoning_tokens": 3,
            "total_duration_ms": record["total_duration_ms"],
            "cwd": str(served.top),
            "claude_session_id": "",
            "codex_session_id": "c-1",
            "parent_pid": os.getppid(),
            "host": served.server.base_url,
            **target,
        }
        assert line == json.dumps(same)
    (_, written) = csv.DictReader(served.run("ledger", "--export", "csv").out.splitlines())
    assert written["target"] == "new-ü.py"


def test_the_export_for_token_meter_knows_servers_that_speak_messages(served):
    (locations.user_folder() / "model-servers" / "scripted.toml").write_text(
        f'name = "scripted"\nkind = "custom"\nbase_url = "{served.server.base_url}"\nprotocols = ["anthropic"]\n'
    )
    served.run("ask", "-t", "x", "src", "-d", served.on("messages_good"))
    record = json.loads(served.run("ledger", "--export", "token-meter").out)
    assert (record["backend"], record["host"]) == ("anthropic", served.server.base_url)


def test_the_hint_about_an_unknown_model_names_its_server(served):
    asked = served.run("ask", "-t", "x", "src", "-d", served.on("unheard-of"))
    assert asked.code == 1
    assert "`understudy servers models scripted`" in asked.err


def test_an_agent_cli_is_not_started(served):
    served.run("delegators", "add", "cat", "--tool", "generic", "--", "/bin/cat", "{promptFile}")
    asked = served.run("ask", "-t", "x", "src", "-d", "cat")
    assert asked.code == 2
    assert "understudy start ask -d cat" in asked.err


def test_a_preview_sends_nothing_and_shows_all(served, requests: Callable[[], int]):
    (served.top / "src" / ".env").write_text("TOKEN=1\n")
    asked = served.run("ask", "-t", "Why?", "src", "--preview", "-d", served.on("scholar"))
    assert asked.code == 0
    assert "src/a.py" in asked.out
    assert "A = 1" in asked.out
    assert re.search(r"src/\.env .*left out: its name suggests", asked.out)
    assert re.search(r"About \d+ tokens", asked.out)
    assert requests() == 0
    assert list(ledger.read()) == []


def test_model_and_temperature_are_those_of_the_call(served):
    served.run("ask", "-t", "x", "src", "-d", served.on("good"), "--model", "scholar", "--temperature", "0.7")
    body = served.server.requests[-1].body
    assert (body["model"], body["temperature"]) == ("scholar", 0.7)


def test_standard_input_is_summarized(served):
    asked = served.run("summarize", "-d", served.on("scholar"), stdin=b"line one\nline \xff two\n")
    assert (asked.code, asked.out) == (0, "Because.\n")
    assert "line one\nline � two" in served.sent


def test_a_limit_on_tokens_is_checked_before_anything_is_sent(served, requests: Callable[[], int]):
    asked = served.run("ask", "--json", "-t", "x", "src", "-d", served.on("scholar"), "--max-tokens", "20")
    assert (asked.code, asked.envelope["error"]["kind"]) == (2, "input_too_large")
    assert requests() == 0


@pytest.mark.parametrize(
    ("limit", "kind"),
    [("--max-file-bytes=5", "file_too_large"), ("--max-bytes=11", "input_too_large"), ("--max-bytes=12", None)],
)
def test_limits_on_bytes_are_those_of_the_call(served, requests: Callable[[], int], limit, kind):
    asked = served.run("ask", "--json", "-t", "x", "src", "-d", served.on("scholar"), limit)
    assert asked.envelope.get("error", {}).get("kind") == kind
    assert requests() == (kind is None)


@pytest.mark.parametrize(
    ("limit", "kind"),
    [
        ("max_file_bytes = 5", "file_too_large"),
        ("max_bytes = 10", "input_too_large"),
        ("max_tokens = 10", "input_too_large"),
    ],
)
def test_limits_of_the_configuration_are_those_of_the_call_unless_it_has_others(
    served, requests: Callable[[], int], limit, kind
):
    (locations.user_folder() / "config.toml").write_text(f"[input]\n{limit}\n")
    asked = served.run("ask", "--json", "-t", "x", "src", "-d", served.on("scholar"))
    assert (asked.code, asked.envelope["error"]["kind"], requests()) == (2, kind, 0)
    assert "`[input] max_" in asked.envelope["error"]["hint"]
    if "bytes" in limit:
        raised = ("--max-file-bytes", "1000", "--max-bytes", "1000")
        assert served.run("ask", "-t", "x", "src", "-d", "m-scholar", *raised).code == 0


def test_a_limit_on_bytes_is_that_of_standard_input_too(served, requests: Callable[[], int]):
    (locations.user_folder() / "config.toml").write_text("[input]\nmax_bytes = 3\n")
    asked = served.run("summarize", "--json", "-d", served.on("scholar"), stdin=b"too much")
    assert (asked.code, asked.envelope["error"]["kind"], requests()) == (2, "input_too_large", 0)


def test_a_large_file_is_sent_when_the_limit_is_raised(served):
    (served.top / "large.txt").write_text("x" * 800_000)
    arguments = ["ask", "-t", "x", "large.txt", "-d", served.on("scholar")]
    assert served.run(*arguments).code == 2
    assert served.run(*arguments, "--max-file-bytes", "900000").code == 0


def test_a_key_in_the_files_is_not_sent(served, monkeypatch):
    secret = "sk-0123456789abcdefghij"
    monkeypatch.setenv("SCRIPTED_KEY", secret)
    folder = served.top.parent / "home" / "config" / "understudy" / "model-servers" / "scripted.toml"
    folder.write_text(folder.read_text() + 'api_key = { from_env = "SCRIPTED_KEY" }\n')
    (served.top / "src" / "a.py").write_text(f'KEY = "{secret}"\n')
    assert served.run("ask", "-t", secret, "src", "-d", served.on("scholar")).code == 0
    request = served.server.requests[-1]
    assert secret not in json.dumps(request.body)
    assert request.headers["authorization"] == f"Bearer {secret}"


def program(served, *arguments: str, **more) -> subprocess.Popen[bytes]:
    return forked.Forked([*arguments], cwd=served.top, **more)


def pieces_on_a_terminal(served, *arguments: str, code: int = 0) -> list[bytes]:
    """Run a command whose stdout and stderr are a terminal; return what it printed, as it came."""
    leader, follower = pty.openpty()
    process = program(served, *arguments, stdout=follower, stderr=follower)
    os.close(follower)
    pieces: list[bytes] = []
    try:
        while piece := os.read(leader, 4096):
            pieces.append(piece)
    except OSError:  # the other end is closed
        pass
    os.close(leader)
    assert process.wait(60) == code
    return pieces


def test_on_a_terminal_the_text_appears_as_it_arrives(served):
    pieces = pieces_on_a_terminal(served, "ask", "-t", "x", "src", "-d", served.on("slow"))
    assert len(pieces) > 2, pieces
    assert b"".join(pieces).count(b"\n") >= 1


def test_on_a_terminal_a_fence_is_removed_from_a_file_too(served):
    printed = pieces_on_a_terminal(served, "write", "-t", "x", "src/a.py", "--stdout", "-d", served.on("author"))
    assert b"".join(printed) == b"x = 1\r\n"


def test_on_a_terminal_the_size_of_several_files_is_said_before_they_are_sent(served):
    def shown(*files: str) -> str:
        printed = screens.run(("ask", "-t", "x", *files, "-d", served.on("slow")), 80, served.top)
        return printed[0]

    assert re.fullmatch(r"Sending \d+ files, about [\d.k]+ tokens\. `understudy ask … --preview` lists.*", shown("src"))
    one = next(path for path in (served.top / "src").rglob("*.py"))
    assert "Sending" not in shown(str(one))


def test_on_a_terminal_an_error_without_text_has_no_blank_line_before_it(served):
    printed = pieces_on_a_terminal(served, "ask", "-t", "x", "src/a.py", "-d", served.on("401"), code=1)
    assert b"".join(printed).lstrip(b"\x1b[0123456789;m").startswith(b"error:")


def test_nothing_waits_for_typed_text(served):
    leader, follower = pty.openpty()
    process = program(served, "summarize", "-d", served.on("scholar"), stdin=follower, stderr=subprocess.PIPE)
    os.close(follower)
    try:
        assert b"pipe a text" in process.communicate(timeout=60)[1]
    finally:
        os.close(leader)
    assert process.returncode == 2


def test_ctrl_c_ends_with_a_message_and_an_entry(served):
    name = served.on("stall")
    process = program(served, "ask", "-t", "x", "src", "-d", name, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until(lambda: served.server.requests, "the request")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait(60)
    assert process.returncode == 130
    assert out == b""
    assert b"Stopped." in err
    assert b"Traceback" not in err
    (entry,) = ledger.read()
    assert (entry.verdict, entry.failure) == ("cancelled", "cancelled")


@pytest.mark.parametrize("json_", [(), ("--json",)])
def test_an_error_names_options_as_they_are_typed(served, json_):
    name = served.on("scholar")
    asked = served.run("ask", "-t", "Why?", "src", "-d", name, "--max-tokens", "3", *json_)
    assert asked.code == 2
    assert "--max-tokens" in asked.out + asked.err
    assert "max_tokens" not in asked.out + asked.err
    for command, option in (("ask", "--question"), ("write", "--spec")):
        long = served.run(command, "-t", "x" * 3_000_001, *(("--stdout",) if command == "write" else ()), *json_)
        assert f"{option} has 3000001 characters" in long.out + long.err


MODULES = """
import os, sys
from understudy import __main__
def leave(code):
    print(*sorted(sys.modules))
    sys.stdout.flush()
    end(code)
end, os._exit = os._exit, leave
sys.argv = ["understudy", "ask", "-t", "Why?", "src", "-d", sys.argv[1]]
__main__.main()
"""


def test_one_request_imports_only_what_it_needs(served):
    argv = [sys.executable, "-c", MODULES, served.on("scholar")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    answer, modules = done.stdout.splitlines()
    imported = set(modules.split())
    assert answer == "Because."
    assert "httpx" in imported
    unneeded = {
        *("asyncio", "anyio.lowlevel", "subprocess", "ctypes", "jsonschema", "keyring", "pathspec", "pygls", "yaml"),
        *("tree_sitter", "understudy.config.trust.records", "understudy.api.messages"),
        "understudy.engine.running.lifecycle.delegation_run",
        *("understudy.runners.driver.driver", "understudy.runners.model_loop.toolbox"),
    }
    assert imported & unneeded == set()


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_half_a_surrogate_pair_does_not_lose_the_answer(served, protocol):
    served.server.answers["cut-emoji"] = "It is \ud83d cut."
    file = locations.user_folder() / "model-servers" / "scripted.toml"
    file.write_text(f'{file.read_text()}protocols = ["{protocol}"]\n')
    asked = served.run("ask", "-t", "x", "src", "-d", served.on("cut-emoji"))
    assert (asked.code, asked.out) == (0, "It is \ufffd cut.\n")
    shown = served.run("ask", "-t", "x", "src", "-d", served.on("cut-emoji"), "--json")
    assert shown.envelope["content"] == "It is \ufffd cut."
