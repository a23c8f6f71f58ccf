"""Test where instructions for other agents are written, and that removing them restores every byte."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from understudy.integrations.agent_instructions import instruction_files
from understudy.model.config.other_agents import InstructionChange, InstructionState
from understudy.model.errors import ErrorKind, UnderstudyError

SKILLS = ("claude", "codex", "opencode", "pi")


class Home:
    """A home folder, and a project below it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir(parents=True)

    def change(self, *names: str, install: bool = True, **options: Any) -> list[InstructionChange]:
        given = {"dry_run": False, "force": False, **options}
        environment = {"HOME": str(self.folder)}
        found = list(names) or None
        return instruction_files.change(found, self.project, install=install, environment=environment, **given)

    def path(self, name: str) -> Path:
        environment = {"HOME": str(self.folder)}
        (found,) = [one for one in instruction_files.listed(self.project, environment) if one.name == name]
        return Path(found.path)

    def states(self) -> dict[str, InstructionState]:
        return {
            one.name: one.state
            for one in instruction_files.listed(self.project, environment={"HOME": str(self.folder)})
        }

    def everything(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in self.folder.rglob("*"):
            mode = stat.S_IMODE(path.lstat().st_mode)
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[str(path)] = (mode, content)
        return found


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_agents_that_are_here_get_a_skill(home: Home) -> None:
    for name in (".claude", ".pi/agent"):
        (home.folder / name).mkdir(parents=True)
    before = home.everything()
    assert [one.name for one in home.change()] == ["claude", "pi"]
    skill = (home.folder / ".claude/skills/understudy/SKILL.md").read_text()
    assert skill.startswith("---\nname: understudy\ndescription: ")
    assert {name: state for name, state in home.states().items() if state is not InstructionState.ABSENT} == {
        "claude": InstructionState.INSTALLED,
        "pi": InstructionState.INSTALLED,
    }
    after = home.everything()
    assert [one.diff for one in home.change()] == ["", ""], "installed twice, nothing changes"
    assert home.everything() == after
    assert [one.name for one in home.change(install=False)] == ["claude", "pi"]
    assert home.everything() == before


@pytest.mark.parametrize("content", [None, b"", b"# Mine", b"# Mine\r\n\r\ntext\r\n", b"\xff\x00\n", b"x\n" * 5000])
def test_removing_restores_every_byte(home: Home, content: bytes | None) -> None:
    path = home.project / "AGENTS.md"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o640)
    before = home.everything()
    for name in ("project-agents-md", *SKILLS, "claude-md"):
        (planned,) = home.change(name, dry_run=True)
        assert home.everything().keys() >= before.keys()
        (done,) = home.change(name)
        assert (done.diff, done.problem) == (planned.diff, None)
        assert done.after is InstructionState.INSTALLED
    if content is not None:
        assert path.read_bytes().startswith(content)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert len(home.change(install=False)) == 6
    assert home.everything() == before


HALVES = st.sampled_from(
    [
        b"",
        b"# Mine",
        b"# Mine\r\ntext\r\n",
        b"\xff\x00\n",
        b"<!-- understudy:begin v1 0123456789ab added=1 -->\nhalf a block\n",
        b"<!-- understudy:end -->\n",
        b"<!-- understudy:begin v9 0123456789ab made=3 -->\r\n",
        instruction_files.insert_block(b"", "An earlier text.\n")[:-10],
    ]
)


@settings(deadline=None)
@given(
    content=st.none() | st.lists(HALVES, max_size=4).map(b"".join),
    mode=st.sampled_from([0o600, 0o644, 0o444]),
    linked=st.booleans(),
    name=st.sampled_from(["claude-md", "codex-md", "project-claude-md", "project-agents-md"]),
)
def test_any_file_is_the_same_after_an_install_and_an_uninstall(
    content: bytes | None, mode: int, linked: bool, name: str
) -> None:
    assume(
        content is None or instruction_files.find_block(content) is None
    )  # a whole block, if edited, has tests of its own
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home")
        path = home.path(name)
        path.parent.mkdir(exist_ok=True)
        target = path.with_name("linked.md") if linked else path
        if linked:
            path.symlink_to(target.name)
        if content is not None:
            target.write_bytes(content)
            target.chmod(mode)
        before = home.everything()
        (done,) = home.change(name)
        if content is not None and not mode & 0o222:
            assert "is read-only" in (done.problem or "")
            assert home.everything() == before
            return
        assert (done.problem, done.after) == (None, InstructionState.INSTALLED)
        assert target.read_bytes().startswith(content or b"")
        assert path.is_symlink() is linked
        (done,) = home.change(name, install=False)
        assert done.problem is None
        assert home.everything() == before


def test_a_link_is_kept(home: Home) -> None:
    real = home.folder / "dotfiles.md"
    real.write_text("mine\n")
    link = home.folder / ".claude" / "CLAUDE.md"
    link.parent.mkdir()
    link.symlink_to(real)
    dangling = home.project / "AGENTS.md"
    dangling.symlink_to("new.md")
    before = home.everything()
    home.change("claude-md", "project-agents-md")
    assert link.is_symlink()
    assert "understudy:begin" in real.read_text()
    assert "understudy:begin" in (home.project / "new.md").read_text()
    home.change(install=False)
    assert home.everything() == before


@pytest.mark.parametrize("target", [".bashrc", ".claude/CLAUDE.md", "project/.git/hooks/pre-commit", "new.md"])
def test_a_link_of_a_project_to_no_file_of_it_is_not_followed(home: Home, target: str) -> None:
    other = home.folder / target
    other.parent.mkdir(parents=True, exist_ok=True)
    if target != "new.md":
        other.write_text("mine\n")
    if target == ".claude/CLAUDE.md":
        home.change("claude-md")
    (home.project / "CLAUDE.md").symlink_to(other)
    before = home.everything()
    for install in (True, False):
        (done,) = home.change("project-claude-md", install=install, force=True)
        assert done.problem is not None
        assert "is not a file of this project" in done.problem
    assert home.everything() == before
    assert home.states()["project-claude-md"] is InstructionState.UNREADABLE
    assert "project-claude-md" not in [one.name for one in home.change(install=False)]


def test_another_version_is_replaced_and_an_edit_is_not(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.project / "AGENTS.md"
    path.write_text("above\n")
    monkeypatch.setattr(instruction_files, "BLOCK", "An earlier text.\n")
    home.change("project-agents-md")
    path.write_text(path.read_text() + "below\n")
    monkeypatch.undo()
    assert home.states()["project-agents-md"] is InstructionState.OUTDATED
    (done,) = home.change("project-agents-md")
    assert (done.before, done.after) == (InstructionState.OUTDATED, InstructionState.INSTALLED)
    assert path.read_text().startswith("above\n")
    assert path.read_text().endswith("below\n")

    edited = path.read_bytes().replace(b"Never delegate", b"Sometimes delegate")
    path.write_bytes(edited)
    for install in (True, False):
        (refused,) = home.change("project-agents-md", install=install)
        assert "has edited the instructions" in (refused.problem or "")
        assert path.read_bytes() == edited
    (forced,) = home.change("project-agents-md", install=False, force=True)
    assert forced.problem is None
    assert path.read_text() == "above\n\nbelow\n"


def test_what_cannot_be_written_stays_and_the_others_are_written(home: Home) -> None:
    (home.folder / ".claude/skills/understudy").mkdir(parents=True)
    foreign = home.folder / ".claude/skills/understudy/SKILL.md"
    foreign.write_text("of someone else\n")
    read_only = home.project / "AGENTS.md"
    read_only.write_text("mine\n")
    read_only.chmod(0o444)
    (home.project / "CLAUDE.md").mkdir()
    (home.folder / ".codex").write_text("a file, not a folder\n")
    before = home.everything()
    found = {one.name: one.problem for one in home.change("claude", "project-agents-md", "project-claude-md", "codex")}
    assert "was not written by Understudy" in (found["claude"] or "")
    assert "is read-only" in (found["project-agents-md"] or "")
    assert "cannot be read: it is not a regular file" in (found["project-claude-md"] or "")
    assert found["codex"]
    assert home.everything() == before
    assert home.change("pi", "claude")[1].problem is None
    assert home.states()["project-claude-md"] is InstructionState.UNREADABLE


def test_a_change_in_the_meantime_is_not_lost(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.project / "AGENTS.md"
    path.write_text("mine\n")
    insert = instruction_files.insert_block

    def slowly(*given: Any) -> bytes:
        path.write_text("mine, edited\n")
        return insert(*given)

    monkeypatch.setattr(instruction_files, "insert_block", slowly)
    (refused,) = home.change("project-agents-md")
    assert "changed in the meantime" in (refused.problem or "")
    assert path.read_text() == "mine, edited\n"


def test_an_unknown_place(home: Home) -> None:
    with pytest.raises(UnderstudyError) as wrong:
        home.change("claud")
    assert wrong.value.kind is ErrorKind.INVALID_PARAMS
    assert "claude" in (wrong.value.hint or "")
