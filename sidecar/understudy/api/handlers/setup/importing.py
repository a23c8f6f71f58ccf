"""Requests that take over what other tools are configured with, and that import and export agent profiles."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from understudy.api import messages
from understudy.api import setup_messages as setup
from understudy.api.caller import Caller
from understudy.api.handlers import configuration
from understudy.config.exporting import agnt_workflow, profile_export
from understudy.config.importing import agent_profile, import_plan
from understudy.config.importing.draft import Draft
from understudy.config.importing.foreign_files import read_exact
from understudy.config.parsing import source_file
from understudy.git import repository
from understudy.journal import change_notifications
from understudy.model.config.config_entries import DelegatorEntry, ImportSource
from understudy.model.config.delegators import Scope
from understudy.model.errors import ErrorKind, UnderstudyError, top_of
from understudy.model.text import path_quoting

_UNNAMED = Path("/agent-profile.json")
"""The place of a profile that is not in a file, for messages."""


def import_configuration(caller: Caller, params: setup.ImportParams) -> setup.ImportResult:
    """Import the configuration of another delegation tool, or return what that would write."""
    path = repository.require_path(params.path) if params.path is not None else None
    made = _plan(caller, params.source, path, params.workspace, Scope(params.scope))
    require_revision(made, params.revision)
    offered = {key.model_server: key for key in made.keys}
    for name in params.store_keys:
        if name not in offered:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"There is no key in plain text for a model server {name!r}.",
                hint="Name those in `keys` of a dry run.",
                names=sorted(offered),
            )
    stored: set[str] = set()
    written = _write(caller, made, params)
    if not params.dry_run:
        for name in dict.fromkeys(params.store_keys):
            value = offered[name].key.value
            configuration.set_key(caller, messages.SetKeyParams(name=name, key=value, workspace=params.workspace))
            stored.add(name)
    return result(made, stored, written=bool(stored) or written)


def require_revision(made: import_plan.ImportPlan, revision: str | None) -> None:
    """Raise ``conflict`` if something else would be written than what a dry run returned."""
    if revision is not None and revision != made.revision:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            "The configuration, or the file to import, has changed since it was shown.",
            hint="Look at it again: import with `dryRun`.",
        )


def result(made: import_plan.ImportPlan, stored: Collection[str], *, written: bool) -> setup.ImportResult:
    """Return a plan as a client sees it; ``stored`` are the model servers whose keys were stored."""
    return setup.ImportResult(
        read=[os.fsdecode(path) for path in made.read],
        files=[setup.ImportedFile(kind=file.kind, name=file.name, location=top_of(file.path)) for file in made.files],
        unchanged=[setup.ImportedEntry(kind=kind, name=name) for kind, name in made.unchanged],
        diff=made.diff(),
        not_carried_over=[
            setup.NotCarriedOver(setting=setting.setting, reason=setting.reason, location=setting.location)
            for setting in made.not_carried
        ],
        keys=[
            setup.ImportedKey(
                model_server=key.model_server,
                setting=key.key.setting,
                location=key.key.location,
                stored=key.model_server in stored,
            )
            for key in made.keys
        ],
        revision=made.revision,
        written=written,
    )


def importable(caller: Caller) -> list[ImportSource]:
    """Return the tools whose usual configuration has entries that are not imported yet."""
    unimported: list[ImportSource] = []
    for source in import_plan.SOURCES:
        try:
            if _plan(caller, source, None, None).files:
                unimported.append(source)
        except UnderstudyError:
            continue
    return unimported


def _plan(
    caller: Caller, source: ImportSource, path: Path | None, workspace: str | None, scope: Scope = Scope.USER
) -> import_plan.ImportPlan:
    top = configuration.load(caller, workspace).workspace
    draft = import_plan.read_source(source, path, top, os.environ, Path.home())
    return import_plan.make_plan(draft, configuration.editor(caller, workspace), scope)


def import_profile(caller: Caller, params: setup.ImportProfileParams) -> setup.ImportResult:
    """Create a delegator from an agent profile, which is kept; or return what would be written."""
    draft = Draft()
    if (params.path is None) is (params.text is None):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, "The profile is given by `path` or by `text`.", hint="Give one of them."
        )
    if params.path is not None:
        path = repository.require_path(params.path)
        exact = read_exact(path)
        if exact is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{path} does not exist.",
                hint="Name the profile to import.",
                parameter="path",
            )
        draft.read.append(path)
        agent_profile.read(exact[0], path, draft, permissions=params.permissions)
    else:
        _read_text(params.text or "", draft, permissions=params.permissions)
    made = import_plan.make_plan(draft, configuration.editor(caller, params.workspace))
    require_revision(made, params.revision)
    return result(made, (), written=_write(caller, made, params))


def _write(
    caller: Caller, made: import_plan.ImportPlan, params: setup.ImportParams | setup.ImportProfileParams
) -> bool:
    """Write the files of a plan, unless it is a dry run; return whether it did."""
    if params.dry_run or not made.files:
        return False
    made.write(configuration.editor(caller, params.workspace))
    change_notifications.notify(configuration.CHANGED)
    return True


def _read_text(text: str, draft: Draft, *, permissions: bool) -> None:
    try:
        agent_profile.read(text, _UNNAMED, draft, permissions=permissions)
    except UnderstudyError as error:
        line = error.location.range.start.line + 1 if error.location is not None else 1
        message = f"{error.message} (line {line})"
        raise UnderstudyError(error.kind, message, hint="Correct the profile.", parameter="text") from error


def export_profile(caller: Caller, params: setup.ExportProfileParams) -> setup.ExportProfileResult:
    """Return a delegator as an agent profile, or several as a workflow of AGNT."""
    loaded = configuration.load(caller, params.workspace)
    names = list(dict.fromkeys(params.names))
    entries = [configuration.find(loaded.delegators, name, ErrorKind.UNKNOWN_DELEGATOR) for name in names]
    if not entries or (params.format == "profile" and len(entries) > 1):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            "A profile has one delegator." if entries else "`names` is empty.",
            hint="Name one delegator; several only for a workflow (`agnt`).",
            parameter="names",
        )
    if params.format == "profile" and params.task is not None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, "A profile has no task.", hint="Leave it out.", parameter="task"
        )
    if params.format == "agnt":
        workflow = agnt_workflow.agnt_workflow([entry.delegator for entry in entries], params.task)
        return _result(workflow.text, workflow.left_out)
    delegator = entries[0].delegator
    server = loaded.model_servers.get(delegator.model_server or "")
    kind = server.model_server.kind if server is not None else None
    made = profile_export.export_profile(delegator, _kept(entries[0]), kind)
    return _result(made.text, made.left_out)


def _kept(entry: DelegatorEntry) -> source_file.KeptProfile | None:
    path = path_quoting.path_of(entry.location.uri) if entry.location is not None else None
    if path is None or Path(path).name != f"{entry.delegator.name}.toml":
        return None
    return source_file.read_profile(Path(path))


def _result(text: str, left_out: list[tuple[str, str]]) -> setup.ExportProfileResult:
    return setup.ExportProfileResult(
        text=text, left_out=[setup.NotCarriedOver(setting=setting, reason=reason) for setting, reason in left_out]
    )
