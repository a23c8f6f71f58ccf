"""Read an agent profile (``agent-profile.json``), the format in which Operator and other programs exchange agents.

Its core is ``name``, ``provider``, ``model``, ``system_prompt``, ``skills``, ``mcp_servers``, ``tools`` and
``remote_agent``; every program adds a bag of its own (``x_operator``, ``x_agnt``, …). The original text is always kept
beside the delegator, so an export loses none of it, and a value of a wrong type is only named.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import msgspec

from understudy.config.discovery import declarations
from understudy.config.importing.draft import Draft, Drafted, Table, holds_secret, reasons
from understudy.config.importing.foreign_files import Document, Number, parse_exact
from understudy.config.parsing import file_schema
from understudy.model.config.delegators import Delegator, Launch, RemoteAgent

MAKERS = {"anthropic": "claude", "openai": "codex", "google": "gemini"}
"""Vendor → its agent CLI, for profiles whose provider is not a tool."""
OWN = "x_understudy"
"""The bag with the fields of a delegator that have no place elsewhere in a profile."""
UNSAFE_LAUNCH = ("yolo", "permission_mode", "flags", "command", "unanswered", "use_worktree", "branch", "relay")
UNSAFE = ("env", "permissions", "fallback")
"""Fields that decide what an agent may do here; a profile, which may come from anyone, sets them only if asked to."""
_HARMLESS: dict[str, tuple[object, ...]] = {
    "yolo": (False,),
    "permission_mode": ("plan", "default"),
    "use_worktree": (True,),
    "unanswered": ("reject", "stop"),
    "relay": (False,),
}
"""The values that allow nothing."""
_UNSAFE_REASON = "It decides what the agent may do here. Import with --with-permissions to take it over."
_KEPT = "It is kept for the export, and has no effect here."


def read(text: str, path: Path, draft: Draft, *, permissions: bool = False) -> None:
    """Add the delegator of a profile; raises ``config_invalid`` for what is not a JSON object, and for nothing else."""
    document = parse_exact(text, path)
    draft.delegators.append(drafted(text, document, draft, permissions=permissions))


def drafted(text: str, document: Document, draft: Draft, *, permissions: bool) -> Drafted[Delegator]:
    """Return the delegator of the profile ``document``, and name what has no effect."""
    top = _Lenient(document, draft)
    provider, model = top.text("provider"), top.text("model") or ""
    remote = _remote(document.values.get("remote_agent"))
    embedded = _own(document.values.get(OWN), top)
    theirs = document.values.get("x_operator")
    made = embedded or Delegator(name="", tool=tool_of(provider), model=model)
    if isinstance(theirs, dict) and embedded is None:
        made = _with_operator(made, theirs, top)
    if embedded is None:
        made = _with_prompt(made, top.text("system_prompt"))
    if not permissions:
        made = _without_permissions(made, top)
    kept = remote or RemoteAgent(platform=provider or "another program", id=top.text("name") or "unnamed")
    if remote is not None:
        made = _only_kept(made, remote, provider)
    for key in document.values:
        if key not in _TAKEN and not (key == "system_prompt" and made.launch is not None):
            top.note(key, reasons("agent-profile").get(key, _KEPT))
    name = made.name or generated_name(top.text("name"), provider, model)
    if holds_secret(name):
        name = "agent"
    made = msgspec.structs.replace(made, name=name)
    return Drafted(made, "the profile", document.location(()), profile=text, otherwise=_only_kept(made, kept, provider))


_TAKEN = frozenset({"name", "provider", "model", "remote_agent", "x_operator", OWN})


def tool_of(provider: str | None) -> str | None:
    """Return the agent CLI of a provider: the one of this name, or that of the vendor."""
    capabilities = declarations.tools().get(provider or "")
    return provider if capabilities is not None else MAKERS.get(provider or "", provider)


def generated_name(name: str | None, provider: str | None, model: str) -> str:
    """Return the name of the profile, or one of its provider and model; ``import_plan`` makes it valid and unused."""
    return name if name and name.strip() else "-".join(filter(None, [provider, model.rpartition("/")[2]])) or "agent"


class _Lenient:
    """The values of a profile; each that has another type than expected is named, and otherwise ignored."""

    def __init__(self, document: Document, draft: Draft) -> None:
        self.document = document
        self.draft = draft
        self.table = Table(document, draft, (), document.values)

    def text(self, key: str) -> str | None:
        value = self.document.values.get(key)
        return value if isinstance(value, str) else None

    def note(self, key: str, reason: str, *inner: str) -> None:
        path = (key, *inner)
        value: Any = self.document.values
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if value not in (None, [], {}):
            self.draft.drop(".".join(path), reason, self.document.location(path))


def _remote(value: object) -> RemoteAgent | None:
    if not isinstance(value, dict):
        return None
    platform, identifier = value.get("platform"), value.get("id")
    if not isinstance(platform, str) or not isinstance(identifier, str):
        return None
    return RemoteAgent(platform=platform, id=identifier) if platform.strip() and identifier.strip() else None


def _own(value: object, top: _Lenient) -> Delegator | None:
    """Return the delegator that Understudy itself exported, if the bag still holds one."""
    if not isinstance(value, dict):
        return None
    try:
        return file_schema.from_file({"name": "", **_usable(value)}, Delegator)
    except (msgspec.ValidationError, ValueError, TypeError):
        top.note(OWN, "It is not what Understudy writes, so it is only kept.")
        return None


_OPERATOR = ("display_name", "model_properties", "model_server", "launch_config")
_LAUNCH = {"yolo": "yolo", "permission_mode": "permission_mode", "flags": "flags", "use_worktrees": "use_worktree"}
"""Operator's option → ours, where both hold the same value."""
WORDS = {"prompt_prefix": "prompt_prefix", "prompt_suffix": "prompt_suffix"}
BRANCH = "understudy/{id}"


def _with_operator(made: Delegator, bag: dict[str, Any], top: _Lenient) -> Delegator:
    launch: dict[str, Any] = {}
    launch_config = bag.get("launch_config")
    for key, value in (launch_config if isinstance(launch_config, dict) else {}).items():
        ours = {**_LAUNCH, **WORDS}.get(key)
        if ours is not None:
            launch[ours] = value
        elif key == "create_branch":
            launch["branch"] = BRANCH if value is True else None
        else:
            top.note("x_operator", _KEPT, "launch_config", key)
    for key in bag:
        if key not in _OPERATOR:
            top.note("x_operator", _KEPT, key)
    fields: dict[str, Any] = {"display_name": bag.get("display_name"), "model_server": bag.get("model_server")}
    fields["model_properties"] = bag.get("model_properties") or None
    launch = {key: value for key, value in launch.items() if value not in (None, [])}
    mapping = file_schema.to_file(made)
    for path, value in [*((("launch", key), value) for key, value in launch.items()), *_paths(fields)]:
        changed = _with(mapping, path, _usable(value))
        try:
            made = file_schema.from_file(changed, Delegator)
        except (msgspec.ValidationError, ValueError, TypeError):
            top.note("x_operator", "Its type is not the expected one; it is kept for the export.", path[-1])
        else:
            mapping = changed
    return made


def _paths(fields: dict[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    return [((key,), value) for key, value in fields.items() if value is not None]


def _with(mapping: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    if len(path) == 1:
        return {**mapping, path[0]: value}
    return {**mapping, path[0]: {**mapping.get(path[0], {}), path[1]: value}}


def joined_prompt(system: str, prefix: str | None) -> str:
    """Return a system prompt and the prefix of every prompt as one prefix."""
    return f"{system}\n\n{prefix}" if prefix else system


def _with_prompt(made: Delegator, system: str | None) -> Delegator:
    """Let every prompt begin with the system prompt, if the delegator takes a prefix."""
    if not system or not system.strip():
        return made
    supported = declarations.capabilities_of(made, None)
    if made.model_server is None and (supported is None or "prompt_prefix" not in supported.launch):
        return made
    before = made.launch or Launch()
    launch = msgspec.structs.replace(before, prompt_prefix=joined_prompt(system, before.prompt_prefix))
    return msgspec.structs.replace(made, launch=launch)


def _without_permissions(made: Delegator, top: _Lenient) -> Delegator:
    launch = made.launch
    for name in UNSAFE_LAUNCH if launch is not None else ():
        value = getattr(launch, name)
        if launch is not None and value is not None and value not in _HARMLESS.get(name, ()):
            launch = msgspec.structs.replace(launch, **{name: None})
            top.draft.drop(f"launch.{name}", _UNSAFE_REASON, top.document.location(("x_operator", "launch_config")))
    for name in UNSAFE:
        if getattr(made, name) is not None:
            made = msgspec.structs.replace(made, **{name: None})
            top.draft.drop(name, _UNSAFE_REASON, top.document.location((OWN, name)))
    return msgspec.structs.replace(made, launch=launch if launch != Launch() else None)


def _only_kept(made: Delegator, agent: RemoteAgent, provider: str | None) -> Delegator:
    """Return a delegator that is listed and exported, and cannot be started."""
    return Delegator(
        name=made.name,
        display_name=made.display_name,
        tool=_plain(provider),
        model=_plain(made.model) or "",
        remote_agent=RemoteAgent(platform=_plain(agent.platform) or "unknown", id=_plain(agent.id) or "unnamed"),
    )


def _usable(value: Any) -> Any:
    """Return a value with ordinary numbers; one that is too large becomes null, which is named as not carried over."""
    if isinstance(value, dict):
        return {key: _usable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_usable(item) for item in value]
    if not isinstance(value, Number):
        return value
    number = float(value.text)
    if number.is_integer() and abs(number) < 2**63:
        return int(number)
    return number if math.isfinite(number) else None


def _plain(value: str | None) -> str | None:
    """Return a text without what a configuration file cannot hold; the profile beside it has the original."""
    if value is None or holds_secret(value):
        return None
    return re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]+", " ", value).strip()[:200] or None
