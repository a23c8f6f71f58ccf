"""Requests about configuration: delegators, model servers, recipes, trust."""

from __future__ import annotations

import contextlib
import os
import urllib.parse
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from understudy.api import messages
from understudy.api import setup_messages as setup
from understudy.api.caller import Caller
from understudy.config.configuration import Configuration
from understudy.config.discovery import declarations
from understudy.config.findings import unknown_name
from understudy.config.loading import loader
from understudy.config.trust import records as trust_records
from understudy.config.validation import usable
from understudy.engine.planning import delegator_choice, route_order
from understudy.engine.queueing import start_conditions
from understudy.git import repository
from understudy.journal import change_notifications, delegation_folder, ledger, reader
from understudy.model.config.config_entries import DelegatorEntry, ModelServerEntry, Problem, ServerPreset
from understudy.model.config.delegators import Delegator, Launch, ModelServer, Scope, language_of
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.errors import ErrorKind, UnderstudyError, top_of
from understudy.model.states import State
from understudy.process import call_checks

if TYPE_CHECKING:
    from understudy.config.editing import edit

_T = TypeVar("_T")

CHANGED = "configuration"
"""The topic of the change notification that is sent after a configuration file was replaced."""
_REMEMBERED = timedelta(minutes=5)
"""For how long the last failure says that a delegator cannot work."""
_LASTING = frozenset({"connection_failed", "auth_failed", "quota_exhausted", "model_not_found"})
"""The kinds of failures that do not pass by themselves."""


def load(caller: Caller, workspace: str | None) -> Configuration:
    """Return the configuration of a workspace (URI or path; None: the workspace of the caller's folder)."""
    top = _workspace(caller, workspace)
    return loader.load(top, trusted=is_trusted(top))


def is_trusted(workspace: Path | None) -> bool:
    """Return whether there is a workspace and the user trusts it."""
    return workspace is not None and trust_records.is_trusted(workspace, delegation_folder.state_root())


def find(items: Mapping[str, _T], name: str, kind: ErrorKind) -> _T:
    """Return the item with this name; raise ``kind`` with similar names if there is none."""
    if name not in items:
        raise unknown_name(kind, name, items)
    return items[name]


def require_usable(problems: Iterable[Problem]) -> None:
    """Raise ``config_invalid`` with the first error of an entry."""
    for problem in problems:
        if problem.severity == "error":
            raise UnderstudyError(
                ErrorKind.CONFIG_INVALID, problem.message, hint=problem.hint, location=problem.location
            )


def editor(caller: Caller, workspace: str | None) -> edit.Editor:
    """Return an editor for the configuration of a workspace."""
    from understudy.config.editing import edit  # lists start without it

    return edit.Editor(_workspace(caller, workspace), state=delegation_folder.state_root())


def trust(caller: Caller, params: messages.TrustParams) -> messages.TrustResult:
    """Trust a workspace, revoke its trust, or return whether it is trusted."""
    if repository.require_path(params.workspace).is_file():
        top = repository.workspace_of([params.workspace], None, None, caller.opened())
    else:
        top = repository.workspace_of([], params.workspace, None)
    root = delegation_folder.state_root()
    if params.trusted is None:
        status = trust_records.status(top, root)
    else:
        status = trust_records.record(top, root, trusted=params.trusted, seen=params.digest)
        if params.trusted:
            caller.trusts(top)
            status = trust_records.status(top, root)
        change_notifications.notify("trust")
    return messages.TrustResult(
        workspace=os.fsdecode(top),
        trusted=status.trusted,
        effects=list(status.allows),
        changed=list(status.changed),
        digest=status.hash,
        declined=status.known and not status.trusted and trust_records.was_declined(top, root, status.hash),
    )


def recipes(caller: Caller, params: messages.RecipesParams) -> messages.RecipesResult:
    """List the recipes that apply to a file."""
    workspace = None
    if params.uri is not None:
        workspace = str(repository.workspace_of([params.uri], None, None, caller.opened()))
    loaded = load(caller, workspace)
    matching = sorted(loaded.recipes.values(), key=lambda recipe: recipe.order)
    if params.uri is not None:
        language = language_of(repository.require_path(params.uri).name)
        matching = [
            recipe
            for recipe in matching
            if "file" in recipe.applies_to.on
            and (not recipe.applies_to.languages or language in recipe.applies_to.languages)
        ]
    return messages.RecipesResult(recipes=matching, problems=loaded.problems)


def agents(caller: Caller, params: messages.WorkspaceParams) -> setup.AgentsResult:
    """List the agents and skills that a delegation can name, of the workspace, of the user and built in.

    Those of an untrusted workspace are not read.
    """
    from understudy.config.loading import agent_files

    top = _workspace(caller, params.workspace)
    listed = agent_files.agents_of(top, trusted=is_trusted(top))
    return setup.AgentsResult(
        agents=list(listed.entries.values()), problems=[problem.plain() for problem in listed.problems]
    )


def delegators(caller: Caller, params: messages.WorkspaceParams) -> messages.DelegatorsResult:
    """List the delegators with where each is configured, and the problems of the configuration."""
    return delegators_of(load(caller, params.workspace))


def delegators_of(loaded: Configuration) -> messages.DelegatorsResult:
    """Return the delegators of a configuration, with what is known of each on this machine."""
    defaults = _defaults(loaded)
    counts = _counts()
    failures = ledger.newest_failures(datetime.now(UTC) - _REMEMBERED)
    for name, entry in loaded.delegators.items():
        entry.state.running, entry.state.queued = counts.get(name, (0, 0))
        if entry.delegator.remote_agent is not None:
            _add_remote(entry)
            continue
        _add_pauses(entry, loaded)
        _add_missing(entry, loaded)
        failed = failures.get(name)
        # Another workspace can have a delegator of this name.
        is_its = failed is not None and (
            entry.scope is not Scope.WORKSPACE or failed.workspace == str(loaded.workspace)
        )
        if entry.state.ready and failed is not None and is_its and failed.failure in _LASTING:
            _add_failure(entry, failed.failure)
    return messages.DelegatorsResult(
        delegators=list(loaded.delegators.values()), problems=loaded.problems, defaults=defaults
    )


def _add_failure(entry: DelegatorEntry, kind: str) -> None:
    """Mark a delegator as not ready whose last attempt showed minutes ago that it cannot work."""
    minutes = _REMEMBERED // timedelta(minutes=1)
    message = f"Its last attempt, less than {minutes} minutes ago, failed: {kind.replace('_', ' ')}."
    hint = f"Fix the cause, then use it: it is ready after a success, or {minutes} minutes after the failure."
    _mark_not_ready(entry, Problem(severity="warning", message=message, hint=hint, location=entry.location))


def _mark_not_ready(entry: DelegatorEntry, problem: Problem) -> None:
    """Mark a delegator as not ready; lists show its first problem, so the reason comes before remarks."""
    entry.state.problems.insert(0 if entry.state.ready else len(entry.state.problems), problem)
    entry.state.ready = False


def _defaults(loaded: Configuration) -> dict[str, str]:
    """Return the delegator that a start of each recipe takes if it names none."""
    defaults = {}
    if loaded.incompleteness() is None:
        for recipe in loaded.recipes.values():
            with contextlib.suppress(UnderstudyError):
                defaults[recipe.name] = delegator_choice.choose(loaded, recipe, None)[1].delegator
    return defaults


def reset_delegator(caller: Caller, params: messages.NameParams) -> DelegatorEntry:
    """End the pauses of a delegator that failed again and again, and forget its failures."""
    entry = delegator(caller, params)
    loaded = load(caller, params.workspace)
    start_conditions.attempt_succeeded(
        delegation_folder.state_root(), entry.delegator, loaded.server_of(entry.delegator)
    )
    change_notifications.notify(CHANGED)
    return delegator(caller, params)


def _add_remote(entry: DelegatorEntry) -> None:
    """Mark a delegator that stands for an agent on another service as one that cannot be started."""
    agent = entry.delegator.remote_agent
    if agent is not None:
        message = f"An agent on {agent.platform}, which is listed and exported, and cannot be started here."
        _mark_not_ready(entry, Problem(severity="information", message=message, location=entry.location))


def _add_pauses(entry: DelegatorEntry, loaded: Configuration) -> None:
    """Add what failed again and again to the state of a delegator, and a warning for each kind of failure."""
    entry.state.pauses = start_conditions.pauses(
        delegation_folder.state_root(), entry.delegator, loaded.server_of(entry.delegator)
    )
    for pause in entry.state.pauses:
        message = f"Paused {start_conditions.described(pause)}"
        hint = f"Its fallbacks are tried instead. To end the pause: understudy delegators reset {entry.delegator.name}"
        entry.state.problems.append(Problem(severity="warning", message=message, hint=hint, location=entry.location))


def delegator(caller: Caller, params: messages.NameParams) -> DelegatorEntry:
    """Return one delegator."""
    listed = delegators(caller, messages.WorkspaceParams(workspace=params.workspace)).delegators
    by_name = {entry.delegator.name: entry for entry in listed}
    return find(by_name, params.name, ErrorKind.UNKNOWN_DELEGATOR)


def create_delegator(caller: Caller, params: messages.DelegatorCreateParams) -> DelegatorEntry:
    """Create a delegator: one file in the folder of its scope."""
    made = editor(caller, params.workspace).create(params.delegator, Scope(params.scope))
    return _saved(caller, params.workspace, made)


def create_delegator_from_tool(caller: Caller, params: messages.DelegatorFromToolParams) -> DelegatorEntry:
    """Create a delegator for an agent CLI, with a generated unique name.

    One that Understudy cannot drive itself runs as a custom command, if the command is known.
    """
    edits = editor(caller, params.workspace)
    name = edits.generate_name(params.tool, params.model or "")
    tool = declarations.tools().get(params.tool)
    if tool is not None and tool.runner is None and tool.command:
        if params.model:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{tool.title} runs as a custom command, which does not name a model.",
                hint="Choose the model in the configuration of the tool, or add the command with `--tool generic`.",
            )
        launch = Launch(command=list(tool.command))
        delegator = Delegator(name=name, tool="generic", display_name=tool.title, launch=launch)
    else:
        delegator = Delegator(name=name, tool=params.tool, model=params.model or "")
        loaded = load(caller, params.workspace)
        if tool is None and params.tool not in loaded.tools:
            raise declarations.unknown_tool(params.tool, loaded.tools)
        declarations.require_capabilities(delegator, None, loaded.definition_of(delegator))
    return _saved(caller, params.workspace, edits.create(delegator, Scope(params.scope)))


def create_tool(caller: Caller, params: messages.ToolCreateParams) -> messages.ToolFile:
    """Write a commented definition of an agent CLI that Understudy does not know."""
    path = editor(caller, params.workspace).create_tool(params.name, Scope(params.scope), params.like)
    change_notifications.notify(CHANGED)
    return messages.ToolFile(location=top_of(path))


def update_delegator(caller: Caller, params: messages.DelegatorUpdateParams) -> DelegatorEntry:
    """Replace a delegator; a stale revision is a conflict."""
    made = editor(caller, params.workspace).update(params.name, params.delegator, params.revision)
    return _saved(caller, params.workspace, made)


def delete_delegator(caller: Caller, params: messages.DeleteParams) -> messages.EmptyResult:
    """Remove a delegator."""
    editor(caller, params.workspace).delete("delegator", params.name, params.revision)
    change_notifications.notify(CHANGED)
    return messages.EmptyResult()


def set_default(caller: Caller, params: messages.DefaultParams) -> messages.DefaultResult:
    """Choose the delegator that a recipe, or everything else, uses by default."""
    before = load(caller, params.workspace)
    recipe = before.recipes.get(params.recipe or "")
    entry = before.delegators.get(params.delegator or "")
    if recipe is not None and entry is not None:
        refused = usable.why_unsupported(before, entry, recipe)
        if refused is not None:
            raise refused
    editor(caller, params.workspace).set_default(params.delegator, params.recipe, Scope(params.scope))
    change_notifications.notify(CHANGED)
    defaults = load(caller, params.workspace).defaults
    applies = defaults.recipes.get(params.recipe) if params.recipe is not None else defaults.delegator
    return messages.DefaultResult(delegator=applies)


def suggest_routes(caller: Caller, params: setup.SuggestRoutesParams) -> setup.SuggestRoutesResult:
    """Suggest the order of the delegators of each recipe, from how their recorded runs ended; nothing is changed."""
    from understudy.engine.planning import route_advice
    from understudy.reports import ledger_view

    if params.route is not None and params.recipe is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, "A route gets the order of one recipe.", hint="Name it: `recipe`."
        )
    top = _workspace(caller, params.workspace)
    edits = editor(caller, params.workspace)
    selection = route_advice.Wanted(
        since=ledger_view.moment(params.since or (datetime.now(UTC) - route_order.REMEMBERED).isoformat()),
        recipe=params.recipe,
        route=params.route,
        workspace=str(top) if params.only_workspace else None,
        remote=params.remote,
    )
    adviser = route_advice.Adviser(edits, load(caller, params.workspace), loader.load(None, trusted=False), selection)
    return setup.SuggestRoutesResult(suggestions=adviser.suggestions())


def model_servers(caller: Caller, params: messages.WorkspaceParams) -> messages.ModelServersResult:
    """List the model servers with where each is configured."""
    loaded = load(caller, params.workspace)
    return messages.ModelServersResult(model_servers=list(loaded.model_servers.values()), problems=loaded.problems)


def presets(caller: Caller, params: messages.NoParams) -> messages.PresetsResult:
    """List the kinds of model servers, their usual addresses, and which run on this machine."""
    from understudy.config.discovery import server_presets

    kinds = server_presets.kinds().values()
    running = server_presets.running(kinds)
    listed = [
        ServerPreset(
            **msgspec.structs.asdict(preset),
            key_in_environment=bool(preset.key_variable and os.environ.get(preset.key_variable, "").strip()),
            running=preset.kind in running,
            models=running.get(preset.kind),
        )
        for preset in kinds
    ]
    return messages.PresetsResult(presets=listed)


def model_server(caller: Caller, params: messages.NameParams) -> ModelServerEntry:
    """Return one model server."""
    loaded = load(caller, params.workspace)
    return find(loaded.model_servers, params.name, ErrorKind.UNKNOWN_MODEL_SERVER)


def create_model_server(caller: Caller, params: messages.ModelServerCreateParams) -> ModelServerEntry:
    """Create a model server."""
    made = editor(caller, params.workspace).create(params.model_server, Scope(params.scope))
    change_notifications.notify(CHANGED)
    return made


def update_model_server(caller: Caller, params: messages.ModelServerUpdateParams) -> ModelServerEntry:
    """Replace a model server; a stale revision is a conflict."""
    made = editor(caller, params.workspace).update(params.name, params.model_server, params.revision)
    change_notifications.notify(CHANGED)
    return made


def delete_model_server(caller: Caller, params: messages.DeleteParams) -> messages.EmptyResult:
    """Remove a model server.

    The key that was stored for it is removed, too.
    """
    before = load(caller, params.workspace).model_servers
    editor(caller, params.workspace).delete("model_server", params.name, params.revision)
    change_notifications.notify(CHANGED)
    gone = before.pop(params.name).model_server.api_key
    # A key with another name was stored for another purpose; one that another server refers to is still in use.
    is_named_after_server = gone is not None and params.name in {gone.keyring, gone.file and Path(gone.file).name}
    if (
        gone is not None
        and is_named_after_server
        and all(entry.model_server.api_key != gone for entry in before.values())
    ):
        from understudy.secrets import keys

        keys.forget_key(gone)
    return messages.EmptyResult()


def set_key(caller: Caller, params: messages.SetKeyParams) -> messages.EmptyResult:
    """Store a server's API key in the OS keyring or a file with mode 0600, and refer to it."""
    import msgspec

    from understudy.secrets import keys

    before = model_server(caller, messages.NameParams(name=params.name, workspace=params.workspace))
    if not before.editable:
        raise UnderstudyError(
            ErrorKind.NOT_EDITABLE,
            f"The model server {params.name!r} was written by hand, so only you can add its `api_key`.",
            hint='Add api_key = { from_env = "NAME" } to it, with the name of an environment variable.',
            location=before.location,
        )
    reference = keys.store_key(params.name, params.key)
    changed = msgspec.structs.replace(before.model_server, api_key=reference)
    update = messages.ModelServerUpdateParams(
        name=params.name, model_server=changed, revision=before.revision, workspace=params.workspace
    )
    try:
        update_model_server(caller, update)
    except UnderstudyError:
        keys.forget_key(reference)
        raise
    return messages.EmptyResult()


def _workspace(caller: Caller, workspace: str | None) -> Path | None:
    folder = caller.folder()
    if workspace is None and folder is None:
        return None
    return repository.workspace_of([], workspace, folder)


def _saved(caller: Caller, workspace: str | None, entry: DelegatorEntry) -> DelegatorEntry:
    """Announce a delegator that was saved, and return it; it may be saved before its program is installed."""
    change_notifications.notify(CHANGED)
    if entry.delegator.remote_agent is None:
        _add_missing(entry, load(caller, workspace))
    return entry


def _add_missing(entry: DelegatorEntry, loaded: Configuration) -> None:
    """Add a problem to the state of a delegator whose program, or the key of whose model server, is missing."""
    server = loaded.server_of(entry.delegator)
    missing_key = _missing_key(entry, server)
    if server is not None:
        entry.host = urllib.parse.urlsplit(server.base_url or "").netloc or None
        if server.api_key is not None:
            entry.key = "keyring" if server.api_key.keyring is not None else "set" if missing_key is None else "missing"
    missing = _missing(entry, loaded.definition_of(entry.delegator)) or missing_key
    if missing is not None:
        _mark_not_ready(entry, missing)


def _missing(entry: DelegatorEntry, defined: ToolDefinition | None) -> Problem | None:
    """Return a problem if the delegator's program is not installed, without starting a program."""
    delegator = entry.delegator
    path_override = {
        name: value for name, value in (delegator.env or {}).items() if name == "PATH" and isinstance(value, str)
    }
    path = call_checks.base_environment(path_override)
    command = delegator.launch.command if delegator.launch is not None else None
    tool = declarations.capabilities_of(delegator, None, defined) if delegator.tool is not None else None
    programs = tuple(command[:1]) if command else tool.binaries if tool is not None else ()
    # A relative path is inside the worktree, which does not exist yet.
    programs = tuple(program for program in programs if program.startswith("/") or "/" not in program)
    problem = None
    for program in programs:
        try:
            call_checks.locate(program, Path("/"), path)
        except UnderstudyError as error:
            declared = declarations.of_program(program) if error.kind is ErrorKind.TOOL_MISSING else None
            hint = f"{declared.install_hint}, or add its folder to PATH." if declared is not None else error.hint
            problem = Problem(severity="error", message=error.message, hint=hint, location=entry.location)
        else:
            return None
    return problem


def _missing_key(entry: DelegatorEntry, server: ModelServer | None) -> Problem | None:
    """Return a problem if the key of a delegator's model server is not where it is configured.

    A keyring is not asked: it may want to be unlocked.
    """
    if server is None or server.api_key is None or server.api_key.keyring is not None:
        return None
    from understudy.secrets import keys

    try:
        keys.resolve(server.api_key, os.environ)
    except UnderstudyError as error:
        message = f"The key of its model server {server.name!r} is missing: {error.message}"
        return Problem(severity="error", message=message, hint=error.hint, location=entry.location)
    return None


def _counts() -> dict[str, tuple[int, int]]:
    live = [state for state in State if state is not State.FINISHED]
    delegations, _ = reader.page(states=live, limit=1000)
    counts: dict[str, tuple[int, int]] = {}
    for item in delegations:
        running, queued = counts.get(item.delegator, (0, 0))
        waits = item.state is State.QUEUED
        counts[item.delegator] = (running + (not waits), queued + waits)
    return counts
