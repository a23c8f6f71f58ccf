"""From files to one configuration: layers, provenance, what is shipped, what changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import understudy.config
from understudy.config.configuration import GeneralLimits
from understudy.config.loading.loader import load
from understudy.config.locations import fingerprint
from understudy.model.config.delegators import KeyReference, Launch, Scope

RECIPES = {
    "ask": "text",
    "write": "file",
    "summarize": "text",
    "implement": "tree",
    "tests": "tree",
    "docs": "tree",
    "explain": "text",
    "fix": "tree",
    "review": "text",
}
SERVER = 'name = "{0}"\nkind = "ollama"\nbase_url = "http://127.0.0.1:11434/v1"\n'
RECIPE = '+++\ntitle = "{0}"\nreturns = "text"\n+++\nSay hello.\n'


def test_with_no_file_at_all_ghostwriter_and_nine_recipes_are_there(loaded):
    found = loaded()
    assert found.problems == []
    assert list(found.delegators) == ["ghostwriter"]
    entry = found.delegators["ghostwriter"]
    assert (entry.scope, entry.editable, entry.state.ready) == (Scope.BUILTIN, False, True)
    assert {name: recipe.returns for name, recipe in found.recipes.items()} == RECIPES
    assert all(len(recipe.prompt) > 200 and recipe.title for recipe in found.recipes.values())
    assert found.recipes["tests"].checks is None
    assert "**/test_*.py" in found.recipes["tests"].writes
    assert (found.limits, found.python) == (GeneralLimits(), None)


def test_files_beyond_the_most_that_are_read_are_one_problem(user, write, loaded, lines, monkeypatch):
    monkeypatch.setattr(understudy.config.locations, "MAX_FILES", 10)
    write(user / "delegators/one.toml", 'name = "one"\nmodel_server = "k"\nmodel = "m"\n')
    for name in "abcdefghij":
        write(user / f"model-servers/{name}.toml", SERVER.format(name))
    for names, which in (("k", "k.toml is"), ("lm", "k.toml and 2 more are")):
        for name in names:
            write(user / f"model-servers/{name}.toml", SERVER.format(name))
        found = loaded()
        assert list(found.model_servers) == list("abcdefghij")
        left_out = f"Only the first 10 files of {user}/model-servers are read: {which} left out."
        assert [line for line in lines(found) if "one.toml" not in line] == [
            f"k.toml:1:1: error: {left_out} (Remove files that you do not use.)"
        ]
        [problem] = found.delegators["one"].state.problems
        assert problem.message == "The model server `k` has errors."


def test_a_hand_written_file_says_everything(user, write, loaded):
    write(
        user / "config.toml",
        """
[defaults]
delegator = "cheap"
recipes = { tests = "ghostwriter" }
[limits]
slots = 4
total_seconds = 600
max_usd = "1.50"
[worktrees]
copy = [".env.example"]
link = ["node_modules"]
setup = ["npm", "ci"]
setup_timeout_seconds = 90
[environment]
python = "/opt/python/bin/python"
[[model_servers]]
name = "local"
kind = "ollama"
base_url = "http://127.0.0.1:11434/v1"
api_key = { from_env = "OLLAMA_KEY" }
headers = { "X-Team" = "tools" }
[[delegators]]
name = "cheap"
model_server = "local"
model = "qwen"
[delegators.model_properties]
temperature = 0.2
numCtx = 4096
[[checks]]
name = "unit"
argv = ["{python}", "-m", "pytest", "{tests}"]
configured_by = ["pyproject.toml"]
""",
    )
    found = loaded()
    assert found.problems == []
    assert found.defaults.delegator == "cheap"
    assert found.defaults.scope is Scope.USER
    assert found.defaults.recipes == {"tests": "ghostwriter"}
    assert found.limits == GeneralLimits(slots=4, total_seconds=600, max_usd="1.50")
    assert (found.worktrees.copy, found.worktrees.link, found.worktrees.setup) == (
        [".env.example"],
        ["node_modules"],
        ["npm", "ci"],
    )
    assert found.worktrees.setup_timeout_seconds == 90
    assert found.python == "/opt/python/bin/python"
    assert found.model_servers["local"].model_server.api_key == KeyReference(from_env="OLLAMA_KEY")
    entry = found.delegators["cheap"]
    assert entry.delegator.model_properties == {"temperature": 0.2, "numCtx": 4096}
    assert (entry.scope, entry.editable, entry.state.ready) == (Scope.USER, False, True)
    assert entry.location.uri == (user / "config.toml").as_uri()
    assert entry.location.range.start.line == 21
    assert found.checks["unit"].required
    assert found.checks["unit"].configured_by == ["pyproject.toml"]


def test_layers_override_each_other_and_say_so(user, workspace, write, loaded, lines):
    for folder, title in (
        (user, "user"),
        (workspace / ".understudy", "shared"),
        (workspace / ".understudy/local", "mine"),
    ):
        write(folder / "recipes" / "hello.md", RECIPE.format(title))
    write(user / "recipes" / "ask.md", RECIPE.format("My ask"))
    write(user / "config.toml", '[defaults]\ndelegator = "ghostwriter"\nrecipes = { ask = "ghostwriter" }\n')
    write(workspace / ".understudy/config.toml", '[defaults]\nrecipes = { tests = "ghostwriter" }\n')
    found = loaded(workspace)
    assert (found.recipes["hello"].title, found.recipes["hello"].scope) == ("mine", Scope.WORKSPACE)
    assert (found.recipes["ask"].title, found.recipes["ask"].scope) == ("My ask", Scope.USER)
    assert found.defaults.recipes == {"ask": "ghostwriter", "tests": "ghostwriter"}
    assert [line for line in lines(found) if "error" in line] == []
    assert any("overrides `hello`" in line for line in lines(found))
    assert loaded(None).recipes["hello"].title == "user"


def test_a_broken_file_disables_itself_and_nothing_else(user, write, loaded, lines):
    broken = {
        user / "delegators" / "one.toml": "tool = [\n",
        user / "delegators" / "two.toml": "nonsense = 1\n",
        user / "model-servers" / "three.toml": b"\x00\xff",
        user / "recipes" / "ask.md": "no front matter",
        user
        / "config.toml": "defaults = 3\nchecks = 4\n[[delegators]]\n[[delegators]]\nname = 'ok'\ntool = 'ghostwriter'\n",
    }
    for path, text in broken.items():
        write(path, text)
    write(user / "delegators" / "good.toml", 'name = "good"\ntool = "ghostwriter"\n')
    contents = {path: path.read_bytes() for path in broken}
    found = loaded()
    assert set(found.delegators) == {"ghostwriter", "good", "ok"}
    assert all(entry.state.ready for entry in found.delegators.values())
    assert found.recipes["ask"].scope is Scope.BUILTIN
    assert {line.partition(":")[0] for line in lines(found)} == {
        "one.toml",
        "two.toml",
        "three.toml",
        "ask.md",
        "config.toml",
    }
    assert contents == {path: path.read_bytes() for path in broken}


@pytest.mark.parametrize("kind", ["pipe", "folder", "closed", "dangling", "circle"])
def test_special_files_do_not_block(user, loaded, lines, kind):
    path = user / "config.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "closed":
        path.write_text("x = 1")
        path.chmod(0)
        if os.geteuid() == 0:
            pytest.skip("root may read anything")
    else:
        path.symlink_to(path if kind == "circle" else user / "nothing")
    found = lines(loaded())  # without waiting for a writer of the pipe
    assert (found == []) if kind == "dangling" else (len(found) == 1 and "read" in found[0])


def test_a_user_file_may_be_a_link_and_is_then_not_edited(user, write, loaded, tmp_path):
    target = write(tmp_path / "dotfiles" / "a.toml", 'name = "a"\ntool = "ghostwriter"\n')
    (user / "delegators").mkdir()
    (user / "delegators" / "a.toml").symlink_to(target)
    entry = loaded().delegators["a"]
    assert entry.state.ready
    assert not entry.editable


def test_a_workspace_reads_nothing_outside_it(user, workspace, write, *, loaded, lines, tmp_path):
    secret = write(tmp_path / "elsewhere" / "a.toml", 'name = "a"\ntool = "ghostwriter"\n')
    (workspace / ".understudy" / "delegators").mkdir(parents=True)
    (workspace / ".understudy" / "delegators" / "a.toml").symlink_to(secret)
    (workspace / ".understudy" / "model-servers").symlink_to(secret.parent)
    found = loaded(workspace)
    assert "a" not in found.delegators
    assert found.model_servers == {}
    assert all("leads out of the workspace" in line for line in lines(found))
    assert len(lines(found)) == 2


def test_of_an_untrusted_workspace_nothing_is_read(user, workspace, write, lines):
    write(workspace / ".understudy" / "config.toml", "this is [ not toml")
    write(workspace / ".understudy" / "recipes" / "evil.md", RECIPE.format("evil"))
    found = load(workspace, trusted=False)
    assert "evil" not in found.recipes
    assert lines(found) == [
        "-: information: The workspace is not trusted, so its .understudy folder is not read. (Run `understudy trust`.)"
    ]


def test_a_workspace_tightens_limits_and_never_loosens_them(user, workspace, write, loaded, lines):
    write(user / "config.toml", '[limits]\nslots = 4\ntotal_seconds = 600\nmax_usd = "1"\n')
    write(
        workspace / ".understudy/config.toml",
        '[limits]\nslots = 2\ntotal_seconds = 9000\nmax_usd = "10.5"\nidle_seconds = 30\n',
    )
    found = loaded(workspace)
    assert found.limits == GeneralLimits(slots=2, total_seconds=600, max_usd="1", idle_seconds=30)
    assert [line for line in lines(found) if "warning" in line] == [
        "config.toml:3:17: warning: `total_seconds` is above 600.0, which applies: a workspace may only ask for less.",
        "config.toml:4:11: warning: `max_usd` is above 1, which applies: a workspace may only ask for less.",
    ]


def test_an_interpreter_of_the_workspace_is_relative_to_it(user, workspace, write, loaded):
    write(workspace / ".understudy/local/config.toml", '[environment]\npython = ".venv/bin/python"\n')
    assert loaded(workspace).python == str(workspace / ".venv/bin/python")


def test_the_fingerprint_changes_with_every_change_and_only_then(user, workspace, write):
    seen = [fingerprint(workspace)]

    def changed() -> bool:
        seen.append(fingerprint(workspace))
        return seen[-1] != seen[-2]

    assert not changed()
    path = write(user / "delegators" / "a.toml", 'tool = "generic"\n')
    assert changed()
    assert not changed()
    facts = path.stat()
    path.write_text('tool = "generik"\n')
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert changed()
    write(workspace / ".understudy/local/recipes/x.md", "x")
    assert changed()
    write(workspace / ".understudy/recipes/.hidden.md", "x")
    assert not changed()
    path.unlink()
    assert changed()


def test_the_folder_can_be_given(tmp_path, monkeypatch, write):
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(tmp_path / "mine"))
    write(tmp_path / "mine" / "delegators" / "a.toml", 'tool = "ghostwriter"\n')
    assert "a" in load(None, trusted=False).delegators


def test_starting_up_is_quick_and_imports_nothing_heavy(tmp_path):
    script = (
        "import sys; from understudy.config.loading import loader; loader.load(None, trusted=False)\n"
        "print([m for m in ('jsonschema','keyring','platformdirs','tree_sitter','asyncio','httpx','ssl','concurrent.futures') if m in sys.modules])"
    )
    environ = {
        **os.environ,
        "PYTHONPATH": str(Path(understudy.config.__file__).parents[2]),
        "UNDERSTUDY_CONFIG": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_defaults_of_launch_options_come_only_from_the_user(user, workspace, write, lines) -> None:
    write(user / "config.toml", '[launch]\nyolo = true\nprompt_suffix = "own"\n')
    write(workspace / ".understudy" / "config.toml", '[launch]\nprompt_suffix = "theirs"\n')
    found = load(workspace, trusted=True)
    assert found.launch == Launch(yolo=True, prompt_suffix="own")
    (line,) = lines(found)
    assert "error: A workspace cannot say how your delegators are started." in line
    write(user / "config.toml", '[launch]\nyolo = true\npermission_mode = "plan"\n')
    (line,) = lines(load(None, trusted=False))
    assert "`permission_mode` has no effect beside `yolo`." in line
    write(user / "config.toml", '[launch]\npermission_mode = "acceptEdit"\n')
    (line,) = lines(load(None, trusted=False))
    assert "error: No tool has the permission mode `acceptEdit`. (Did you mean `acceptEdits`?)" in line
