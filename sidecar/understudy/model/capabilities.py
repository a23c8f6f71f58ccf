"""Declare what a tool, or a backend of Understudy's own loop, supports; every layer reads these declarations.

A declaration is the constant ``CAPABILITIES`` of a module in ``model/tools`` (agent CLIs) or ``model/backends``
(protocols of model servers that our own loop supports); the module has the name of the tool or backend.
``config.discovery.declarations`` finds them. Validation refuses what a declaration does not list, and frontends offer
what it lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from understudy.model.wire import Wire

Returns = Literal["text", "file", "tree"]
"""What a recipe returns."""

TIME_LIMITS = frozenset({"total_seconds", "idle_seconds", "first_event_seconds", "after_result_seconds"})
"""Fields of ``Limits`` that the driver enforces for every program."""
USAGE_LIMITS = frozenset({"max_turns", "max_output_tokens", "max_tokens", "max_usd"})
"""Fields of ``Limits`` that need reported usage."""


class OptionValue(Wire, kw_only=True):
    """A value that an option may have."""

    value: str
    title: str
    """Its label in lists."""
    description: str = ""


class RepositoryPath(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder of a repository that configures a tool without asking the user."""

    path: str
    """POSIX, relative to the repository; a folder ends with a slash."""
    what: str
    """What it contains (``hooks of GitHub Copilot``)."""
    has_hooks: bool = False
    """Whether it is a JSON file whose ``hooks`` name commands that the tool runs."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that Understudy knows about a tool or a backend before starting it."""

    name: str
    """The value of ``tool`` in a delegator; for a backend, its name in lists."""
    title: str
    """Its display name."""
    description: str | None = None
    """What it does, as a sentence, unless the name says it."""
    runner: str | None = None
    """The class that drives it, as ``module:Class``; ``None``: Understudy cannot drive it yet."""

    binaries: tuple[str, ...] = ()
    """Names of its program, the usual one first; empty: it is part of Understudy, or the delegator names it."""
    built_in: bool = False
    """Whether it is part of Understudy, and has the same version."""
    install_url: str | None = None
    """The page that explains how to install it."""
    version_arguments: tuple[str, ...] = ("--version",)
    """Arguments with which the program prints its version (or at least its name) and exits."""
    own_output: str | None = None
    """A pattern that the output must match, where other programs have the same name."""
    foreign_output: str | None = None
    """A pattern of the output of another program with the same name."""
    oldest_version: str | None = None
    """The oldest version that the runner supports."""
    modes: tuple[str, ...] = ("headless",)
    """How it can be driven: without a terminal, or through the Agent Client Protocol."""

    launch: Mapping[str, tuple[OptionValue, ...]] = {}
    """Fields of ``Launch`` that have an effect → their allowed values (empty: any value of the type)."""
    limits: frozenset[str] = TIME_LIMITS
    """Fields of ``Limits`` that have an effect."""
    usage_needs: tuple[str, str] | None = None
    """A field of ``Launch`` and the value that the usage limits require."""
    properties: bool = False
    """Whether ``modelProperties`` have an effect."""
    protocols: tuple[str, ...] = ()
    """Protocols of the model servers that it can use, the default first; empty: it cannot use one."""
    needs_model_server: bool = False
    """Whether it works only with a model server; then ``model`` is required too."""
    sessions: bool = False
    """Whether a later attempt can continue the session of an earlier one."""

    returns: frozenset[Returns] = frozenset({"text", "file", "tree"})
    """Kinds of recipes that it can run."""
    recipes: frozenset[str] | None = None
    """The only recipes that it can run; ``None``: every recipe of a kind in ``returns``."""
    tree_recipes: frozenset[str] | None = None
    """The only recipes returning a tree that it can run; ``None``: all of them."""

    session_variables: tuple[str, ...] = ()
    """Environment variables in which it passes the id of its session to the programs that it starts."""
    repository_paths: tuple[RepositoryPath, ...] = ()
    """Its configuration in a repository, which trusting a workspace covers."""
    environment: Mapping[str, str] = {}
    """Variables that the runner sets unless the delegator's ``env`` does: no telemetry, no updates."""
    process_in_worktree: bool = True
    """Whether it starts a process that can change the worktree (and everything else that the user can change)."""
    inline_files: bool = False
    """Whether the contents of files go into the prompt, because it cannot read files itself."""

    @property
    def takes_model_server(self) -> bool:
        """Whether it can use a model server."""
        return bool(self.protocols)

    @property
    def permission_modes(self) -> tuple[OptionValue, ...]:
        """The allowed values of ``launch.permissionMode``."""
        return self.launch.get("permission_mode", ())

    def values(self, field: str) -> tuple[str, ...]:
        """Return the allowed values of a field of ``Launch``; empty: any value of its type."""
        return tuple(choice.value for choice in self.launch.get(field, ()))

    def supports_recipe(self, name: str, returns: str) -> bool:
        """Return whether it can run the recipe ``name``, which returns ``returns``."""
        if self.recipes is not None:
            return name in self.recipes
        if returns == "tree" and self.tree_recipes is not None:
            return name in self.tree_recipes
        return returns in self.returns


PROMPT_FIELDS: Mapping[str, tuple[OptionValue, ...]] = {"prompt_prefix": (), "prompt_suffix": ()}
"""Fields of ``Launch`` that every delegator with a text prompt supports."""

TITLES: Mapping[str, str] = {
    "permission_mode": "Permissions",
    "yolo": "Never ask for permission",
    "flags": "More arguments",
    "prompt_prefix": "Text before every prompt",
    "prompt_suffix": "Text after every prompt",
    "command": "Command",
    "prompt_delivery": "Prompt delivery",
    "output": "Output",
    "total_seconds": "Time limit in seconds",
    "idle_seconds": "Idle limit in seconds",
    "first_event_seconds": "First event limit in seconds",
    "after_result_seconds": "Exit limit in seconds",
    "answer_seconds": "Answer limit in seconds",
    "max_turns": "Turn limit",
    "max_output_tokens": "Output token limit",
    "max_tokens": "Token limit",
    "max_usd": "Cost limit in US dollars",
    "temperature": "Temperature",
}
"""Fields of ``Launch`` and ``Limits``, and well-known model properties → their labels in forms."""
