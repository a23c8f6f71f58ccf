"""Ask and work through a real llama-server: its tokenizer, template, sampler, grammar and parsers; only the model is scripted.

It is skipped unless ``make llama`` has built the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from llama_server import LlamaServer, built, tool_call

from understudy.model.config.delegators import Limits
from understudy.model.delegation.events import Event, File, Text, ToolCall, UsageReport

pytestmark = pytest.mark.heavy

KEY = "sk-test-SECRET1234567"
KEY_VARIABLE = "UNDERSTUDY_TEST_KEY"
PROTOCOLS = ("openai", "anthropic", "responses")
FIXED = "def add(a, b):\n    return a + b\n"
CONTEXT = 16384
"""Tokens; each byte of a prompt is one."""
HELLO = "Hello from a real server: Ünïcödé ✓ and an emoji 🙂 as well."
EDIT = "I see it.\n" + tool_call("edit_file", path="calc.py", old_string="a - b", new_string="a + b")
SCRIPTS = {
    "hello": [HELLO],
    "think": ["<think>\nWhat could it be, I wonder.\n</think>\n\nThe answer is forty-two."],
    "fix": [tool_call("read_file", path="calc.py"), EDIT, "Done: it adds now."],
    "two": [
        f"Let me look.\n{tool_call('list_files', path='.')}\n{tool_call('search_files', text='return a')}",
        "There is one place of the kind.",
    ],
    "endless": ["Round and round the story goes, "],
}


@pytest.fixture(scope="module")
def program() -> Path:
    found = built()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="module")
def llama(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    folder = tmp_path_factory.mktemp("llama")
    with LlamaServer(program, folder, SCRIPTS, key=KEY, context=CONTEXT) as server:
        yield server


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_arrives_whole_with_the_tokens_that_it_used(llama, person, protocol):
    asked = person.ask(llama.base_url, "scripted", protocol, task="[script:hello]")
    assert (asked.kind, asked.envelope["content"]) == ("answered", HELLO)
    usage = asked.entry.usage
    assert usage.input_tokens > 100
    assert 10 <= usage.output_tokens <= 40
    again = person.ask(llama.base_url, "scripted", protocol, task="[script:hello]")
    assert again.entry.usage.cache_read_tokens > usage.input_tokens * 0.8, "the server kept the prompt"
    assert again.entry.usage.input_tokens == usage.input_tokens, "what was read from the cache counts as input"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_thoughts_are_apart_from_the_answer(llama, person, protocol):
    asked = person.ask(llama.base_url, "scripted", protocol, task="[script:think]")
    assert asked.envelope["content"].strip() == "The answer is forty-two."


@pytest.mark.smoke
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_calls_tools_until_the_file_is_right(llama, person, protocol):
    worked = person.work(llama.base_url, "scripted", protocol, prompt="[script:fix]")
    assert (worked.kind, worked.source) == ("finished", FIXED), worked.end
    assert [call.name for call in worked.of(ToolCall)] == ["read_file", "edit_file"]
    assert [(file.path, file.change) for file in worked.of(File)] == [("calc.py", "modified")]
    assert "".join(event.text for event in worked.of(Text)).endswith("Done: it adds now.")
    assert (worked.end.usage.turns, worked.end.usage.tool_calls) == (3, 2)
    assert not worked.of(UsageReport)[-1].estimated


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_calls_at_once_are_two_calls(llama, person, protocol):
    worked = person.work(llama.base_url, "scripted", protocol, prompt="[script:two]")
    assert worked.kind == "finished", worked.end
    assert [(call.name, call.input) for call in worked.of(ToolCall)] == [
        ("list_files", {"path": "."}),
        ("search_files", {"text": "return a"}),
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_prompt_that_is_too_long_has_its_kind(llama, person, protocol):
    (person.top / "calc.py").write_text("# " + "long " * CONTEXT)
    asked = person.ask(llama.base_url, "scripted", protocol, task="[script:hello]")
    assert (asked.kind, asked.code) == ("context_too_long", 1)
    assert asked.envelope["error"]["hint"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_that_reaches_its_limit_is_truncated(llama, person, protocol):
    limits = Limits(total_seconds=90, idle_seconds=60, first_event_seconds=60, max_output_tokens=20)
    worked = person.work(llama.base_url, "scripted", protocol, prompt="[script:endless]", limits=limits)
    assert worked.kind == "output_truncated", worked.end


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_key_that_the_server_does_not_know_is_refused(llama, person, protocol, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "sk-test-OTHER7654321")
    assert person.ask(llama.base_url, "scripted", protocol).kind == "auth_failed"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_that_is_given_up_does_not_keep_the_server_busy(llama, person, protocol):
    limits = Limits(total_seconds=6, idle_seconds=60, first_event_seconds=60)
    worked = person.work(llama.base_url, "scripted", protocol, prompt="[script:endless]", limits=limits)
    assert worked.kind == "timed_out", worked.end
    # The server answers one request at a time.
    assert person.ask(llama.base_url, "scripted", protocol, task="[script:hello]").envelope["content"] == HELLO


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_killed_in_the_middle_truncates_and_what_was_done_stays(program, tmp_path, person, protocol):
    folder = tmp_path / "server"
    folder.mkdir()
    scripts = {"endless": [EDIT, *SCRIPTS["endless"]]}
    with LlamaServer(program, folder, scripts, key=KEY, context=CONTEXT) as server:
        edited: list[Event] = []

        def kill(event: Event) -> None:
            if isinstance(event, File):
                edited.append(event)
            elif isinstance(event, Text) and edited:
                server.process.kill()

        worked = person.work(server.base_url, "scripted", protocol, prompt="[script:endless]", watch=kill)
        assert (worked.kind, worked.source) == ("stream_truncated", FIXED), worked.end
        assert person.ask(server.base_url, "scripted", protocol).kind == "connection_failed"
