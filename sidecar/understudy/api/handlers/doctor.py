"""Requests about this installation: version, tools, doctor."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

from understudy import __version__
from understudy.api import messages as m
from understudy.api.caller import Caller
from understudy.model.delegations import Delegation
from understudy.model.errors import UnderstudyError
from understudy.model.states import State

FREE_BYTES = 200_000_000
"""Less free space than this is worth a warning: a tree of a middling project needs about as much."""
NAMED = 5
"""Trees that one line names."""
RECENT = 200
"""The newest delegations whose workspaces are looked at for what was left there."""


def version(caller: Caller, params: m.Nothing) -> m.VersionResult:
    """Return version and contract."""
    from understudy.api.table import PROTOCOL_VERSION  # noqa: PLC0415 - the table names this module

    _ = caller, params
    return m.VersionResult(version=__version__, protocol_version=PROTOCOL_VERSION)


def tools(caller: Caller, params: m.ToolsParams) -> m.ToolsResult:
    """Return every agent CLI that Understudy knows."""
    from understudy.config import tools as known  # noqa: PLC0415 - starts processes
    from understudy.runners import registry  # noqa: PLC0415

    found = known.detect(refresh=params.refresh, runnable=registry.ABILITIES, workspace=caller.folder())
    for entry in found:
        if entry.runnable:
            entry.honours = registry.honoured(registry.ABILITIES[entry.name])
    return m.ToolsResult(tools=found, own=registry.honoured(registry.ABILITIES[registry.BACKEND]))


def doctor(caller: Caller, params: m.Nothing) -> m.DoctorResult:
    """Look at everything that a run needs."""
    _ = params
    looks = (
        _platform,
        _python,
        _git,
        _state,
        _bell,
        _isolation,
        _keyring,
        _configuration,
        _tools,
        _delegations,
        _worktrees,
    )
    found: list[m.DoctorCheck] = []
    for look in looks:
        name = look.__name__.removeprefix("_")
        try:
            found.append(look(caller))
        except UnderstudyError as error:
            found.append(m.DoctorCheck(name=name, ok=False, message=error.message, hint=error.hint))
        except Exception as error:  # one broken look must not hide the others
            found.append(m.DoctorCheck(name=name, ok=False, message=f"{type(error).__name__}: {error}"))
    return m.DoctorResult(checks=found)


def _platform(caller: Caller) -> m.DoctorCheck:
    _ = caller
    if sys.platform.startswith("linux"):
        return m.DoctorCheck(name="platform", ok=True, message="Linux: everything is available.")
    return m.DoctorCheck(
        name="platform",
        ok=sys.platform == "darwin",
        message=f"{sys.platform}: no process namespaces; two processes killed at once can leave one of an agent's.",
        hint="On Windows use WSL." if sys.platform == "win32" else None,
    )


def _python(caller: Caller) -> m.DoctorCheck:
    _ = caller
    return m.DoctorCheck(name="python", ok=True, message=f"{sys.version.split()[0]} at {sys.executable}")


def _git(caller: Caller) -> m.DoctorCheck:
    from understudy.git import call  # noqa: PLC0415 - starts a process

    _ = caller
    return m.DoctorCheck(name="git", ok=True, message="git " + ".".join(map(str, call.version())))


def _state(caller: Caller) -> m.DoctorCheck:
    from understudy.journal import store  # noqa: PLC0415

    _ = caller
    root = store.state_root()
    with tempfile.NamedTemporaryFile(dir=root):
        pass  # a folder that cannot be written to is said here, not at the first start
    free = shutil.disk_usage(root).free
    return m.DoctorCheck(
        name="state",
        ok=free > FREE_BYTES,
        message=f"{root}, {free // 1_000_000} MB free",
        hint=None
        if free > FREE_BYTES
        else "Free some space, or set UNDERSTUDY_STATE to a folder on another local disk.",
    )


def _bell(caller: Caller) -> m.DoctorCheck:
    from understudy.journal import bell  # noqa: PLC0415

    _ = caller
    with bell.Bell() as listening:
        bell.ring("doctor")
        heard = "doctor" in listening.wait(1.0)
    return m.DoctorCheck(
        name="bell",
        ok=heard,
        message="Processes hear of each other's changes at once."
        if heard
        else "A message between processes was not heard.",
        hint=None
        if heard
        else "Changes are seen after a second instead; look at the runtime folder (XDG_RUNTIME_DIR).",
    )


def _isolation(caller: Caller) -> m.DoctorCheck:
    import asyncio  # noqa: PLC0415

    from understudy.process import children, environment  # noqa: PLC0415

    _ = caller

    async def tried() -> tuple[bool, str]:
        argv = [sys.executable, "-I", "-S", "-c", ""]
        child = await children.start(argv, cwd=Path("/"), env=environment.base_environment(), mark="doctor")
        async with child:
            await child.wait()
            return child.namespaced, child.why_not_namespaced

    namespaced, why = asyncio.run(tried())
    if namespaced:
        message = "Agents run in a process namespace: none of their processes outlives a run. They are not confined "
        return m.DoctorCheck(name="isolation", ok=True, message=message + "otherwise: they can do what you can.")
    return m.DoctorCheck(
        name="isolation",
        ok=not sys.platform.startswith("linux"),
        message=f"No process namespace ({why}): a double kill can leave a process of an agent.",
        hint="In a container, run with an init (`--init`) and allow user namespaces.",
    )


def _keyring(caller: Caller) -> m.DoctorCheck:
    from understudy.secrets import keys  # noqa: PLC0415

    _ = caller
    status = keys.keyring_status()
    return m.DoctorCheck(name="keyring", ok=True, message=status.message)


def _configuration(caller: Caller) -> m.DoctorCheck:
    from understudy.api import configuration  # noqa: PLC0415

    found = configuration.delegators(caller, m.WorkspaceParams())
    problems = [*found.problems, *(problem for entry in found.delegators for problem in entry.state.problems)]
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        first = errors[0]
        where = f" ({first.location.uri}:{first.location.range.start.line + 1})" if first.location else ""
        return m.DoctorCheck(
            name="configuration",
            ok=False,
            message=f"{len(errors)} errors; the first: {first.message}{where}",
            hint=first.hint,
        )
    own = [entry.delegator.name for entry in found.delegators if entry.scope != "builtin"]
    return m.DoctorCheck(
        name="configuration",
        ok=True,
        message=f"delegators: {', '.join(own)}"
        if own
        else "No delegator is configured; ghostwriter writes tests without one.",
        hint=None if own else "understudy delegators add",
    )


def _tools(caller: Caller) -> m.DoctorCheck:
    found = [tool for tool in tools(caller, m.ToolsParams()).tools if tool.found]
    names = ", ".join(f"{tool.name} {tool.version or ''}".strip() for tool in found)
    return m.DoctorCheck(name="tools", ok=True, message=names or "No agent CLI was found on PATH.")


def _delegations(caller: Caller) -> m.DoctorCheck:
    from understudy.api import delegations  # noqa: PLC0415

    live: list[State] = [state for state in State if state is not State.FINISHED]
    found = delegations.list_page(caller, m.ListParams(states=live, limit=1000)).delegations
    return m.DoctorCheck(name="delegations", ok=True, message=f"{len(found)} at work or waiting.")


def _worktrees(caller: Caller) -> m.DoctorCheck:
    from understudy import config  # noqa: PLC0415
    from understudy.engine import housekeeping  # noqa: PLC0415
    from understudy.journal import store  # noqa: PLC0415

    state, kept = store.state_root(), config.load(None, trusted=False).worktrees
    places = housekeeping.places(state, kept.keep_days)
    size = sum(housekeeping.size_of(place.root) for place in places)
    undecided = sum(place.state == "undecided" for place in places)
    message = f"{len(places)} on disk, {size / 1e6:.0f} MB; {undecided} of them undecided."
    orphans = [place.id for place in places if place.state == "orphaned"]
    if orphans:
        return m.DoctorCheck(
            name="worktrees",
            ok=False,
            message=f"{message} The delegation of {len(orphans)} is gone: {', '.join(orphans[:NAMED])}.",
            hint=f"Look into it; then `understudy worktrees remove {orphans[0]}`, which can be taken back.",
        )
    missing = [place.id for place in places if place.delegation is not None and not place.tree.is_dir()]
    missing = [each for each in missing if each not in {place.id for place in places if place.state == "working"}]
    if missing:
        return m.DoctorCheck(
            name="worktrees",
            ok=False,
            message=f"{message} The tree of {', '.join(missing[:NAMED])} is not there any more; its result is.",
            hint=f"understudy check {missing[0]} makes it anew; understudy worktrees remove {missing[0]} puts it away.",
        )
    workspaces = _workspaces(caller, [place.delegation for place in places])
    for references, ok, what, when in (
        (
            housekeeping.orphaned_pins(workspaces),
            False,
            "still has {} of a delegation that is gone",
            "If no other machine or account uses that repository",
        ),
        (
            housekeeping.stale_exports(workspaces, kept.keep_days),
            True,
            "keeps an exported commit that a branch has by now, or an old one: {}",
            "If you need it no more",
        ),
    ):
        if references:
            top, name = references[0]
            more = f", and {len(references) - 1} more" if len(references) > 1 else ""
            return m.DoctorCheck(
                name="worktrees",
                ok=ok,
                message=f"{message} {top} {what.format(name)}{more}.",
                hint=f"{when}: git -C {top} update-ref -d {name}",
            )
    waiting = len(housekeeping.trash(state))
    expired = sum(place.state == "expired" for place in places)
    if expired or waiting or size > kept.keep_bytes:
        parts = [f"{expired} past their time"] if expired else []
        parts += [f"{waiting} in the trash"] if waiting else []
        parts += [f"more than the {kept.keep_bytes / 1e6:.0f} MB allowed"] if size > kept.keep_bytes else []
        message += f" {', '.join(parts)}: the next delegation clears away what may go."
    return m.DoctorCheck(name="worktrees", ok=True, message=message)


def _workspaces(caller: Caller, known: list[Delegation | None]) -> set[Path]:
    """Return the workspaces in which a reference may have been left: those of trees, of late, and the asker's."""
    from understudy.journal import store, summary  # noqa: PLC0415

    found = {Path(one.workspace) for one in known if one is not None}
    for identifier in store.ids()[:RECENT]:
        with contextlib.suppress(UnderstudyError, OSError):
            found.add(Path(summary.peek(store.open_folder(identifier)).workspace))
    folder = caller.folder()
    return {path for path in (found | {folder} if folder is not None else found) if path.is_dir()}
