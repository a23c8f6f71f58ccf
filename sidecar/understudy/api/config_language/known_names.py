"""What there is to name: tools, model servers, delegators, recipes, checks, models."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from understudy.config import Configuration, drafts, fields
from understudy.config.fields import Names, Shape
from understudy.config.folders import FileKind
from understudy.config.tools import TOOLS
from understudy.engine import limits, resolve
from understudy.runners import registry


@dataclass(frozen=True, kw_only=True)
class Known:
    """The configuration as it was read, and what else is known by name. Cheap to make anew; nothing in it is live."""

    snapshot: drafts.Snapshot
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Model server, or tool → the models that it is known to have."""
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Delegator → how many of its delegations run, and how many wait."""

    @property
    def configuration(self) -> Configuration:
        """What the files on disk say."""
        return self.snapshot.configuration

    @property
    def tools(self) -> list[str]:
        """The tools that can be driven."""
        return sorted(set(registry.ABILITIES) - {registry.BACKEND})

    def names(self, kind: Names, *, of: str | None = None) -> list[str]:
        """Return the names of a kind; of models those of the model server or tool ``of`` (``None``: all)."""
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
    """Read the configuration as seen from a workspace; of an untrusted one no file is read.

    ``models``: what model servers have listed before (model server → ids). ``counts``: delegator → running, queued.
    """
    return Known(
        snapshot=drafts.snapshot(workspace, trusted=trusted, abilities=registry.ABILITIES),
        models={name: tuple(listed) for name, listed in (models or {}).items()},
        counts=dict(counts or {}),
    )


@functools.cache
def shape_of(kind: FileKind) -> Shape:
    """Return what a file of this kind may hold, with the defaults that hold here."""
    defaults = {**msgspec.structs.asdict(limits.DEFAULTS), "slots": resolve.DEFAULT_SLOTS}
    return fields.shape_of(kind, registry.ABILITIES, defaults)


def tool_title(name: str) -> str:
    """Return what people call a tool."""
    return TOOLS[name].title if name in TOOLS else name
