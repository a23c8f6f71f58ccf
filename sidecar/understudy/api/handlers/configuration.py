"""Requests about configuration: delegators, model servers, recipes, trust."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from understudy import config
from understudy.api import messages as m
from understudy.api.caller import Caller
from understudy.config import edit
from understudy.config.discovery import declarations
from understudy.config.suggestions import unknown_name
from understudy.config.trust import records as trust_records
from understudy.engine import workspaces
from understudy.journal import change_notifications, state_folder
from understudy.model.config import languages
from understudy.model.config.config_entries import DelegatorEntry, ModelServerEntry, Problem, ServerPreset
from understudy.model.config.delegators import Delegator, Scope
from understudy.model.errors import ErrorKind, UnderstudyError

_T = TypeVar("_T")

CHANGED = "configuration"
"""The topic of the change notification that is sent after a configuration file was replaced."""


def load(caller: Caller, workspace: str | None) -> config.Configuration:
    """Return the configuration of a workspace (URI or path; None: the workspace of the caller's folder)."""
    top = _workspace(caller, workspace)
    trusted = top is not None and trust_records.status(top, state_folder.state_root()).trusted
    return config.load(top, trusted=trusted)


def find(known: Mapping[str, _T], name: str, kind: ErrorKind) -> _T:
    """Return the item with this name; raise ``kind`` with similar names if there is none."""
    if name not in known:
        raise unknown_name(kind, name, known)
    return known[name]


def editor(caller: Caller, workspace: str | None) -> edit.Editor:
    """Return an editor for the configuration of a workspace."""
    return edit.Editor(_workspace(caller, workspace), state=state_folder.state_root())


def trust(caller: Caller, params: m.TrustParams) -> m.TrustResult:
    """Trust a workspace, revoke its trust, or return whether it is trusted."""
    if workspaces.require_path(params.workspace).is_file():
        top = workspaces.workspace_of([params.workspace], None, None)
    else:
        top = workspaces.workspace_of([], params.workspace, None)
    root = state_folder.state_root()
    if params.trusted is None:
        status = trust_records.status(top, root)
    else:
        status = trust_records.record(top, root, trusted=params.trusted, seen=params.digest)
        regained = getattr(caller, "trusts", None)
        if params.trusted and regained is not None:
            regained(top)
            status = trust_records.status(top, root)
        change_notifications.notify("trust")
    return m.TrustResult(
        workspace=os.fsdecode(top),
        trusted=status.trusted,
        effects=list(status.allows),
        changed=list(status.changed),
        digest=status.hash,
        declined=status.known and not status.trusted and trust_records.was_declined(top, root, status.hash),
    )


def recipes(caller: Caller, params: m.RecipesParams) -> m.RecipesResult:
    """Return the recipes that apply to a file, or all that the caller can see."""
    workspace = None
    if params.uri is not None:
        workspace = str(workspaces.workspace_of([params.uri], None, None))
    loaded = load(caller, workspace)
    found = list(loaded.recipes.values())
    if params.uri is not None:
        language = languages.language_of(workspaces.require_path(params.uri).name)
        found = [
            recipe
            for recipe in found
            if "file" in recipe.applies_to.on
            and (not recipe.applies_to.languages or language in recipe.applies_to.languages)
        ]
    return m.RecipesResult(recipes=found, problems=loaded.problems)


def delegators(caller: Caller, params: m.WorkspaceParams) -> m.DelegatorsResult:
    """Return every delegator with the counts of its live delegations, and a problem if its program is missing."""
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
    return find(known, params.name, ErrorKind.UNKNOWN_DELEGATOR)


def create_delegator(caller: Caller, params: m.DelegatorCreateParams) -> DelegatorEntry:
    """Create a delegator."""
    made = editor(caller, params.workspace).create(params.delegator, Scope(params.scope))
    change_notifications.notify(CHANGED)
    return made


def create_delegator_from_tool(caller: Caller, params: m.DelegatorFromToolParams) -> DelegatorEntry:
    """Create a delegator for an agent CLI, with a generated unique name."""
    declarations.require_capabilities(Delegator(name=params.tool, tool=params.tool), None)
    edits = editor(caller, params.workspace)
    name = edits.generate_name(params.tool, params.model or "")
    made = edits.create(Delegator(name=name, tool=params.tool, model=params.model or ""), Scope(params.scope))
    change_notifications.notify(CHANGED)
    return made


def update_delegator(caller: Caller, params: m.DelegatorUpdateParams) -> DelegatorEntry:
    """Replace a delegator."""
    made = editor(caller, params.workspace).update(params.name, params.delegator, params.revision)
    change_notifications.notify(CHANGED)
    return made


def delete_delegator(caller: Caller, params: m.DeleteParams) -> m.EmptyResult:
    """Remove a delegator."""
    editor(caller, params.workspace).delete("delegator", params.name, params.revision)
    change_notifications.notify(CHANGED)
    return m.EmptyResult()


def model_servers(caller: Caller, params: m.WorkspaceParams) -> m.ModelServersResult:
    """Return every model server."""
    loaded = load(caller, params.workspace)
    return m.ModelServersResult(model_servers=list(loaded.model_servers.values()), problems=loaded.problems)


def presets(caller: Caller, params: m.NoParams) -> m.PresetsResult:
    """Return the kinds of model servers with their usual addresses, and which of them run on this machine."""
    from understudy.config.discovery import local_servers, server_presets

    _ = caller, params
    running = local_servers.running()
    found = [
        ServerPreset(
            kind=one.kind,
            title=one.title,
            base_url=one.base_url,
            protocol=one.protocol,
            needs_key=one.needs_key,
            key_url=one.key_url,
            running=one.kind in running,
            models=running.get(one.kind),
        )
        for one in server_presets.KINDS.values()
    ]
    return m.PresetsResult(presets=found)


def model_server(caller: Caller, params: m.NameParams) -> ModelServerEntry:
    """Return one model server."""
    loaded = load(caller, params.workspace)
    return find(loaded.model_servers, params.name, ErrorKind.UNKNOWN_MODEL_SERVER)


def create_model_server(caller: Caller, params: m.ModelServerCreateParams) -> ModelServerEntry:
    """Create a model server."""
    made = editor(caller, params.workspace).create(params.model_server, Scope(params.scope))
    change_notifications.notify(CHANGED)
    return made


def update_model_server(caller: Caller, params: m.ModelServerUpdateParams) -> ModelServerEntry:
    """Replace a model server."""
    made = editor(caller, params.workspace).update(params.name, params.model_server, params.revision)
    change_notifications.notify(CHANGED)
    return made


def delete_model_server(caller: Caller, params: m.DeleteParams) -> m.EmptyResult:
    """Remove a model server and the key that was stored for it."""
    before = load(caller, params.workspace).model_servers
    editor(caller, params.workspace).delete("model_server", params.name, params.revision)
    change_notifications.notify(CHANGED)
    gone = before.pop(params.name).model_server.api_key
    # A key with another name was stored for another purpose; one that another server refers to is still in use.
    own = gone is not None and params.name in {gone.keyring, gone.file and Path(gone.file).name}
    if gone is not None and own and all(entry.model_server.api_key != gone for entry in before.values()):
        from understudy.secrets import keys

        keys.forget_key(gone)
    return m.EmptyResult()


def set_key(caller: Caller, params: m.SetKeyParams) -> m.EmptyResult:
    """Store a key and make the model server refer to it."""
    import msgspec

    from understudy.secrets import keys

    before = model_server(caller, m.NameParams(name=params.name, workspace=params.workspace))
    if not before.editable:
        raise UnderstudyError(
            ErrorKind.NOT_EDITABLE,
            f"The model server {params.name!r} was written by hand, so only you can add its `api_key`.",
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
    return m.EmptyResult()


def _workspace(caller: Caller, workspace: str | None) -> Path | None:
    folder = caller.folder()
    if workspace is None and folder is None:
        return None
    return workspaces.workspace_of([], workspace, folder)


def _missing(entry: DelegatorEntry) -> Problem | None:
    """Return a problem if the delegator's program is not installed, without starting a program."""
    from understudy.process import environment, executables

    one = entry.delegator
    own = {name: value for name, value in (one.env or {}).items() if name == "PATH" and isinstance(value, str)}
    path = environment.base_environment(own)
    command = one.launch.command if one.launch is not None else None
    tool = declarations.tools().get(one.tool or "")
    programs = tuple(command[:1]) if command else tool.binaries if tool is not None else ()
    # A relative path is inside the worktree, which does not exist yet.
    programs = tuple(program for program in programs if program.startswith("/") or "/" not in program)
    problem = None
    for program in programs:
        try:
            executables.locate(program, Path("/"), path)
        except UnderstudyError as error:
            problem = Problem(severity="error", message=error.message, hint=error.hint, location=entry.location)
        else:
            return None
    return problem


def _counts() -> dict[str, tuple[int, int]]:
    from understudy.journal.summaries import listing
    from understudy.model.states import State

    live = [state for state in State if state is not State.FINISHED]
    found, _ = listing.page(states=live, limit=1000)
    counts: dict[str, tuple[int, int]] = {}
    for item in found:
        running, queued = counts.get(item.delegator, (0, 0))
        waits = item.state is State.QUEUED
        counts[item.delegator] = (running + (not waits), queued + waits)
    return counts
