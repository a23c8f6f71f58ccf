"""Test that a dialect is one module, discovered automatically."""

from pathlib import Path

import pytest

from understudy.model.config.delegators import ModelServer
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.backends import dialects

SOURCE = '''
from understudy.runners.backends.dialects import chat


class Dialect(chat.Dialect):
    """Chat completions under another name."""

    protocols = frozenset({"anthropic"})
    path = "/elsewhere"
'''


def a_server(protocol: str | None) -> ModelServer:
    return ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:9/v1", protocol=protocol)


def test_chat_completions_are_what_is_spoken_unless_something_else_is_declared():
    for protocol in (None, "auto", "openai"):
        assert dialects.dialect_of(a_server(protocol)).path == "/chat/completions"


def test_a_new_dialect_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UnderstudyError) as caught:
        dialects.dialect_of(a_server("anthropic"))
    assert caught.value.kind is ErrorKind.CONFIG_INVALID
    (tmp_path / "own_dialect.py").write_text(SOURCE)
    monkeypatch.setattr(dialects, "__path__", [*dialects.__path__, str(tmp_path)])
    assert dialects.dialect_of(a_server("anthropic")).path == "/elsewhere"
