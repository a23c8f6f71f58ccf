"""The names that configuration files can refer to: tools, model servers, delegators, recipes, checks, models."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from understudy.config.configuration import Configuration
from understudy.config.discovery import declarations
from understudy.config.loading import unsaved
from understudy.config.locations import FileKind
from understudy.config.reference import fields
from understudy.config.reference.fields import FieldShape, Names
from understudy.engine.planning import limits, plan


@dataclass(frozen=True, kw_only=True)
class Known:
    """A snapshot of the configuration and of other known names; create another one after a change."""

    snapshot: unsaved.Snapshot
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Model server or tool → its known models."""
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Delegator → how many of its delegations are running, and how many are queued."""

    @property
    def configuration(self) -> Configuration:
        """The configuration in the files on disk."""
        return self.snapshot.configuration

    @property
    def tools(self) -> list[str]:
        """The tools that have a runner, and those that files define."""
        return [*declarations.runnable_tools(), *self.configuration.tools]

    def names(self, kind: Names, *, of: str | None = None) -> list[str]:
        """Return the names of a kind; ``of`` limits models to those of a model server or tool."""
        loaded = self.configuration
        match kind:
            case "tools":
                return self.tools
            case "model_servers":
                return list(loaded.model_servers)
            case "delegators":
                return list(loaded.delegators)
            case "recipes":
                return sorted(loaded.recipes)
            case "checks":
                return sorted(loaded.checks)
            case "models":
                found = [
                    entry.delegator.model
                    for entry in loaded.delegators.values()
                    if entry.delegator.model and of in {None, entry.delegator.model_server, entry.delegator.tool}
                ]
                listed = self.models.items()
                found += [model for name, models in listed if of in {None, name} for model in models]
                return sorted(set(found))


def know(
    workspace: Path | None,
    *,
    trusted: bool,
    models: Mapping[str, Iterable[str]] | None = None,
    counts: Mapping[str, tuple[int, int]] | None = None,
) -> Known:
    """Read the configuration of a workspace, without its own files if it is not trusted.

    ``models``: model server → the ids that it listed before. ``counts``: delegator → running, queued.
    """
    return Known(
        snapshot=unsaved.snapshot(workspace, trusted=trusted),
        models={name: tuple(listed) for name, listed in (models or {}).items()},
        counts=dict(counts or {}),
    )


@functools.cache
def shape_of(kind: FileKind) -> FieldShape:
    """Return the fields that a file of this kind may contain, with the engine's defaults."""
    defaults = {**msgspec.structs.asdict(limits.DEFAULTS), "slots": plan.DEFAULT_SLOTS}
    return fields.shape_of(kind, defaults)


def tool_title(name: str, known: Known) -> str:
    """Return the display name of a tool."""
    tool = declarations.tools().get(name)
    own = known.configuration.tools.get(name)
    return tool.title if tool is not None else own.definition.title if own is not None else name
