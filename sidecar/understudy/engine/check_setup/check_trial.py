"""Propose the checks that the files of a project suggest, and try one on the user's current files.

Proposing only reads files, so it works before a workspace is trusted. A check is tried in a short worker process, in a
worktree of its own: ``<state>/check-trials/<name>/``, beside a lock that the worker holds. The folder of a worker that
was killed is removed by the next trial or clean-up. Nothing is written to the user's repository.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from understudy.engine.check_setup import short_worker
from understudy.engine.worktrees import delegation_worktree
from understudy.files import durable
from understudy.git import repository
from understudy.git.base import capture
from understudy.git.object_store import ObjectStore
from understudy.git.worktree import cleanup, extra_files, worktree
from understudy.journal import delegation_folder
from understudy.judge.project.interpreter import project_folder
from understudy.judge.runs.check_run import DEFAULT_TIMEOUT_SECONDS, CheckContext, run_once, with_interpreter
from understudy.judge.runs.runner_registry import RUNNERS, PreparedCheck
from understudy.judge.test_runners.shared.test_runner import Project, ProposedCheck
from understudy.model.config.config_entries import CheckProposal, CheckTrial
from understudy.model.config.delegators import ProgramLimits
from understudy.model.delegation.spec import Bootstrap
from understudy.model.evidence.checks import Check
from understudy.model.remedies import Lack, Remedy, RemedyKind
from understudy.process.program_spec import limits_of

OPTION = "--check-trial"
_FOLDER = "check-trials"
_WORKTREE_SECONDS = 600.0
"""The time for making the worktree of a large repository; added to the limits of the set-up and the check."""
_MOST_FOLDERS = 200
"""Folders below the workspace that are looked at."""
_SKIPPED = frozenset({"node_modules", "vendor", "target", "build", "dist", "venv", "env", "__pycache__"})
PROPOSALS = tuple(proposal for runner in RUNNERS for proposal in runner.proposals)
"""Every check that files can suggest; of two that run the same tests, the more specific one is first."""


class CheckTrialRequest(msgspec.Struct, kw_only=True):
    """The request to the worker. The workspace is trusted."""

    workspace: str
    check: Check
    bootstrap: Bootstrap
    interpreter: str | None = None
    """The project's interpreter, if one is configured."""
    program_limits: ProgramLimits = msgspec.field(default_factory=ProgramLimits)


def ask(request: CheckTrialRequest, cancelled: Callable[[], bool]) -> CheckTrial:
    """Run ``request`` in a worker. Raises its error, ``cancelled``, ``timed_out`` and ``tool_crashed``."""
    limit = request.check.timeout_seconds or DEFAULT_TIMEOUT_SECONDS
    setup = request.bootstrap.setup_timeout_seconds if request.bootstrap.setup else 0.0
    return short_worker.ask(
        OPTION,
        request,
        CheckTrial,
        cancelled,
        what="check",
        seconds=limit + setup + _WORKTREE_SECONDS,
        hint="Run its command in a terminal to see why it takes so long.",
    )


def run_worker() -> int:
    """Answer the request on standard input; return the exit code."""
    return short_worker.answer_request(CheckTrialRequest, lambda request: asyncio.run(_try(request)))


async def _try(request: CheckTrialRequest) -> CheckTrial:
    workspace, mark = Path(request.workspace), f"trial-{secrets.token_hex(8)}"
    with _trial_folder(delegation_folder.state_root()) as folder:
        scratch = folder / "scratch"
        scratch.mkdir()
        tree, notes = _worktree(request, folder)
        if request.bootstrap.setup:
            await delegation_worktree.run_setup(
                request.bootstrap.setup,
                tree,
                delegation_worktree.setup_environment(tree, workspace),
                mark=mark,
                timeout_seconds=request.bootstrap.setup_timeout_seconds,
                limits=request.program_limits,
            )
        # One run leaves there what a run by the user leaves.
        temporary = Path(tempfile.gettempdir())
        setting = CheckContext(
            tree=tree,
            workspace=workspace,
            scratch=scratch,
            temporary=temporary,
            mark=mark,
            limits=limits_of(request.program_limits),
        )
        project = project_folder(workspace, [request.check.cwd or ""])
        setting, note = with_interpreter(setting, request.interpreter, project)
        outcome = await run_once(PreparedCheck(check=request.check), setting)
        lack = _missing_modules(outcome.output, workspace, tree)
        if not outcome.started:
            lack = _missing_program(request.check, workspace, tree)
    counts = outcome.counts or outcome.printed
    return CheckTrial(
        ok=outcome.green,
        argv=outcome.argv,
        exit_code=outcome.code,
        seconds=round(outcome.seconds, 3),
        timed_out=outcome.timed_out,
        passed=counts.passed if counts is not None else None,
        failed=counts.failed if counts is not None else None,
        skipped=counts.skipped if counts is not None else None,
        output_tail=outcome.output,
        notes=[*notes, *([note] if note else []), *([lack.text] if lack is not None else [])],
        hint=lack.hint if lack is not None else None,
        remedy=lack.remedy if lack is not None else None,
    )


def _worktree(request: CheckTrialRequest, folder: Path) -> tuple[Path, list[str]]:
    """Create the worktree of what the user sees on disk; return its path, and what it lacks."""
    repo = repository.locate(Path(request.workspace))
    store = ObjectStore.create(folder / "store.git", repo)
    base = capture.write_base(store, repo)
    path = folder / cleanup.tree_name(Path(request.workspace), reserved={"store.git", "scratch"})
    made = worktree.create_worktree(store, base, path)
    extra = extra_files.apply(made, repo, copy=request.bootstrap.copy, link=request.bootstrap.link)
    return path, [*base.notes, *made.notes, *extra.notes]


def _missing_modules(output: str, workspace: Path, tree: Path) -> Lack | None:
    """Return the modules that only the workspace has: git ignores them, because they are generated."""
    modules = dict.fromkeys(re.findall(r"No module named '([\w.]+)'", output))
    files = (f"{top}{module.replace('.', '/')}.py" for module in modules for top in ("", "src/"))
    names = [name for name in files if (workspace / name).is_file() and not (tree / name).exists()]
    if not names:
        return None
    what = "it" if len(names) == 1 else "them"
    return Lack(
        text=f"git ignores {' and '.join(names)}, so checks do not have {what}.",
        hint=f"To copy {what}, add `worktrees.copy = {json.dumps(names)}` to .understudy/config.toml.",
        remedy=Remedy(kind=RemedyKind.COPY_FILES, paths=names),
    )


def _missing_program(check: Check, workspace: Path, tree: Path) -> Lack | None:
    """Return the program that only the workspace has, such as one that a package manager installed there."""
    path = PurePosixPath(check.argv[0])
    if path.is_absolute() or len(path.parts) < 2:
        return None
    file = PurePosixPath(os.path.normpath(check.cwd or "."), path)
    if file.parts[0] == ".." or not (workspace / file).exists() or (tree / file).exists():
        return None
    lacks = f"{file} is ignored by git, so checks do not have it."
    if (workspace / file).parent.parent.joinpath("pyvenv.cfg").is_file():
        python = bool(re.fullmatch(r"python[\d.]*(?:\.exe)?", file.name))
        instead = "{python}, which is the project's own Python" if python else f"{file.name}: its folder is on PATH"
        return Lack(text=lacks, hint=f"Write {instead}.")
    folders = [part for part in file.parents if part.name == "node_modules"] or [file.parents[-2]]
    return _unlinked(lacks, str(folders[-1]))


def _unlinked(text: str, folder: str) -> Lack:
    hint = f'Set `link = ["{folder}"]` or a setup command under [worktrees] in .understudy/config.toml.'
    return Lack(text=text, hint=hint, remedy=Remedy(kind=RemedyKind.LINK_FOLDERS, paths=[folder]))


@contextlib.contextmanager
def _trial_folder(state: Path) -> Iterator[Path]:
    """Yield a new folder, which is removed at the end."""
    remove_abandoned(state)
    folder = state / _FOLDER / secrets.token_hex(8)
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # A folder exists only while its lock is held, or after its worker was killed.
    with durable.file_lock(_lock(folder)):
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            _remove(folder)


def remove_abandoned(state: Path) -> None:
    """Remove the folders of workers that were killed."""
    with contextlib.suppress(OSError):
        for folder in [entry for entry in (state / _FOLDER).iterdir() if entry.is_dir()]:
            with contextlib.suppress(OSError), durable.try_file_lock(_lock(folder)) as abandoned:
                if abandoned:
                    _remove(folder)


def _lock(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _remove(folder: Path) -> None:
    cleanup.delete_folder(folder)
    _lock(folder).unlink(missing_ok=True)


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
        lack = _problem(proposal, inside, folder, links, set_up=set_up)
        proposals.append(
            CheckProposal(
                title=proposal.title,
                check=Check(name=free, argv=list(proposal.argv), cwd=folder),
                shown_by=shown_by if folder is None else f"{folder}/{shown_by}",
                problem=lack.text if lack is not None else None,
                hint=lack.hint if lack is not None else None,
                remedy=lack.remedy if lack is not None else None,
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
) -> Lack | None:
    program = proposal.argv[0]
    if "/" not in program and not program.startswith("{") and shutil.which(program) is None:
        return Lack(text=f"The program {program} is not installed.", hint="Install it, then try again.")
    needed = proposal.folder if folder is None else f"{folder}/{proposal.folder}"
    if not proposal.folder or set_up or any(needed == link or needed.startswith(f"{link}/") for link in links):
        return None
    if not (root / proposal.folder).is_dir():
        if proposal.without_folder(Project(root)):
            return None
        return Lack(text=f"{proposal.folder} is missing.", hint="Install the project's dependencies.")
    return _unlinked(f"Worktrees have no {proposal.folder}.", needed)


def _free_name(name: str, taken: Collection[str]) -> str:
    base = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:56] or "tests"
    free, number = base, 2
    while free in taken:
        free, number = f"{base}-{number}", number + 1
    return free
