"""Requests about the ledger: what was delegated, its costs and results."""

from __future__ import annotations

from understudy.api.caller import Caller
from understudy.api.handlers.delegations import page_limit
from understudy.api.setup_messages import LedgerParams, LedgerResult, MetricsParams, MetricsResult
from understudy.git import repository
from understudy.journal import change_notifications, delegation_folder, ledger, reader
from understudy.journal.writing import dead_workers
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.policy.budget import Rates
from understudy.reports import ledger_view
from understudy.reports.ledger_view import Wanted

_COMPLETE_SECONDS = 2.0
"""How long to wait for a worker to record its attempts: it writes the end of a delegation milliseconds before."""

_FIELDS = ("delegator", "tool", "model_server", "model", "recipe", "verdict")


def read(caller: Caller, params: LedgerParams) -> LedgerResult:
    """List what was delegated, newest first, with totals of tokens, costs and outcomes."""
    limit = page_limit(params.limit)
    selection = _selection(params, params.session)
    fields = selection.fields
    if params.share and fields.keys() - {"workspace"}:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`share` is of everything that was delegated, not of one {min(fields.keys() - {'workspace'})}.",
            hint="Select with `since`, `until`, `workspace` and `session` only.",
        )
    _complete()
    view = ledger_view.view(selection, by=params.by, prices=_prices(params), limit=limit, cursor=params.cursor)
    share = None
    if params.share:
        from understudy.reports import ledger_share

        # A session counts from its beginning, also before its first delegation.
        first = ledger_share.BEGINNING if selection.session is not None else ledger_view.first_start(selection)
        since = selection.since or first
        period = ledger_share.Period(
            since=since, until=selection.until, workspace=fields.get("workspace"), session=selection.session
        )
        share = ledger_share.share(period, view.totals.usage)
    return LedgerResult(lines=view.lines, totals=view.totals, groups=view.groups, cursor=view.cursor, share=share)


def metrics(caller: Caller, params: MetricsParams) -> MetricsResult:
    """Return figures of what was delegated: outcomes, times, hand-overs, tokens and costs, also of each group."""
    selection = _selection(params)
    _complete()
    totals, groups = ledger_view.figures(selection, by=params.by)
    return MetricsResult(totals=totals, groups=groups)


def _selection(params: LedgerParams | MetricsParams, session: str | None = None) -> Wanted:
    fields = {name: value for name in _FIELDS if (value := getattr(params, name, None)) is not None}
    if params.workspace is not None:
        fields["workspace"] = str(repository.workspace_of([], params.workspace, None))
    return Wanted(
        since="" if params.since is None else ledger_view.moment(params.since),
        until=None if params.until is None else ledger_view.moment(params.until),
        fields=fields,
        session=session,
    )


def _complete() -> None:
    """Let the attempts of all finished delegations be recorded, also of those whose worker was killed."""

    def is_complete() -> bool:
        return not any(_lacks_lines(identifier) for identifier in ledger.open_ids())

    if not is_complete():
        with change_notifications.ChangeListener() as listener:
            change_notifications.wait_for(is_complete, listener, _COMPLETE_SECONDS)


def _lacks_lines(identifier: str) -> bool:
    try:
        folder = delegation_folder.open_folder(identifier)
        if reader.peek(folder).state is not State.FINISHED:
            return False
        dead_workers.complete_ledger(folder)
    except (UnderstudyError, OSError):
        return False  # the folder is gone, or the disk is full: what is recorded can be shown all the same
    return ledger.is_open(folder)


def _prices(params: LedgerParams) -> Rates | None:
    compare = params.compare
    if compare is None:
        return None
    return Rates(
        read=ledger_view.price(compare.read_usd),
        written=ledger_view.price(compare.written_usd),
        cache_read=ledger_view.price(compare.read_usd if compare.cached_usd is None else compare.cached_usd),
    )
