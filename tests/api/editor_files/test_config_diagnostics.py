"""Test the diagnostics of Understudy's configuration files while the user types."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.api.editor_files.config_diagnostics import Diagnostic, Snapshot, diagnostics, is_config_file, snapshot
from understudy.config.loading import loader
from understudy.config.parsing.file_syntax import utf16
from understudy.model.errors import Position, Range

CONFIGURATION = Path(__file__).parents[3] / "docs" / "configuration.md"

CONFIG = """\
[defaults]
delegator = "quick"
recipes = { tests = "mine" }

[[model_servers]]
name = "local"
kind = "ollama"
base_url = "http://127.0.0.1:11434/v1"

[[delegators]]
name = "quick"
model_server = "local"
model = "qwen3-coder"

[[delegators]]
name = "mine"
tool = "generic"
[delegators.launch]
command = ["my-agent", "{prompt}"]

[[checks]]
name = "unit"
argv = ["{python}", "-m", "pytest", "-q"]
"""


@pytest.fixture
def folder() -> Path:
    found = Path(os.environ["XDG_CONFIG_HOME"]) / "understudy"
    found.mkdir()
    return found


@pytest.fixture
def saved(folder: Path) -> Snapshot:
    (folder / "config.toml").write_text(CONFIG, encoding="utf-8")
    return snapshot(None, trusted=False)


@pytest.fixture
def problems(folder: Path, saved: Snapshot) -> Callable[..., list[Diagnostic]]:
    """Return a function that returns the problems of a text as a file in the user's configuration folder."""
    return lambda text, name="config.toml": diagnostics(folder / name, text, saved)


def marked_by(text: str, found: Diagnostic) -> str:
    """Return the text in the range of a problem, which has to be in one line."""
    start, end = found.range.start, found.range.end
    assert start.line == end.line
    line = text.split("\n")[start.line].encode("utf-16-le", "surrogatepass")
    return line[2 * start.character : 2 * end.character].decode("utf-16-le", "surrogatepass")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("config.toml", True),
        ("delegators/quick.toml", True),
        ("model-servers/local.toml", True),
        ("recipes/tests.md", True),
        ("delegators/.hidden.toml", False),
        ("delegators/quick.md", False),
        ("recipes/deeper/tests.md", False),
        ("other.toml", False),
        ("schema/config.schema.json", False),
    ],
)
def test_the_path_tells_which_files_are_configuration(folder: Path, tmp_path: Path, name: str, expected: bool):
    assert is_config_file(folder / name) is expected
    assert is_config_file(tmp_path / ".understudy" / name) is expected
    assert is_config_file(tmp_path / ".understudy" / "local" / name) is expected
    assert not is_config_file(tmp_path / "elsewhere" / name)
    assert not is_config_file(Path(".understudy") / name)


def test_a_file_that_is_linked_from_the_users_folder_belongs_to_it(folder: Path, tmp_path: Path):
    kept = tmp_path / "dotfiles"
    (kept / "recipes").mkdir(parents=True)
    (kept / "config.toml").write_text("")
    (folder / "config.toml").symlink_to(kept / "config.toml")
    (folder / "recipes").symlink_to(kept / "recipes")
    assert is_config_file(kept / "config.toml")
    assert is_config_file(kept / "recipes" / "new.md")
    assert not is_config_file(kept / "delegators" / "new.toml")


def test_a_valid_file_has_no_problems(problems):
    assert problems(CONFIG) == []
    assert problems("#:schema schema/config.schema.json\n" + CONFIG) == []


def test_the_file_in_the_documentation_has_only_undefined_names(problems):
    block = re.search(
        r"```toml\n(# ~/.config/understudy/config.toml\n.*?)```", CONFIGURATION.read_text(encoding="utf-8"), re.DOTALL
    )
    assert block is not None
    assert {found.code for found in problems(block[1])} <= {"unknown_name"}


@pytest.mark.parametrize(
    ("text", "code", "place", "hint"),
    [
        ("[limits]\nslot = 4\n", "unknown_key", "slot", "Did you mean `slots`?"),
        ("[limit]\nslots = 4\n", "unknown_key", "limit", "Did you mean `limits`?"),
        ('[limits]\nslots = "4"\n', "wrong_type", '"4"', ""),
        ('[defaults]\ndelegator = "quik"\n', "unknown_name", '"quik"', "Did you mean `quick`?"),
        ('[defaults.recipes]\ntest = "quick"\n', "unknown_name", "test", "Did you mean `tests`?"),
        ('[[delegators]]\nname = "a"\ntool = "claud"\n', "unknown_name", '"claud"', "Did you mean `claude`?"),
        (
            '[[delegators]]\nname = "a"\nmodel_server = "lokal"\nmodel = "m"\n',
            "unknown_name",
            '"lokal"',
            "Did you mean `local`?",
        ),
        ('[[delegators]]\nname = "a"\ntool = "generic"\nlaunch.output = "texxt"\n', "not_allowed", '"texxt"', "`text`"),
        ('[[delegators]]\nname = "a"\ntool = "generic"\nlaunch.yolo = true\n', "no_effect", "true", ""),
        ('[[delegators]]\nname = "a"\ntool = "claude"\nlaunch.outpu = "x"\n', "unknown_key", "outpu", "`output`"),
        ('[delegators]\nname = "a"\n', "not_a_list", "delegators", "Write [[delegators]]."),
        ("[[checks]]\nname = 'a'\nargv = ['x']\n\n[[checks]]\nname = 'a'\nargv = ['y']\n", "duplicate", "'a'", ""),
    ],
)
def test_each_problem_has_a_range_a_code_and_a_hint(folder: Path, text: str, code: str, place: str, hint: str):
    # In separate files, so that the text can replace config.toml.
    (folder / "model-servers").mkdir()
    (folder / "model-servers" / "local.toml").write_text('kind = "ollama"\nbase_url = "http://127.0.0.1:1/v1"\n')
    (folder / "delegators").mkdir()
    (folder / "delegators" / "quick.toml").write_text('tool = "ghostwriter"\n')
    found = diagnostics(folder / "config.toml", text, snapshot(None, trusted=False))
    first = next(one for one in found if one.code == code)
    assert marked_by(text, first) == place
    assert hint in first.message
    assert all(one.message.endswith((".", "?", "}", "]")) for one in found)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("x = \n", "x ="),
        ("# é😀\n[limits]\nslots = 1 nonsense # é\n", "nonsense # é"),
        ("\ufeffslots = 1 nonsense\n", "nonsense"),
        ("[limits]\r\nslots = \r\n", "slots ="),
        ("[limits]\nslots = [1,\n\n", "slots = [1,"),  # the error is at the end of the document, where nothing is
        ('[limits]\nmax_usd = "1\n', 'max_usd = "1'),
        ("[limits\n  slots = 1\n", "[limits"),
    ],
)
def test_broken_syntax_marks_a_visible_place(problems, text: str, place: str):
    (found,) = problems(text)
    assert (found.code, found.severity) == ("syntax", "error")
    assert "This is not TOML" in found.message
    assert marked_by(text, found) == place


def test_columns_are_utf_16_code_units(problems):
    found = problems('[defaults]\nrecipes = { "é😀" = "quick", tests = "quick" }\n[[model_servers]]\nx = 1\n')[0]
    assert found.code == "unknown_name"
    assert found.range == Range(Position(1, 12), Position(1, 17))


def test_a_name_in_another_file_counts(folder: Path, problems):
    assert problems('tool = "ghostwriter"\n', "delegators/new.toml") == []
    (twice,) = problems('tool = "ghostwriter"\n', "delegators/quick.toml")
    assert twice.code == "duplicate"
    assert f"{folder}/config.toml:11" in twice.message


def test_a_name_that_the_unsaved_text_removes_is_unknown(problems):
    (found,) = problems('[defaults]\ndelegator = "mine"\n')
    assert found.code == "unknown_name"


def test_a_file_that_does_not_exist_yet_is_checked(problems):
    (found,) = problems('name = "other"\ntool = "ghostwriter"\n', "delegators/new.toml")
    assert "name differs from the file's name" in found.message
    assert "set the name to new" in found.message


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("Write.\n", "syntax", "Write."),
        ("---\ntitle: x\n---\nWrite.\n", "syntax", "---"),
        ("+++\ntitle = 'x'\n", "syntax", "+++"),
        ("+++\ntitle = 'x'\nreturns = 'txt'\n+++\nWrite.\n", "not_allowed", "'txt'"),
        ("+++\r\ntitle = 'x'\r\nreturns = 'tree'\r\nchecks = ['unt']\r\n+++\r\nWrite.\r\n", "unknown_name", "'unt'"),
        ("+++\ntitle = 'x'\nreturns = 'text'\nwrites = ['a']\n+++\nWrite.\n", "no_effect", "writes"),
        ("+++\ntitle = 'x'\nreturns = 'text'\n+++\n\n", "missing", "+++"),
        ("\ufeff+++\ntitle = 'x'\nreturn = 'text'\n+++\nWrite.\n", "unknown_key", "return"),
    ],
)
def test_recipes(problems, text: str, code: str, place: str):
    found = problems(text, "recipes/mine.md")
    assert (code, place) in [(one.code, marked_by(text, one)) for one in found], found


def test_a_file_that_is_too_large_has_a_problem(problems):
    (found,) = problems("#" * 300_000)
    assert "larger than" in found.message


def test_a_file_of_an_untrusted_workspace_is_checked_but_other_files_of_it_are_not_read(tmp_path: Path, folder: Path):
    own = tmp_path / "project" / ".understudy"
    (own / "delegators").mkdir(parents=True)
    (own / "delegators" / "quick.toml").write_text('tool = "ghostwriter"\n')
    text = '[defaults]\ndelegator = "quick"\n[limits]\nslot = 3\n'
    path = own / "config.toml"
    found = diagnostics(path, text, snapshot(tmp_path / "project", trusted=False))
    assert [(one.code, one.severity) for one in found] == [("unknown_name", "information"), ("unknown_key", "error")]
    assert "not trusted" in found[0].message
    (found,) = diagnostics(path, text, snapshot(tmp_path / "project", trusted=True))
    assert found.code == "unknown_key"


def test_a_file_of_the_workspace_that_overrides_has_a_remark(tmp_path: Path, saved: Snapshot):
    path = tmp_path / "project" / ".understudy" / "delegators" / "mine.toml"
    (found,) = diagnostics(path, 'tool = "ghostwriter"\n', snapshot(tmp_path / "project", trusted=True))
    assert (found.severity, found.code) == ("information", "overrides")


def test_a_users_file_is_checked_without_those_of_the_workspace(tmp_path: Path, saved: Snapshot, folder: Path):
    over = tmp_path / "project" / ".understudy" / "delegators" / "mine.toml"
    over.parent.mkdir(parents=True)
    over.write_text('tool = "ghostwriter"\n')
    trusted = snapshot(tmp_path / "project", trusted=True)
    assert diagnostics(folder / "config.toml", CONFIG, trusted) == []


def test_a_linked_file_does_not_duplicate_itself(folder: Path, tmp_path: Path):
    kept = tmp_path / "dotfiles" / "config.toml"
    kept.parent.mkdir()
    kept.write_text(CONFIG)
    (folder / "config.toml").symlink_to(kept)
    assert diagnostics(kept, CONFIG, snapshot(None, trusted=False)) == []


def test_problems_on_the_wire_have_no_kind(folder: Path):
    (folder / "config.toml").write_text("[limits]\nslot = 1\n[[delegators]]\nname = 'a'\ntool = 'x'\n")
    loaded = loader.load(None, trusted=False)
    listed = [*loaded.problems, *loaded.missing, *loaded.delegators["a"].state.problems]
    assert len(listed) >= 3
    assert {type(problem).__name__ for problem in listed} == {"Problem"}


PIECES = [
    "[", "]", "[[", "{", "}", "=", ".", ",", "#", '"', "'", '"""', "'''", "\\", "\n", "\r\n", "\r", " ", "\t", "+++\n", "\ufeff",
    "é", "😀", "\ud800", "\x00", "\u2028", "1", "true", "2026-01-01", "name", "[limits]\n", "[[delegators]]\n", "[[checks]]\n",
    "[defaults]\n", 'name = "a"\n', 'tool = "claude"\n', "slots = 4\n", "limits.slot = 1\n", "launch.output = 'txt'\n",
    "delegator = 'quik'\n", "recipes = { test = 'quick' }\n", 'title = "t"\n', 'returns = "tree"\n', "checks = ['unt']\n",
    "api_key = 'x'\n", "kind = 'olama'\n", "[delegators]\n", "command = ['x', '{promt}']\n", "llm_tool = 'claude'\n",
    'name = """\na\n"""\n', "x = [\n 1, # c\n [2],\n]\n", "[" * 5000, "a." * 5000, ".".join(["a"] * 5000) + " = 1\n",
]  # fmt: skip
TYPED = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=14).map("".join)
TEXTS = TYPED | TYPED.map(lambda text: f"+++\n{text}\n+++\nWrite.\n")
FOLDERS = ("delegators", "model-servers", "checks", "tools")
PATHS = st.sampled_from(["defaults.toml", "config.toml", "recipes/new.md", *(f"{one}/new.toml" for one in FOLDERS)])


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=PATHS, text=TEXTS)
def test_any_unsaved_text_has_the_problems_that_it_has_when_saved(name: str, text: str):
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "understudy"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    found = diagnostics(path, text, snapshot(None, trusted=False))
    lines = text.split("\n")
    for one in found:
        start, end = one.range.start, one.range.end
        assert (start.line, start.character) <= (end.line, end.character)
        assert end.character <= utf16(lines[end.line])
        assert start != end or not "".join(lines[: start.line + 1]).removeprefix("\ufeff").strip(), "nothing to mark"
    path.write_bytes(text.encode("utf-8", "replace"))
    try:
        loaded = loader.load(None, trusted=False)
    finally:
        path.unlink()
    assert {one.message for one in found} == {
        f"{problem.message} {problem.hint}" if problem.hint else problem.message
        for problem in loaded.problems
        if problem.location is not None and problem.location.uri == path.as_uri()
    }
