"""Test creating and changing configuration entries, also concurrently, without losing text of the user."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import understudy.config
from understudy.config.editing.edit import Editor
from understudy.config.loading.loader import load
from understudy.config.locations import fingerprint, user_folder
from understudy.config.trust import records
from understudy.engine.planning.delegator_choice import choose
from understudy.files import durable
from understudy.files.durable import folder_lock
from understudy.model.config.delegators import Delegator, EnvReference, KeyReference, Launch, ModelServer, Scope
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check

SERVER = ModelServer(name="local", kind="ollama", base_url="http://127.0.0.1:11434/v1")


def generic(name: str, **fields) -> Delegator:
    return Delegator(name=name, tool="generic", launch=Launch(command=["agent", "{prompt}"]), **fields)


def failure(call, *arguments) -> UnderstudyError:
    with pytest.raises(UnderstudyError) as caught:
        call(*arguments)
    return caught.value


@pytest.fixture
def editor(state):
    return Editor(None, state=state)


@pytest.fixture
def trusted(workspace, state):
    records.record(workspace, state, trusted=True)
    return Editor(workspace, state=state)


def defaults(workspace: Path | None = None) -> tuple[str | None, dict[str, str]]:
    found = load(workspace, trusted=workspace is not None).defaults
    return found.delegator, dict(found.recipes)


@pytest.mark.parametrize("seed", range(3))
def test_defaults_are_what_was_chosen_last_and_the_file_goes_with_the_last_of_them(editor, seed):
    names = ["one", "two", None]
    for name in names[:2]:
        editor.create(generic(name), Scope.USER)
    chosen: dict[str | None, str] = {}
    random = Random(seed)
    for _ in range(20):
        name, recipe = random.choice(names), random.choice([None, "tests", "docs"])
        editor.set_default(name, recipe, Scope.USER)
        chosen.pop(recipe, None)
        chosen |= {} if name is None else {recipe: name}
        assert defaults() == (chosen.get(None), {key: value for key, value in chosen.items() if key is not None})
    for recipe in (None, "tests", "docs"):
        editor.set_default(None, recipe, Scope.USER)
    assert not (user_folder() / "defaults.toml").exists()


def test_a_default_that_is_written_by_hand_wins_and_is_not_changed(editor):
    editor.create(generic("one"), Scope.USER)
    editor.create(generic("two"), Scope.USER)
    editor.set_default("one", "tests", Scope.USER)
    hand = user_folder() / "config.toml"
    text = '# mine\n[defaults]\ndelegator = "one" # cheap\nrecipes = { docs = "two" }\n'
    hand.write_text(text)
    for recipe, line in ((None, 2), ("docs", 3)):
        refused = failure(editor.set_default, "two", recipe, Scope.USER)
        assert refused.kind is ErrorKind.NOT_EDITABLE
        assert (refused.location.uri, refused.location.range.start.line) == (hand.as_uri(), line)
    editor.set_default("two", "tests", Scope.USER)
    assert hand.read_text() == text
    assert defaults() == ("one", {"docs": "two", "tests": "two"})

    own = user_folder() / "defaults.toml"
    own.write_text("# kept\n" + own.read_text())
    before = own.read_text()
    refused = failure(editor.set_default, "one", "tests", Scope.USER)
    assert (refused.kind, refused.location.uri) == (ErrorKind.NOT_EDITABLE, own.as_uri())
    assert own.read_text() == before


def test_a_workspace_sets_defaults_over_the_users_and_stays_trusted(trusted, workspace, state):
    trusted.create(generic("one"), Scope.USER)
    trusted.create(generic("shared"), Scope.WORKSPACE)
    trusted.set_default("one", "tests", Scope.USER)
    trusted.set_default("shared", "tests", Scope.WORKSPACE)
    assert (workspace / ".understudy" / "defaults.toml").is_file()
    assert records.status(workspace, state).trusted
    assert defaults(workspace) == (None, {"tests": "shared"})
    assert defaults() == (None, {"tests": "one"})
    assert load(workspace, trusted=True).delegators["shared"].default_for == ["tests"]
    refused = failure(trusted.set_default, "shared", "tests", Scope.USER)
    assert (refused.kind, refused.hint) == (ErrorKind.INVALID_PARAMS, "Use the scope `workspace`.")


def test_a_default_that_could_never_apply_is_refused(editor):
    editor.create(generic("one"), Scope.USER)
    assert failure(editor.set_default, "won", None, Scope.USER).kind is ErrorKind.UNKNOWN_DELEGATOR
    assert failure(editor.set_default, "one", "test", Scope.USER).kind is ErrorKind.UNKNOWN_RECIPE
    recipe = user_folder() / "recipes" / "mine.md"
    recipe.parent.mkdir()
    recipe.write_text('+++\ntitle = "Mine"\nreturns = "tree"\ndelegator = "one"\n+++\nDo it.\n')
    refused = failure(editor.set_default, "one", "mine", Scope.USER)
    assert (refused.kind, "itself" in refused.message) == (ErrorKind.INVALID_PARAMS, True), refused.message
    assert not (user_folder() / "defaults.toml").exists()


def test_a_default_of_a_removed_delegator_is_reported_and_stops_a_start_with_the_next_step(editor):
    for name in ("one", "two", "three"):
        editor.create(generic(name), Scope.USER)
    editor.set_default("one", "tests", Scope.USER)
    editor.set_default("two", None, Scope.USER)
    editor.delete("delegator", "one")
    editor.delete("delegator", "two")
    found = load(None, trusted=False)
    assert {problem.message for problem in found.problems} == {
        "There is no delegator `one`.",
        "There is no delegator `two`.",
    }
    assert {problem.location.uri for problem in found.problems} == {(user_folder() / "defaults.toml").as_uri()}
    for recipe, name, choice in (("tests", "one", " --for tests"), ("docs", "two", "")):
        error = failure(choose, found, found.recipes[recipe], None)
        assert error.kind is ErrorKind.UNKNOWN_DELEGATOR
        assert f"is {name!r}, which does not exist" in error.message
        assert error.hint == f"Choose another: understudy delegators default NAME{choice}"
    editor.set_default("three", "tests", Scope.USER)
    assert choose(load(None, trusted=False), found.recipes["tests"], None)[0].delegator.name == "three"


def python(script: str, *arguments: str) -> subprocess.Popen:
    environ = {**os.environ, "PYTHONPATH": str(Path(understudy.config.__file__).parents[2])}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.strip()


def test_what_is_created_is_there_at_once_and_in_another_process(editor, user):
    editor.create(SERVER, Scope.USER)
    thing = Delegator(
        name="cheap", model_server="local", model="qwen", model_properties={"numCtx": 4096, "a_b": [1, {"c": "d"}]}
    )
    entry = editor.create(thing, Scope.USER)
    assert entry.delegator == thing
    assert (entry.scope, entry.editable, entry.state.ready) == (Scope.USER, True, True)
    script = "from understudy.config.loading.loader import load; import msgspec; e = load(None, trusted=False).delegators['cheap']; print(e.revision, msgspec.json.encode(e.delegator).decode())"
    revision, _, text = said(python(script)).partition(" ")
    assert revision == entry.revision
    assert '"numCtx":4096' in text
    path = user / "delegators" / "cheap.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "model_server" in path.read_text()
    assert [item.name for item in path.parent.iterdir()] == ["cheap.toml"]


def test_update_delete_and_stale_revisions(editor):
    first = editor.create(generic("a"), Scope.USER)
    second = editor.update("a", generic("a", model="new"), first.revision)
    assert second.revision != first.revision
    assert second.delegator.model == "new"
    stale = failure(editor.update, "a", generic("a", model="lost"), first.revision)
    assert (stale.kind, stale.location) == (ErrorKind.CONFLICT, second.location)
    assert failure(editor.delete, "delegator", "a", first.revision).kind is ErrorKind.CONFLICT
    assert load(None, trusted=False).delegators["a"].delegator.model == "new"
    editor.delete("delegator", "a", second.revision)
    assert "a" not in load(None, trusted=False).delegators
    assert failure(editor.delete, "delegator", "a", None).kind is ErrorKind.UNKNOWN_DELEGATOR
    assert failure(editor.update, "a", generic("a"), None).kind is ErrorKind.UNKNOWN_DELEGATOR
    assert failure(editor.delete, "model_server", "a").kind is ErrorKind.UNKNOWN_MODEL_SERVER


def test_another_name_renames(editor, user):
    editor.create(generic("a"), Scope.USER)
    editor.create(generic("b"), Scope.USER)
    assert failure(editor.update, "a", generic("b")).kind is ErrorKind.ALREADY_EXISTS
    editor.update("a", generic("c"))
    assert sorted(item.name for item in (user / "delegators").iterdir()) == ["b.toml", "c.toml"]


def test_taken_names(editor, user, write):
    write(user / "config.toml", '[[delegators]]\nname = "hand"\ntool = "ghostwriter"\n')
    write(user / "delegators" / "broken.toml", "not [ toml")
    editor.create(generic("a"), Scope.USER)
    taken = failure(editor.create, generic("hand"), Scope.USER)
    assert taken.kind is ErrorKind.ALREADY_EXISTS
    assert taken.location.range.start.line == 0
    for name in ("a", "broken"):
        assert failure(editor.create, generic(name), Scope.USER).kind is ErrorKind.ALREADY_EXISTS
    assert (user / "delegators" / "broken.toml").read_text() == "not [ toml"


@pytest.mark.parametrize(
    "text",
    [
        '# mine\nname = "a"\ntool = "ghostwriter"\n',
        'tool = "ghostwriter"\nname = "a"\n',
        "name = 'a'\ntool = \"ghostwriter\"\n",
        'name = "a"\ntool = "ghostwriter"\n\n',
        'name = "a"\ntool = "ghostwriter"\nmodel = ""\n',
        'name = "a"\r\ntool = "ghostwriter"\r\n',
    ],
)
def test_a_file_with_comments_of_the_user_is_never_rewritten(editor, user, write, text):
    path = write(user / "delegators" / "a.toml", text)
    for call in (lambda: editor.update("a", generic("a")), lambda: editor.delete("delegator", "a")):
        error = failure(call)
        assert (error.kind, error.location.uri) == (ErrorKind.NOT_EDITABLE, path.as_uri())
    assert path.read_bytes() == text.encode()


def test_nor_is_config_toml_or_what_is_built_in(editor, user, write):
    text = '[[delegators]]\nname = "hand"\ntool = "ghostwriter"\n'
    write(user / "config.toml", text)
    assert failure(editor.delete, "delegator", "hand").kind is ErrorKind.NOT_EDITABLE
    assert failure(editor.delete, "delegator", "ghostwriter").kind is ErrorKind.NOT_EDITABLE
    assert failure(editor.create, generic("x"), Scope.BUILTIN).kind is ErrorKind.INVALID_PARAMS
    assert (user / "config.toml").read_text() == text


@pytest.mark.parametrize(
    ("thing", "kind", "words"),
    [
        (Delegator(name="a"), ErrorKind.CONFIG_INVALID, "neither"),
        (Delegator(name="a", tool="generik"), ErrorKind.CONFIG_INVALID, "no tool `generik`"),
        (Delegator(name="a", tool="goose", launch=Launch(yolo=True)), ErrorKind.CONFIG_INVALID, "not supported yet"),
        (generic("a", model_server="nowhere"), ErrorKind.CONFIG_INVALID, "no model server `nowhere`"),
        (
            Delegator(name="a", tool="ghostwriter", launch=Launch(flags=["-x"])),
            ErrorKind.CONFIG_INVALID,
            "launch.flags",
        ),
        (Delegator(name="../a", tool="ghostwriter"), ErrorKind.INVALID_PARAMS, "cannot be the name"),
        (Delegator(name="a\n", tool="ghostwriter"), ErrorKind.INVALID_PARAMS, "cannot be the name"),
        (generic("a", extensions={"x": {"y": [None]}}), ErrorKind.INVALID_PARAMS, "null"),
        (generic("a", extensions={"x": float("nan")}), ErrorKind.INVALID_PARAMS, "finite"),
        (ModelServer(name="a", kind="custom", base_url="nowhere"), ErrorKind.CONFIG_INVALID, "base_url"),
        (
            ModelServer(name="a", kind="custom", base_url="http://h", api_key=KeyReference()),
            ErrorKind.CONFIG_INVALID,
            "exactly one",
        ),
    ],
)
def test_nothing_that_does_not_work_is_written(editor, user, thing, kind, words):
    error = failure(editor.create, thing, Scope.USER)
    assert error.kind is kind
    assert words in error.message
    assert not list(user.rglob("*.toml"))


def test_the_workspace_scope(trusted, workspace, state, user):
    entry = trusted.create(generic("a"), Scope.WORKSPACE)
    assert entry.scope is Scope.WORKSPACE
    assert entry.location.uri == (workspace / ".understudy/delegators/a.toml").as_uri()
    assert (workspace / ".understudy/.gitignore").read_text() == "local/\n"
    # Trust stays when the user edits the configuration through Understudy …
    assert records.status(workspace, state).trusted
    trusted.update("a", generic("c", model="b"))
    assert records.status(workspace, state).trusted
    trusted.delete("delegator", "c")
    assert records.status(workspace, state).trusted
    # … but not when another program changes it.
    (workspace / ".understudy/config.toml").write_text("")
    assert failure(trusted.create, generic("b"), Scope.WORKSPACE).kind is ErrorKind.UNTRUSTED_WORKSPACE
    assert not records.status(workspace, state).trusted


def test_at_no_moment_of_an_edit_is_the_workspace_found_untrusted(trusted, workspace, state, monkeypatch):
    seen = []
    replace, sync = durable.replace, durable.sync_folder
    monkeypatch.setattr(
        durable, "replace", lambda *a, **k: (replace(*a, **k), seen.append(records.status(workspace, state).trusted))
    )
    monkeypatch.setattr(
        durable, "sync_folder", lambda folder: (sync(folder), seen.append(records.status(workspace, state).trusted))
    )
    trusted.create(generic("a"), Scope.WORKSPACE)
    trusted.update("a", generic("b"))
    trusted.delete("delegator", "b")
    assert len(seen) >= 5
    assert all(seen)


def test_the_workspaces_rules_hold_for_edits_too(trusted):
    bound = ModelServer(
        name="w", kind="custom", base_url="https://evil.example", api_key=KeyReference(from_env="MY_KEY")
    )
    assert "may not send your key" in failure(trusted.create, bound, Scope.WORKSPACE).message
    handed = generic("w", env={"A": EnvReference(from_env="MY_TOKEN")})
    assert "may not pass on" in failure(trusted.create, handed, Scope.WORKSPACE).message


def test_an_own_gitignore_is_left_alone(trusted, workspace, state):
    (workspace / ".understudy").mkdir()
    (workspace / ".understudy/.gitignore").write_text("mine\n")
    records.record(workspace, state, trusted=True)
    trusted.create(generic("a"), Scope.WORKSPACE)
    assert (workspace / ".understudy/.gitignore").read_text() == "mine\n"


def test_an_untrusted_workspace_and_none_at_all(workspace, state, editor):
    assert (
        failure(Editor(workspace, state=state).create, generic("a"), Scope.WORKSPACE).kind
        is ErrorKind.UNTRUSTED_WORKSPACE
    )
    assert failure(editor.create, generic("a"), Scope.WORKSPACE).kind is ErrorKind.INVALID_PARAMS
    assert not (workspace / ".understudy").exists()


@pytest.mark.parametrize("link", [".understudy", ".understudy/delegators"])
def test_a_link_out_of_the_workspace_is_not_written_through(workspace, state, tmp_path, link):
    (tmp_path / "elsewhere").mkdir()
    (workspace / link).parent.mkdir(exist_ok=True)
    (workspace / link).symlink_to(tmp_path / "elsewhere")
    records.record(workspace, state, trusted=True)
    error = failure(Editor(workspace, state=state).create, generic("a"), Scope.WORKSPACE)
    assert error.kind is ErrorKind.PATH_ESCAPE
    assert not list((tmp_path / "elsewhere").iterdir())


def test_generated_names_are_free_and_can_be_file_names(editor):
    assert editor.generate_name("claude", "anthropic/Claude Sonnet 4.5") == "claude-claude-sonnet-4.5"
    assert editor.generate_name("generic") == "generic"
    editor.create(generic("generic"), Scope.USER)
    editor.create(generic("generic-2"), Scope.USER)
    assert editor.generate_name("generic") == "generic-3"
    assert editor.generate_name("ghostwriter") == "ghostwriter-2"
    assert editor.generate_name("", "💥") == "delegator"
    assert len(editor.generate_name("x" * 200, "y")) <= 64


RACE = """
import sys
from pathlib import Path
from understudy.config.editing.edit import Editor
from understudy.model.config.delegators import Delegator, Scope
from understudy.model.errors import UnderstudyError
editor = Editor(None, state=Path('.'))
me, count = sys.argv[1], int(sys.argv[2])
sys.stdin.readline()
done = 0
for number in range(count):
    while True:
        entry = editor._load().delegators['counter']
        try:
            text = str(int(entry.delegator.display_name or 0) + 1)
            editor.update('counter', Delegator(name='counter', tool='ghostwriter', display_name=text), entry.revision)
            break
        except UnderstudyError as error:
            assert error.kind == 'conflict', error
    editor.create(Delegator(name=f'{me}-{number}', tool='ghostwriter'), Scope.USER)
try:
    editor.create(Delegator(name='once', tool='ghostwriter'), Scope.USER)
    print('created')
except UnderstudyError as error:
    print(error.kind.value)
"""


def test_two_processes_lose_none_of_each_others_edits(editor):
    editor.create(Delegator(name="counter", tool="ghostwriter", display_name="0"), Scope.USER)
    environ = {**os.environ, "PYTHONPATH": str(Path(understudy.config.__file__).parents[2])}
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, me, "12"],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for me in ("a", "b")
    ]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    assert sorted(said(racer) for racer in racers) == ["already_exists", "created"]
    found = load(None, trusted=False).delegators
    assert found["counter"].delegator.display_name == "24"
    assert {f"{me}-{number}" for me in "ab" for number in range(12)} <= set(found)


def test_a_change_by_another_process_is_seen_by_the_fingerprint(editor):
    before = fingerprint(None)
    said(
        python(
            "from pathlib import Path\nfrom understudy.config.editing.edit import Editor\nfrom understudy.model.config.delegators import *\nEditor(None, state=Path('.')).create(Delegator(name='x', tool='ghostwriter'), Scope.USER)"
        )
    )
    assert fingerprint(None) != before
    assert load(None, trusted=False).delegators["x"].editable


def test_a_lock_that_is_never_released_is_an_error(tmp_path):
    with folder_lock(tmp_path):
        error = failure(lambda: folder_lock(tmp_path, timeout_seconds=0.05).__enter__())
    assert error.kind is ErrorKind.TIMED_OUT
    with folder_lock(tmp_path, timeout_seconds=0.05):
        pass


def test_a_lock_ends_with_its_process(tmp_path):
    holder = python(
        "import sys\nfrom pathlib import Path\nfrom understudy.files.durable import folder_lock\nwith folder_lock(Path(sys.argv[1])):\n print('held', flush=True); sys.stdin.read()",
        str(tmp_path),
    )
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate(timeout=60)
    with folder_lock(tmp_path, timeout_seconds=5):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_a_typed_error(editor, user):
    user.chmod(0o500)
    try:
        assert failure(editor.create, generic("a"), Scope.USER).kind is ErrorKind.STATE_UNAVAILABLE
    finally:
        user.chmod(0o700)


def test_a_file_in_the_place_of_a_folder_is_a_typed_error(editor, user):
    (user / "delegators").write_text("")
    assert failure(editor.create, generic("a"), Scope.USER).kind is ErrorKind.STATE_UNAVAILABLE


CHECK = Check(name="unit", argv=["{python}", "-m", "pytest"], cwd="a", timeout_seconds=30.0, required=False)


@pytest.mark.parametrize("scope", [Scope.USER, Scope.WORKSPACE])
def test_a_check_is_one_file_that_load_reads_and_delete_removes(trusted, workspace, user, scope):
    entry = trusted.create(CHECK, scope)
    assert (entry.check, entry.scope, entry.editable, entry.state.problems) == (CHECK, scope, True, [])
    root = user if scope is Scope.USER else workspace / ".understudy"
    assert (root / "checks" / "unit.toml").is_file()
    assert load(workspace, trusted=True).checks == {"unit": CHECK}
    assert failure(trusted.create, CHECK, scope).kind is ErrorKind.ALREADY_EXISTS
    assert failure(trusted.delete, "check", "unit", "stale").kind is ErrorKind.CONFLICT
    trusted.delete("check", "unit", entry.revision)
    assert load(workspace, trusted=True).check_entries == {}
    assert failure(trusted.delete, "check", "unit").kind is ErrorKind.UNKNOWN_CHECK


def test_a_check_written_by_hand_is_never_changed(trusted, user):
    (user / "config.toml").write_text('[[checks]]\nname = "own"\nargv = ["x"]\n')
    (user / "checks").mkdir()
    (user / "checks" / "commented.toml").write_text("# mine\nargv = ['x']\n")
    for name in ("own", "commented"):
        assert failure(trusted.delete, "check", name).kind is ErrorKind.NOT_EDITABLE


def test_an_unusable_check_is_not_written_and_a_broken_file_stops_every_start(trusted, workspace, user):
    assert failure(trusted.create, Check(name="x", argv=[]), Scope.USER).kind is ErrorKind.CONFIG_INVALID
    hidden = Check(name="x", argv=["x"], hidden=True)
    assert failure(trusted.create, hidden, Scope.WORKSPACE).kind is ErrorKind.CONFIG_INVALID
    (user / "checks").mkdir(exist_ok=True)
    (user / "checks" / "broken.toml").write_text("argv = 'x'\n")
    assert load(workspace, trusted=True).missing


def test_what_worktrees_get_is_added_to_what_the_user_wrote(trusted, workspace, state):
    own = workspace / ".understudy" / "config.toml"
    own.parent.mkdir()
    own.write_text('[worktrees]\nlink = ["data"]\nkeep_days = 3\n')
    records.record(workspace, state, trusted=True)
    before = own.read_text()
    trusted.add_to_worktrees(Scope.WORKSPACE, link=["node_modules"])
    trusted.add_to_worktrees(Scope.WORKSPACE, copy=["_version.py"])
    trusted.add_to_worktrees(Scope.WORKSPACE, link=["node_modules", "data"])
    trees = load(workspace, trusted=True).worktrees
    assert (trees.link, trees.copy, trees.setup) == (["node_modules", "data"], ["_version.py"], [])
    assert own.read_text() == before
    assert records.status(workspace, state).trusted
    trusted.add_to_worktrees(Scope.WORKSPACE, setup=["npm", "ci"])
    assert load(workspace, trusted=True).worktrees.setup == ["npm", "ci"]
    own.unlink()
    assert load(workspace, trusted=True).worktrees.link == ["node_modules", "data"]


def test_worktrees_get_nothing_from_outside_and_an_edited_file_is_kept(trusted, workspace, state):
    for path in ("../secrets", "/etc", ".git/config"):
        with pytest.raises(UnderstudyError) as caught:
            trusted.add_to_worktrees(Scope.WORKSPACE, copy=[path])
        assert caught.value.kind is ErrorKind.CONFIG_INVALID
    assert not (workspace / ".understudy" / "worktrees.toml").exists()
    trusted.add_to_worktrees(Scope.WORKSPACE, copy=["a"])
    file = workspace / ".understudy" / "worktrees.toml"
    file.write_text(f"{file.read_text()}# mine\n")
    records.record(workspace, state, trusted=True)
    refused = failure(lambda: trusted.add_to_worktrees(Scope.WORKSPACE, copy=["b"]))
    assert (refused.kind, refused.location.uri) == (ErrorKind.NOT_EDITABLE, file.as_uri())
    assert load(workspace, trusted=True).worktrees.copy == ["a"]


def test_what_the_user_set_for_all_projects_stays(trusted, workspace):
    user_folder().mkdir(parents=True)
    (user_folder() / "config.toml").write_text('[worktrees]\nlink = ["data"]\n')
    trusted.add_to_worktrees(Scope.WORKSPACE, link=["node_modules"])
    assert load(workspace, trusted=True).worktrees.link == ["data", "node_modules"]
