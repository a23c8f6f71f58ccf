"""The request ``doctor``: check everything that a delegation needs."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from understudy.api import messages
from understudy.api.caller import Caller
from understudy.api.handlers import configuration, delegations
from understudy.api.handlers.setup import configured_checks, overview
from understudy.config.loading import loader
from understudy.files import durable
from understudy.git import command, repository
from understudy.journal import change_notifications, delegation_folder, reader
from understudy.judge.project import collected_tests, installed_packages, interpreter, missing_modules
from understudy.model.confinement import Confinement
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, Location, UnderstudyError
from understudy.model.remedies import Remedy, RemedyKind
from understudy.model.states import State
from understudy.model.text import path_quoting
from understudy.process import call_checks
from understudy.process.program_spec import OWN, Program
from understudy.process.programs import children
from understudy.store import store

FREE_BYTES = 200_000_000
"""``doctor`` warns below this much free space, which is about one worktree of a medium-sized project."""
NAMED = 5
"""How many worktrees one message names."""
PYTHON_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
"""A workspace with one of these has Python tests, or may want some."""
RECENT = 200
"""How many of the newest delegations have their workspaces searched for leftover refs."""


def doctor(caller: Caller, params: messages.DoctorParams) -> messages.DoctorResult:
    """Check everything that a delegation needs, and return how to fix what is missing.

    A failing check does not stop the others.
    """
    folder = caller.folder() if params.workspace is None else repository.require_path(params.workspace)
    checks: tuple[Callable[[Caller, Path | None], messages.DoctorCheck | None], ...] = (
        _platform,
        _python,
        _git,
        _state,
        _changes,
        _isolation,
        _keyring,
        _configuration,
        _repository,
        _trust,
        _interpreter,
        _packages,
        _checks,
        _tools,
        _delegations,
        _worktrees,
    )
    names = [check.__name__.removeprefix("_") for check in checks]
    unknown = sorted(set(params.only or ()).difference(names))
    if unknown:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`only` names no check: {', '.join(unknown)}.",
            hint=f"The checks are {', '.join(names)}.",
            names=names,
            parameter="only",
        )
    findings: list[messages.DoctorCheck] = []
    for name, check in zip(names, checks, strict=True):
        if params.only is not None and name not in params.only:
            continue
        try:
            finding = check(caller, folder)
        except UnderstudyError as error:
            finding = _found(error.message, ok=False, hint=error.hint, remedy=error.remedy)
        except Exception as error:  # a bug in one check must not hide the others
            finding = _found(f"{type(error).__name__}: {error}", ok=False)
        if finding is not None:
            finding.name = name
            findings.append(finding)
    with contextlib.suppress(Exception):  # a file of another tool must not hide the checks
        if params.only is None and (importable := _importable(caller)) is not None:
            findings.append(importable)
    return messages.DoctorResult(checks=findings)


def _found(
    message: str, *, ok: bool = True, hint: str | None = None, remedy: Remedy | None = None
) -> messages.DoctorCheck:
    """Return a finding; ``doctor`` gives it the name of its check."""
    return messages.DoctorCheck(name="", ok=ok, message=message, hint=hint, remedy=remedy)


def _importable(caller: Caller) -> messages.DoctorCheck | None:
    """Return a check that names the tools whose configuration can be imported, or None."""
    from understudy.api.handlers.setup import importing

    names = importing.importable(caller)
    if not names:
        return None
    commands = ", ".join(f"understudy import {name}" for name in names)
    message = f"Configuration of {' and '.join(names)} can be imported."
    return messages.DoctorCheck(name="import", ok=True, message=message, hint=f"It is shown first: {commands}")


def _platform(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    if sys.platform.startswith("linux"):
        return _found("Linux: everything is available.")
    return _found(
        f"{sys.platform} has no process namespaces: killing a worker and its guardian at once may orphan an "
        "agent process.",
        ok=sys.platform == "darwin",
    )


def _python(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    return _found(f"{sys.version.split()[0]} at {sys.executable}")


def _git(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    return _found("git " + ".".join(map(str, command.version())))


def _state(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    root = delegation_folder.state_root()
    try:
        with tempfile.NamedTemporaryFile(dir=root):
            pass  # report a folder that is not writable now, not at the first start
    except OSError as error:
        raise durable.failure(error, root) from None
    free = shutil.disk_usage(root).free
    return _found(
        f"{root}, {free // 1_000_000} MB free",
        ok=free > FREE_BYTES,
        hint=None
        if free > FREE_BYTES
        else "Free some space, or set UNDERSTUDY_STATE to a folder on another local disk.",
    )


def _changes(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    with change_notifications.ChangeListener() as listener:
        change_notifications.notify("doctor")
        received = "doctor" in listener.wait(1.0)
    return _found(
        "Change notifications work." if received else "A change notification between processes was lost.",
        ok=received,
        hint=None
        if received
        else "Changes appear up to a second late. Check the permissions of the runtime folder (XDG_RUNTIME_DIR).",
    )


def _isolation(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    import asyncio

    async def tried() -> tuple[Confinement, str]:
        argv = [sys.executable, "-I", "-S", "-c", ""]
        child = await children.start(Program(argv, Path("/"), call_checks.base_environment(), OWN, mark="doctor"))
        async with child:
            await child.wait()
            return child.sandbox.reached, child.refusal

    reached, why = asyncio.run(tried())
    if reached is not Confinement.NONE:
        message = "Agents run in a process namespace, so none of their processes outlives a delegation."
        if not reached.restricts_access:
            message += " They have no sandbox: they have your permissions."
        return _found(message)
    return _found(
        f"No process namespace ({why}): killing a worker and its guardian at once may orphan an agent process. Tests "
        "that compare a result with your checkout are not exposed.",
        ok=not sys.platform.startswith("linux"),
        hint="In a container, run an init process (`--init`) and allow user namespaces.",
    )


def _keyring(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    from understudy.secrets import keys

    status = keys.keyring_status()
    return _found(status.message)


def _configuration(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    listed = configuration.delegators(caller, messages.WorkspaceParams())
    problems = list(listed.problems)
    # The problems of a delegator in a file are in both lists; a missing program is only in its entry.
    problems += [finding for entry in listed.delegators for finding in entry.state.problems if finding not in problems]
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        first = errors[0]
        where = f" ({_place(first.location)})" if first.location else ""
        return _found(
            f"{len(errors)} error{'' if len(errors) == 1 else 's'}. The first: {first.message}{where}",
            ok=False,
            hint=first.hint,
        )
    configured = [entry.delegator.name for entry in listed.delegators if entry.scope != "builtin"]
    return _found(
        f"Delegators: {', '.join(configured)}."
        if configured
        else "No delegator is configured; ghostwriter writes tests without one.",
        hint=None if configured else "Add one: understudy delegators add",
        remedy=None if configured else Remedy(kind=RemedyKind.ADD_DELEGATOR),
    )


def _repository(_: Caller, folder: Path | None) -> messages.DoctorCheck | None:
    """Return whether worktrees can be made of the caller's folder; an error says why not."""
    if (top := _workspace(folder)) is None:
        return None
    repo = repository.locate(top)
    repo.require_files()
    kind = "a git repository" if repo.is_repository else "a folder without git"
    return _found(f"{top} is {kind}.")


def _trust(_: Caller, folder: Path | None) -> messages.DoctorCheck | None:
    """Return whether delegations can start in the caller's folder."""
    if (top := _workspace(folder)) is None:
        return None
    if configuration.is_trusted(top):
        return _found(f"You trust {top}.")
    return _found(
        f"You have not trusted {top}: no delegation starts there yet.",
        hint="See what it would allow, and decide: understudy trust",
        remedy=Remedy(kind=RemedyKind.TRUST),
    )


def _interpreter(caller: Caller, folder: Path | None) -> messages.DoctorCheck | None:
    """Return which Python runs the tests of a trusted Python project, and what they need that it does not have."""
    top = _workspace(folder)
    if folder is None or top is None or not configuration.is_trusted(top):
        return None  # the programs of an untrusted workspace do not run
    project = interpreter.project_folder(top, [os.path.relpath(folder.resolve(), top)])
    if not any((top / project / name).is_file() for name in PYTHON_PROJECT):
        return None
    python = interpreter.find_interpreter(top, configuration.load(caller, str(top)).python, folder=project)
    if python is None:
        return _found(
            "No Python was found for this project.",
            hint="Install Python 3, then create its environment: python3 -m venv .venv",
        )
    with tempfile.TemporaryDirectory() as scratch:
        facts = interpreter.describe(python, neutral=Path(scratch))
        missing = collected_tests.why_not_collected(top / project, facts, Path(scratch)) if facts.has_pytest else None
    version = ".".join(map(str, facts.version))
    where = f"in {project}" if project else "of this project"
    message = f"Tests {where} run with Python {version} at {python.path}"
    if missing is not None:
        why, hint, remedy = missing
        hint, remedy = missing_modules.in_folder(hint, remedy, project)
        return _found(f"{message}. {why}.", ok=False, hint=hint, remedy=remedy)
    if facts.has_pytest:
        return _found(f"{message}.")
    on_path = python.origin == "PATH"
    hint, get_pytest = missing_modules.how_to_get_pytest(top / project, str(python.path), shared=on_path)
    hint, remedy = missing_modules.in_folder(hint, get_pytest, project)
    return _found(f"{message}, which has no pytest. The ghostwriter needs it.", hint=hint, remedy=remedy)


def _packages(caller: Caller, folder: Path | None) -> messages.DoctorCheck | None:
    """Return what worktrees of a trusted JavaScript project lack."""
    top = _workspace(folder)
    if folder is None or top is None or not configuration.is_trusted(top):
        return None
    trees = configuration.load(caller, str(top)).worktrees
    place = os.path.relpath(folder.resolve(), top)
    lacking = installed_packages.lacking_packages(top, [place], trees.link, set_up=bool(trees.setup))
    if lacking is None:
        return None
    return _found(lacking.text, hint=lacking.hint, remedy=lacking.remedy)


def _workspace(folder: Path | None) -> Path | None:
    return None if folder is None else repository.workspace_of([], None, folder)


def _checks(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    listed = configured_checks.checks(caller, messages.WorkspaceParams())
    names = [entry.check.name for entry in listed.checks]
    proposed = next(iter(listed.proposals), None)
    if names:
        message = f"Results are checked with: {', '.join(names)}."
    elif proposed is not None:
        message = f"None is configured. This project uses {proposed.title} ({proposed.shown_by})."
        if proposed.problem is not None:
            return _found(f"{message} {proposed.problem}", hint=proposed.hint, remedy=proposed.remedy)
        hint, remedy = "Try it and add it: understudy checks add", Remedy(kind=RemedyKind.ADD_CHECK)
        return _found(message, hint=hint, remedy=remedy)
    else:
        message = "None is configured, and no test runner was found here. New tests are run anyway."
    return _found(message)


def _place(location: Location) -> str:
    start = location.range.start
    return f"{path_quoting.path_of(location.uri) or location.uri}:{start.line + 1}:{start.character + 1}"


def _tools(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    installed = [tool for tool in overview.tools(caller, messages.ToolsParams()).tools if tool.found]
    names = ", ".join(f"{tool.name} {tool.version or ''}".strip() for tool in installed)
    if names:
        return _found(names)
    return _found(
        "No agent CLI was found on PATH.",
        hint="See how to install one: understudy tools TOOL",
        remedy=Remedy(kind=RemedyKind.ADD_DELEGATOR),
    )


def _delegations(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    from understudy.engine.retention import retained_files

    live: list[State] = [state for state in State if state is not State.FINISHED]
    unfinished = delegations.list_page(caller, messages.ListParams(states=live, limit=1000)).delegations
    used = retained_files.usage(delegation_folder.state_root())
    sizes = (
        f"Journals {used.journals / 1e6:.1f} MB (prompts {used.prompts / 1e6:.1f}, logs {used.logs / 1e6:.1f}), "
        f"ledger {used.ledger / 1e6:.1f} MB."
    )
    paused = store.is_paused(delegation_folder.state_root())
    return _found(
        f"{len(unfinished)} running or waiting.{' The queue is paused.' if paused else ''} {sizes}",
        ok=not paused,
        hint="Let what waits start: understudy queue resume" if paused else None,
        remedy=Remedy(kind=RemedyKind.RESUME_QUEUE) if paused else None,
    )


def _worktrees(caller: Caller, _: Path | None) -> messages.DoctorCheck:
    from understudy.engine.retention import retained_files

    state, kept = delegation_folder.state_root(), loader.load(None, trusted=False).worktrees
    places = retained_files.list_worktrees(state, kept.keep_days)
    size = sum(retained_files.size_of(place.root) for place in places)
    pending = sum(place.state == "pending" for place in places)
    message = f"{len(places)} on disk, {size / 1e6:.0f} MB; {pending} of them pending."
    orphans = [place.id for place in places if place.state == "orphaned"]
    if orphans:
        return _found(
            f"{message} {len(orphans)} without a delegation: {', '.join(orphans[:NAMED])}.",
            ok=False,
            hint=f"Check the files of {orphans[0]}, then remove it: understudy worktrees remove {orphans[0]}. "
            "A removed worktree can be restored.",
        )
    missing = [place.id for place in places if place.delegation is not None and not place.tree.is_dir()]
    missing = [
        identifier
        for identifier in missing
        if identifier not in {place.id for place in places if place.state == "working"}
    ]
    if missing:
        return _found(
            f"{message} The worktree folder of {', '.join(missing[:NAMED])} is missing. The result is kept.",
            ok=False,
            hint=f"Run understudy check {missing[0]} to recreate it, or understudy worktrees remove {missing[0]}.",
        )
    workspaces = _workspaces(caller, [place.delegation for place in places])
    for references, ok, what, when in (
        (
            retained_files.orphaned_pins(workspaces),
            False,
            "contains a ref of a removed delegation",
            "If no other machine or account uses that repository, delete the ref",
        ),
        (
            retained_files.stale_exports(workspaces, kept.keep_days),
            True,
            "contains a ref of an exported commit that is old or already on a branch",
            "If you no longer need it, delete the ref",
        ),
    ):
        if references:
            top, name = references[0]
            more = f", and {len(references) - 1} more" if len(references) > 1 else ""
            return _found(
                f"{message} {top} {what}: {name}{more}.",
                ok=ok,
                hint=f"{when}: git -C {shlex.quote(str(top))} update-ref -d {name}",
            )
    waiting = len(retained_files.trash(state))
    expired = sum(place.state == "expired" for place in places)
    if expired or waiting or size > kept.keep_bytes:
        parts = [f"{expired} expired"] if expired else []
        parts += [f"{waiting} in the trash"] if waiting else []
        parts += [f"over the limit of {kept.keep_bytes / 1e6:.0f} MB"] if size > kept.keep_bytes else []
        message += f" {', '.join(parts)}; the next delegation cleans up."
    return _found(message)


def _workspaces(caller: Caller, delegations: list[Delegation | None]) -> set[Path]:
    """Return the workspaces to search for leftover refs: of worktrees, of recent delegations, and the caller's."""
    folders = {Path(delegation.workspace) for delegation in delegations if delegation is not None}
    for identifier in delegation_folder.ids()[:RECENT]:
        with contextlib.suppress(UnderstudyError, OSError):
            folders.add(Path(reader.peek(delegation_folder.open_folder(identifier)).workspace))
    folder = caller.folder()
    return {path for path in (folders | {folder} if folder is not None else folders) if path.is_dir()}
