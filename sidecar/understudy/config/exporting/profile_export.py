"""Write a delegator as an agent profile (``agent-profile.json``).

A delegator that was imported gives the original text, byte for byte, until the user changes it; then only what has
changed is changed in the profile, too.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from understudy.config.importing import agent_profile, foreign_files
from understudy.config.importing.draft import is_secret
from understudy.config.importing.foreign_files import parse_exact
from understudy.config.parsing import file_schema
from understudy.config.parsing.source_file import KeptProfile
from understudy.model.config.delegators import Delegator, Launch
from understudy.model.wire import snake

_LAUNCH = {"yolo": "yolo", "permission_mode": "permission_mode", "flags": "flags", "use_worktree": "use_worktrees"}
_LAUNCH_WORDS = {"prompt_prefix": "prompt_prefix", "prompt_suffix": "prompt_suffix"}
_SHARED = frozenset(
    {"name", "display_name", "tool", "model", "model_server", "model_properties", "launch", "remote_agent"}
)


@dataclass
class ExportedProfile:
    """A profile, and what it does not have."""

    text: str
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """Settings and the reasons."""


def export_profile(delegator: Delegator, kept: KeptProfile | None, server_kind: str | None) -> ExportedProfile:
    """Return the profile of ``delegator``; ``kept`` is the one that it was imported from."""
    base = _base(kept)
    if kept is not None and (base is None or base == delegator):
        return ExportedProfile(kept.text)
    if kept is None:
        base = Delegator(name="")
        values: dict[str, Any] = {"name": "", "provider": "", "model": "", "skills": [], "mcp_servers": [], "tools": []}
    else:
        values = parse_exact(kept.text, Path("/agent-profile.json")).values
    made = ExportedProfile("")
    _change(values, base or Delegator(name=""), delegator, server_kind)
    if agent_profile.OWN in values or _needs_bag(delegator):
        values[agent_profile.OWN] = _bag(delegator, made)
    made.text = foreign_files.dump_exact(values) + "\n"
    return made


def _base(kept: KeptProfile | None) -> Delegator | None:
    if kept is None or not kept.base:
        return None
    try:
        return file_schema.from_file(tomllib.loads(kept.base.decode()), Delegator)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError):
        return None


def _change(values: dict[str, Any], base: Delegator, delegator: Delegator, server_kind: str | None) -> None:
    """Change in ``values`` what differs between ``base`` and ``delegator``."""
    if delegator.name != base.name:
        values["name"] = delegator.name
    if (delegator.tool, delegator.model_server) != (base.tool, base.model_server) and delegator.remote_agent is None:
        values["provider"] = delegator.tool or server_kind or "custom"
    if delegator.model != base.model:
        values["model"] = delegator.model
    if delegator.remote_agent != base.remote_agent:
        _put(values, ("remote_agent",), msgspec.to_builtins(delegator.remote_agent))
    for name in ("display_name", "model_server"):
        if getattr(delegator, name) != getattr(base, name):
            _put(values, ("x_operator", name), getattr(delegator, name))
    if delegator.model_properties != base.model_properties:
        # Operator's are texts; the exact values are in our own bag.
        texts = {key: _text(value) for key, value in (delegator.model_properties or {}).items()}
        _put(values, ("x_operator", "model_properties"), texts or None)
    _change_launch(values, base.launch or Launch(), delegator.launch or Launch())


def _change_launch(values: dict[str, Any], base: Launch, launch: Launch) -> None:
    for ours, theirs in _LAUNCH.items():
        if getattr(launch, ours) != getattr(base, ours):
            _put(values, ("x_operator", "launch_config", theirs), getattr(launch, ours))
    if launch.branch != base.branch:
        _put(values, ("x_operator", "launch_config", "create_branch"), True if launch.branch else None)
    if launch.prompt_suffix != base.prompt_suffix:
        _put(values, ("x_operator", "launch_config", "prompt_suffix"), launch.prompt_suffix)
    if launch.prompt_prefix != base.prompt_prefix:
        _change_prefix(values, launch.prompt_prefix)


def _change_prefix(values: dict[str, Any], prefix: str | None) -> None:
    """Change the prefix of every prompt, which the system prompt of the profile may be a part of."""
    system = values.get("system_prompt")
    if isinstance(system, str) and system.strip():
        start = agent_profile.joined_prompt(system, "-")[:-1]
        if prefix is not None and prefix.startswith(start):
            prefix = prefix[len(start) :]
        elif prefix != system:
            del values["system_prompt"]
        else:
            prefix = None
    _put(values, ("x_operator", "launch_config", "prompt_prefix"), prefix)


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set the value at ``path``, or remove it for None; what is around it exists then."""
    for step in path[:-1]:
        inner = values.get(step)
        if not isinstance(inner, dict):
            if value is None:
                return
            inner = values[step] = {}
        values = inner
    if value is None:
        values.pop(path[-1], None)
    else:
        values[path[-1]] = value


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _needs_bag(delegator: Delegator) -> bool:
    """Return whether a field has no place in the profile of other programs, or not with this value."""
    launch = msgspec.to_builtins(delegator.launch) if delegator.launch is not None else {}
    branch = launch.pop("branch", None)
    return (
        any(getattr(delegator, name) is not None for name in Delegator.__struct_fields__ if name not in _SHARED)
        or any(not isinstance(value, str) for value in (delegator.model_properties or {}).values())
        or bool({wire for wire in launch if snake(wire) not in _LAUNCH | _LAUNCH_WORDS})
        or branch not in {None, agent_profile.BRANCH}
    )


def _bag(delegator: Delegator, made: ExportedProfile) -> dict[str, Any]:
    mapping = file_schema.to_file(delegator)
    for name in [name for name, value in (delegator.env or {}).items() if is_secret(name, value)]:
        del mapping["env"][name]
        made.left_out.append((f"env.{name}", "A key in plain text is not exported."))
    return mapping
