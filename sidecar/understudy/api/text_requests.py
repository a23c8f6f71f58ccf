"""Text recipes for the command line, in its own process.

They read files as the shell names them, and write the answer to a target; ``text/run`` does the same work for editors,
with their unsaved text. Neither starts a worker or makes a worktree.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from understudy.api.caller import describe_asker
from understudy.engine.planning.delegator_choice import choose_candidate
from understudy.engine.text_recipes import corpus as corpora
from understudy.engine.text_recipes import request_paths, text_request
from understudy.files.user_file import require_current_folder
from understudy.model.config.delegators import Limits
from understudy.model.delegation import events
from understudy.model.delegation.delegations import LaunchOverride, StartParams, Usage
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    from understudy.api.messages import PreviewResult
    from understudy.engine.text_recipes.request_paths import Target

STDIN = "-"


class TextParams(msgspec.Struct, frozen=True, kw_only=True):
    """One request: what the model reads and is asked, and where its answer goes."""

    recipe: str
    paths: Sequence[str]
    """Files, folders and globs; ``-`` for standard input."""
    read_stdin: Callable[[int], bytes]
    """Reads up to so many bytes of standard input."""
    task: str | None = None
    target: str | None = None
    target_root: str | None = None
    writes_target: bool = True
    """Whether the answer is written to ``target``, and not only compared with it or printed."""
    force: bool = False
    """Whether an existing target is replaced."""
    delegator: str | None = None
    fallback: list[str] | None = None
    """Those that take over; None: as the delegator says."""
    model: str | None = None
    temperature: float | None = None
    limits: Limits | None = None
    max_file_bytes: int | None = None
    max_bytes: int | None = None
    """The most that is sent of one file, and of everything; None: as configured."""
    keep_fences: bool = False


class TextAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request."""

    id: str
    """Of its lines in the ledger, one for each attempt."""
    text: str
    delegator: str
    """The one that answered, with its model and its model server."""
    model: str
    model_server: str
    usage: Usage
    cost_usd: str | None
    seconds: float


class PreparedText(msgspec.Struct, kw_only=True):
    """A request that is ready to be sent, or to be shown."""

    request: text_request.PreparedRequest
    folder: Path
    left_out: Sequence[corpora.LeftOut]
    """Files of named folders that are not sent."""
    target: Target | None
    writes: bool
    """Whether the answer is written to the target."""
    difference: str = ""
    """The unified diff between the target as it was and the answer; empty before there is an answer."""

    def answer(self, say: Callable[[str], None], note: Callable[[str], None]) -> TextAnswer:
        """Send the request; ``say`` gets the text as it arrives, ``note`` gets warnings, also when it begins again.

        The target is written after the whole answer has arrived. Raises the errors of the runner, of the target, and
        ``cancelled``.
        """
        import time

        began = time.monotonic()

        def tell(event: events.Event) -> None:
            if isinstance(event, events.Text):
                say(event.text)
            elif isinstance(event, events.Note):
                note(event.text)

        asked_by = describe_asker("cli", pid=os.getppid(), cwd=self.folder, environ=os.environ)
        answered = text_request.run(self.request, asked_by, on_event=tell, deliver=self._deliver)
        return TextAnswer(
            id=answered.id,
            text=answered.text,
            delegator=answered.by.delegator.name,
            model=answered.by.delegator.model or "",
            model_server=answered.by.delegator.model_server or "",
            usage=answered.usage,
            cost_usd=answered.cost_usd,
            seconds=time.monotonic() - began,
        )

    def _deliver(self, text: str) -> None:
        if self.target is None:
            return
        self.difference = request_paths.difference(self.target, text)
        if self.writes:
            request_paths.write(self.target, text)


def prepare(params: TextParams) -> PreparedText:
    """Read the files, check the target and choose the delegator; nothing is sent or written.

    Errors: those of ``corpus``, ``request_paths`` and ``text_request``.
    """
    folder = require_current_folder()
    target = None
    if params.target is not None:
        root = None if params.target_root is None else Path(params.target_root)
        may_exist = params.force or not params.writes_target
        target = request_paths.check_target(params.target, folder, root=root, may_exist=may_exist)
    configured = text_request.configured(folder)
    limits = text_request.bounds_of(configured[1], file_bytes=params.max_file_bytes, total_bytes=params.max_bytes)
    paths = [path for path in params.paths if path != STDIN]
    corpus = corpora.collect(paths, folder, limits, without=None if target is None else target.path)
    input_text = corpora.read_input(params.read_stdin, limits.total_bytes) if len(paths) < len(params.paths) else None
    if input_text is None and not paths and params.task is None:
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY, "Nothing is named to work on.", hint="Name files or folders, or - for stdin."
        )
    request = text_request.TextRequest(
        recipe=params.recipe,
        folder=folder,
        task=params.task,
        input=input_text,
        corpus=corpus,
        target=None if target is None else target.name,
        delegator=params.delegator,
        fallback=params.fallback,
        model=params.model,
        temperature=params.temperature,
        limits=params.limits,
        bounds=limits,
        keep_fences=params.keep_fences,
        configured=configured,
    )
    return PreparedText(
        request=text_request.prepare(request),
        folder=folder,
        left_out=corpus.left_out,
        target=target,
        writes=target is not None and params.writes_target,
    )


def expected(recipe: str, delegator: str | None, model: str | None) -> tuple[str, str]:
    """Return the delegator and the model that a request would use; raises the errors of choosing them."""
    _, configuration = text_request.configured(require_current_folder())
    asked = StartParams(recipe=recipe, delegator=delegator, launch=LaunchOverride(model=model) if model else None)
    chosen = choose_candidate(configuration, configuration.require_recipe(recipe), asked)
    return chosen.delegator.name, chosen.delegator.model


def preview_of(request: text_request.PreparedRequest) -> PreviewResult:
    """Return exactly what would be sent."""
    from understudy.api.messages import PreviewFile, PreviewResult

    prompt = request.prompt
    return PreviewResult(
        prompt=prompt.shown,
        files=[PreviewFile(path=f.path, bytes=f.size, tokens=f.tokens, withheld=f.withheld) for f in prompt.files],
        tokens=prompt.tokens,
        explain=request.chosen.explain,
    )
