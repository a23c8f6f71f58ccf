"""Parameters and results of requests about the set-up: configuration, other agents, the ledger."""

from __future__ import annotations

from typing import Literal

import msgspec

from understudy.api.messages import EditableScope
from understudy.model.config.config_entries import AgentEntry, ImportSource, KeyState, Problem
from understudy.model.config.delegators import DayBudget
from understudy.model.config.other_agents import InstructionChange, InstructionTarget, McpClient, McpClientChange
from understudy.model.delegation.ledger import GroupBy, LedgerGroup, LedgerLine, LedgerShare, LedgerTotals
from understudy.model.delegation.route_evidence import RouteSuggestion
from understudy.model.errors import Location
from understudy.model.states import State
from understudy.model.wire import Strict, Wire


class AgentsResult(Wire, kw_only=True):
    """The agents that a delegation may name, and the problems of their files."""

    agents: list[AgentEntry]
    problems: list[Problem]


class StatusResult(Wire, kw_only=True):
    """What Understudy is, what it is doing, and what waits for the user."""

    version: str
    protocol_version: int
    workspace: str | None = None
    """Absolute path of the workspace; absent without one."""
    trusted: bool = False
    delegators: int
    """Configured delegators that can be started, without those built in."""
    not_ready: list[str]
    """Names of those that have errors."""
    paused: list[str] = msgspec.field(default_factory=list)
    """Names of those that failed again and again, and whose fallbacks are tried instead."""
    default_delegator: str | None = None
    default_model: str | None = None
    """The model of the default delegator, if it names one."""
    default_host: str | None = None
    """The host of its model server, if it has one."""
    default_key: KeyState | None = None
    """The key of that server, if it needs one."""
    problems: int
    """Errors in the configuration."""
    states: dict[State, int]
    """State → number of delegations in it, in all workspaces; finished ones are not counted."""
    questions: list[str]
    """Ids of delegations whose agents wait for an answer."""
    to_review: int
    """Finished delegations with pending hunks that no follow-up has taken over."""
    spent_since: str
    """The beginning of the user's day."""
    spent: LedgerTotals
    """Totals of the attempts since then."""
    per_day: DayBudget | None = None
    """What all work may cost in one day, if that is limited."""


class StarterParams(Strict, kw_only=True):
    """Write a commented `config.toml`; a file that exists is never replaced."""

    scope: EditableScope = "user"
    workspace: str | None = None
    link: list[str] = msgspec.field(default_factory=list)
    """Paths of the workspace that worktrees link to. These two are not written as comments."""
    setup: list[str] = msgspec.field(default_factory=list)
    """The command that sets up each worktree."""


class StarterResult(Wire, kw_only=True):
    """The file that was written."""

    location: Location
    checks: list[str]
    """Titles of the test runners that the workspace's files show; the file has them as comments."""
    tools: list[str]
    """Names of the installed agent CLIs that can be driven; the file has them as comments."""


class ImportParams(Strict, kw_only=True):
    """Import the configuration of another delegation tool; nothing that exists is replaced."""

    source: ImportSource
    scope: EditableScope = "user"
    path: str | None = None
    """The file to read (URI or absolute path); absent: the tool's usual places."""
    workspace: str | None = None
    """The workspace whose files of the tool are read, too."""
    dry_run: bool = False
    """Return what would be written, and write nothing."""
    revision: str | None = None
    """`revision` of a dry run: if something else would be written now, the request is a `conflict`."""
    store_keys: list[str] = msgspec.field(default_factory=list)
    """Names of model servers whose keys, found in plain text, are stored as `modelServers/setKey` does."""


class ImportProfileParams(Strict, kw_only=True):
    """Create a delegator of the user from an agent profile (`agent-profile.json`), which is kept beside it."""

    path: str | None = None
    """The file (URI or absolute path); exactly one of `path` and `text` is given."""
    text: str | None = None
    """The profile as JSON."""
    permissions: bool = False
    """Also take over what decides about permissions: `yolo`, permission modes, flags, commands, variables. Without it,
    they are only kept for an export."""
    workspace: str | None = None
    dry_run: bool = False
    """Return what would be written, and write nothing."""
    revision: str | None = None
    """`revision` of a dry run: if something else would be written now, the request is a `conflict`."""


class ExportProfileParams(Strict, kw_only=True):
    """Return delegators in a format of other programs."""

    names: list[str]
    """One delegator; for `agnt` any number, which work one after the other."""
    format: Literal["profile", "agnt"] = "profile"
    """`profile`: an agent profile, for an imported delegator the original with what has changed since. `agnt`: a
    workflow of AGNT."""
    task: str | None = None
    """What the agents of a workflow are asked."""
    workspace: str | None = None


class NotCarriedOver(Wire, kw_only=True):
    """A setting that is not imported, or not under its own name."""

    setting: str
    """Its name with those of the tables around it (`profiles.groq.timeout`), or of an environment variable."""
    reason: str
    """Why, and what to do instead, as sentences."""
    location: Location | None = None
    """Absent for an environment variable of the sidecar itself."""


class ExportProfileResult(Wire, kw_only=True):
    """An exported profile or workflow."""

    text: str
    """JSON."""
    left_out: list[NotCarriedOver]
    """What the format has no place for."""


class ImportedFile(Wire, kw_only=True):
    """A file of the user's configuration that was written, or would be."""

    kind: Literal["modelServer", "delegator", "profile", "default"]
    name: str
    location: Location


class ImportedEntry(Wire, kw_only=True):
    """An entry that exists already, with the same values."""

    kind: Literal["modelServer", "delegator", "profile", "default"]
    name: str


class ImportedKey(Wire, kw_only=True):
    """A key in plain text, which is never copied into a configuration file, and never returned."""

    model_server: str
    """The imported model server that needs it."""
    setting: str
    location: Location | None = None
    stored: bool
    """Whether this request stored it."""


class ImportResult(Wire, kw_only=True):
    """What an import wrote, or would write."""

    read: list[str]
    """Absolute paths of the files that were read; empty if only environment variables were."""
    files: list[ImportedFile]
    unchanged: list[ImportedEntry]
    diff: str
    """The files as a unified diff."""
    not_carried_over: list[NotCarriedOver]
    keys: list[ImportedKey]
    revision: str
    """Changes whenever something else would be written."""
    written: bool
    """Whether this request changed the configuration."""


class LedgerPrices(Strict, kw_only=True):
    """Prices to compare with, in US dollars per million tokens, as decimal numbers."""

    read_usd: str
    written_usd: str
    cached_usd: str | None = None
    """For tokens that were read from a provider's cache; default: ``readUsd``."""


class LedgerParams(Strict, kw_only=True):
    """Select attempts and group them; ``limit`` is at most 1000, default 100.

    ``since`` and ``until`` (exclusive) are dates or times in RFC 3339; a date is its beginning in UTC.
    """

    since: str | None = None
    until: str | None = None
    workspace: str | None = None
    delegator: str | None = None
    tool: str | None = None
    model_server: str | None = None
    model: str | None = None
    recipe: str | None = None
    verdict: str | None = None
    session: str | None = None
    """Session of the agent that asked."""
    by: GroupBy | None = None
    compare: LedgerPrices | None = None
    share: bool = False
    """Also read the session files of Claude Code and Codex, and return the share of the work that was delegated; only
    with `since`, `until`, `workspace` and `session`."""
    limit: int | None = None
    cursor: str | None = None


class LedgerResult(Wire, kw_only=True):
    """Attempts, newest first (``cursor`` if more follow), and totals of all selected attempts."""

    lines: list[LedgerLine]
    totals: LedgerTotals
    groups: list[LedgerGroup]
    """Empty without ``by``."""
    cursor: str | None = None
    share: LedgerShare | None = None
    """Only with ``share``."""


class MetricsParams(Strict, kw_only=True):
    """Select attempts and group them; ``since`` and ``until`` are those of ``ledger/read``."""

    since: str | None = None
    until: str | None = None
    workspace: str | None = None
    delegator: str | None = None
    model: str | None = None
    recipe: str | None = None
    by: GroupBy | None = None


class MetricsResult(Wire, kw_only=True):
    """Totals of the selected attempts, and of each group."""

    totals: LedgerTotals
    groups: list[LedgerGroup]
    """Empty without ``by``."""


class SuggestRoutesParams(Strict, kw_only=True):
    """Select runs, and the route that gets the proposed order.

    ``since`` is a date or time as in ``ledger/read``; default: 90 days ago.
    """

    recipe: str | None = None
    """Default: every recipe that has runs."""
    route: str | None = None
    """A route for ``recipe`` only; default: ``suggested-`` and the name of the recipe. One that exists keeps its
    candidates with their conditions, in another order."""
    since: str | None = None
    remote: bool = False
    """Let a delegator on other machines follow one on this machine, which then takes over from it."""
    workspace: str | None = None
    only_workspace: bool = False
    """Only runs in this workspace."""


class SuggestRoutesResult(Wire, kw_only=True):
    """A suggestion for each recipe."""

    suggestions: list[RouteSuggestion]


class InstructionsParams(Strict, kw_only=True):
    """List the places for instructions."""

    workspace: str | None = None
    """Also list the places in this workspace."""


class InstructionsResult(Wire, kw_only=True):
    """The places, and the texts for other applications, which have no file for it."""

    targets: list[InstructionTarget]
    text: str
    """For an agent with a command line."""
    snippet: str
    """For an application that has only the tools of the MCP server."""


class ChangeInstructionsParams(Strict, kw_only=True):
    """Install or remove instructions.

    ``names``: default is to install where an agent's folder exists, and to remove wherever they are.
    """

    action: Literal["install", "uninstall"]
    names: list[str] | None = None
    workspace: str | None = None
    dry_run: bool = False
    force: bool = False
    """Also replace or remove instructions that someone has edited."""


class ChangeInstructionsResult(Wire, kw_only=True):
    """One entry for each place that was named or found."""

    changes: list[InstructionChange]


class McpClientsParams(Strict, kw_only=True):
    """List the clients that the MCP server can be registered in."""

    workspace: str | None = None
    """Also list the files that clients have in this workspace."""
    entry: str | None = None
    """The name of the entry; default: ``understudy``."""


class McpClientsResult(Wire, kw_only=True):
    """The clients, those of the user first."""

    clients: list[McpClient]


class ChangeMcpClientsParams(Strict, kw_only=True):
    """Register the MCP server in clients, or remove it.

    ``names``: default is to register in all clients that are here, and to remove wherever it is registered.
    """

    action: Literal["install", "uninstall"]
    names: list[str] | None = None
    workspace: str | None = None
    """Use the files that clients have in this workspace, not the user's own."""
    entry: str | None = None
    """The name of the entry; default: ``understudy``."""
    tools: list[Literal["delegate-local"]] | None = None
    """Further sets of tools that the server lists."""
    dry_run: bool = False


class ChangeMcpClientsResult(Wire, kw_only=True):
    """One entry for each client that was named or found."""

    changes: list[McpClientChange]
