"""What a delegation was asked to be: resolved once by the asker, written to ``spec.json``, never changed."""

from __future__ import annotations

from typing import Literal

import msgspec

from understudy.model.delegations import Delegation, Explanation, Review, StartParams, no_usage
from understudy.model.delegators import Check, Delegator, ModelServer, Recipe
from understudy.model.states import State
from understudy.model.wire import Wire

SPEC_VERSION = 1


class Bootstrap(Wire, kw_only=True):
    """What a new tree gets besides tracked files (``[worktrees]`` of the configuration)."""

    copy: list[str]
    """Globs of ignored or untracked files to copy, in addition to ``.worktreeinclude``."""
    link: list[str]
    """Paths to link into the user's checkout: writable there, and the entry says so."""
    setup: list[str]
    """Argument vector run once in the new tree."""
    setup_timeout_seconds: float


class Origin(Wire, kw_only=True):
    """The delegation that this one goes on from: a reply to its result, or another try from its base."""

    kind: Literal["reply", "retry"]
    parent: str
    base: str
    """The parent's base."""
    head: str | None = None
    """The parent's result, for a reply."""
    undecided: list[str] = msgspec.field(default_factory=list)
    """Hunks of the parent's result that nobody has decided on: they are under review again."""
    words: str | None = None
    """What is told besides the parent's own task: what was accepted and rejected, why, and what is asked for now."""
    said: list[str] = msgspec.field(default_factory=list)
    """The replies of the chain so far, oldest first."""
    session_id: str | None = None
    """The tool's session to go on with."""


class Spec(Wire, kw_only=True):
    """Everything a worker needs, besides keys (it reads those by reference) and the unsaved texts in ``buffers/``."""

    version: int
    id: str
    title: str
    params: StartParams
    """As asked, without ``buffers``."""
    recipe: Recipe
    workspace: str
    """Absolute path of the workspace."""
    delegator: Delegator
    model_server: ModelServer | None = None
    explain: Explanation
    files: list[str]
    """What the work is about: paths inside the workspace, POSIX, C-quoted when not UTF-8; so are the next two."""
    context: list[str]
    target: str | None = None
    checks: list[Check]
    slots: int
    """How many delegations may run at once, as configured when this one was asked for."""
    bootstrap: Bootstrap
    interpreter: str | None = None
    """The project's interpreter where one is configured or the editor selected one."""
    trusted: bool
    created_at: str
    buffers: dict[str, str]
    """Path inside the workspace (POSIX, C-quoted when it is not UTF-8) → file name in ``buffers/``."""
    notes: list[str]
    """What the asker has to say about this request (a text that could not be carried, …)."""
    group_id: str | None = None
    parent_id: str | None = None
    origin: Origin | None = None

    def asked(self) -> StartParams:
        """Return the parameters for the prompt: the task, and for a follow-up what became of the work so far."""
        if self.origin is None or not self.origin.words:
            return self.params
        task = "\n\n".join(part for part in ((self.params.task or "").strip(), self.origin.words) if part)
        return msgspec.structs.replace(self.params, task=task)


def initial(spec: Spec) -> Delegation:
    """Return the delegation before its first event."""
    return Delegation(
        id=spec.id,
        title=spec.title,
        recipe=spec.recipe.name,
        state=State.PREPARING,
        reservations=[],
        workspace=spec.workspace,
        delegator=spec.delegator.name,
        attempts=[],
        checks=[],
        review=Review(pending=0, accepted=0, rejected=0),
        confined=False,
        usage=no_usage(),
        cost_known=False,
        started_at=spec.created_at,
        group_id=spec.group_id,
        parent_id=spec.parent_id,
        last_seq=0,
    )
