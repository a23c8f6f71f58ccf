"""The request ``configuration/import``: take over what another delegation tool was configured with."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from understudy.api import messages
from understudy.api import setup_messages as setup
from understudy.api.caller import Caller
from understudy.api.handlers import configuration
from understudy.config.importing import import_plan
from understudy.git import repository
from understudy.journal import change_notifications
from understudy.model.config.config_entries import ImportSource
from understudy.model.errors import ErrorKind, Location, Position, Range, UnderstudyError


def import_configuration(caller: Caller, params: setup.ImportParams) -> setup.ImportResult:
    """Import the configuration of another delegation tool, or return what that would write."""
    path = repository.require_path(params.path) if params.path is not None else None
    made = _plan(caller, params.source, path, params.workspace)
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
    if not params.dry_run:
        if made.files:
            made.write(configuration.editor(caller, params.workspace))
            change_notifications.notify(configuration.CHANGED)
        for name in dict.fromkeys(params.store_keys):
            value = offered[name].key.value
            configuration.set_key(caller, messages.SetKeyParams(name=name, key=value, workspace=params.workspace))
            stored.add(name)
    return result(made, stored, written=bool(stored) or (bool(made.files) and not params.dry_run))


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
        files=[setup.ImportedFile(kind=file.kind, name=file.name, location=_start(file.path)) for file in made.files],
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


def _plan(caller: Caller, source: ImportSource, path: Path | None, workspace: str | None) -> import_plan.ImportPlan:
    top = configuration.load(caller, workspace).workspace
    draft = import_plan.read_source(source, path, top, os.environ, Path.home())
    return import_plan.make_plan(draft, configuration.editor(caller, workspace))


def _start(path: Path) -> Location:
    return Location(path.as_uri(), Range(Position(0, 0), Position(0, 0)))
