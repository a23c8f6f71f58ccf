"""Test the published schemas of configuration files: they accept what Understudy accepts, and refuse misspelt keys."""

from __future__ import annotations

import functools
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.api import contract
from understudy.api.contract.__main__ import main
from understudy.config import locations
from understudy.config.editing.new_files import tool_template
from understudy.config.loading.loader import load
from understudy.config.locations import FileKind
from understudy.config.parsing import file_schema
from understudy.config.reference import fields

TOP = Path(__file__).parents[3]
SCHEMAS = TOP / "protocol" / "schema" / "files"
AGENTS = (TOP / "docs" / "agents.md").read_text(encoding="utf-8")
CONFIGURATION = (TOP / "docs" / "configuration.md").read_text(encoding="utf-8")

NAMES = {
    FileKind.WORKTREES: "worktrees.toml",
    FileKind.DEFAULTS: "defaults.toml",
    FileKind.CONFIG: "config.toml",
    FileKind.DELEGATOR: "delegators/new.toml",
    FileKind.ROUTE: "routes/new.toml",
    FileKind.MODEL_SERVER: "model-servers/new.toml",
    FileKind.CHECK: "checks/new.toml",
    FileKind.SCHEDULE: "schedules/new.toml",
    FileKind.NOTIFICATION: "notifications/new.toml",
    FileKind.RECIPE: "recipes/new.md",
    FileKind.TOOL: "tools/new.toml",
}


@functools.cache
def schema_of(kind: FileKind) -> jsonschema.Draft7Validator:
    schema = json.loads((SCHEMAS / f"{kind}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def errors_of(kind: FileKind, text: str) -> list[str]:
    """Return the errors of the schema for the TOML of a file."""
    if kind is FileKind.RECIPE:
        text = text.split("+++\n")[1]
    return [error.message for error in schema_of(kind).iter_errors(tomllib.loads(text))]


def problems_of(kind: FileKind, text: str) -> list[str]:
    """Return the problems that Understudy finds in the same file."""
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "understudy" / NAMES[kind]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    try:
        loaded = load(None, trusted=False)
    finally:
        path.unlink()
    return [problem.message for problem in loaded.problems if problem.severity == "error"]


GOOD = {
    FileKind.CONFIG: [
        *re.findall(r"```toml\n(# ~/.config/understudy/config.toml\n.*?)```", CONFIGURATION, re.DOTALL),
        "[environment]\npython = '/usr/bin/python3'\n",
        "[[delegators]]\nname = 'a'\ntool = 'claude'\nlaunch = { yolo = true }\n",
    ],
    FileKind.DELEGATOR: [
        *(path.read_text(encoding="utf-8") for path in (locations.BUILTIN / "delegators").glob("*.toml")),
        "tool = 'generic'\n[launch]\ncommand = ['x', '{prompt}']\n[env]\nA = 'b'\nB = { from_env = 'C' }\n",
        "tool = 'claude'\nextensions = { any = [1, { thing = true }] }\nlimits = { max_usd = '0.50', total_seconds = 5 }\n",
    ],
    FileKind.ROUTE: [
        "candidates = ['a', { tags = ['cheap'], languages = ['python'], max_bytes = 1 }]\norder = 'cheapest'\n",
    ],
    FileKind.MODEL_SERVER: [
        "kind = 'ollama'\nbase_url = 'HTTP://127.0.0.1:1/v1'\napi_key = { keyring = 'a' }\nheaders = { X-A = 'b' }\n"
    ],
    FileKind.CHECK: [
        "argv = ['{python}', '-m', 'pytest']\n",
        "name = 'x'\nargv = ['a']\nrequired = false\ncwd = 'b'\n",
    ],
    FileKind.SCHEDULE: [
        "cron = '0 2 * * 1-5'\nworkspace = '~/calc'\nrecipe = 'tests'\nfiles = ['a.py']\ntimezone = 'Asia/Tokyo'\n",
        "cron = '0 0 1 * *'\nworkspace = '/work'\nbatch = 'tasks.toml'\ncatch_up = 'skip'\nwindow_minutes = 30\n",
    ],
    FileKind.NOTIFICATION: [
        "kind = 'desktop'\nevents = ['question']\nworkspaces = ['~/calc']\n",
        "kind = 'ntfy'\ntopic = 'a-topic'\nanswer = true\ntoken = { from_env = 'NTFY_TOKEN' }\n",
        "kind = 'telegram'\nchat = '-12'\ntoken = { keyring = 'bot' }\n",
        "kind = 'slack'\nsecret_url = { file = '/home/ada/slack' }\n",
        "kind = 'webhook'\nurl = 'http://10.0.0.1/in'\nallow_private = ['10.0.0.0/8', 'home.lan']\n",
    ],
    FileKind.RECIPE: [path.read_text(encoding="utf-8") for path in (locations.BUILTIN / "recipes").glob("*.md")],
    FileKind.TOOL: [
        tool_template("new"),
        *re.findall(r"```toml\n(# ~/.config/understudy/tools/.*?)```", AGENTS, re.DOTALL),
    ],
}

BAD = [
    (FileKind.CONFIG, "[limits]\nslot = 4\n"),
    (FileKind.CONFIG, "[limit]\nslots = 4\n"),
    (FileKind.CONFIG, "[limits]\nslots = '4'\n"),
    (FileKind.CONFIG, "[limits]\nslots = 0\n"),
    (FileKind.CONFIG, "[limits]\ntotal_seconds = 0\n"),
    (FileKind.CONFIG, "[limits]\nmax_usd = 'much'\n"),
    (FileKind.CONFIG, "[delegators]\nname = 'a'\n"),
    (FileKind.CONFIG, "[[delegators]]\ntool = 'claude'\n"),
    (FileKind.CONFIG, "[[checks]]\nname = 'a'\nargv = []\n"),
    (FileKind.CONFIG, "[[checks]]\nname = 'a'\nargv = ['x']\ntimeout = 3\n"),
    (FileKind.CONFIG, "[[routes]]\nname = 'a'\n"),
    (FileKind.CONFIG, "[[routers]]\nname = 'a'\n"),
    (FileKind.ROUTE, "candidates = ['a']\norder = 'dearest'\n"),
    (FileKind.TOOL, "command = ['x']\n"),
    (FileKind.TOOL, "title = 'x'\ncommand = []\n"),
    (FileKind.TOOL, "title = 'x'\ncommand = ['x']\ndialect = 'xml'\n"),
    (FileKind.TOOL, "title = 'x'\ncommand = ['x']\nfailures = [{ kind = 'bored', exit_codes = [3] }]\n"),
    (FileKind.DELEGATOR, "tool = 'claude'\nmodle = 'x'\n"),
    (FileKind.DELEGATOR, "llm_tool = 'claude'\n"),
    (FileKind.DELEGATOR, "tool = 'claude'\nlaunch = { mode = 'tmux' }\n"),
    (FileKind.DELEGATOR, "tool = 'claude'\nlaunch = { docker = true }\n"),
    (FileKind.DELEGATOR, "tool = 'claude'\nlocality = 'here'\n"),
    (FileKind.DELEGATOR, "tool = 'claude'\nenv = { A = { fromEnv = 'B' } }\n"),
    (FileKind.MODEL_SERVER, "kind = 'olama'\nbase_url = 'http://127.0.0.1'\n"),
    (FileKind.MODEL_SERVER, "kind = 'ollama'\nbase_url = '127.0.0.1'\n"),
    (FileKind.MODEL_SERVER, "kind = 'ollama'\nbase_url = 'http://127.0.0.1'\napi_key = 'abc'\n"),
    (FileKind.SCHEDULE, "cron = '0 2 * * *'\nrecipe = 'ask'\n"),
    (FileKind.SCHEDULE, "cron = '0 2 * * *'\nworkspace = '/w'\nrecipe = 'ask'\ncatch_up = 'twice'\n"),
    (FileKind.NOTIFICATION, "kind = 'pigeon'\n"),
    (FileKind.NOTIFICATION, "kind = 'desktop'\nevents = ['success']\n"),
    (FileKind.NOTIFICATION, "kind = 'slack'\nsecret_url = 'https://hooks.slack.com/x'\n"),
    (FileKind.CHECK, "argv = 'pytest'\n"),
    (FileKind.CHECK, "argv = []\n"),
    (FileKind.CHECK, "argv = ['x']\ncommand = 'x'\n"),
    (FileKind.RECIPE, "+++\ntitle = 'x'\nreturns = 'txt'\n+++\nWrite.\n"),
    (FileKind.RECIPE, "+++\ntitle = 'x'\n+++\nWrite.\n"),
    (FileKind.RECIPE, "+++\ntitle = 'x'\nreturns = 'text'\napplies_to = { on = ['files'] }\n+++\nWrite.\n"),
]


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in GOOD.items() for text in texts])
def test_files_that_work_are_accepted(kind: FileKind, text: str):
    assert errors_of(kind, text) == []


def test_there_is_a_file_of_each_kind_to_accept():
    assert all(GOOD.values())
    assert "[[checks]]" in GOOD[FileKind.CONFIG][0], "docs/configuration.md shows one"


@pytest.mark.parametrize(("kind", "text"), BAD)
def test_mistakes_are_refused_by_the_schema_and_by_understudy(kind: FileKind, text: str):
    assert errors_of(kind, text)
    assert problems_of(kind, text)


words = st.sampled_from(
    ["a", "claude", "generic", "ollama", "http://127.0.0.1/v1", "text", "headless", "0.5", "A_B", "", "é"]
)
leaves = st.one_of(words, st.booleans(), st.integers(-1, 3), st.floats(-1, 3))
FREE = st.dictionaries(st.sampled_from(["A", "B_KEY", "x-y"]), leaves, max_size=2)


def instances(schema: fields.Schema) -> st.SearchStrategy[Any]:
    """Generate values that mostly, but not always, fit a schema."""
    made: list[st.SearchStrategy[Any]] = []
    for part in [schema] if "type" in schema else schema.get("anyOf", []):
        if "properties" in part:
            inner = {name: instances(field) for name, field in part["properties"].items()}
            needed = {name: inner[name] for name in part.get("required", ())}
            others = {name: strategy for name, strategy in inner.items() if name not in needed}
            made.append(st.fixed_dictionaries(needed, optional={**others, "strange": leaves}))
        elif part["type"] == "object":
            made.append(FREE)
        elif part["type"] == "array":
            made.append(st.lists(instances(part["items"]), max_size=2))
        elif "enum" in part:
            made.append(st.sampled_from(part["enum"]))
    return st.one_of(*made, leaves) if made else leaves


@pytest.mark.parametrize("kind", list(FileKind))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_schema_never_refuses_what_understudy_accepts(kind: FileKind, data: st.DataObject):
    import tomli_w

    document = data.draw(instances(fields.schema_of(kind)))
    if not isinstance(document, dict):
        return
    text = tomli_w.dumps(document)
    if kind is FileKind.RECIPE:
        text = f"+++\n{text}+++\nWrite.\n"
    refused = errors_of(kind, text)
    if refused:
        assert problems_of(kind, text), (refused, text)


def test_every_field_has_a_description():
    def walk(schema: Any, path: str) -> list[str]:
        silent = []
        for name, inner in schema.get("properties", {}).items():
            where = f"{path}.{name}"
            silent += [] if inner.get("description") else [where]
            for part in (inner, inner.get("items", {}), *inner.get("anyOf", [])):
                silent += walk(part, where)
        return silent

    for kind in FileKind:
        assert walk(json.loads((SCHEMAS / f"{kind}.schema.json").read_text(encoding="utf-8")), str(kind)) == []


def test_schemas_use_only_features_that_editors_support():
    for path in SCHEMAS.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "$ref" not in text
        assert "$defs" not in text
        assert json.loads(text)["additionalProperties"] is False
        assert json.loads(text)["$schema"] == "http://json-schema.org/draft-07/schema#"
    tables = {name for name, shape in file_schema.LISTS.items() if shape}
    assert tables < set(json.loads((SCHEMAS / "config.schema.json").read_text(encoding="utf-8"))["properties"])


def test_stale_schemas_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    import shutil

    published = Path(shutil.copytree(TOP / "protocol", tmp_path / "protocol"))
    (published / "schema" / "files" / "gone.schema.json").write_text("{}")
    (published / "schema" / "files" / "recipe.schema.json").unlink()
    changed = published / "schema" / "files" / "config.schema.json"
    changed.write_text(changed.read_text(encoding="utf-8").replace("slots", "slot"), encoding="utf-8")
    assert main(["--check", str(published)]) == 1
    said = capsys.readouterr().err
    for line in (
        "gone.schema.json is no longer generated",
        "recipe.schema.json is missing",
        "config.schema.json is out of date",
    ):
        assert line in said
    contract.write(published)
    assert contract.stale(published) == []
