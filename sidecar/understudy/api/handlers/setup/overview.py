"""Requests about everything together: version, tools, the state of all delegations, the first configuration file."""

from __future__ import annotations

import collections

import msgspec

from understudy import __version__
from understudy.api import messages
from understudy.api import setup_messages as setup
from understudy.api.caller import Caller
from understudy.api.handlers import configuration, delegations, ledger
from understudy.api.setup_messages import LedgerParams
from understudy.config.discovery import declarations
from understudy.engine.queueing import day_budgets
from understudy.journal import change_notifications
from understudy.model.config.config_entries import BackendEntry
from understudy.model.config.delegators import Scope
from understudy.model.errors import top_of
from understudy.model.states import State


def version(caller: Caller, params: messages.NoParams) -> messages.VersionResult:
    """Return the version of Understudy and of its protocol."""
    from understudy.api.method_table import PROTOCOL_VERSION

    return messages.VersionResult(version=__version__, protocol_version=PROTOCOL_VERSION)


def tools(caller: Caller, params: messages.ToolsParams) -> messages.ToolsResult:
    """List the supported agent CLIs, installed or not, with their versions."""
    from understudy.config.discovery import installed_tools
    from understudy.config.reference import supported_options

    loaded = configuration.load(caller, params.workspace)
    defined = {name: tool.definition.capabilities() for name, tool in loaded.tools.items()}
    # Looking at a list must not start what a workspace defines, even if the workspace is trusted.
    silent = {name for name, tool in loaded.tools.items() if tool.scope is Scope.WORKSPACE}
    looked_for = [
        msgspec.structs.replace(tool, version_arguments=()) if name in silent else tool
        for name, tool in defined.items()
    ]
    workspace = loaded.workspace or caller.folder()
    entries = installed_tools.detect(refresh=params.refresh, workspace=workspace, defined=looked_for)
    for entry in entries:
        tool = defined.get(entry.name) or declarations.tools()[entry.name]
        if (file := loaded.tools.get(entry.name)) is not None:
            entry.scope, entry.location, entry.runnable = file.scope, file.location, file.usable
            entry.problems = [*file.problems, *entry.problems]
        if entry.runnable:
            entry.supports = supported_options.describe(tool)
        if (over_acp := tool.in_mode("acp")) is not None:
            entry.supports_acp = supported_options.describe(over_acp)
        if (in_terminal := tool.in_mode("tmux")) is not None:
            entry.supports_tmux = supported_options.describe(in_terminal)
    backends = [
        BackendEntry(
            name=backend.name,
            title=backend.title,
            protocols=list(backend.protocols),
            supports=supported_options.describe(backend),
        )
        for backend in declarations.backends().values()
    ]
    return messages.ToolsResult(tools=entries, backends=backends, problems=loaded.problems)


def status(caller: Caller, params: messages.WorkspaceParams) -> setup.StatusResult:
    """Return what runs, what waits for the user, and what was spent today."""
    loaded = configuration.load(caller, params.workspace)
    listed = configuration.delegators_of(loaded)  # its entries also know which programs are missing
    configured = [
        entry
        for entry in listed.delegators
        if entry.scope is not Scope.BUILTIN and entry.delegator.remote_agent is None
    ]
    states: collections.Counter[State] = collections.Counter()
    questions: list[str] = []
    to_review = 0
    cursor = None
    while True:
        page = delegations.list_page(caller, messages.ListParams(limit=delegations.PAGE_AT_MOST, cursor=cursor))
        for delegation in page.delegations:
            if delegation.state is State.FINISHED:
                to_review += (
                    delegation.review.pending > 0 and delegation.superseded_by is None and not delegation.dismissed
                )
                continue
            states[delegation.state] += 1
            if delegation.waiting_for is not None:
                questions.append(delegation.id)
        cursor = page.cursor
        if cursor is None:
            break
    default = next((entry for entry in listed.delegators if entry.delegator.name == loaded.defaults.delegator), None)
    since = day_budgets.midnight().isoformat()
    return setup.StatusResult(
        version=__version__,
        protocol_version=version(caller, messages.NoParams()).protocol_version,
        workspace=str(loaded.workspace) if loaded.workspace is not None else None,
        trusted=loaded.trusted,
        delegators=len(configured),
        not_ready=[entry.delegator.name for entry in configured if not entry.state.ready],
        paused=[entry.delegator.name for entry in listed.delegators if entry.state.pauses],
        default_delegator=loaded.defaults.delegator,
        default_model=default.delegator.model or None if default is not None else None,
        default_host=default.host if default is not None else None,
        default_key=default.key if default is not None else None,
        problems=sum(problem.severity == "error" for problem in listed.problems),
        states={state: states[state] for state in State if states[state]},
        questions=questions,
        to_review=to_review,
        spent_since=since,
        spent=ledger.read(caller, LedgerParams(since=since, limit=1)).totals,
        per_day=loaded.per_day if loaded.per_day.is_set else None,
    )


def init(caller: Caller, params: setup.StarterParams) -> setup.StarterResult:
    """Write a commented configuration file with the test runners and agent CLIs that were found."""
    from understudy.api.handlers.setup import configured_checks
    from understudy.config.editing import new_files

    editor = configuration.editor(caller, params.workspace)
    scope = Scope(params.scope)
    place = messages.WorkspaceParams(workspace=params.workspace)
    proposals = [proposal for proposal in configured_checks.checks(caller, place).proposals if not proposal.configured]
    # A check of one project has no place in the configuration for all of them.
    proposals = proposals if scope is Scope.WORKSPACE else []
    listed = tools(caller, messages.ToolsParams(workspace=params.workspace)).tools
    taken = configuration.load(caller, params.workspace).delegators
    proposed = [
        tool for tool in listed if tool.found and tool.runnable and tool.install is not None and tool.name not in taken
    ]
    text = new_files.starter_config([proposal.check for proposal in proposals], [tool.name for tool in proposed], scope)
    if params.link or params.setup:
        text = new_files.with_worktrees(text, link=params.link, setup=params.setup)
    path = editor.create_config(text.encode(), scope)
    change_notifications.notify(configuration.CHANGED)
    return setup.StarterResult(
        location=top_of(path),
        checks=[proposal.title for proposal in proposals],
        tools=[tool.name for tool in proposed],
    )
