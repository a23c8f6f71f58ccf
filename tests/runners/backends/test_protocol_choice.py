"""Test which protocol is used with a server that declares `auto`: the model's name, then what the server answers."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from understudy.config.validation import server_rules
from understudy.model.config.delegators import ModelServer
from understudy.runners.backends import protocol_choice, server_test
from understudy.runners.backends.http import http_client

KEY = "sk-test-SECRET/SECRET+SECRET1234567"
PATHS = {"/v1/chat/completions": "openai", "/v1/messages": "anthropic", "/v1/responses": "responses"}
LMSTUDIO = (200, '{"error": "Unexpected endpoint or method. (POST /v1/messages)"}')
NOT_FOUND = (404, '{"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}')


class Server:
    """A server that answers requests without content, as a table says."""

    def __init__(self, answers: dict[str, tuple[int, str]]) -> None:
        self.answers = answers
        self.headers = [("Content-Type", "application/json")]
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.base_url = ""

    @property
    def protocols(self) -> list[str]:
        return [PATHS[path] for path, _, _ in self.asked]


@contextmanager
def serving(**answers: tuple[int, str]) -> Iterator[Server]:
    server = Server(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            server.asked.append((self.path, body, dict(self.headers)))
            status, text = server.answers.get(PATHS[self.path], (404, "404 page not found"))
            self.send_response(status)
            for name, value in server.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self) -> None:
            self.send_response(200)
            text = b'{"data": [{"id": "m"}]}'
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *given: Any) -> None:
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server.base_url = f"http://127.0.0.1:{listening.server_address[1]}/v1"
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()


def declared(server: Server) -> ModelServer:
    return ModelServer(name="s", kind="custom", base_url=server.base_url, protocols=["auto"])


def decide(server: Server, model: str) -> protocol_choice.Choice:
    where = http_client.endpoint(declared(server), local=True, key=KEY)
    return protocol_choice.decide(declared(server), model, where)


GOOD = (400, '{"error": {"message": "messages is required"}}')


@pytest.mark.parametrize(
    ("model", "first"),
    [
        *[(name, "openai") for name in ("gpt-5.5", "DeepSeek-V4", "qwen3-coder:30b", "openai/gpt-oss-20b", "kimi-k2")],
        *[(name, "openai") for name in ("moonshotai/kimi-k3", "grok-5", "x-ai/grok-5", "minimax-m3")],
        *[(name, "anthropic") for name in ("claude-opus-5.5", "glm-5", "bedrock-claude", "llama3", "gptlike", "")],
    ],
)
def test_the_name_of_the_model_decides_what_is_tried_first(model, first):
    assert protocol_choice.order_for(model)[0] == first


@pytest.mark.parametrize("refused", [NOT_FOUND, LMSTUDIO, (405, ""), (501, "no"), (404, "<html>model zoo</html>")])
def test_the_server_decides(own_home, refused):
    _ = own_home
    with serving(openai=GOOD, anthropic=refused) as server:
        choice = decide(server, "glm-5")
    assert (choice.protocol, choice.why, choice.asked) == ("openai", "the server has no `anthropic`", True)
    assert server.protocols == ["anthropic", "openai"]
    assert all(body == "{}" for _, body, _ in server.asked), "no model reads it"


def test_only_responses_are_found_too(own_home):
    _ = own_home
    with serving(responses=(422, '{"detail": "model: field required"}')) as server:
        choice = decide(server, "gpt-6")
    assert (choice.protocol, choice.why) == ("responses", "the server has no `openai` and no `anthropic`")


def test_an_unknown_model_is_an_answer_of_the_path(own_home):
    _ = own_home
    with serving(anthropic=(404, '{"error": {"message": "model: not found"}}')) as server:
        assert (decide(server, "glm-5")).protocol == "anthropic"


def test_what_the_server_answered_is_kept_for_all_models_and_a_day(own_home, monkeypatch):
    _ = own_home
    with serving(openai=GOOD) as server:
        decide(server, "glm-5")
        before = len(server.asked)
        again = decide(server, "claude-x")
        assert (again.protocol, again.asked) == ("openai", False)
        assert (decide(server, "gpt-6")).protocol == "openai"
        assert len(server.asked) == before
        assert protocol_choice.expected(declared(server), "glm-5").protocol == "openai"
        protocol_choice.forget(declared(server))
        assert (decide(server, "glm-5")).asked
        later = protocol_choice.time.time() + protocol_choice.KEPT_SECONDS + 1
        monkeypatch.setattr(protocol_choice.time, "time", lambda: later)
        assert (decide(server, "glm-5")).asked


@pytest.mark.parametrize("answer", [(401, "{}"), (429, "{}"), (503, "busy"), (302, "")])
def test_an_answer_that_shows_nothing_is_not_kept(own_home, answer):
    _ = own_home
    with serving(openai=answer, anthropic=answer) as server:
        choice = decide(server, "glm-5")
        assert (choice.protocol, len(server.asked)) == ("anthropic", 1)
        assert (decide(server, "glm-5")).asked


def test_the_key_goes_to_no_other_host(own_home):
    _ = own_home
    with serving() as other, serving(anthropic=(307, "")) as server:
        server.headers.append(("Location", f"{other.base_url}/messages"))
        decide(server, "glm-5")
        assert other.asked == []
        assert KEY in server.asked[0][2]["Authorization"]


def test_a_server_that_is_not_there_is_left_to_the_request(own_home):
    _ = own_home
    with serving() as gone:
        pass
    choice = decide(gone, "glm-5")
    assert choice.protocol == "anthropic"


def test_a_damaged_note_of_answers_is_ignored(own_home):
    _ = own_home
    with serving(openai=GOOD) as server:
        decide(server, "glm-5")
        place = protocol_choice._file(declared(server))
        for content in (b"", b"{", b'{"checkedAt": 1e400}', b"\xff" * 100_000):
            place.write_bytes(content)
            assert (decide(server, "glm-5")).protocol == "openai"
        place.unlink()
        place.symlink_to("/etc/passwd")
        assert (decide(server, "glm-5")).protocol == "openai"


def test_a_connection_test_explains_the_choice(own_home):
    _ = own_home
    with serving(openai=GOOD) as server:
        found = server_test.probe(declared(server), model="m", key=lambda: KEY)
    step = next(one for one in found.steps if one.name == "protocol")
    assert step.message == "`openai` (auto: the server has no `anthropic`)."
    with serving(openai=GOOD) as server:
        without = server_test.probe(declared(server), key=lambda: KEY)
    step = next(one for one in without.steps if one.name == "protocol")
    assert step.message.startswith("`openai` (auto, for a model whose name suggests none: ")


def test_auto_stands_alone():
    wrong = ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:1/v1", protocols=["auto", "openai"])
    assert [one.path for one in server_rules.check_server(wrong)] == [("protocols",)]
    alone = ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:1/v1", protocols=["auto"])
    assert not list(server_rules.check_server(alone))
