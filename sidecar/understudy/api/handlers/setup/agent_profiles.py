"""Requests that import and export agent profiles, the format in which Operator and other programs exchange agents."""

from __future__ import annotations

from pathlib import Path

from understudy.api import setup_messages as setup
from understudy.api.caller import Caller
from understudy.api.handlers import configuration
from understudy.api.handlers.setup import import_configuration
from understudy.config.exporting import agnt_workflow, profile_export
from understudy.config.importing import agent_profile, import_plan
from understudy.config.importing.draft import Draft
from understudy.config.importing.foreign_files import read_exact
from understudy.config.parsing import source_file
from understudy.git import repository
from understudy.journal import change_notifications
from understudy.model.config.config_entries import DelegatorEntry
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting

_UNNAMED = Path("/agent-profile.json")
"""The place of a profile that is not in a file, for messages."""


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
    import_configuration.require_revision(made, params.revision)
    if made.files and not params.dry_run:
        made.write(configuration.editor(caller, params.workspace))
        change_notifications.notify(configuration.CHANGED)
    return import_configuration.result(made, (), written=bool(made.files) and not params.dry_run)


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
