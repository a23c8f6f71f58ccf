"""Requests about what is configured: delegators, model servers, recipes, trust."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from understudy import config
from understudy.api import messages as m
from understudy.api.caller import Caller
from understudy.config import edit
from understudy.config import trust as trusting
from understudy.engine import places
from understudy.journal import bell, store
from understudy.model.delegators import Delegator, DelegatorEntry, ModelServerEntry, Problem, Scope
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners import registry

_T = TypeVar("_T")

CHANGED = "configuration"
"""The name that is rung after a configuration file was replaced."""


def load(caller: Caller, workspace: str | None) -> config.Configuration:
    """Return the configuration as it is seen from a workspace (URI or path; None: from where the caller stands)."""
    top = _workspace(caller, workspace)
    trusted = top is not None and trusting.status(top, store.state_root()).trusted
    return config.load(top, trusted=trusted, abilities=registry.ABILITIES)


def find(known: Mapping[str, _T], name: str, kind: ErrorKind, what: str) -> _T:
    """Return the thing of this name; raise ``kind`` with near names."""
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        raise UnderstudyError(
            kind,
            f"There is no {what} {name!r}.",
            hint=f"Did you mean {near[0]!r}?" if near else None,
            names=near or sorted(known)[:20],
        )
    return known[name]


def editor(caller: Caller, workspace: str | None) -> edit.Editor:
    """Return what changes the configuration that is seen from a workspace."""
    return edit.Editor(_workspace(caller, workspace), state=store.state_root(), abilities=registry.ABILITIES)


def trust(caller: Caller, params: m.TrustParams) -> m.TrustResult:
    """Trust a workspace, withdraw it, or tell how it stands."""
    top = places.workspace_of([], params.workspace, caller.folder())
    root = store.state_root()
    if params.trusted is None:
        status = trusting.status(top, root)
    else:
        status = trusting.record(top, root, trusted=params.trusted, seen=params.seen)
        regained = getattr(caller, "trusts", None)
        if params.trusted and regained is not None:
            regained(top)
            status = trusting.status(top, root)
        bell.ring("trust")
    return m.TrustResult(
        trusted=status.trusted, allows=list(status.allows), changed=list(status.changed), seen=status.hash
    )


def recipes(caller: Caller, params: m.RecipesParams) -> m.RecipesResult:
    """Return the recipes that apply to a file, or all that the caller can see."""
    workspace = None
    if params.uri is not None:
        workspace = str(places.workspace_of([params.uri], None, None))
    loaded = load(caller, workspace)
    found = list(loaded.recipes.values())
    if params.uri is not None:
        language = language_of(places.path_of(params.uri).name)
        found = [
            recipe
            for recipe in found
            if "file" in recipe.fits.on and (not recipe.fits.languages or language in recipe.fits.languages)
        ]
    return m.RecipesResult(recipes=found, problems=loaded.problems)


def delegators(caller: Caller, params: m.WorkspaceParams) -> m.DelegatorsResult:
    """Return every delegator with how many of its delegations run and wait, and whether its program is there."""
    loaded = load(caller, params.workspace)
    counts = _counts()
    for name, entry in loaded.delegators.items():
        entry.state.running, entry.state.queued = counts.get(name, (0, 0))
        missing = _missing(entry)
        if missing is not None:
            entry.state.ready = False
            entry.state.problems.append(missing)
    return m.DelegatorsResult(delegators=list(loaded.delegators.values()), problems=loaded.problems)


def delegator(caller: Caller, params: m.NameParams) -> DelegatorEntry:
    """Return one delegator."""
    listed = delegators(caller, m.WorkspaceParams(workspace=params.workspace)).delegators
    known = {entry.delegator.name: entry for entry in listed}
    return find(known, params.name, ErrorKind.UNKNOWN_DELEGATOR, "delegator")


def create_delegator(caller: Caller, params: m.DelegatorCreateParams) -> DelegatorEntry:
    """Make a delegator."""
    made = editor(caller, params.workspace).create(params.delegator, Scope(params.scope))
    bell.ring(CHANGED)
    return made


def create_delegator_from_tool(caller: Caller, params: m.DelegatorFromToolParams) -> DelegatorEntry:
    """Make a delegator for an agent CLI, with a generated unique name."""
    registry.abilities_of(Delegator(name=params.tool, tool=params.tool))
    edits = editor(caller, params.workspace)
    name = edits.generate_name(params.tool, params.model or "")
    made = edits.create(Delegator(name=name, tool=params.tool, model=params.model or ""), Scope(params.scope))
    bell.ring(CHANGED)
    return made


def update_delegator(caller: Caller, params: m.DelegatorUpdateParams) -> DelegatorEntry:
    """Replace a delegator."""
    made = editor(caller, params.workspace).update(params.name, params.delegator, params.revision)
    bell.ring(CHANGED)
    return made


def delete_delegator(caller: Caller, params: m.DeleteParams) -> m.Done:
    """Remove a delegator."""
    editor(caller, params.workspace).delete("delegator", params.name, params.revision)
    bell.ring(CHANGED)
    return m.Done()


def model_servers(caller: Caller, params: m.WorkspaceParams) -> m.ModelServersResult:
    """Return every model server."""
    loaded = load(caller, params.workspace)
    return m.ModelServersResult(model_servers=list(loaded.model_servers.values()), problems=loaded.problems)


def model_server(caller: Caller, params: m.NameParams) -> ModelServerEntry:
    """Return one model server."""
    loaded = load(caller, params.workspace)
    return find(loaded.model_servers, params.name, ErrorKind.UNKNOWN_MODEL_SERVER, "model server")


def create_model_server(caller: Caller, params: m.ModelServerCreateParams) -> ModelServerEntry:
    """Make a model server."""
    made = editor(caller, params.workspace).create(params.model_server, Scope(params.scope))
    bell.ring(CHANGED)
    return made


def update_model_server(caller: Caller, params: m.ModelServerUpdateParams) -> ModelServerEntry:
    """Replace a model server."""
    made = editor(caller, params.workspace).update(params.name, params.model_server, params.revision)
    bell.ring(CHANGED)
    return made


def delete_model_server(caller: Caller, params: m.DeleteParams) -> m.Done:
    """Remove a model server, and the key that was stored for it."""
    before = load(caller, params.workspace).model_servers
    editor(caller, params.workspace).delete("model_server", params.name, params.revision)
    bell.ring(CHANGED)
    gone = before.pop(params.name).model_server.api_key
    # A key that a second server refers to is still in use, and one of another name was stored for another purpose.
    own = gone is not None and params.name in {gone.keyring, gone.file and Path(gone.file).name}
    if gone is not None and own and all(entry.model_server.api_key != gone for entry in before.values()):
        from understudy.secrets import keys  # noqa: PLC0415 - may bring the keyring

        keys.forget_key(gone)
    return m.Done()


def set_key(caller: Caller, params: m.SetKeyParams) -> m.Done:
    """Store a key and make the model server refer to it."""
    import msgspec  # noqa: PLC0415 - for the copy below only

    from understudy.secrets import keys  # noqa: PLC0415 - may bring the keyring

    before = model_server(caller, m.NameParams(name=params.name, workspace=params.workspace))
    if not before.editable:
        raise UnderstudyError(
            ErrorKind.NOT_EDITABLE,
            f"The model server {params.name!r} was written by hand, so its `api_key` must be, too.",
            hint='Add api_key = { from_env = "NAME" } to it, with the name of an environment variable.',
            location=before.location,
        )
    reference = keys.store_key(params.name, params.key)
    changed = msgspec.structs.replace(before.model_server, api_key=reference)
    update = m.ModelServerUpdateParams(
        name=params.name, model_server=changed, revision=before.revision, workspace=params.workspace
    )
    try:
        update_model_server(caller, update)
    except UnderstudyError:
        keys.forget_key(reference)
        raise
    return m.Done()


def _workspace(caller: Caller, workspace: str | None) -> Path | None:
    folder = caller.folder()
    if workspace is None and folder is None:
        return None
    return places.workspace_of([], workspace, folder)


def _missing(entry: DelegatorEntry) -> Problem | None:
    """Return the problem that a delegator's program is not installed; no program is started to find out."""
    from understudy.config import tools as known  # noqa: PLC0415 - not for a start
    from understudy.process import environment, failures  # noqa: PLC0415

    one = entry.delegator
    own = {name: value for name, value in (one.env or {}).items() if name == "PATH" and isinstance(value, str)}
    path = environment.base_environment(own)
    if one.tool == "generic":
        programs = tuple(one.launch.command[:1]) if one.launch and one.launch.command else ()
    else:
        tool = known.TOOLS.get(one.tool or "")
        programs = tool.binaries if tool is not None else ()
    # A path that is not absolute is one inside the tree, which is not made yet.
    programs = tuple(program for program in programs if program.startswith("/") or "/" not in program)
    problem = None
    for program in programs:
        try:
            failures.locate(program, Path("/"), path)
        except UnderstudyError as error:
            problem = Problem(severity="error", message=error.message, hint=error.hint, location=entry.location)
        else:
            return None
    return problem


def _counts() -> dict[str, tuple[int, int]]:
    from understudy.journal import summary  # noqa: PLC0415 - reads summaries
    from understudy.model.states import State  # noqa: PLC0415

    live = [state for state in State if state is not State.FINISHED]
    found, _ = summary.page(states=live, limit=1000)
    counts: dict[str, tuple[int, int]] = {}
    for item in found:
        running, queued = counts.get(item.delegator, (0, 0))
        waits = item.state is State.QUEUED
        counts[item.delegator] = (running + (not waits), queued + waits)
    return counts


_LANGUAGES = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascriptreact", ".ts": "typescript", ".mts": "typescript", ".cts": "typescript",
    ".tsx": "typescriptreact", ".go": "go", ".rs": "rust", ".java": "java", ".kt": "kotlin", ".rb": "ruby",
    ".php": "php", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".hpp": "cpp", ".cs": "csharp",
    ".swift": "swift", ".scala": "scala", ".lua": "lua", ".sh": "shellscript", ".md": "markdown",
}  # fmt: skip
"""LSP's language ids of the endings for which tests are written most."""


def language_of(name: str) -> str:
    """Return the language id of a file by its name, empty where it is not known."""
    return _LANGUAGES.get(Path(name).suffix.lower(), "")
