"""Test that entries are added to and removed from JSON, JSONC and TOML without changing another byte."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.integrations.mcp_clients import json_source
from understudy.integrations.mcp_clients.json_entries import JsonTable
from understudy.integrations.mcp_clients.toml_entries import TomlTable
from understudy.model.errors import ErrorKind, UnderstudyError

ENTRY = {"type": "stdio", "command": '/opt/ä "q" \\ dir/understudy', "args": ["mcp"], "env": {"A": "1"}}
STRICT = JsonTable("mcpServers", "understudy", lenient=False)
LENIENT = JsonTable("mcpServers", "understudy", lenient=True)
CODEX = TomlTable("mcp_servers", "understudy")

SPACE = st.sampled_from(["", "", " ", "\n", "\r\n", "\t", "  ", "\n\n    ", "\r\n\t"])
COMMENT = st.sampled_from(['// understudy { "\n', '/* { "mcpServers": */', "/* a\n b */", "//\r\n", "/**/"])
NAMES = st.sampled_from(["a", "understudy2", "mcpServers2", "ä\\n", "", "under\\u0073tudies", "command"])
SCALARS = st.sampled_from(
    ["1", "-0.50e+3", '"x"', '"understudy"', "null", "true", '"http://x//y"', '"\\ud800"', "[]", "{}"]
)


@st.composite
def gaps(draw, *, lenient):
    return "".join(draw(st.lists(SPACE | COMMENT if lenient else SPACE, max_size=2)))


@st.composite
def objects(draw, inner, *, lenient, first=None):
    """The text of an object with odd spaces; ``first`` are members that it has in any case."""
    gap = gaps(lenient=lenient)
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    members = [(json.dumps(name) if "\\" not in name else f'"{name}"', draw(inner)) for name in names] + (first or [])
    members = draw(st.permutations(members))
    parts = [f"{draw(gap)}{name}{draw(gap)}:{draw(gap)}{value}{draw(gap)}" for name, value in members]
    comma = "," + draw(gap) if lenient and parts and draw(st.booleans()) else ""
    return "{" + ",".join(parts) + (comma or ("" if parts else draw(gap))) + "}"


@st.composite
def documents(draw, *, lenient):
    inner = SCALARS | objects(SCALARS, lenient=lenient)
    tables = draw(st.none() | objects(inner, lenient=lenient))
    first = [] if tables is None else [('"mcpServers"', tables)]
    whole = (
        draw(objects(inner, lenient=lenient, first=first) | st.just(""))
        if first == []
        else draw(objects(inner, lenient=lenient, first=first))
    )
    gap = gaps(lenient=lenient)
    return draw(st.sampled_from(["", "\ufeff"])) + draw(gap) + whole + draw(gap)


def taken_out(inserted, text, table):
    start = table.start_of(text) - inserted.entry
    assert text[start : start + inserted.length] == inserted.insertion
    return text[:start] + text[start + inserted.length :]


def check(table, text):
    before = table.everything(text)
    inserted = table.insert(text, ENTRY)
    assert table.read(inserted.text) == ENTRY
    assert inserted.start == table.start_of(inserted.text) - inserted.entry
    after = table.everything(inserted.text)
    servers = after[table.container]
    del servers[table.name]
    if inserted.container:
        del after[table.container]
    assert after == before, "nothing else changed"
    assert taken_out(inserted, inserted.text, table) == text
    removed = table.remove(inserted.text, with_table=inserted.container)
    assert table.everything(removed) == before, "without a record of what was inserted"
    return inserted, removed


@given(documents(lenient=False))
def test_json_is_the_same_after_an_entry_came_and_went(text):
    json.loads(text.removeprefix("\ufeff")) if text.strip("\ufeff \t\r\n") else None
    inserted, removed = check(STRICT, text)
    json.loads(inserted.text.removeprefix("\ufeff"))
    if len(STRICT.everything(text).get("mcpServers", {})) > 0:
        assert removed == text, "an entry beside others leaves no trace"


@given(documents(lenient=True))
def test_json_with_comments_is_the_same_after_an_entry_came_and_went(text):
    _, removed = check(LENIENT, text)
    if len(LENIENT.everything(text).get("mcpServers", {})) > 0:
        assert removed == text


@given(documents(lenient=True), st.integers(0, 3))
def test_an_entry_anywhere_in_a_table_is_removed(text, place):
    """Others move it: clients that write the whole file, and users."""
    values = LENIENT.everything(LENIENT.insert(text, {"command": "x"}).text)
    servers = values["mcpServers"]
    entry = servers.pop("understudy")
    items = list(servers.items())
    items.insert(place, ("understudy", entry))
    plain = json.dumps({**values, "mcpServers": dict(items)}, default=lambda number: json.loads(number.text), indent=1)
    removed = STRICT.remove(plain, with_table=False)
    del items[min(place, len(items) - 1)]
    assert json.loads(removed) == json.loads(
        json.dumps({**values, "mcpServers": dict(items)}, default=lambda number: json.loads(number.text))
    )


LINES = st.sampled_from(
    [
        'model = "gpt-5"',
        "",
        "  # [mcp_servers.understudy]",
        "[mcp_servers]",
        '[mcp_servers.other]\ncommand = "x" # why',
        '[mcp_servers."odd name".env]\nA = """\n[mcp_servers.understudy]\n"""',
        '[projects."/a.b"]\ntrust_level = "trusted"',
        "[[mcp]]\nx = 1",
        "[mcp]\nx = [\n 1,\n]",
        "mcp_servers = { other = { command = 'x' } }",
        "mcp_servers = {}",
        'mcp_servers.third.command = "x"',
        "when = 1979-05-27T07:32:00Z\t",
    ]
)


@given(st.lists(LINES, max_size=6), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_toml_is_the_same_after_an_entry_came_and_went(lines, eol, final, mark):
    text = "\ufeff" * mark + (eol.join(lines).replace("\r\n", "\n").replace("\n", eol) + eol * final)
    try:
        tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:
        return
    inserted, removed = check(CODEX, text)
    tomllib.loads(inserted.text.removeprefix("\ufeff"))
    assert inserted.text.startswith(text) or "mcp_servers = {" in text
    if lines and text.endswith("\n") and "mcp_servers = {" not in text and not text.endswith(("\n\n", "\r\n\r\n")):
        assert removed == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", '{\n  "mcpServers": {\n    "understudy": {\n      "command": "u"\n    }\n  }\n}\n'),
        ("{}", '{\n  "mcpServers": {\n    "understudy": {\n      "command": "u"\n    }\n  }\n}'),
        (
            '{\r\n\t"a": 1\r\n}',
            '{\r\n\t"mcpServers": {\r\n\t\t"understudy": {\r\n\t\t\t"command": "u"\r\n\t\t}\r\n\t},\r\n\t"a": 1\r\n}',
        ),
        ('{"a":1}', '{"mcpServers":{"understudy":{"command":"u"}},"a":1}'),
        ('{"mcpServers": {}}', '{"mcpServers": {"understudy": {"command": "u"}}}'),
        ('{ "mcpServers": { "b": 1 } }', '{ "mcpServers": { "understudy": {"command": "u"}, "b": 1 } }'),
        (
            '{\n  "mcpServers": { // mine\n    "b": 1, // last\n  }\n}\n',
            '{\n  "mcpServers": { // mine\n    "understudy": {\n      "command": "u"\n    },\n    "b": 1, // last\n  }\n}\n',
        ),
        (
            '{\n  "mcpServers": {}\n}\n',
            '{\n  "mcpServers": {\n    "understudy": {\n      "command": "u"\n    }\n  }\n}\n',
        ),
    ],
)
def test_an_entry_is_laid_out_as_the_file_is(text, written):
    assert LENIENT.insert(text, {"command": "u"}).text == written


def test_the_only_entry_after_a_remark_hides_nothing():
    text = '{"mcpServers": { "b": 1, // note\n "understudy": {} }}'
    removed = LENIENT.remove(text, with_table=False)
    assert LENIENT.everything(removed) == {"mcpServers": {"b": json_source.Number("1")}}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1,}', "Line 1, column 8: this file cannot have a comma before a closing bracket."),
        ("{\n  // no\n}", "Line 2, column 3: this file cannot have comments."),
        ('{"a": 1\n "b": 2}', "Line 2, column 2: expected `,` or `}`, found a text."),
        ("\ufeff{'a': 1}", 'Line 1, column 2: unexpected "\'".'),
        ("[]", "Line 1, column 1: expected an object."),
        ('{"mcpServers": []}', "Line 1, column 16: `mcpServers` must be an object."),
        ('{"mcpServers": {}, "mcpServers": {}}', "Line 1, column 20: `mcpServers` is there twice."),
        ('{"a": "x', "Line 1, column 7: a string that does not end"),
        ('{"a": 01}', "Line 1, column 7: unexpected '0'."),
        ('{"a": NaN}', "Line 1, column 7: unexpected 'N'."),
        ('{"a": {', "Line 1, column 8: expected a name in double quotes, found the end of the file."),
        ("[" * 100_000, "more than 200 levels."),
        ("{} {}", "Line 1, column 4: expected the end of the file, found '{'."),
    ],
)
def test_json_that_cannot_be_edited_is_refused_with_its_place(text, place):
    for action in (STRICT.read, lambda text: STRICT.insert(text, {})):
        with pytest.raises(UnderstudyError) as refused:
            action(text)
        assert refused.value.kind is ErrorKind.CONFIG_INVALID
        assert place in refused.value.message


@pytest.mark.parametrize("number", ["1e999", "9" * 5000])
def test_an_entry_with_a_number_that_python_cannot_write_again_is_refused(number):
    with pytest.raises(UnderstudyError, match="a number that is too large"):
        STRICT.read(f'{{"x": {number}, "mcpServers": {{"understudy": {{"timeout": {number}}}}}}}')
    assert STRICT.read(f'{{"x": {number}}}') is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = 1\nb = ", "Line 2, column 5: "),
        ("\ufeffa = 1\na = 2\n", "Line 2, column "),
        ("[[mcp_servers]]\nx = 1\n", "Line 1, column 1: `mcp_servers` must be a table."),
        ("a = 1\nmcp_servers = 5\n", "Line 2, column 1: `mcp_servers` must be a table."),
        (f"a = {'9' * 5000}\n", "a number that is too long"),
        ("a = 2024-02-30\n", "Line 1, column 5: "),
    ],
)
def test_toml_that_cannot_be_edited_is_refused_with_its_place(text, place):
    with pytest.raises(UnderstudyError) as refused:
        CODEX.read(text)
    assert refused.value.kind is ErrorKind.CONFIG_INVALID
    assert place in refused.value.message


def test_what_codex_adds_to_an_entry_goes_with_it():
    before = 'model = "x"\n\n[mcp_servers.other]\ncommand = "y"\n'
    text = CODEX.insert(before, {"command": "u"}).text
    text += '\n[mcp_servers.understudy.tools.start]\napproval_mode = "approve"\n\n[projects."/a"]\ntrust_level = "trusted"\n'
    assert CODEX.remove(text, with_table=True) == before + '\n[projects."/a"]\ntrust_level = "trusted"\n'


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers.understudy.command = "u"\nmcp_servers.understudy.args = []\nx = 1\n',
        'x = 1\n[mcp_servers]\nunderstudy = { command = "u" } # mine\n',
        'mcp_servers = { understudy = { command = "u" } }\nx = 1\n',
        'mcp_servers = { a = {}, "understudy" = { command = "u" } }\nx = 1\n',
        "mcp_servers = { understudy = { command = 'u' }, a = {} }\nx = 1\n",
        'x = 1\n[mcp_servers."understudy"]\n# in it\ncommand = "u"\n# below\n',
        "x = 1\n[mcp_servers]\nunderstudy.command = 'u'\nunderstudy.args = [\n 'x', # y\n]\n",
    ],
)
def test_toml_in_any_form_is_removed(text):
    left = CODEX.everything(CODEX.remove(text, with_table=False))
    assert left["x"] == 1
    assert "understudy" not in left.get("mcp_servers", {})
    assert set(left.get("mcp_servers", {})) <= {"a"}
