"""Parameters and results of the requests about agents, the first configuration file and the state of everything."""

from __future__ import annotations

from typing import Literal

import msgspec

from understudy.api.messages import EditableScope
from understudy.model.config.config_entries import AgentEntry, ImportSource, Problem
from understudy.model.delegation.ledger import LedgerTotals
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


class StarterParams(Strict, kw_only=True):
    """Write a commented `config.toml`; a file that exists is never replaced."""

    scope: EditableScope = "user"
    workspace: str | None = None


class StarterResult(Wire, kw_only=True):
    """The file that was written."""

    location: Location
    checks: list[str]
    """Titles of the test runners that the workspace's files show; the file has them as comments."""
    tools: list[str]
    """Names of the installed agent CLIs that can be driven; the file has them as comments."""


class ImportParams(Strict, kw_only=True):
    """Import the configuration of another delegation tool into the user's own; nothing that exists is replaced."""

    source: ImportSource
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
