"""Parameters and results of every request; the nouns in them are declared in ``understudy.model``."""

from __future__ import annotations

from typing import Literal

import msgspec

from understudy.model.delegations import Delegation, Explanation, FileDiff
from understudy.model.delegators import (
    Delegator,
    DelegatorEntry,
    Honoured,
    Model,
    ModelServer,
    ModelServerEntry,
    Problem,
    Recipe,
    ToolEntry,
)
from understudy.model.events import AnyEvent
from understudy.model.states import State
from understudy.model.wire import Strict, Wire

EditableScope = Literal["user", "workspace"]


class Nothing(Strict, kw_only=True):
    """No parameters."""


class Done(Wire, kw_only=True):
    """An empty result."""


class TrustParams(Strict, kw_only=True):
    """Trust a workspace, or withdraw it; without ``trusted``, only ask how it stands."""

    workspace: str
    """URI or absolute path of the workspace's folder."""
    trusted: bool | None = None
    seen: str | None = None
    """``seen`` of the answer that was shown; when it changed meanwhile, nothing is recorded (``conflict``)."""


class TrustResult(Wire, kw_only=True):
    """How the workspace stands."""

    trusted: bool
    allows: list[str]
    """What trusting it allows, in words."""
    changed: list[str]
    """What is different from what was trusted before."""
    seen: str
    """Stands for exactly what is listed; pass it back with ``trusted``."""


class WorkspaceParams(Strict, kw_only=True):
    """A list as seen from a workspace; absent: the person's own configuration only."""

    workspace: str | None = None


class NameParams(Strict, kw_only=True):
    """One thing by its name."""

    name: str
    workspace: str | None = None


class DelegatorTestParams(Strict, kw_only=True):
    """Try a delegator: the saved one of this name, or one that is not saved."""

    name: str
    delegator: Delegator | None = None
    """Try exactly this one in its place; nothing is saved, and nothing need be saved under the name."""
    scope: EditableScope = "user"
    """Where ``delegator`` would be saved: this decides which model servers it can use."""
    workspace: str | None = None


class DeleteParams(Strict, kw_only=True):
    """Remove one thing; with ``revision``, only if it is still that revision."""

    name: str
    revision: str | None = None
    workspace: str | None = None


class DelegatorsResult(Wire, kw_only=True):
    """Every delegator, and what is wrong with the configuration."""

    delegators: list[DelegatorEntry]
    problems: list[Problem]


class DelegatorCreateParams(Strict, kw_only=True):
    """Make a delegator."""

    delegator: Delegator
    scope: EditableScope = "user"
    workspace: str | None = None


class DelegatorUpdateParams(Strict, kw_only=True):
    """Replace a delegator."""

    name: str
    delegator: Delegator
    revision: str | None = None
    workspace: str | None = None


class DelegatorFromToolParams(Strict, kw_only=True):
    """Make a delegator for an agent CLI, with a generated name."""

    tool: str
    model: str | None = None
    scope: EditableScope = "user"
    workspace: str | None = None


class ModelServersResult(Wire, kw_only=True):
    """Every model server, and what is wrong with the configuration."""

    model_servers: list[ModelServerEntry]
    problems: list[Problem]


class ModelServerCreateParams(Strict, kw_only=True):
    """Make a model server."""

    model_server: ModelServer
    scope: EditableScope = "user"
    workspace: str | None = None


class ModelServerUpdateParams(Strict, kw_only=True):
    """Replace a model server."""

    name: str
    model_server: ModelServer
    revision: str | None = None
    workspace: str | None = None


class SetKeyParams(Strict, kw_only=True):
    """Store an API key; it is never returned."""

    name: str
    key: str
    workspace: str | None = None


class ModelsResult(Wire, kw_only=True):
    """What a model server offers."""

    models: list[Model]


class ToolsParams(Strict, kw_only=True):
    """Which agent CLIs are there; ``refresh`` asks each of them for its version again."""

    refresh: bool = False


class ToolsResult(Wire, kw_only=True):
    """Every agent CLI that Understudy knows, found or not."""

    tools: list[ToolEntry]
    own: Honoured
    """What a delegator without a tool (our own loop on a model server) may set."""


class RecipesParams(Strict, kw_only=True):
    """The recipes that apply to a file; absent: all of the person's own."""

    uri: str | None = None


class RecipesResult(Wire, kw_only=True):
    """Recipes, shipped ones first."""

    recipes: list[Recipe]
    problems: list[Problem]


class StartResult(Wire, kw_only=True):
    """The delegation is under way."""

    id: str
    explain: Explanation


class PreviewFile(Wire, kw_only=True):
    """A file that would be sent, or why it would not."""

    path: str
    bytes: int
    tokens: int
    withheld: str | None = None


class PreviewResult(Wire, kw_only=True):
    """Exactly what would be sent; tokens are estimates (bytes divided by four)."""

    prompt: str
    files: list[PreviewFile]
    tokens: int
    estimated_usd: str | None = None
    explain: Explanation


class IdParams(Strict, kw_only=True):
    """One delegation; an unambiguous beginning of its id is enough."""

    id: str


class WaitParams(Strict, kw_only=True):
    """Wait for the end, at most ``timeoutSeconds`` (default 3600, at most 86400)."""

    id: str
    timeout_seconds: float | None = None


class ListParams(Strict, kw_only=True):
    """Delegations, newest first; ``limit`` at most 1000, default 100."""

    states: list[State] | None = None
    workspace: str | None = None
    delegator: str | None = None
    text: str | None = None
    limit: int | None = None
    cursor: str | None = None


class ListResult(Wire, kw_only=True):
    """A page; ``cursor`` is there when more follow."""

    delegations: list[Delegation]
    cursor: str | None = None


class EventsParams(Strict, kw_only=True):
    """Events after ``after``; with ``waitSeconds`` (at most 60), wait for the next when there is none."""

    id: str
    after: int = 0
    limit: int | None = None
    wait_seconds: float | None = None


class EventsResult(Wire, kw_only=True):
    """Events in order, and the last ``seq`` among them (``after`` where there is none)."""

    events: list[AnyEvent]
    last: int


class SubscribeParams(Strict, kw_only=True):
    """Follow one delegation, or all; ``after`` says per delegation what the client has already."""

    id: str | None = None
    after: dict[str, int] = msgspec.field(default_factory=dict)


class UnsubscribeParams(Strict, kw_only=True):
    """Stop following one delegation, or all."""

    id: str | None = None


class DiffResult(Wire, kw_only=True):
    """What changed between base and result."""

    base: str
    head: str
    files: list[FileDiff]


class FileParams(Strict, kw_only=True):
    """One file on one side of the review; paths as ``delegations/diff`` spells them."""

    id: str
    path: str
    side: Literal["base", "result"]


class FileResult(Wire, kw_only=True):
    """Its content, as text where it is UTF-8; ``mode`` as git writes it (``100644``)."""

    text: str | None = None
    base64: str | None = None
    mode: str


class DoctorCheck(Wire, kw_only=True):
    """One thing looked at."""

    name: str
    ok: bool
    message: str
    hint: str | None = None


class DoctorResult(Wire, kw_only=True):
    """How this installation is."""

    checks: list[DoctorCheck]


class VersionResult(Wire, kw_only=True):
    """Which version this is, and which contract it speaks."""

    version: str
    protocol_version: int


class EventNotification(Wire, kw_only=True):
    """``understudy/event``: new events of one delegation, in ``seq`` order."""

    id: str
    events: list[AnyEvent]


class ChangedNotification(Wire, kw_only=True):
    """``understudy/changed``: read these collections again."""

    collections: list[Literal["delegations", "delegators", "modelServers", "recipes", "trust"]]
