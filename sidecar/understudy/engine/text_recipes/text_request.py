"""Plan and run one text recipe in this process: no worker, no git, no worktree. Its attempts are in the ledger.

``prepare`` decides everything and sends nothing; ``run`` sends the request through the runner of delegations, with the
same limits, retries, keys and redaction. If a server fails in a way that another one may not, the next delegator of the
list gets the request from its beginning, with the pauses that delegations and text requests share.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from understudy.config import locality
from understudy.config.configuration import Configuration
from understudy.config.loading import loader
from understudy.config.validation import start_options
from understudy.config.validation.start_options import limits_for
from understudy.engine.planning import prompt as prompts
from understudy.engine.planning.delegator_choice import (
    ChainRequest,
    ChosenCandidate,
    chain_after,
    choose_candidate,
    without_keys,
)
from understudy.engine.planning.route_order import work_of
from understudy.engine.text_recipes.corpus import Corpus, CorpusLimits
from understudy.files import user_file
from understudy.git import repository
from understudy.journal import delegation_folder, ledger
from understudy.model.config.delegators import DayBudget, Delegator, Limits, Recipe, language_of
from understudy.model.delegation import events
from understudy.model.delegation.delegations import AskedBy, CostSource, LaunchOverride, StartParams, Usage, no_usage
from understudy.model.delegation.ledger import LedgerEntry
from understudy.model.delegation.spec import PauseBounds
from understudy.model.errors import ErrorKind, Range, UnderstudyError, class_of
from understudy.model.wire import timestamp
from understudy.policy.budget import Budget, Shortage, Spending, sum_of
from understudy.policy.candidates import Option, next_turn, why_too_small
from understudy.policy.patience import Patience, patience
from understudy.runners.runner import Outcome, Task
from understudy.secrets import keys
from understudy.secrets.redaction import Redactor


class TextRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for."""

    recipe: str
    folder: Path
    """The caller's current folder."""
    task: str | None = None
    input: str | None = None
    corpus: Corpus = msgspec.field(default_factory=Corpus)
    target: str | None = None
    """Name of the file to write, as the prompt has it."""
    delegator: str | None = None
    fallback: list[str] | None = None
    """Those that take over, in order; None: as the delegator says."""
    model: str | None = None
    temperature: float | None = None
    launch: LaunchOverride | None = None
    """Changes of the delegator for this request, instead of ``model`` and ``temperature``."""
    range: Range | None = None
    """The selected lines of ``subject``."""
    diagnostics: list[Any] | None = None
    """Problems of ``subject``, as LSP declares them."""
    subject: str | None = None
    """The name of the file of ``corpus`` to work on; the others are read along."""
    limits: Limits | None = None
    bounds: CorpusLimits = msgspec.field(default_factory=CorpusLimits)
    configured: tuple[Path, Configuration] | None = None
    """What ``configured`` returned for ``folder``."""
    keep_fences: bool = False
    """Whether the answer of a recipe that returns a file is used exactly as the model wrote it."""


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that can be sent, or shown."""

    recipe: Recipe
    workspace: Path
    chosen: ChosenCandidate
    limits: Limits
    prompt: prompts.Prompt
    target: str | None
    size: int | None
    """Bytes of its files; None without files."""
    notes: list[str]
    """Warnings for the user: files that are not sent, limits without effect."""
    pauses: PauseBounds
    per_day: DayBudget
    """What all work may cost in one day."""
    followers: list[PreparedRequest] = msgspec.field(default_factory=list)
    """The same request to those that take over, in order."""

    @property
    def delegator(self) -> Delegator:
        """The delegator as it will be asked."""
        return self.chosen.delegator


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request."""

    id: str
    """Of its lines in the ledger, one for each attempt."""
    text: str
    by: PreparedRequest
    """The request that was answered; its delegator need not be the first one."""
    usage: Usage
    """Of all attempts."""
    cost_usd: str | None
    """Of all attempts; None: that of one of them is not known."""


def configured(folder: Path) -> tuple[Path, Configuration]:
    """Return the workspace of a folder and its configuration."""
    workspace = repository.workspace_of([], None, folder)
    return workspace, loader.load(workspace, trusted=_is_trusted(workspace))


def bounds_of(
    configuration: Configuration, *, file_bytes: int | None = None, total_bytes: int | None = None
) -> CorpusLimits:
    """Return the most that is sent: as the request says, else as configured, else as the prompts of delegations."""
    return CorpusLimits(
        file_bytes=file_bytes or configuration.input.max_file_bytes,
        total_bytes=total_bytes or configuration.input.max_bytes,
    )


def prepare(request: TextRequest) -> PreparedRequest:
    """Choose the delegator and build the prompt, without sending anything.

    Errors: those of planning a delegation, ``config_invalid`` for a delegator without a model server, and
    ``input_too_large`` for a prompt above the limit `max_tokens`.
    """
    workspace, configuration = request.configured or configured(request.folder)
    recipe = configuration.require_recipe(request.recipe)
    params = _params(request)
    sizes = {file.name: len(file.content) for file in request.corpus.files}
    chosen = choose_candidate(
        configuration,
        recipe,
        params,
        with_fallback=True,
        work=work_of(recipe.name, sizes) if configuration.routes else None,
        only_servers=True,
    )
    _require_server(chosen, recipe, configuration)
    start_options.check_named_fallback(params, chosen.delegator.name)
    params = without_keys(params, chosen.delegator, chosen.model_server)
    held, notes = limits_for(params, chosen.delegator, chosen.supported, configuration.limits)
    if request.keep_fences:
        recipe = msgspec.structs.replace(recipe, returns="text")
    if params.range is not None:
        _require_range(params.range, request.subject, request.corpus)
    place = _Place(workspace, configuration, recipe)
    prepared = _prepared(request, place, params, chosen, held)
    followers, left_out = _followers(request, place, params, prepared)
    notes = [*notes, *prepared.notes, *left_out]
    return msgspec.structs.replace(prepared, notes=notes, followers=followers)


class _Place(msgspec.Struct, frozen=True):
    """What all candidates of a request have in common."""

    workspace: Path
    configuration: Configuration
    recipe: Recipe


def _followers(
    request: TextRequest, place: _Place, params: StartParams, first: PreparedRequest
) -> tuple[list[PreparedRequest], list[str]]:
    """Return the request to each delegator that may take over, and why others may not.

    One that the request names must be usable.
    """
    successors = first.delegator.fallback or first.chosen.explain.route
    if not (successors if params.fallback is None else params.fallback):
        return [], []
    chain = chain_after(
        ChainRequest(
            first=first.chosen,
            limits=first.limits,
            configuration=place.configuration,
            recipe=place.recipe,
            params=start_options.for_successors(params),
            workspace=place.workspace,
        )
    )
    followers, notes = [], chain.notes
    for chosen, limits in chain.chosen:
        try:
            _require_server(chosen, place.recipe, place.configuration)
            followers.append(_prepared(request, place, params, chosen, limits))
        except UnderstudyError as error:
            if params.fallback is not None:
                error.parameter = "fallback"
                raise
            notes.append(f"{chosen.delegator.name} does not take over from {first.delegator.name}: {error.message}")
    return followers, notes


def _prepared(
    request: TextRequest, place: _Place, params: StartParams, chosen: ChosenCandidate, held: Limits
) -> PreparedRequest:
    """Return the request to one delegator, with its own prompt."""
    corpus, configuration, recipe = request.corpus, place.configuration, place.recipe
    subjects = [file.name for file in corpus.files if file.name == request.subject]
    prompt = prompts.build(
        recipe=recipe,
        params=params,
        delegator=chosen.delegator,
        supported=chosen.supported,
        files=subjects,
        context=[file.name for file in corpus.files if file.name not in subjects],
        target=request.target,
        read=corpus.read,
        local=locality.is_local(chosen.delegator, chosen.model_server),
        secret=corpus.named_secrets,
        file_bytes=request.bounds.file_bytes,
        all_bytes=request.bounds.total_bytes,
    )
    most = configuration.input.max_tokens
    if most is not None and prompt.tokens > most:
        raise UnderstudyError(
            ErrorKind.INPUT_TOO_LARGE,
            f"The prompt has about {prompt.tokens} tokens; at most {most} are sent.",
            hint="Name fewer files, or raise `[input] max_tokens` in your config.toml.",
        )
    if held.max_tokens is not None and prompt.tokens > held.max_tokens:
        raise UnderstudyError(
            ErrorKind.INPUT_TOO_LARGE,
            f"The prompt has about {prompt.tokens} tokens; `max_tokens` allows {held.max_tokens}.",
            hint="Name fewer files, or raise the limit `max_tokens`.",
        )
    return PreparedRequest(
        recipe=recipe,
        workspace=place.workspace,
        chosen=chosen,
        limits=held,
        prompt=prompt,
        target=request.target,
        size=sum(len(file.content) for file in corpus.files) if corpus.files else None,
        notes=[f"{file.path} is not sent: {file.withheld}." for file in prompt.files if file.withheld],
        pauses=configuration.fallback,
        per_day=configuration.per_day,
    )


def run(
    prepared: PreparedRequest,
    asked_by: AskedBy,
    *,
    on_event: Callable[[events.Event], None],
    deliver: Callable[[str], None],
    is_cancelled: Callable[[], bool] | None = None,
) -> Answered:
    """Send the request and hand its answer to ``deliver``.

    ``on_event`` gets every event while the answer arrives; a note says when it begins again, from the same server or
    from the next one. ``is_cancelled`` is called every 50 ms. Each attempt is recorded however it ends, also when
    ``deliver`` fails; if the ledger cannot be written, a note says so. Raises the errors of the runner and of
    ``deliver``, and ``cancelled`` when the user stops it.
    """
    sending = _Sending(prepared, asked_by, on_event, is_cancelled)
    place, failure = 0, None
    while True:
        turn = sending.turn(place)
        if turn is None:
            raise failure or sending.exhausted()
        try:
            return sending.answer(turn, deliver)
        except UnderstudyError as error:
            failure, place = error, turn.place + 1
            if class_of(error.kind) is None or not sending.follows(place):
                raise
            sending.hand_over(turn, error)


class _Sending:
    """One request on its way through its candidates."""

    def __init__(
        self,
        prepared: PreparedRequest,
        asked_by: AskedBy,
        on_event: Callable[[events.Event], None],
        is_cancelled: Callable[[], bool] | None,
    ) -> None:
        self._candidates = [prepared, *prepared.followers]
        self._asked_by = asked_by
        self._on_event = on_event
        self._is_cancelled = is_cancelled
        self._id = delegation_folder.new_id()
        self._began = time.monotonic()
        self._attempts: list[_Attempt] = []
        self._overflowed: list[Delegator] = []
        # What one server is sent must not have the key of another one.
        servers = [candidate.chosen.model_server for candidate in self._candidates if prepared.followers]
        self._keys = keys.available(servers, os.environ)
        self._shortage: str | None = None

    def follows(self, place: int) -> bool:
        """Return whether there is a candidate from this place on."""
        return place < len(self._candidates)

    def turn(self, start: int) -> Option | None:
        """Return whose turn it is from this place on; None: no candidate is left, or their limits are used up."""
        options: list[Option] = []
        for place, candidate in enumerate(self._candidates[start:], start):
            options.append(self._option(place, candidate))
            if options[-1].is_free:
                break
        turns = next_turn(options)
        for text in [*turns.warnings, *turns.remarks]:
            self._note(text)
        return turns.next.option if turns.next is not None else None

    def exhausted(self) -> UnderstudyError:
        """Return the error where not even the first candidate may be asked."""
        why = self._shortage or "no delegator may be asked"
        return UnderstudyError(ErrorKind.BUDGET_EXHAUSTED, f"The request was not sent: {why}.", hint="Raise the limit.")

    def answer(self, turn: Option, deliver: Callable[[str], None]) -> Answered:
        """Ask one candidate and deliver its answer."""
        candidate = self._candidates[turn.place]
        if turn.limits is not None:
            candidate = msgspec.structs.replace(candidate, limits=turn.limits)
        attempt = _Attempt(candidate, self._asked_by, self._id, len(self._attempts) + 1)
        self._attempts.append(attempt)
        followed = self.follows(turn.place + 1)
        bounds = patience(followed=followed, is_probe=turn.is_probe, returns_text=True)
        arrived = False
        try:
            try:
                outcome = _send(candidate, attempt, bounds, self._on_event, self._is_cancelled, keys_of_all=self._keys)
            except UnderstudyError as error:
                self._count(candidate, error)
                raise
            attempt.usage, attempt.cost_usd, attempt.estimated = outcome.usage, outcome.cost_usd, outcome.estimated
            arrived = True
            self._count(candidate, None)
            deliver(outcome.text or "")
        except UnderstudyError as error:
            self._record(attempt, error.kind)
            raise
        except KeyboardInterrupt:
            self._record(attempt, ErrorKind.CANCELLED)
            ending = (
                "The answer may have been written." if arrived else "The request was cancelled; nothing was written."
            )
            raise UnderstudyError(ErrorKind.CANCELLED, f"Stopped. {ending}", hint=None) from None
        self._record(attempt, None)
        spent = self._spent()
        return Answered(
            id=self._id,
            text=outcome.text or "",
            by=candidate,
            usage=sum_of(made.usage for made in self._attempts),
            cost_usd=format(spent.usd, "f") if spent.usd_known else None,
        )

    def hand_over(self, turn: Option, error: UnderstudyError) -> None:
        """Say that a candidate failed, and that the next one begins again."""
        failed = self._candidates[turn.place].delegator
        if error.kind is ErrorKind.CONTEXT_TOO_LONG:
            self._overflowed.append(failed)
        following = self._candidates[turn.place + 1].delegator.name
        self._note(f"{failed.name} failed: {error.message} {following} takes over.", begins_again=True)

    def _option(self, place: int, candidate: PreparedRequest) -> Option:
        name = candidate.delegator.name
        reserved = Budget(candidate.limits).charge(self._spent()).reserve()
        if isinstance(reserved, Shortage):
            self._shortage = reserved.why
            return Option(place=place, name=name, refused=reserved.why)
        too_small = why_too_small(candidate.delegator, self._overflowed)
        if too_small is not None:
            return Option(place=place, name=name, refused=too_small)
        from understudy.engine.queueing import day_budgets

        spent = day_budgets.shortage(candidate.delegator, candidate.per_day)
        if spent is not None:
            self._shortage = spent
            return Option(place=place, name=name, refused=spent)
        limits = msgspec.structs.replace(reserved.left(), total_seconds=reserved.seconds_left)
        if len(self._candidates) == 1:
            return Option(place=place, name=name, limits=limits)
        from understudy.engine.queueing import start_conditions

        admission = start_conditions.Admission()
        with contextlib.suppress(UnderstudyError):  # a pause that cannot be read keeps no one from working
            admission = start_conditions.admit_attempt(
                delegation_folder.state_root(), candidate.delegator, candidate.chosen.model_server
            )
        if admission.pause is None:
            return Option(place=place, name=name, limits=limits, is_probe=admission.is_probe)
        text = f"{name} is paused {start_conditions.described(admission.pause)}"
        return Option(place=place, name=name, limits=limits, paused=text)

    def _count(self, candidate: PreparedRequest, failure: UnderstudyError | None) -> None:
        """Record how an attempt ended, for the pauses of its delegator."""
        from understudy.engine.queueing import start_conditions

        state, delegator, server = delegation_folder.state_root(), candidate.delegator, candidate.chosen.model_server
        with contextlib.suppress(UnderstudyError):
            if failure is None:
                start_conditions.attempt_succeeded(state, delegator, server)
            else:
                start_conditions.attempt_failed(state, delegator, server, failure.info(), candidate.pauses)

    def _spent(self) -> Spending:
        """Return what the attempts so far have spent; one that a server refused cost nothing."""
        spent = (attempt.spent() for attempt in self._attempts)
        return sum(spent, Spending(seconds=time.monotonic() - self._began))

    def _record(self, attempt: _Attempt, failure: ErrorKind | None) -> None:
        # An answer that was paid for is not lost because the disk is full or read-only.
        try:
            attempt.record(failure)
        except UnderstudyError as problem:
            self._note(f"The request is not in the ledger. {problem.message}")

    def _note(self, text: str, *, begins_again: bool = False) -> None:
        self._on_event(events.Note(level="warning", text=text, begins_again=begins_again))


def _send(
    prepared: PreparedRequest,
    attempt: _Attempt,
    bounds: Patience,
    on_event: Callable[[events.Event], None],
    is_cancelled: Callable[[], bool] | None,
    *,
    keys_of_all: dict[str, str],
) -> Outcome:
    from understudy.runners.backends import direct

    chosen, server = prepared.chosen, prepared.chosen.model_server
    key = keys.resolve(server.api_key, os.environ) if server is not None and server.api_key is not None else None
    secrets = keys_of_all if key is None or server is None else {**keys_of_all, server.name: key}

    def emit(event: events.Event) -> None:
        attempt.saw(event)
        on_event(event)

    task = Task(
        delegation_id=attempt.id,
        recipe=prepared.recipe,
        prompt=Redactor(secrets).redact(prepared.prompt.text) if secrets else prepared.prompt.text,
        prompt_file=Path(os.devnull),
        worktree=None,
        delegator=chosen.delegator,
        model_server=server,
        target=prepared.target,
        limits=prepared.limits,
        patience=bounds,
        key=lambda: key,
    )
    return direct.answer(task, emit, is_cancelled)


class _Attempt:
    """What the ledger gets."""

    def __init__(self, prepared: PreparedRequest, asked_by: AskedBy, identifier: str, number: int) -> None:
        self.id = identifier
        self._number = number
        self.usage: Usage = no_usage()
        self.cost_usd: str | None = None
        self.estimated = False
        self.cost_source: CostSource = "unknown"
        self.price_date: str | None = None
        self._prepared = prepared
        self._asked_by = asked_by
        self._began = time.monotonic()

    def saw(self, event: events.Event) -> None:
        """Keep the usage that a failed attempt had."""
        if isinstance(event, events.UsageReport):
            for name in Usage.__struct_fields__:
                setattr(self.usage, name, getattr(event, name))
            self.cost_usd, self.estimated = event.cost_usd, event.estimated
            self.cost_source, self.price_date = event.cost_source or "unknown", event.price_date

    def spent(self) -> Spending:
        """Return what it spent; nothing is spent where nothing was used."""
        unused = self.usage.input_tokens + self.usage.output_tokens == 0
        return Spending.of(self.usage, self.cost_usd, unknown_is_free=unused)

    def record(self, failure: ErrorKind | None) -> None:
        """Append the attempt to the ledger."""
        prepared, delegator = self._prepared, self._prepared.chosen.delegator
        subject = prepared.target or next((file.path for file in prepared.prompt.files), None)
        ledger.append(
            LedgerEntry(
                at=timestamp(),
                id=self.id,
                attempt=self._number,
                asked_by=self._asked_by,
                recipe=prepared.recipe.name,
                language=language_of(subject) if subject else "",
                size=prepared.size,
                workspace=str(prepared.workspace),
                target=prepared.target,
                delegator=delegator.name,
                model_server=delegator.model_server,
                model=delegator.model or "",
                usage=self.usage,
                cost_usd=self.cost_usd,
                cost_source=self.cost_source if self.cost_usd is not None else "unknown",
                price_date=self.price_date,
                cost_estimated=self.cost_usd is not None and self.estimated,
                seconds=round(time.monotonic() - self._began, 3),
                verdict=_verdict(failure),
                failure=failure,
            )
        )


def _verdict(failure: ErrorKind | None) -> str:
    if failure is None:
        return "answered"
    return "cancelled" if failure is ErrorKind.CANCELLED else "failed"


def _is_trusted(workspace: Path) -> bool:
    """Return whether the workspace's own configuration is read; without one there is nothing to trust."""
    if not (workspace / ".understudy").is_dir():
        return False
    from understudy.config.trust import records

    return records.is_trusted(workspace, delegation_folder.state_root())


def _params(request: TextRequest) -> StartParams:
    properties = None if request.temperature is None else {"temperature": request.temperature}
    launch = LaunchOverride(model=request.model, model_properties=properties) if request.model or properties else None
    if request.launch is not None:
        launch = request.launch
    return StartParams(
        recipe=request.recipe,
        task=request.task,
        input=request.input,
        range=request.range,
        diagnostics=request.diagnostics,
        delegator=request.delegator,
        fallback=request.fallback,
        limits=request.limits,
        launch=launch,
    )


def _require_range(selected: Range, subject: str | None, corpus: Corpus) -> None:
    content = None if subject is None else corpus.read(subject)
    if content is None:
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, "`range` needs a file.", hint="Name the file it is in.")
    count = len(user_file.lines_of(content)) + 1  # the position after the last line end counts as a line
    if not 0 <= selected.start.line <= selected.end.line < max(count, 1):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`range` is not in {subject}, which has {count} lines.",
            hint="Select the lines again; the file has changed.",
            parameter="range",
        )


def _require_server(chosen: ChosenCandidate, recipe: Recipe, configuration: Configuration) -> None:
    if chosen.model_server is not None and chosen.delegator.tool is None:
        return
    name = chosen.delegator.name
    able = [
        entry.delegator.name
        for entry in configuration.delegators.values()
        if entry.delegator.tool is None and entry.delegator.model_server is not None
    ]
    raise UnderstudyError(
        ErrorKind.CONFIG_INVALID,
        f"The delegator {name!r} runs an agent CLI, and this command sends one request to a model server.",
        hint=f"Name another one with -d, or run: understudy start {recipe.name} -d {name}",
        names=able or None,
    )
