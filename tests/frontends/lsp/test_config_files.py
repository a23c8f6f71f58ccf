"""Test the diagnostics of Understudy's configuration files in an editor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

CONFIG = """[defaults]
delegator = "quick"

[[delegators]]
name = "quick"
tool = "generic"
modell = "😀 m"

[[delegators]]
name = "other"
model_server = "nowhere"
model = "m"
"""


@pytest.fixture
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(folder))
    path = folder / "config.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


@pytest.fixture
def editor(own_config: Path, start_editor) -> Any:
    _ = own_config
    return start_editor()


def problems(editor: Any, uri: str, wanted: str, after: int = 0) -> list[dict[str, Any]]:
    return editor.wait_for_method(
        "textDocument/publishDiagnostics",
        lambda p: p["uri"] == uri and any(wanted in one["message"] for one in p["diagnostics"]),
        after=after,
    )["diagnostics"]


def test_problems_have_a_range_and_disappear_when_fixed(editor, own_config: Path):
    editor.begin()
    uri = editor.open(own_config, language="toml")
    found = problems(editor, uri, "modell")
    one = next(one for one in found if "modell" in one["message"])
    assert one["range"]["start"] == {"line": 6, "character": 0}
    assert one["range"]["end"] == {"line": 6, "character": len("modell")}
    assert (one["severity"], one["source"], one["code"]) == (1, "understudy", "unknown_key")
    assert any("nowhere" in one["message"] for one in found)
    after = editor.mark()
    line = {"start": {"line": 6, "character": 0}, "end": {"line": 6, "character": 6}}
    editor.change(uri, 2, {"range": line, "text": "model"})
    editor.wait_for_method(
        "textDocument/publishDiagnostics",
        lambda p: p["uri"] == uri and not any("modell" in one["message"] for one in p["diagnostics"]),
        after=after,
    )


@pytest.mark.parametrize(("encoding", "width"), [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)])
def test_positions_use_the_encoding_of_the_client(editor, own_config: Path, encoding: str, width: int):
    editor.begin(capabilities={"general": {"positionEncodings": [encoding]}})
    text = '[[checks]]\nname = "u"\nargv = ["😀", 5]\n'
    uri = editor.open(own_config, text, language="toml")
    found = editor.wait_for_method("textDocument/publishDiagnostics", lambda p: p["uri"] == uri and p["diagnostics"])
    starts = [one["range"]["start"] for one in found["diagnostics"]]
    column = text.splitlines()[2].index("5") - 1 + width  # one character before it is the emoji
    assert {"line": 2, "character": column} in starts


def test_broken_syntax_in_an_unsaved_text_marks_the_line(editor, own_config: Path):
    editor.begin()
    uri = editor.open(own_config, "[limits]\nslots = [1,\n\n", language="toml")
    (one,) = problems(editor, uri, "not TOML")
    assert one["range"] == {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 11}}
    assert one["code"] == "syntax"


def test_a_closed_file_has_no_problems_left(editor, own_config: Path):
    editor.begin()
    uri = editor.open(own_config, language="toml")
    problems(editor, uri, "modell")
    after = editor.mark()
    editor.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    found = editor.wait_for_method("textDocument/publishDiagnostics", lambda p: p["uri"] == uri, after=after)
    assert found["diagnostics"] == []


def test_problems_of_an_unknown_text_are_removed(editor, own_config: Path):
    editor.begin()
    uri = editor.open(own_config, language="toml")
    problems(editor, uri, "modell")
    editor.change(uri, 2, {"text": 7})
    editor.wait_for_method("textDocument/publishDiagnostics", lambda p: p["uri"] == uri and not p["diagnostics"])
