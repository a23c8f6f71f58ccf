"""Test diagnostics, completion, hover and quick fixes in Understudy's configuration files while the user types."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.api import config_language
from understudy.api.config_language import Completion, FileKind, Finding, Fix, Known, Place
from understudy.api.config_language.text_positions import Text
from understudy.config.discovery import declarations
from understudy.config.loading import loader, unsaved
from understudy.model.capabilities import COMMON_FIELDS

CONFIGURATION = Path(__file__).parents[3] / "docs" / "configuration.md"
DRIVEN = {name for name, declared in declarations.tools().items() if declared.runner}

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
def known(folder: Path) -> Known:
    (folder / "config.toml").write_text(CONFIG, encoding="utf-8")
    return config_language.know(
        None, trusted=False, models={"local": ["qwen3-coder", "gemma3"]}, counts={"quick": (2, 1)}
    )


@pytest.fixture
def findings(folder: Path, known: Known) -> Callable[..., list[Finding]]:
    """Return a function that returns the findings for a text as a file in the user's configuration folder."""

    def look(text: str, name: str = "config.toml") -> list[Finding]:
        path = folder / name
        kind = config_language.kind_of(path)
        assert kind is not None
        return config_language.diagnostics(kind, path, text, known)

    return look


def spot(marked: str) -> tuple[str, int, int]:
    """Return a text without its cursor ``|``, and the position of the cursor."""
    before, _, after = marked.partition("|")
    place = Text(before).place(len(before))
    return before + after, place.line, place.character


def offered(known: Known, marked: str, kind: FileKind = FileKind.CONFIG) -> dict[str, Completion]:
    text, line, character = spot(marked)
    return {one.label: one for one in config_language.complete(kind, text, line, character, known)}


def inserted(marked: str, one: Completion) -> str:
    text = spot(marked)[0]
    content = Text(text)
    start = content.offset(one.span.start.line, one.span.start.character)
    end = content.offset(one.span.end.line, one.span.end.character)
    return text[:start] + one.text + text[end:]


def fixed(text: str, fix: Fix) -> str:
    content = Text(text)
    for edit in sorted(fix.edits, key=lambda edit: edit.span.start, reverse=True):
        start = content.offset(edit.span.start.line, edit.span.start.character)
        end = content.offset(edit.span.end.line, edit.span.end.character)
        text = text[:start] + edit.text + text[end:]
    return text


def marked_by(text: str, finding: Finding) -> str:
    content = Text(text)
    start = content.offset(finding.span.start.line, finding.span.start.character)
    return text[start : content.offset(finding.span.end.line, finding.span.end.character)]


class TestKinds:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("config.toml", FileKind.CONFIG),
            ("delegators/quick.toml", FileKind.DELEGATOR),
            ("model-servers/local.toml", FileKind.MODEL_SERVER),
            ("recipes/tests.md", FileKind.RECIPE),
            ("delegators/.hidden.toml", None),
            ("delegators/quick.md", None),
            ("recipes/deeper/tests.md", None),
            ("other.toml", None),
            ("models/local.toml", None),
        ],
    )
    def test_the_path_determines_the_kind_of_file(self, folder: Path, tmp_path: Path, name: str, kind: FileKind | None):
        assert config_language.kind_of(folder / name) is kind
        assert config_language.kind_of(tmp_path / ".understudy" / name) is kind
        assert config_language.kind_of(tmp_path / ".understudy" / "local" / name) is kind
        assert config_language.kind_of(tmp_path / "elsewhere" / name) is None
        assert config_language.kind_of(Path(".understudy") / name) is None

    def test_a_file_that_is_linked_from_the_users_folder_belongs_to_it(self, folder: Path, tmp_path: Path):
        kept = tmp_path / "dotfiles"
        (kept / "recipes").mkdir(parents=True)
        (kept / "config.toml").write_text("")
        (folder / "config.toml").symlink_to(kept / "config.toml")
        (folder / "recipes").symlink_to(kept / "recipes")
        assert config_language.kind_of(kept / "config.toml") is FileKind.CONFIG
        assert config_language.kind_of(kept / "recipes" / "new.md") is FileKind.RECIPE
        assert config_language.kind_of(kept / "delegators" / "new.toml") is None

    def test_definitions_of_tools_are_completed_and_their_names_and_modes_offered(self, folder: Path):
        (folder / "tools").mkdir()
        mode = 'permission_modes = [{ name = "look", arguments = [], description = "Reads." }]'
        (folder / "tools" / "mine.toml").write_text(f'title = "Mine"\ncommand = ["x", "{{options}}"]\n{mode}\n')
        known = config_language.know(None, trusted=False)
        assert {"{options}", "{promptFile}"} <= set(offered(known, "command = ['x', |]", FileKind.TOOL))
        assert {"session", "usage"} <= set(offered(known, "[[events]]\nevent = |", FileKind.TOOL))
        assert "mine" in offered(known, "tool = |", FileKind.DELEGATOR)
        assert set(offered(known, "tool = 'mine'\n[launch]\npermission_mode = |", FileKind.DELEGATOR)) == {"look"}


class TestDiagnostics:
    def test_a_valid_file_has_no_findings(self, findings):
        assert findings(CONFIG) == []

    def test_the_file_in_the_readme_has_only_undefined_names(self, findings):
        block = re.search(
            r"```toml\n(# ~/.config/understudy/config.toml\n.*?)```",
            CONFIGURATION.read_text(encoding="utf-8"),
            re.DOTALL,
        )
        assert block is not None
        assert {finding.code for finding in findings(block[1])} <= {"unknown_name"}

    @pytest.mark.parametrize(
        ("text", "code", "place", "suggestions"),
        [
            ("[limits]\nslot = 4\n", "unknown_key", "slot", ("slots",)),
            ("[limit]\nslots = 4\n", "unknown_key", "limit", ("limits",)),
            ('[limits]\nslots = "4"\n', "wrong_type", '"4"', ()),
            ('[defaults]\ndelegator = "quik"\n', "unknown_name", '"quik"', ("quick",)),
            ('[defaults.recipes]\ntest = "quick"\n', "unknown_name", "test", ("tests",)),
            ('[[delegators]]\nname = "a"\ntool = "claud"\n', "unknown_name", '"claud"', ("claude",)),
            (
                '[[delegators]]\nname = "a"\nmodel_server = "lokal"\nmodel = "m"\n',
                "unknown_name",
                '"lokal"',
                ("local",),
            ),
            (
                '[[delegators]]\nname = "a"\ntool = "generic"\nlaunch.output = "texxt"\n',
                "not_allowed",
                '"texxt"',
                ("text",),
            ),
            ('[[delegators]]\nname = "a"\ntool = "generic"\nlaunch.yolo = true\n', "no_effect", "true", ()),
            ('[[delegators]]\nname = "a"\ntool = "claude"\nlaunch.outpu = "x"\n', "unknown_key", "outpu", ("output",)),
            ('[delegators]\nname = "a"\n', "not_a_list", "delegators", ()),
            ("[[checks]]\nname = 'a'\nargv = ['x']\n\n[[checks]]\nname = 'a'\nargv = ['y']\n", "duplicate", "'a'", ()),
            ("x = \n", "syntax", "x =", ()),
            ("# é😀\n[limits]\nslots = 1 nonsense # é\n", "syntax", "nonsense # é", ()),
        ],
    )
    def test_each_finding_has_a_range_and_a_code(self, folder: Path, text, code, place, suggestions):
        # The model server is in a separate file, so that the text can replace config.toml.
        (folder / "model-servers").mkdir()
        (folder / "model-servers" / "local.toml").write_text('kind = "ollama"\nbase_url = "http://127.0.0.1:1/v1"\n')
        (folder / "delegators").mkdir()
        (folder / "delegators" / "quick.toml").write_text('tool = "ghostwriter"\n')
        known = config_language.know(None, trusted=False)
        found = config_language.diagnostics(FileKind.CONFIG, folder / "config.toml", text, known)
        assert [(one.code, marked_by(text, one), one.suggestions) for one in found if one.code == code][:1] == [
            (code, place, suggestions)
        ], found
        assert all(one.message.endswith((".", "?", "}", "]")) for one in found)

    def test_columns_are_code_points(self, findings):
        (found,) = findings(
            '[defaults]\nrecipes = { "é😀" = "quick", tests = "quick" }\n[[model_servers]]\n' + "x = 1\n"
        )[:1]
        assert found.code == "unknown_name"
        assert (found.span.start, found.span.end) == (Place(1, 12), Place(1, 16))

    def test_a_name_in_another_file_counts(self, folder: Path, known: Known, findings):
        assert findings('tool = "ghostwriter"\n', "delegators/new.toml") == []
        (twice,) = findings('tool = "ghostwriter"\n', "delegators/quick.toml")
        assert twice.code == "duplicate"
        assert f"{folder}/config.toml:11" in twice.message

    def test_a_name_that_the_unsaved_text_removes_is_unknown(self, findings):
        (found,) = findings('[defaults]\ndelegator = "mine"\n')
        assert found.code == "unknown_name"

    def test_a_file_that_does_not_exist_yet_is_checked(self, findings):
        (found,) = findings('name = "other"\ntool = "ghostwriter"\n', "delegators/new.toml")
        assert "name differs from the file's name" in found.message
        assert found.suggestions == ("new",)

    @pytest.mark.parametrize(
        ("text", "code", "place"),
        [
            ("Write.\n", "syntax", "Write."),
            ("---\ntitle: x\n---\nWrite.\n", "syntax", "---"),
            ("+++\ntitle = 'x'\n", "syntax", "+++"),
            ("+++\ntitle = 'x'\nreturns = 'txt'\n+++\nWrite.\n", "not_allowed", "'txt'"),
            (
                "+++\r\ntitle = 'x'\r\nreturns = 'tree'\r\nchecks = ['unt']\r\n+++\r\nWrite.\r\n",
                "unknown_name",
                "'unt'",
            ),
            ("+++\ntitle = 'x'\nreturns = 'text'\nwrites = ['a']\n+++\nWrite.\n", "no_effect", "writes"),
            ("+++\ntitle = 'x'\nreturns = 'text'\n+++\n\n", "missing", "+++"),
            ("\ufeff+++\ntitle = 'x'\nreturn = 'text'\n+++\nWrite.\n", "unknown_key", "return"),
        ],
    )
    def test_recipes(self, findings, text: str, code: str, place: str):
        found = findings(text, "recipes/mine.md")
        assert (code, place) in [(one.code, marked_by(text, one)) for one in found], found

    def test_a_file_that_is_too_large_has_a_finding(self, findings):
        (found,) = findings("#" * 300_000)
        assert "larger than" in found.message

    def test_a_file_of_an_untrusted_workspace_is_checked_but_other_files_of_it_are_not_read(
        self, tmp_path: Path, folder: Path
    ):
        own = tmp_path / "project" / ".understudy"
        (own / "delegators").mkdir(parents=True)
        (own / "delegators" / "quick.toml").write_text('tool = "ghostwriter"\n')
        text = '[defaults]\ndelegator = "quick"\n[limits]\nslot = 3\n'
        path = own / "config.toml"
        unread = config_language.know(tmp_path / "project", trusted=False)
        found = config_language.diagnostics(FileKind.CONFIG, path, text, unread)
        assert [(one.code, one.severity) for one in found] == [
            ("unknown_name", "information"),
            ("unknown_key", "error"),
        ]
        assert "not trusted" in found[0].message
        trusted = config_language.know(tmp_path / "project", trusted=True)
        (found,) = config_language.diagnostics(FileKind.CONFIG, path, text, trusted)
        assert found.code == "unknown_key"

    def test_a_file_of_the_workspace_that_overrides_has_a_finding(self, tmp_path: Path, known: Known):
        path = tmp_path / "project" / ".understudy" / "delegators" / "mine.toml"
        trusted = config_language.know(tmp_path / "project", trusted=True)
        (found,) = config_language.diagnostics(FileKind.DELEGATOR, path, 'tool = "ghostwriter"\n', trusted)
        assert (found.severity, found.code) == ("information", "overrides")

    def test_a_users_file_is_checked_without_those_of_the_workspace(self, tmp_path: Path, known: Known, folder: Path):
        over = tmp_path / "project" / ".understudy" / "delegators" / "mine.toml"
        over.parent.mkdir(parents=True)
        over.write_text('tool = "ghostwriter"\n')
        trusted = config_language.know(tmp_path / "project", trusted=True)
        assert config_language.diagnostics(FileKind.CONFIG, folder / "config.toml", CONFIG, trusted) == []

    def test_a_linked_file_does_not_duplicate_itself(self, folder: Path, tmp_path: Path):
        kept = tmp_path / "dotfiles" / "config.toml"
        kept.parent.mkdir()
        kept.write_text(CONFIG)
        (folder / "config.toml").symlink_to(kept)
        known = config_language.know(None, trusted=False)
        assert config_language.diagnostics(FileKind.CONFIG, kept, CONFIG, known) == []

    def test_problems_on_the_wire_have_no_data_for_quick_fixes(self, folder: Path):
        (folder / "config.toml").write_text("[limits]\nslot = 1\n[[delegators]]\nname = 'a'\ntool = 'x'\n")
        loaded = loader.load(None, trusted=False)
        listed = [*loaded.problems, *loaded.missing, *loaded.delegators["a"].state.problems]
        assert len(listed) >= 3
        assert {type(problem).__name__ for problem in listed} == {"Problem"}


class TestCompletion:
    def test_keys_of_the_table_minus_those_present(self, known: Known):
        found = offered(known, "[limits]\nslots = 1\nmax_usd = '1'\n|\n")
        assert {"total_seconds", "max_turns"} <= set(found)
        assert not {"slots", "max_usd"} & set(found)
        assert found["total_seconds"].text == "total_seconds = 3600.0"
        assert "terminal" not in found["total_seconds"].detail
        assert "Default: `3600.0`" in found["total_seconds"].documentation

    def test_a_word_is_replaced(self, known: Known):
        text = "[limits]\nmax_t|\n"
        one = offered(known, text)["max_turns"]
        assert inserted(text, one) == "[limits]\nmax_turns = 1\n"
        assert one.snippet == "max_turns = ${1:1}"

    def test_a_key_that_has_a_value_keeps_it(self, known: Known):
        text = "[limits]\nmax_t|urn = 12\n"
        assert inserted(text, offered(known, text)["max_turns"]) == "[limits]\nmax_turns = 12\n"

    def test_keys_set_elsewhere_in_the_file_are_not_offered(self, known: Known):
        found = offered(
            known, "[[delegators]]\nname = 'a'\n|\n[delegators.launch]\nyolo = true\n[[delegators]]\nmodel = 'm'\n"
        )
        assert "launch" not in found
        assert {"model", "tool"} <= set(found)

    def test_required_keys_come_first(self, known: Known):
        text, line, character = spot("[[checks]]\n|\n")
        first = config_language.complete(FileKind.CONFIG, text, line, character, known)[:2]
        assert [one.label for one in first] == ["argv", "name"]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("[[delegators]]\ntool = |\n", DRIVEN),
            ('[[delegators]]\ntool = "cl|\n', DRIVEN),
            ("[[delegators]]\nmodel_server = '|'\n", {"local"}),
            ("[[delegators]]\nmodel_server = 'local'\nmodel = '|'\n", {"qwen3-coder", "gemma3"}),
            ("[[model_servers]]\nname = 'new'\n[[delegators]]\nmodel_server = '|'\n", {"local", "new"}),
            ("[[delegators]]\ntool = 'claude'\nlaunch = { yolo = | }\n", {"true", "false"}),
            ("[defaults]\ndelegator = |", {"ghostwriter", "mine", "quick"}),
            ("[defaults]\nrecipes = { tests = '|' }\n", {"ghostwriter", "mine", "quick"}),
            ("[[model_servers]]\nprotocols = ['|']\n", {"auto", "openai", "anthropic", "gemini", "responses"}),
            ("[[checks]]\nargv = ['x', |]\n", {"{python}", "{tests}"}),
            ("[[checks]]\nargv = ['{python}', '|']\n", {"{tests}"}),
            (
                "[[delegators]]\ntool = 'claude'\nlaunch.permission_mode = |\n",
                {"acceptEdits", "default", "dontAsk", "plan", "bypassPermissions"},
            ),
            ("[[model_servers]]\napi_key = |\n", {'{ from_env = "" }', '{ keyring = "" }', '{ file = "" }'}),
        ],
    )
    def test_values(self, known: Known, text: str, expected: set[str]):
        assert set(offered(known, text)) == expected

    def test_values_keep_their_kind_of_quotes(self, known: Known):
        text = "[defaults]\ndelegator = 'qu|'\n"
        assert inserted(text, offered(known, text)["quick"]) == "[defaults]\ndelegator = 'quick'\n"

    def test_keys_that_are_names(self, known: Known):
        found = offered(known, "[defaults.recipes]\ntests = 'quick'\n|")
        assert "ask" in found
        assert "tests" not in found
        assert "Returns `text`" in found["ask"].documentation

    def test_launch_fields_are_those_that_the_tool_supports(self, known: Known):
        assert set(offered(known, "[[delegators]]\ntool = 'claude'\n[delegators.launch]\n|")) >= {
            "permission_mode",
            "flags",
        }
        found = offered(known, "[[delegators]]\ntool = 'generic'\nlaunch = { | }\n")
        assert set(found) == set(COMMON_FIELDS) | {"command", "output", "prompt_delivery", "relay"}

    def test_headers(self, known: Known):
        found = offered(known, "[[delegators]]\nname = 'a'\n|")
        assert {"[limits]", "[[checks]]", "[[delegators]]", "[delegators.launch]", "[delegators.limits]"} <= set(found)
        found = offered(known, CONFIG + "[|")
        assert "[defaults]" not in found
        assert "[worktrees]" in found
        text = "[lim|]\n"
        assert inserted(text, offered(known, text)["[limits]"]) == "[limits]\n"

    def test_no_header_where_it_would_split_a_table(self, known: Known):
        assert not [label for label in offered(known, "[limits]\n|\nslots = 1\n") if label.startswith("[")]

    def test_files_with_one_entry(self, known: Known):
        found = offered(known, "|", FileKind.DELEGATOR)
        assert {"tool", "model", "model_server", "[launch]", "[env]"} <= set(found)
        assert not {"llm_tool", "agent"} & set(found)
        assert {"kind", "base_url", "api_key", "[headers]"} <= set(offered(known, "|", FileKind.MODEL_SERVER))

    def test_recipes(self, known: Known):
        found = offered(known, "+++\ntitle = 'x'\n|\n+++\nWrite.\n", FileKind.RECIPE)
        assert {"returns", "writes", "checks", "applies_to", "delegator"} <= set(found)
        assert "route" not in found
        assert found["returns"].text == 'returns = "text"'
        assert set(offered(known, "+++\napplies_to.on = ['file', '|']\n+++\n", FileKind.RECIPE)) == {
            "selection",
            "diagnostic",
        }
        assert set(offered(known, "+++\nchecks = [|]\n+++\n", FileKind.RECIPE)) == {"unit"}
        assert offered(known, "+++\n+++\ntit|le\n", FileKind.RECIPE) == {}
        (skeleton,) = offered(known, "|", FileKind.RECIPE).values()
        assert config_language.complete(FileKind.RECIPE, skeleton.text, 1, 0, known) != []

    @pytest.mark.parametrize(
        "text",
        [
            "# |",
            "x = 1 # |\n",
            "[limits] |\n",
            "[limits]\nslots = 1 |\n",
            "[x]\ny = 1|2\n",
            "[[checks]]\nargv = ['x', # one, |\n]\n",
            '[defaults]\ndelegator = """\nqu|\n"""\n',
        ],
    )
    def test_nothing_is_offered_where_nothing_can_be_written(self, known: Known, text: str):
        assert offered(known, text) == {}

    def test_an_error_above_does_not_matter(self, known: Known):
        found = offered(known, "[[checks]]\nargv = ['a',\nname = \n[limits\nx\n\n[defaults]\n|\n")
        assert "delegator" in found


class TestHover:
    def text(self, known: Known, marked: str, kind: FileKind = FileKind.CONFIG) -> str:
        text, line, character = spot(marked)
        found = config_language.hover(kind, text, line, character, known)
        return found.markdown if found else ""

    def test_a_field(self, known: Known):
        told = self.text(known, "[limits]\nidle_s|econds = 3\n")
        assert "**`idle_seconds`**: a number" in told
        assert "keep-alives" in told
        assert "Default: `600.0`" in told
        assert self.text(known, "[limits]\nidle_seconds = |3\n") == told

    def test_the_tools_that_support_a_field(self, known: Known):
        text = self.text(known, "[[delegators]]\nlaunch.fl|ags = []\n")
        names = re.findall("`([a-z]+)`", text[text.index("Supported by ") :])
        assert {"claude", "codex"} <= {*names} <= (DRIVEN | {"cursor", "goose"}) - {"generic", "ghostwriter"}

    def test_a_delegator(self, known: Known):
        for text in ("[defaults]\ndelegator = 'qu|ick'\n", "[[delegators]]\nname = 'qu|ick'\n"):
            told = self.text(known, text)
            assert "Ready, 2 running, 1 waiting." in told
            assert "on the model server `local`, model `qwen3-coder`" in told
            assert "Default for all recipes" in told

    def test_a_model_server(self, known: Known):
        told = self.text(known, "model_server = 'lo|cal'\n", FileKind.DELEGATOR)
        assert "`ollama` at http://127.0.0.1:11434/v1" in told
        assert "Used by the delegator `quick`." in told
        assert "Models: `qwen3-coder`, `gemma3`." in told

    def test_the_problems_of_a_delegator(self, folder: Path):
        (folder / "config.toml").write_text("[[delegators]]\nname = 'a'\ntool = 'claud'\n")
        told = self.text(config_language.know(None, trusted=False), "[defaults]\ndelegator = '|a'\n")
        assert "**Not ready**" in told
        assert "There is no tool `claud`." in told

    def test_headers_checks_recipes_tools(self, known: Known):
        assert "the delegators for requests that name none" in self.text(known, "[defau|lts]\n")
        assert "`{python} -m pytest -q`" in self.text(known, "+++\nchecks = ['un|it']\n+++\n", FileKind.RECIPE)
        assert "Write tests" in self.text(known, "[defaults.recipes]\ntes|ts = 'mine'\n")
        assert "Used by the delegator `mine`." in self.text(known, "tool = 'gen|eric'\n", FileKind.DELEGATOR)

    def test_nothing(self, known: Known):
        for text in ("|", "# comm|ent\n", "unknown = 'x|'\n"):
            assert self.text(known, text) == ""


class TestFixes:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("[limits]\nslot = 4\n", ["[limits]\nslots = 4\n", "[limits]\n"]),
            (
                "[limit]\nslots = 4\n[worktrees]\ncopy = []\n",
                ["[limits]\nslots = 4\n[worktrees]\ncopy = []\n", "[worktrees]\ncopy = []\n"],
            ),
            ('[defaults]\ndelegator = "quik" # fast\n', ['[defaults]\ndelegator = "quick" # fast\n']),
            ("[defaults]\ndelegator = 'quik'\n", ["[defaults]\ndelegator = 'quick'\n"]),
            (
                "[defaults]\nrecipes = { test = 'quick', ask = 'quick' }\n",
                ["[defaults]\nrecipes = { tests = 'quick', ask = 'quick' }\n"],
            ),
            (
                "[[delegators]]\nname = 'a'\ntool = 'generic'\nlaunch = { flags = ['x'], output = 'text' }\n",
                ["[[delegators]]\nname = 'a'\ntool = 'generic'\nlaunch = { output = 'text' }\n"],
            ),
            (
                "[[delegators]]\nname = 'a'\ntool = 'generic'\nlaunch = { output = 'text', flags = ['x'] }\n",
                ["[[delegators]]\nname = 'a'\ntool = 'generic'\nlaunch = { output = 'text' }\n"],
            ),
            (
                "[[delegators]]\nname = 'a'\ntool = 'claude'\n[delegators.x_zone]\nplatform = 'p'\nid = 'i'\n\n[limits]\n",
                ["[[delegators]]\nname = 'a'\ntool = 'claude'\n[limits]\n"],
            ),
            ("[delegators]\nname = 'a'\ntool = 'claude'\n", ["[[delegators]]\nname = 'a'\ntool = 'claude'\n"]),
            (
                "[[chekcs]]\nname = 'a'\n[[chekcs]]\nname = 'b'\n",
                ["[[checks]]\nname = 'a'\n[[checks]]\nname = 'b'\n", ""],
            ),
            (
                "[[delegators]]\nname = 'a'\ntool = 'claude'\nenv = { MY_API_KEY = 'abc' }\n",
                ["[[delegators]]\nname = 'a'\ntool = 'claude'\nenv = { MY_API_KEY = { from_env = \"MY_API_KEY\" } }\n"],
            ),
            ("limits.slot = 1\nlimits.slots = 2\n", ["limits.slots = 2\n"]),
        ],
    )
    def test_each_fix(self, folder: Path, text: str, expected: list[str]):
        (folder / "delegators").mkdir()
        (folder / "delegators" / "quick.toml").write_text('tool = "ghostwriter"\n')
        known = config_language.know(None, trusted=False)
        found = config_language.diagnostics(FileKind.CONFIG, folder / "config.toml", text, known)
        fixes = [fix for one in found for fix in config_language.fixes(FileKind.CONFIG, text, one)]
        assert [fixed(text, fix) for fix in fixes] == expected, (found, fixes)

    def test_recipes(self, findings):
        text = "+++\ntitle = 'x'\nreturns = 'txt'\ncheck = []\n+++\nWrite.\n"
        told = [
            fix.title
            for one in findings(text, "recipes/a.md")
            for fix in config_language.fixes(FileKind.RECIPE, text, one)
        ]
        assert told == ["Change to `text`", "Change `check` to `checks`", "Remove `check`"]

    def test_the_first_suggestion_is_preferred_and_a_removal_never(self, findings):
        text = "[limits]\nmax_token = 4\n"
        (finding,) = findings(text)
        fixes = config_language.fixes(FileKind.CONFIG, text, finding)
        assert [fix.preferred for fix in fixes] == [True, *[False] * (len(fixes) - 1)]
        assert fixes[-1].title == "Remove `max_token`"


def test_know_starts_no_process_and_reads_the_same_as_a_load(known: Known, folder: Path):
    loaded = loader.load(None, trusted=False)
    assert known.configuration == loaded
    assert isinstance(known.snapshot, unsaved.Snapshot)
    assert tomllib.loads(CONFIG)["defaults"]["delegator"] == loaded.defaults.delegator
