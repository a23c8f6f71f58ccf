"""Propose the checks that the files of a project suggest.

The declarations of test runners say which files show that a project uses one. Only files are read, so this works
before a workspace is trusted; whether a check passes is found out by trying it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

from understudy.judge.runs.runner_registry import RUNNERS
from understudy.judge.test_runners.shared.project_files import Project
from understudy.judge.test_runners.shared.test_runner import ProposedCheck
from understudy.model.config.config_entries import CheckProposal
from understudy.model.evidence.checks import Check

_MOST_FOLDERS = 200
"""Folders below the workspace that are looked at."""
_SKIPPED = frozenset({"node_modules", "vendor", "target", "build", "dist", "venv", "env", "__pycache__"})

PROPOSALS = tuple(proposal for runner in RUNNERS for proposal in runner.proposals)
"""Every check that files can suggest; of two that run the same tests, the more specific one is first."""


def propose(
    workspace: Path, configured: Iterable[Check], links: Collection[str], *, set_up: bool
) -> list[CheckProposal]:
    """Return the checks that the workspace suggests, the most specific first; if its top has none, its folders'.

    ``configured`` are the checks that exist, ``links`` the paths that worktrees link to; ``set_up``: a command
    installs dependencies in each worktree.
    """
    existing = list(configured)
    top = Project(workspace)
    proposed: list[tuple[ProposedCheck, str, str | None]] = [(*suggestion, None) for suggestion in _found(top)]
    if not proposed:
        for name in sorted(top.folders)[:_MOST_FOLDERS]:
            if not name.startswith(".") and name not in _SKIPPED:
                proposed += [(*suggestion, name) for suggestion in _found(Project(workspace / name))]
    names = {proposal.name for proposal, _, _ in proposed}
    proposed += [
        (proposal, evidence, None)
        for proposal in PROPOSALS
        if proposal.only_without
        and names.isdisjoint(proposal.only_without)
        and (evidence := proposal.shown_by(top)) is not None
    ]
    taken = {check.name for check in existing}
    proposals = []
    for proposal, shown_by, folder in proposed:
        same = any(list(proposal.argv) == check.argv and folder == check.cwd for check in existing)
        free = _free_name(proposal.name if folder is None else f"{proposal.name}-{folder}", taken)
        taken.add(free)
        inside = workspace if folder is None else workspace / folder
        proposals.append(
            CheckProposal(
                title=proposal.title,
                check=Check(name=free, argv=list(proposal.argv), cwd=folder),
                shown_by=shown_by if folder is None else f"{folder}/{shown_by}",
                problem=_problem(proposal, inside, folder, links, set_up=set_up),
                configured=same,
            )
        )
    return proposals


def _found(project: Project) -> list[tuple[ProposedCheck, str]]:
    """Return the checks that the files of a folder suggest, and for each the file that shows it."""
    proposed: list[tuple[ProposedCheck, str]] = []
    covered: set[str] = set()
    for proposal in PROPOSALS:
        evidence = None if proposal.only_without or proposal.name in covered else proposal.shown_by(project)
        if evidence is not None:
            covered |= {proposal.name, *proposal.instead_of}
            proposed.append((proposal, evidence))
    return proposed


def _problem(
    proposal: ProposedCheck, root: Path, folder: str | None, links: Collection[str], *, set_up: bool
) -> str | None:
    program = proposal.argv[0]
    if "/" not in program and not program.startswith("{") and shutil.which(program) is None:
        return f"The program {program} is not installed. Install it, then try again."
    needed = proposal.folder if folder is None else f"{folder}/{proposal.folder}"
    if not proposal.folder or set_up or any(needed == link or needed.startswith(f"{link}/") for link in links):
        return None
    if not (root / proposal.folder).is_dir():
        if proposal.without_folder(Project(root)):
            return None
        return f"{proposal.folder} is missing. Install the project's dependencies."
    return (
        f"Worktrees have no {proposal.folder}. "
        f'Set `link = ["{needed}"]` or a setup command under [worktrees] in .understudy/config.toml.'
    )


def _free_name(name: str, taken: Collection[str]) -> str:
    base = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:56] or "tests"
    free, number = base, 2
    while free in taken:
        free, number = f"{base}-{number}", number + 1
    return free
