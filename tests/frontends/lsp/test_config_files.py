"""Test diagnostics, completion, hover and quick fixes of Understudy's configuration files in an editor."""

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
    assert one["range"]["end"]["character"] >= len("modell")
    assert any("nowhere" in one["message"] for one in found)
    after = editor.mark()
    line = {"start": {"line": 6, "character": 0}, "end": {"line": 6, "character": 6}}
    editor.change(uri, 2, {"range": line, "text": "model"})
    editor.wait_for_method(
        "textDocument/publishDiagnostics",
        lambda p: p["uri"] == uri and not any("modell" in one["message"] for one in p["diagnostics"]),
        after=after,
    )


def test_a_misspelt_key_has_a_quick_fix(editor, own_config: Path):
    editor.begin()
    uri = editor.open(own_config, language="toml")
    problems(editor, uri, "modell")
    actions = editor.actions(uri, 6, 0, only=["quickfix"])
    fix = next(one for one in actions if "edit" in one and one.get("isPreferred"))
    edit = fix["edit"]["documentChanges"][0]
    assert edit["textDocument"] == {"uri": uri, "version": 1}
    assert edit["edits"][0]["newText"] == "model"
    assert edit["edits"][0]["range"]["start"] == {"line": 6, "character": 0}


def test_completion_and_hover(editor, own_config: Path):
    editor.begin()
    uri = editor.open(own_config, CONFIG + "tool = \n", language="toml")
    last = CONFIG.count("\n")
    at = {"textDocument": {"uri": uri}, "position": {"line": last, "character": len("tool = ")}}
    found = editor.ask("textDocument/completion", at)
    assert any("claude" in item["label"] for item in found["items"])
    hover = editor.ask("textDocument/hover", {**at, "position": {"line": last, "character": 1}})
    assert hover["contents"]["kind"] == "markdown"
    assert "tool" in hover["contents"]["value"]
    other = {"textDocument": {"uri": "file:///elsewhere/config.toml"}, "position": {"line": 0, "character": 0}}
    assert editor.ask("textDocument/completion", other) is None
    assert editor.ask("textDocument/hover", other) is None


def test_positions_use_the_encoding_of_the_client(editor, own_config: Path):
    editor.begin()
    text = '[[checks]]\nname = "u"\nargv = ["😀", 5]\n'
    uri = editor.open(own_config, text, language="toml")
    found = editor.wait_for_method("textDocument/publishDiagnostics", lambda p: p["uri"] == uri and p["diagnostics"])
    starts = [one["range"]["start"] for one in found["diagnostics"]]
    column = text.splitlines()[2].index("5")
    assert {"line": 2, "character": column + 1} in starts  # the emoji is two units of UTF-16


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
    position = {"textDocument": {"uri": uri}, "position": {"line": 6, "character": 1}}
    assert editor.ask("textDocument/hover", position) is None
    assert editor.ask("textDocument/completion", position) is None
    assert editor.actions(uri, 6) == []
