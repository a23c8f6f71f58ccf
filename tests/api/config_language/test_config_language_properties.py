"""Test for any text and cursor that nothing raises, that completions keep files valid, and that fixes fix."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from understudy.api import config_language
from understudy.api.config_language import Edit, Finding, Known
from understudy.api.config_language.text_positions import Text
from understudy.api.config_language.toml_scanner import scan
from understudy.config.loading import loader
from understudy.config.locations import FileKind
from understudy.config.parsing.recipe_file import front_matter
from understudy.config.parsing.toml_positions import Positions

ANY_TEXT = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,  # tests only read the folder and the configuration
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
    ],
)

NAMES = {
    FileKind.DEFAULTS: "defaults.toml",
    FileKind.CONFIG: "config.toml",
    FileKind.DELEGATOR: "delegators/new.toml",
    FileKind.MODEL_SERVER: "model-servers/new.toml",
    FileKind.CHECK: "checks/new.toml",
    FileKind.RECIPE: "recipes/new.md",
    FileKind.TOOL: "tools/new.toml",
}

PIECES = [
    "[", "]", "[[", "]]", "{", "}", "=", " = ", ".", ",", "#", '"', "'", '"""', "'''", "\\", "\n", "\r\n", "\r", " ", "\t",
    "+++\n", "---\n", "\ufeff", "é", "😀", "\ud800", "\x00", "\u2028", "1", "1.5", "true", "2026-01-01", "x", "name", '"quick"',
    "'local'", "[limits]\n", "[[delegators]]\n", "[delegators.launch]\n", "[defaults]\n", "[[checks]]\n", "[defaults.recipes]\n",
    'name = "a"\n', 'tool = "claude"\n', 'tool = "generic"\n', "slots = 4\n", "launch = { yolo = true, flags = [] }\n", "launch = { flags = [], yolo = true }\n",
    'delegator = "quik"\n', "recipes = { test = 'quick' }\n", 'argv = ["{python}", "x"]\n', "limits.slot = 1\n", "launch.output = 'txt'\n",
    'title = "t"\n', 'returns = "tree"\n', "checks = ['unt']\n", 'applies_to = { on = ["file"] }\n', "api_key = { from_env = 'A' }\n",
    "env = { A_TOKEN = 'x' }\n", "kind = 'olama'\nbase_url = 'http://127.0.0.1/v1'\n", "[limts]\n", "[[chekcs]]\n", "[delegators]\n",
    "command = ['x', '{options}', '{promt}']\n", 'dialect = "json"\n', "[[events]]\nevent = 'text'\n", "when = { a = 1 }\ntext = 'a[*'\n",
    "llm_tool = 'claude'\n", "launch_config = { mod = 1 }\n", "modle = ''\n", 'name = """\na\n"""\n', "x = [\n 1, # c\n [2],\n]\n",
]  # fmt: skip
typed = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=14).map("".join)
in_a_recipe = typed.map(lambda text: f"+++\n{text}\n+++\nWrite.\n")
texts = typed | in_a_recipe
kinds = st.sampled_from(list(FileKind))

plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
keys = st.sampled_from(["camelCase", "a.b", "", 'q"q', "é😀", "x", "a=b", "[a]"]) | plain
leaves = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False), plain, st.dates(), st.datetimes()
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3)
        | st.lists(st.dictionaries(keys, inner, max_size=3), min_size=1, max_size=3)
    ),
    max_leaves=10,
)


@pytest.fixture
def folder() -> Path:
    found = Path(os.environ["XDG_CONFIG_HOME"]) / "understudy"
    (found / "delegators").mkdir(parents=True)
    (found / "delegators" / "quick.toml").write_text('model_server = "local"\nmodel = "m"\n')
    (found / "model-servers").mkdir()
    (found / "model-servers" / "local.toml").write_text('kind = "ollama"\nbase_url = "http://127.0.0.1:1/v1"\n')
    return found


@pytest.fixture
def known(folder: Path) -> Known:
    return config_language.know(None, trusted=False, models={"local": ["m", "n"]})


def reads(kind: FileKind, text: str) -> bool:
    """Return whether the TOML of a file is valid."""
    data = text.encode()
    start, end = 3 if data.startswith(b"\xef\xbb\xbf") else 0, len(data)
    if kind is FileKind.RECIPE:
        found = front_matter(data)
        if found is None or found[1] is None:
            return False
        start, end = found[0], found[1]
    try:
        tomllib.loads(data[start:end].decode())
    except (ValueError, RecursionError):
        return False
    return True


def changed(text: str, edits: list[Edit]) -> str:
    content = Text(text)
    last = len(text)
    for edit in sorted(edits, key=lambda edit: edit.span.start, reverse=True):
        start = content.offset(edit.span.start.line, edit.span.start.character)
        end = content.offset(edit.span.end.line, edit.span.end.character)
        assert start <= end <= last, "edits overlap"
        last = start
        text = text[:start] + edit.text + text[end:]
    return text


def counted(findings: list[Finding]) -> Counter[tuple[str, str]]:
    return Counter((one.code, one.message) for one in findings)


@ANY_TEXT
@given(data=st.data(), kind=kinds, text=texts)
def test_no_text_and_no_cursor_raises(folder: Path, known: Known, data: st.DataObject, kind: FileKind, text: str):
    line = data.draw(st.integers(-1, text.count("\n") + 2))
    character = data.draw(st.integers(-1, 40))
    here = Text(text).place(Text(text).offset(line, character))
    for one in config_language.complete(kind, text, line, character, known):
        assert one.span.start <= here <= one.span.end
        assert one.span.start.line == one.span.end.line, "a client accepts no other edit"
        assert one.text
    hover = config_language.hover(kind, text, line, character, known)
    assert hover is None or hover.markdown
    lines = Text(text)
    for finding in config_language.diagnostics(kind, folder / NAMES[kind], text, known):
        assert finding.span.start <= finding.span.end
        end = lines.offset(finding.span.end.line, finding.span.end.character)
        assert lines.place(end) == finding.span.end, "a position inside the text"
        config_language.fixes(kind, text, finding)


@ANY_TEXT
@given(data=st.data(), kind=kinds, text=texts)
def test_a_completion_leaves_a_valid_file_valid(known: Known, data: st.DataObject, kind: FileKind, text: str):
    text = text.replace("\ud800", "")
    assume(reads(kind, text))
    place = Text(text).place(data.draw(st.integers(0, len(text))))
    for one in config_language.complete(kind, text, place.line, place.character, known):
        after = changed(text, [Edit(one.span, one.text)])
        assert reads(kind, after), (one.label, after)


@ANY_TEXT
@given(kind=kinds, text=texts)
def test_a_fix_removes_its_finding(folder: Path, known: Known, kind: FileKind, text: str):
    path = folder / NAMES[kind]
    before = config_language.diagnostics(kind, path, text, known)
    for finding in before:
        for fix in config_language.fixes(kind, text, finding):
            after = changed(text, list(fix.edits))
            found = config_language.diagnostics(kind, path, after, known)
            told = (finding.code, finding.message)
            assert counted(found)[told] < counted(before)[told], (fix.title, after)
            assert "syntax" not in {one.code for one in found}, (fix.title, after)


@ANY_TEXT
@given(kind=kinds, text=texts)
def test_an_unsaved_text_has_the_same_findings_as_after_a_save(folder: Path, known: Known, kind: FileKind, text: str):
    path = folder / NAMES[kind]
    said = [one.message for one in config_language.diagnostics(kind, path, text, known)]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(Text(text).data)
    try:
        loaded = loader.load(None, trusted=False)
    finally:
        path.unlink()
    judged = {
        f"{problem.message} {problem.hint}" if problem.hint else problem.message
        for problem in loaded.problems
        if problem.location is not None and problem.location.uri == path.as_uri()
    }
    assert set(said) == judged


@ANY_TEXT
@given(said=st.dictionaries(keys, values, max_size=4), long=st.booleans(), crlf=st.booleans())
def test_the_scanner_agrees_with_the_syntax_tree_on_valid_toml(said: dict[str, Any], long: bool, crlf: bool):
    text = tomli_w.dumps(said, multiline_strings=long)
    if crlf:
        text = text.replace("\n", "\r\n")
    tree, content = Positions(text.encode()), Text(text)
    seen = scan(text, 0, len(text))

    def offsets(where: Any) -> tuple[int, int]:
        places = (where.start, where.end)
        start, end = (content.from_utf16(place.line, place.character) for place in places)
        return start, end

    keys_seen: dict[Any, tuple[int, int]] = {}
    for part in seen.parts:
        keys_seen.setdefault(part.path, (part.start, part.end))
    for path, place in keys_seen.items():
        where = tree.key(path)
        assert where is not None
        assert offsets(where) == place
    for path, value in seen.values.items():
        where = tree.value(path)
        assert where is not None
        assert offsets(where) == (value.start, value.end)
        step: Any = said
        for name in path:
            step = step[name]
        if isinstance(step, str) and not crlf:
            assert value.text == step


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000,
        "x = " + "[" * 20_000,
        "x = " + "{a=" * 20_000,
        "a." * 50_000,
        ".".join(["a"] * 50_000) + " = 1",
        '"' * 100_000,
        "x = [\n" * 20_000,
    ],
)
def test_pathological_texts_are_fast(folder: Path, known: Known, text: str):
    for kind in FileKind:
        config_language.complete(kind, text, 0, 10, known)
        config_language.hover(kind, text, 0, 10, known)
        config_language.diagnostics(kind, folder / NAMES[kind], text, known)
