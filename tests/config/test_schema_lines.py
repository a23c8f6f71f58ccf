"""Test that generated TOML files name a JSON Schema that is there, on any machine, and that no file needs the line."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path
from urllib.parse import urljoin

import jsonschema
import pytest

from understudy.config.editing import new_files
from understudy.config.editing.edit import Editor
from understudy.config.editing.new_files import ready_made
from understudy.config.loading.loader import load
from understudy.config.locations import FileKind, place_of, user_folder
from understudy.config.reference import fields
from understudy.config.trust import records
from understudy.files import durable
from understudy.model.config.delegators import Delegator, Launch, ModelServer, Route, Scope
from understudy.model.config.notifications import NotificationReceiver
from understudy.model.config.schedules import Schedule
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check

SERVER = ModelServer(name="local", kind="ollama", base_url="http://127.0.0.1:11434/v1")
AGENT = Delegator(name="agent", tool="generic", launch=Launch(command=["agent", "{prompt}"]))
CHECK = Check(name="unit", argv=["{python}", "-m", "pytest"])


@pytest.fixture
def editor(workspace: Path, state: Path) -> Editor:
    records.record(workspace, state, trusted=True)
    return Editor(workspace, state=state)


def write_one_of_each_kind(editor: Editor, scope: Scope) -> None:
    editor.create(SERVER, scope)
    editor.create(AGENT, scope)
    editor.create(CHECK, scope)
    if scope is Scope.USER:
        editor.create(Schedule(name="nightly", cron="0 2 * * *", workspace="/w", recipe="ask", task="Why?"), scope)
        editor.create(NotificationReceiver(name="desk", kind="desktop"), scope)
    editor.create(Delegator(name="cheap", route=Route(candidates=["agent"])), scope)
    editor.set_default("agent", None, scope)
    editor.add_to_worktrees(scope, link=["node_modules"])
    editor.create_config(new_files.starter_config([CHECK], ["claude"], scope).encode(), scope)
    editor.create_tool("plain", scope)
    for name in ready_made():
        editor.create_tool(f"my-{name}", scope, like=name)


def schema_of(path: Path) -> Path:
    """Return the schema of a file as taplo finds it: the first line, relative to the file's URL."""
    found = re.match(r"#:schema (\S+)\n", path.read_text(encoding="utf-8"))
    assert found, path
    assert not found[1].startswith("/")
    assert ":" not in found[1]
    return Path(urljoin(path.as_posix(), found[1]))


@pytest.mark.parametrize("scope", [Scope.USER, Scope.WORKSPACE])
def test_every_generated_file_names_the_schema_of_its_kind_wherever_the_folder_is(
    editor: Editor, workspace: Path, tmp_path: Path, scope: Scope
):
    write_one_of_each_kind(editor, scope)
    root = user_folder() if scope is Scope.USER else workspace / ".understudy"
    copy = tmp_path / "elsewhere" / ".understudy"
    shutil.copytree(root, copy)
    shutil.rmtree(root)
    kinds = set()
    for path in sorted(copy.rglob("*.toml")):
        place = place_of(path)
        assert place
        schema = schema_of(path)
        assert schema.read_text(encoding="utf-8") == fields.schema_document(place[0])
        jsonschema.Draft7Validator(json.loads(schema.read_text(encoding="utf-8"))).validate(
            tomllib.loads(path.read_text(encoding="utf-8"))
        )
        kinds.add(place[0])
    personal = {FileKind.SCHEDULE, FileKind.NOTIFICATION} if scope is Scope.WORKSPACE else set()
    assert kinds == set(FileKind) - {FileKind.RECIPE} - personal


def test_the_workspace_stays_trusted_at_every_moment(editor: Editor, workspace: Path, state: Path, monkeypatch):
    replace, seen = durable.replace, []

    def spied(path: Path, data: bytes, **options) -> None:
        replace(path, data, **options)
        seen.append((path.name, records.status(workspace, state).trusted))

    monkeypatch.setattr(durable, "replace", spied)
    editor.create(CHECK, Scope.WORKSPACE)
    assert seen == [(".gitignore", True), ("check.schema.json", True), ("unit.toml", True)]


def test_a_file_of_an_earlier_version_is_still_changed_and_gets_the_line(editor: Editor):
    editor.create(AGENT, Scope.USER)
    path = user_folder() / "delegators" / "agent.toml"
    line, _, rest = path.read_text(encoding="utf-8").partition("\n")
    path.write_text(rest, encoding="utf-8")
    entry = load(None, trusted=False).delegators["agent"]
    assert entry.editable
    editor.update("agent", Delegator(name="agent", tool="claude"), entry.revision)
    assert path.read_text(encoding="utf-8") == f'{line}\nname = "agent"\ntool = "claude"\n'
    assert load(None, trusted=False).delegators["agent"].editable


@pytest.mark.parametrize("first", ["# mine\n", "#:schema https://example.com/schema.json\n", "#:schema x\n# mine\n"])
def test_a_file_whose_first_line_the_user_wrote_loads_and_is_never_changed(editor: Editor, first: str):
    editor.create(AGENT, Scope.USER)
    path = user_folder() / "delegators" / "agent.toml"
    path.write_text(first + path.read_text(encoding="utf-8"), encoding="utf-8")
    before = path.read_bytes()
    loaded = load(None, trusted=False)
    assert loaded.delegators["agent"].delegator == AGENT
    assert not loaded.delegators["agent"].editable
    with pytest.raises(UnderstudyError) as caught:
        editor.update("agent", Delegator(name="agent", tool="claude"))
    assert caught.value.kind is ErrorKind.NOT_EDITABLE
    assert path.read_bytes() == before


def test_an_edit_renews_its_schema_and_that_of_config_toml(editor: Editor):
    schemas = user_folder() / "schema"
    editor.create(CHECK, Scope.USER)
    assert [path.name for path in schemas.iterdir()] == ["check.schema.json"]
    (schemas / "check.schema.json").write_text("{}")
    (user_folder() / "config.toml").write_text("[limits]\nslots = 2\n")
    editor.create(Check(name="other", argv=["x"]), Scope.USER)
    for kind in (FileKind.CHECK, FileKind.CONFIG):
        assert (schemas / f"{kind}.schema.json").read_text(encoding="utf-8") == fields.schema_document(kind)
    assert (user_folder() / "config.toml").read_text() == "[limits]\nslots = 2\n"


def test_a_schema_folder_that_is_a_link_out_of_the_workspace_is_not_written_through(
    editor: Editor, workspace: Path, tmp_path: Path, state: Path
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (workspace / ".understudy").mkdir()
    (workspace / ".understudy" / "schema").symlink_to(outside)
    records.record(workspace, state, trusted=True)
    with pytest.raises(UnderstudyError) as caught:
        editor.create(CHECK, Scope.WORKSPACE)
    assert caught.value.kind is ErrorKind.PATH_ESCAPE
    assert list(outside.iterdir()) == []
    assert not (workspace / ".understudy" / "checks").exists()
