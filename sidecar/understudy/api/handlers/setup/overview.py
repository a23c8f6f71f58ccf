"""Requests about everything together: the state of all delegations, and the first configuration file."""

from __future__ import annotations

import collections
from datetime import datetime

from understudy import __version__
from understudy.api import messages as m
from understudy.api import setup_messages as setup
from understudy.api.caller import Caller
from understudy.api.handlers import configuration, delegations, ledger
from understudy.api.handlers.setup import configured_checks, installation
from understudy.api.ledger_messages import LedgerParams
from understudy.config.editing import starter_file
from understudy.journal import change_notifications
from understudy.model.config.delegators import Scope
from understudy.model.errors import Location, Position, Range
from understudy.model.states import State


def status(caller: Caller, params: m.WorkspaceParams) -> setup.StatusResult:
    """Return what runs, what waits for the user, and what was spent since the user's midnight."""
    loaded = configuration.load(caller, params.workspace)
    listed = configuration.delegators(caller, params)  # its entries also know which programs are missing
    own = [
        entry
        for entry in listed.delegators
        if entry.scope is not Scope.BUILTIN and entry.delegator.remote_agent is None
    ]
    states: collections.Counter[State] = collections.Counter()
    questions: list[str] = []
    to_review = 0
    cursor = None
    while True:
        page = delegations.list_page(caller, m.ListParams(limit=delegations.PAGE_AT_MOST, cursor=cursor))
        for one in page.delegations:
            if one.state is State.FINISHED:
                to_review += one.review.pending > 0 and one.superseded_by is None and not one.dismissed
                continue
            states[one.state] += 1
            if one.waiting_for is not None:
                questions.append(one.id)
        cursor = page.cursor
        if cursor is None:
            break
    midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    since = midnight.isoformat()
    return setup.StatusResult(
        version=__version__,
        protocol_version=installation.version(caller, m.NoParams()).protocol_version,
        workspace=str(loaded.workspace) if loaded.workspace is not None else None,
        trusted=loaded.trusted,
        delegators=len(own),
        not_ready=[entry.delegator.name for entry in own if not entry.state.ready],
        paused=[entry.delegator.name for entry in listed.delegators if entry.state.pauses],
        default_delegator=loaded.defaults.delegator,
        problems=sum(problem.severity == "error" for problem in listed.problems),
        states={state: states[state] for state in State if states[state]},
        questions=questions,
        to_review=to_review,
        spent_since=since,
        spent=ledger.read(caller, LedgerParams(since=since, limit=1)).totals,
    )


def init(caller: Caller, params: setup.StarterParams) -> setup.StarterResult:
    """Write a commented ``config.toml``, with the test runners and agent CLIs that were found as comments."""
    editor = configuration.editor(caller, params.workspace)
    scope = Scope(params.scope)
    place = m.WorkspaceParams(workspace=params.workspace)
    proposals = [one for one in configured_checks.checks(caller, place).proposals if not one.configured]
    # A check of one project has no place in the configuration for all of them.
    proposals = proposals if scope is Scope.WORKSPACE else []
    listed = installation.tools(caller, m.ToolsParams(workspace=params.workspace)).tools
    taken = configuration.load(caller, params.workspace).delegators
    tools = [one for one in listed if one.found and one.runnable and one.install is not None and one.name not in taken]
    text = starter_file.render([one.check for one in proposals], [one.name for one in tools], scope)
    path = editor.create_starter(text, scope)
    change_notifications.notify(configuration.CHANGED)
    return setup.StarterResult(
        location=Location(path.as_uri(), Range(Position(0, 0), Position(0, 0))),
        checks=[one.title for one in proposals],
        tools=[one.name for one in tools],
    )
