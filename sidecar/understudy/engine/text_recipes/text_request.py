"""Plan and run one text recipe in this process: no worker, no git, no worktree. The attempt is in the ledger.

``prepare`` decides everything and sends nothing; ``run`` sends the request through the runner of delegations, with the
same limits, retries, keys and redaction.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from understudy.config import locality
from understudy.config.configuration import Configuration
from understudy.config.loading import loader
from understudy.config.validation.start_options import limits_for
from understudy.engine.planning import prompt as prompts
from understudy.engine.planning.delegator_choice import ChosenCandidate, choose_candidate, without_keys
from understudy.engine.text_recipes.corpus import Corpus, CorpusLimits
from understudy.files import user_file
from understudy.git import repository
from understudy.journal import delegation_folder, ledger
from understudy.model.config.delegators import Limits, Recipe, language_of
from understudy.model.delegation import events
from understudy.model.delegation.delegations import AskedBy, CostSource, LaunchOverride, StartParams, Usage, no_usage
from understudy.model.delegation.ledger import LedgerEntry
from understudy.model.errors import ErrorKind, Range, UnderstudyError
from understudy.model.wire import timestamp
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
    notes: list[str]
    """Warnings for the user: files that are not sent, limits without effect."""


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
    chosen = choose_candidate(configuration, recipe, params)
    if chosen.model_server is None or chosen.delegator.tool is not None:
        raise _has_tool(chosen, recipe, configuration)
    params = without_keys(params, chosen.delegator, chosen.model_server)
    held, notes = limits_for(params, chosen.delegator, chosen.supported, configuration.limits)
    if request.keep_fences:
        recipe = msgspec.structs.replace(recipe, returns="text")
    corpus = request.corpus
    subjects = [file.name for file in corpus.files if file.name == request.subject]
    if params.range is not None:
        _require_range(params.range, request.subject, corpus)
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
        workspace=workspace,
        chosen=chosen,
        limits=held,
        prompt=prompt,
        target=request.target,
        notes=[*notes, *(f"{file.path} is not sent: {file.withheld}." for file in prompt.files if file.withheld)],
    )


def run(
    prepared: PreparedRequest,
    asked_by: AskedBy,
    *,
    on_event: Callable[[events.Event], None],
    deliver: Callable[[str], None],
    is_cancelled: Callable[[], bool] | None = None,
) -> tuple[str, Outcome]:
    """Send the request and hand its answer to ``deliver``; return its ID in the ledger and the outcome.

    ``on_event`` gets every event while the answer arrives. ``is_cancelled`` is called every 50 ms. The attempt
    is recorded however it ends, also when ``deliver`` fails; if the ledger cannot be written, a note says so. Raises
    the errors of the runner and of ``deliver``, and ``cancelled`` when the user stops it.
    """
    attempt = _Attempt(prepared, asked_by)
    arrived = False

    def record(failure: ErrorKind | None) -> None:
        # An answer that was paid for is not lost because the disk is full or read-only.
        try:
            attempt.record(failure)
        except UnderstudyError as problem:
            on_event(events.Note(level="warning", text=f"The request is not in the ledger. {problem.message}"))

    try:
        outcome = _send(prepared, attempt, on_event, is_cancelled)
        attempt.usage, attempt.cost_usd, attempt.estimated = outcome.usage, outcome.cost_usd, outcome.estimated
        arrived = True
        deliver(outcome.text or "")
    except UnderstudyError as error:
        record(error.kind)
        raise
    except KeyboardInterrupt:
        record(ErrorKind.CANCELLED)
        ending = "The answer may have been written." if arrived else "The request was cancelled; nothing was written."
        raise UnderstudyError(ErrorKind.CANCELLED, f"Stopped. {ending}", hint=None) from None
    record(None)
    return attempt.id, outcome


def _send(
    prepared: PreparedRequest,
    attempt: _Attempt,
    on_event: Callable[[events.Event], None],
    is_cancelled: Callable[[], bool] | None,
) -> Outcome:
    from understudy.runners.backends import direct

    chosen, server = prepared.chosen, prepared.chosen.model_server
    key = keys.resolve(server.api_key, os.environ) if server is not None and server.api_key is not None else None
    text = prepared.prompt.text
    if key is not None and server is not None:
        text = Redactor({server.name: key}).redact(text)

    def emit(event: events.Event) -> None:
        attempt.saw(event)
        on_event(event)

    task = Task(
        delegation_id=attempt.id,
        recipe=prepared.recipe,
        prompt=text,
        prompt_file=Path(os.devnull),
        worktree=None,
        delegator=chosen.delegator,
        model_server=server,
        target=prepared.target,
        limits=prepared.limits,
        key=lambda: key,
    )
    return direct.answer(task, emit, is_cancelled)


class _Attempt:
    """What the ledger gets."""

    def __init__(self, prepared: PreparedRequest, asked_by: AskedBy) -> None:
        self.id = delegation_folder.new_id()
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

    def record(self, failure: ErrorKind | None) -> None:
        """Append the attempt to the ledger."""
        prepared, delegator = self._prepared, self._prepared.chosen.delegator
        subject = prepared.target or next((file.path for file in prepared.prompt.files), None)
        ledger.append(
            LedgerEntry(
                at=timestamp(),
                id=self.id,
                attempt=1,
                asked_by=self._asked_by,
                recipe=prepared.recipe.name,
                language=language_of(subject) if subject else "",
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


def _has_tool(chosen: ChosenCandidate, recipe: Recipe, configuration: Configuration) -> UnderstudyError:
    name = chosen.delegator.name
    able = [
        entry.delegator.name
        for entry in configuration.delegators.values()
        if entry.delegator.tool is None and entry.delegator.model_server is not None
    ]
    return UnderstudyError(
        ErrorKind.CONFIG_INVALID,
        f"The delegator {name!r} runs an agent CLI, and this command sends one request to a model server.",
        hint=f"Name another one with -d, or run: understudy start {recipe.name} -d {name}",
        names=able or None,
    )
