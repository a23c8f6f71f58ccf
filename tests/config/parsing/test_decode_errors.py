"""What a person reads when a file is wrong: everything at once, each thing at its place."""

from __future__ import annotations

import pytest

from understudy.config import findings

MISTAKES = """# my servers
[defaults]
delegater = "cheap"

[[model_servers]]
name = "local"
kind = "olama"
base_url = "localhost:11434"
api_key = "sk-this-is-not-for-here"

[[delegators]]
name = "cheap"
model = 7
model_server = "locla"
launch = { output = "texxt", flags = "--fast", "promptPrefix" = "x" }
[delegators.limits]
total_seconds = "ten"

[[delegators]]
name = "Fine Name"
tool = "generic"
launch.command = ["run"]
env."MY KEY" = { from_env = "A", "from-env" = "B" }

[worktrees]
copy = [".env", 3]
setup = "npm ci"
wat = true

[[things]]
name = "cheap-first"

[limitz]
"""

GOLDEN = [
    "config.toml:3:1: error: Unknown key `delegater`. (Did you mean `delegator`?)",
    (
        "config.toml:9:11: error: A key is never written into a configuration file. "
        '(Refer to the key instead: api_key = { from_env = "NAME" }, { keyring = "NAME" } or { file = "/PATH" }.)'
    ),
    "config.toml:13:9: error: `model` must be a string, not a whole number.",
    "config.toml:15:21: error: `launch.output` must be one of events, text. (Did you mean `text`?)",
    "config.toml:15:38: error: `launch.flags` must be an array, not a string.",
    "config.toml:15:48: error: Unknown key `promptPrefix`. (Did you mean `prompt_prefix`?)",
    "config.toml:17:17: error: `limits.total_seconds` must be a number, not a string.",
    "config.toml:23:34: error: Unknown key `from-env`. (Did you mean `from_env`?)",
    "config.toml:26:17: error: `copy.1` must be a string, not a whole number.",
    "config.toml:27:9: error: `setup` must be an array, not a string.",
    "config.toml:28:1: error: Unknown key `wat`. (Valid names: copy, keep_bytes, keep_days, link, setup, setup_timeout_seconds.)",
    (
        "config.toml:30:3: error: Unknown key `things`. (Valid names: checks, defaults, delegators, environment, evidence, fallback, input, "
        "launch, limits, mcp, model_servers, notifications, per_day, programs, relay, retention, routes, schedules, worktrees.)"
    ),
    "config.toml:33:2: error: Unknown key `limitz`. (Did you mean `limits`?)",
]


def test_everything_wrong_in_a_file_is_listed_once_with_line_and_column(user, write, loaded, lines):
    write(user / "config.toml", MISTAKES)
    found = loaded()
    assert sorted(lines(found), key=lambda line: [int(part) for part in line.split(":")[1:3]]) == GOLDEN
    assert "sk-this" not in str(found.problems)


SEMANTIC = """[defaults]
delegator = "chaep"
recipes = { test = "cheap" }

[limits]
slots = 0
max_usd = "lots"

[[model_servers]]
name = "local"
kind = "olama"
base_url = "localhost:11434"
headers = { Authorization = "Bearer sk-not-for-here" }

[[model_servers]]
name = "remote"
kind = "openai"
base_url = "https://user:pass@api.example.com/v1"
locality = "local"
protocols = ["anthropic"]
api_key = { from_env = "A", file = "relative" }

[[delegators]]
name = "cheap"
model_server = "locla"

[[delegators]]
name = "Fine Name"
tool = "goose"

[[delegators]]
name = "tool"
tool = "generik"

[[delegators]]
name = "empty"

[[delegators]]
name = "command"
tool = "generic"
[delegators.launch]
yolo = true
flags = ["-x"]
prompt_prefix = "fine"

[[checks]]
name = "unit"
argv = ["{pyton}", "-m", "pytest"]
cwd = "../elsewhere"

[worktrees]
link = ["node_modules", "../../etc"]

[environment]
python = "venv/bin/python"
"""

SEMANTIC_GOLDEN = [
    "config.toml:2:13: error: There is no delegator `chaep`. (Did you mean `cheap`?)",
    "config.toml:3:13: error: There is no recipe `test`. (Did you mean `tests`?)",
    "config.toml:6:9: error: `slots` must be at least 1.",
    'config.toml:7:11: error: `max_usd` must be a positive decimal. (Write it as a decimal string: "0.50".)',
    "config.toml:11:8: error: Unknown kind of server `olama`. (Did you mean `ollama`?)",
    "config.toml:12:12: error: `base_url` is not an http or https URL. (For example http://127.0.0.1:11434/v1.)",
    (
        "config.toml:13:29: error: The header Authorization would write a key into the file. "
        "(Use `api_key`, which refers to the key.)"
    ),
    "config.toml:18:12: error: `base_url` contains a key or password, which logs would show. (Use `api_key`.)",
    (
        "config.toml:19:12: error: The server is declared local, but its address is not on this machine. "
        '(Use a loopback address, or locality = "remote".)'
    ),
    "config.toml:21:11: error: `api_key` needs exactly one of from_env, keyring, file; this one has 2.",
    "config.toml:23:3: error: `model` is missing. (Set it to the id that the model server lists.)",
    "config.toml:25:16: error: There is no model server `locla`. (Did you mean `local`?)",
    (
        "config.toml:28:8: error: Invalid name. "
        "(Use lowercase letters, digits, dots, hyphens and underscores; at most 64.)"
    ),
    (
        "config.toml:29:8: error: The tool `goose` is not supported yet. "
        '(Set mode = "acp". Or run it as tool = "generic" with a `launch.command`.)'
    ),
    "config.toml:33:8: error: There is no tool `generik`. (Did you mean `generic`?)",
    "config.toml:35:3: error: The delegator names neither a `tool` nor a `model_server`. (Name one of them.)",
    (
        "config.toml:41:2: error: `launch.command` is missing; the tool `generic` is the program that it names. "
        '(Write launch = { command = ["PROGRAM", "{prompt}"] }.)'
    ),
    "config.toml:42:8: error: `launch.yolo` is not supported by the tool `generic`. (Remove it.)",
    "config.toml:43:9: error: `launch.flags` is not supported by the tool `generic`. (Remove it.)",
    "config.toml:48:9: error: {pyton} is not a placeholder. (Use {python} or {tests}.)",
    "config.toml:49:7: error: `cwd` must be inside the workspace. (Use a relative path without `..`.)",
    (
        "config.toml:52:25: error: `link` accepts only paths inside the workspace. "
        "(Use a relative path without `..` that is not in .git.)"
    ),
    "config.toml:55:10: error: `python` must be an absolute path here. (Only a workspace may use a relative path.)",
]


def test_settings_without_effect_are_reported_at_their_place(user, write, loaded, lines):
    write(user / "config.toml", SEMANTIC)
    found = loaded()
    assert sorted(lines(found), key=lambda line: [int(part) for part in line.split(":")[1:3]]) == SEMANTIC_GOLDEN
    assert not any(found.delegators[name].state.ready for name in ("cheap", "tool", "empty", "command"))
    assert found.delegators["ghostwriter"].state.ready
    assert "sk-not" not in str(found.problems)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name = \n", "1:8: error: This is not TOML: Invalid value."),
        ('a = "ä😀" b\n', "1:11: error: This is not TOML: Expected newline or end of document after a statement."),
        ("\n\n[a\n", "3:3: error: This is not TOML: Expected ']' at the end of a table declaration."),
        ('x = """\n\nabc', "3:4: error: This is not TOML: Unterminated string."),
        (b"a = 1\nb = '\xff'\n", "2:1: error: The file is not UTF-8 text."),
        ("a = 1\na = 2\n", "2:6: error: This is not TOML: Cannot overwrite a value."),
        ("x = " + "[" * 5000, "1:1: error: The file cannot be read: nested too deeply."),
        ("x = 1900-02-30\n", "1:5: error: This is not TOML: Invalid date or datetime."),
        ("x = " + "9" * 5000, "1:1: error: The file cannot be read: a number or date that is out of range."),
        ("#" * 300_000, "1:1: error: The file is larger than 256 KiB, so it is not read."),
    ],
)
def test_syntax_errors_have_their_place_too(user, write, loaded, lines, *, text, line):
    write(user / "delegators" / "cheap.toml", text)
    found = lines(loaded())
    assert len(found) == 1
    assert found[0].startswith(f"cheap.toml:{line}")


def test_columns_count_utf16_units_as_editors_do(user, write, loaded, lines):
    write(user / "config.toml", 'defaults = { recipes = { "😀é" = "ghostwriter", ask = "missing" } }\n')
    assert "config.toml:1:55: error: There is no delegator `missing`. (Valid names: ghostwriter.)" in lines(loaded())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Just do it.", "1:1: error: A recipe begins with its front matter. (Put TOML between two lines of +++.)"),
        ("---\ntitle: x\n---\nDo.", "1:1: error: A recipe begins with its front matter. (Put TOML between two lines of +++ instead of YAML between lines of ---.)"),
        ("+++\ntitle = 'x'\n", "1:1: error: The front matter has no closing +++."),
        ("+++\ntitle = 'x'\nreturns = 'txt'\n+++\nDo.", "3:11: error: `returns` must be one of file, text, tree. (Did you mean `text`?)"),
        ("+++\ntitle = 'x'\n+++\nDo.", "1:1: error: `returns` is missing."),
        ("+++\ntitle = \n+++\nDo.", "2:9: error: This is not TOML: Invalid value. (Correct this place; until then, the whole file is ignored.)"),
        ("+++\ntitle = 'x'\nreturns = 'text'\napplies_to = { on = ['flie'] }\n+++\nDo.", "4:22: error: `applies_to.on.0` must be one of diagnostic, file, selection. (Did you mean `file`?)"),
        ("+++\ntitle = 'x'\nreturns = 'tree'\nroute = 'r'\n+++\nDo.", "4:1: error: Unknown key `route`. (Valid names: action, applies_to, changes, checks, delegator, judged_by, needs, order, returns, rounds, title, writes.)"),
        ("+++\ntitle = 'x'\nreturns = 'text'\nwrites = ['a']\n+++\nDo.", "4:1: error: `writes` has no effect on a recipe that returns text. (Remove it.)"),
        ("+++\ntitle = 'x'\nreturns = 'tree'\nchecks = ['unti']\n+++\nDo.", "4:11: error: There is no check `unti`. (Did you mean `unit`?)"),
        ("+++\ntitle = 'x'\nreturns = 'tree'\nwrites = ['../a']\n+++\nDo.", "4:11: error: `writes` accepts only patterns of paths inside the workspace."),
        ("+++\ntitle = 'x'\nreturns = 'tree'\n+++\n \n", "1:1: error: The recipe has no text. (Write the instructions below the +++.)"),
    ],
)  # fmt: skip
def test_recipes_have_the_same_care(user, write, loaded, lines, *, text, line):
    write(user / "config.toml", '[[checks]]\nname = "unit"\nargv = ["make"]\n')
    write(user / "recipes" / "mine.md", text)
    configuration = loaded()
    assert lines(configuration) == [f"mine.md:{line}"]
    assert "mine" not in configuration.recipes
    assert len(configuration.recipes) == 9


def test_the_names_of_another_tool_have_a_hint(user, write, loaded, lines):
    write(user / "delegators" / "x.toml", 'llm_tool = "generic"\n')
    assert lines(loaded()) == ["x.toml:1:1: error: Unknown key `llm_tool`. (Write `tool`.)"]


def test_the_same_name_twice_in_a_scope_is_shown_on_both_places(user, write, loaded, lines):
    write(user / "config.toml", '\n[[delegators]]\nname = "a"\ntool = "ghostwriter"\n')
    write(user / "delegators" / "a.toml", 'name = "a"\ntool = "ghostwriter"\n')
    found = loaded()
    assert lines(found) == [
        f"a.toml:1:8: error: The name `a` is also given in {user}/config.toml:3. (Keep one.)",
        f"config.toml:3:8: error: The name `a` is also given in {user}/delegators/a.toml:1. (Keep one.)",
    ]
    assert not found.delegators["a"].state.ready


def test_a_file_name_that_differs_from_the_entry_is_a_problem(user, write, loaded, lines):
    write(user / "delegators" / "a.toml", 'name = "b"\ntool = "ghostwriter"\n')
    assert lines(loaded()) == [
        "a.toml:1:8: error: The name differs from the file's name. (Rename the file to b.toml, or set the name to a.)"
    ]


@pytest.mark.parametrize("written", ["baseURL", "BASE_URL", "base-url", "baseurl", "Base.Url"])
def test_case_and_separators_do_not_hide_which_key_was_meant(written):
    assert findings.close(written, ["api_key", "base_url", "prices"])[0] == "base_url"
    assert findings.near(written, ["api_key", "base_url", "prices"]) == "Did you mean `base_url`?"
