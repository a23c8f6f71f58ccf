"""Test which packages of JavaScript projects are missing in worktrees, and what is proposed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from understudy.judge.project.installed_packages import lacking_packages
from understudy.judge.test_runners.shared.node_packages import failure_messages
from understudy.model.remedies import Remedy, RemedyKind

NEEDS = json.dumps({"devDependencies": {"vitest": "*"}})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "package.json").write_text(NEEDS)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "src").mkdir()
    return tmp_path


def link_of(project: Path, *places: str, links: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    found = lacking_packages(project, places, links, set_up=False)
    return None if found is None or found.remedy is None else tuple(found.remedy.paths)


def test_installed_packages_can_be_linked(project: Path) -> None:
    found = lacking_packages(project, ["src/a.ts"], (), set_up=False)
    assert found is not None
    assert found.remedy == Remedy(kind=RemedyKind.LINK_FOLDERS, paths=["node_modules"])
    assert found.text == "Worktrees have no node_modules, so no test of JavaScript or TypeScript runs in them."
    assert found.hint == (
        "Link to those that are installed: understudy init --scope workspace --link node_modules, "
        'or add `link = ["node_modules"]` under [worktrees] in .understudy/config.toml.'
    )
    assert lacking_packages(project, ["src/a.ts"], (), set_up=True) is None
    assert link_of(project, "src/a.ts", links=("node_modules",)) is None
    assert link_of(project) is None, "nothing is asked about other languages"


def test_the_packages_of_members_are_linked_with_those_above(project: Path) -> None:
    for name in ("a", "b"):
        member = project / "packages" / name
        member.mkdir(parents=True)
        (member / "package.json").write_text(NEEDS)
    (project / "packages" / "a" / "node_modules").mkdir()
    assert link_of(project, "packages/a/x.ts") == ("packages/a/node_modules", "node_modules")
    assert link_of(project, "packages/b/x.ts") == ("node_modules",)
    assert link_of(project, "packages/a/x.ts", links=("node_modules",)) == ("packages/a/node_modules",)


@pytest.mark.parametrize(
    ("lock", "mark", "setup"),
    [
        ("package-lock.json", "package.json", ("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund")),
        ("pnpm-lock.yaml", "pnpm-workspace.yaml", ("pnpm", "install", "--offline", "--frozen-lockfile")),
        ("yarn.lock", "package.json", ("yarn", "install", "--frozen-lockfile", "--prefer-offline")),
    ],
)
def test_packages_that_import_each_other_are_installed_in_each_worktree(
    project: Path, monkeypatch: pytest.MonkeyPatch, lock: str, mark: str, setup: tuple[str, ...]
) -> None:
    (project / lock).write_text("")
    if mark == "package.json":
        (project / mark).write_text(json.dumps({"workspaces": ["packages/*"]}))
    else:
        (project / mark).write_text("")
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")
    found = lacking_packages(project, ["src/a.ts"], (), set_up=False)
    assert found is not None
    assert found.remedy == Remedy(kind=RemedyKind.SET_UP_WORKTREES, commands=[list(setup)])
    assert f"--setup '{' '.join(setup)}'" in found.hint
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert link_of(project, "src/a.ts") == ("node_modules",), "its package manager is not installed"


def test_packages_that_are_not_installed_are_named_with_the_package_manager(project: Path) -> None:
    (project / "node_modules").rmdir()
    (project / "pnpm-lock.yaml").write_text("")
    found = lacking_packages(project, ["src/a.ts"], (), set_up=False)
    assert found is not None
    assert found.text == "node_modules is missing: the packages of package.json are not installed."
    assert found.hint == "Install the project's dependencies: pnpm install."
    (project / "package.json").write_text("{}")
    assert lacking_packages(project, ["src/a.ts"], (), set_up=False) is None, "it needs none"
    (project / "package.json").unlink()
    assert lacking_packages(project, ["src/a.ts"], (), set_up=False) is None


def test_a_failed_test_is_told_with_its_message_and_without_its_stack() -> None:
    vitest = "AssertionError: expected 1.5 to be 2 // Object.is equality\n    at /x/half.test.ts:3:65\n    at y"
    jest = "Error: \x1b[2mexpect(\x1b[22mreceived).toBe(expected)\n\nExpected: \x1b[32m2\x1b[39m\nReceived: 1.5\n    at Object.x"
    tests = [
        {"fullName": "halves", "status": "failed", "failureMessages": [vitest, "another"]},
        {"title": "jest", "status": "failed", "failureMessages": [jest]},
        {"fullName": "passes", "status": "passed", "failureMessages": []},
        {"fullName": "silent", "status": "failed", "failureMessages": None},
    ]
    assert failure_messages({"testResults": [{"assertionResults": tests}]}).splitlines() == [
        "halves: AssertionError: expected 1.5 to be 2 // Object.is equality",
        "jest: Error: expect(received).toBe(expected) Expected: 2 Received: 1.5",
    ]
    many = failure_messages({"testResults": [{"assertionResults": [tests[0]] * 8}]}).splitlines()
    assert many[5:] == ["and 3 more tests fail"]
    assert failure_messages({}) == ""
