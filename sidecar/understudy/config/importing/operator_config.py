"""Read ``config.toml`` of Operator: its delegators and model servers are nearly ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from understudy.config.discovery.server_presets import kinds
from understudy.config.importing.draft import Draft, Drafted, Table, read_each, reasons
from understudy.config.importing.foreign_files import Document
from understudy.model.config.delegators import Delegator, KeyReference, Launch, ModelServer, RemoteAgent

_KINDS = {
    "anthropic-api": "anthropic",
    "openai-api": "openai",
    "google-api": "google",
    "ollama": "ollama",
    "openrouter": "openrouter",
    "openai-compat": "custom",
    "lmstudio": "lmstudio",
}

_BAGS = ("x_agnt", "x_openai", "unmapped_core")
_KEPT = ("remote_agent", *_BAGS)
"""What a delegator has only for other services; the agent profile beside it keeps it."""


def read(document: Document, draft: Draft, variables: Mapping[str, str]) -> None:
    """Add the delegators and model servers to ``draft``."""
    for name in sorted(variables):
        if name.startswith("OPERATOR_") and "__" in name:
            draft.drop(name, "Only the file is read, not variables that override it.", None)
    top = Table(document, draft, (), document.values)
    read_each(top.tables("model_servers"), lambda server: _server(server, draft))
    read_each(top.tables("delegators"), lambda delegator: _delegator(delegator, draft))
    for key, reason in reasons("operator").items():
        top.drop(key, reason)
    top.end()


def _server(server: Table, draft: Draft) -> None:
    name, theirs = server.required("name"), server.required("kind")
    if theirs not in _KINDS:
        raise server.document.invalid((*server.path, "kind"), f"`{server.name('kind')}` is not a kind of Operator.")
    kind = kinds()[_KINDS[theirs]]
    url = server.text("base_url") or kind.base_url
    if not url:
        raise server.document.invalid(server.path, f"`{server.name('base_url')}` is missing.")
    if kind.local and _has_no_path(url):
        url = url.rstrip("/") + "/v1"
    variable = server.text("api_key_env")
    made = ModelServer(
        name=name,
        display_name=server.text("display_name"),
        kind=kind.kind,
        base_url=url,
        protocols=list(kind.protocols) if kind.protocols != ("openai",) else None,
        api_key=KeyReference(from_env=variable) if variable else None,
    )
    server.drop("extra_env", "A model server has no process; set the variables in `env` of its delegators.")
    server.end()
    draft.servers.append(Drafted(made, server.name(), server.location()))


def _has_no_path(url: str) -> bool:
    try:
        return urlsplit(url).path in {"", "/"}
    except ValueError:
        return False


def _delegator(table: Table, draft: Draft) -> None:
    name = table.required("name")
    profile = _profile(table) if any(key in table for key in _KEPT) else None
    if "remote_agent" in table:
        _remote_delegator(name, table, profile, draft)
        return
    tool = table.required("llm_tool")
    properties, launch = table.any("model_properties"), table.table("launch_config")
    if properties is not None and not isinstance(properties, dict):
        raise table.document.invalid((*table.path, "model_properties"), "`model_properties` must be a table.")
    made = Delegator(
        name=name,
        display_name=table.text("display_name"),
        tool=tool,
        model=table.required("model"),
        model_server=table.text("model_server"),
        model_properties=properties or None,
        launch=_launch(launch) if launch is not None else None,
    )
    table.drop_all(_BAGS, "It is kept for `understudy delegators export`, and has no effect here.")
    table.end()
    draft.delegators.append(Drafted(made, table.name(), table.location(), profile=profile))


def _remote_delegator(name: str, table: Table, profile: str | None, draft: Draft) -> None:
    """Add a delegator that stands for an agent on another service: it is listed and exported, and never started."""
    remote = table.table("remote_agent")
    if remote is None:
        return
    agent = RemoteAgent(platform=remote.required("platform"), id=remote.required("id"))
    remote.end()
    made = Delegator(
        name=name,
        display_name=table.text("display_name"),
        tool=table.text("llm_tool"),
        model=table.text("model") or "",
        remote_agent=agent,
    )
    table.end("The agent runs on another service; this is kept for `understudy delegators export`.")
    draft.delegators.append(Drafted(made, table.name(), table.location(), profile=profile))


def _profile(table: Table) -> str:
    """Return the agent profile that Operator exports for a delegator."""
    values = table.values
    core = values.get("unmapped_core")
    core = core if isinstance(core, dict) else {}
    profile = {"name": values.get("name"), "provider": values.get("llm_tool"), "model": values.get("model")}
    if "system_prompt" in core:
        profile["system_prompt"] = core["system_prompt"]
    profile |= {key: core.get(key, []) for key in ("skills", "mcp_servers", "tools")}
    keys = ("display_name", "model_properties", "model_server", "launch_config")
    profile |= {key: values[key] for key in ("remote_agent",) if key in values}
    bag = {key: values[key] for key in keys if values.get(key)}
    profile |= {"x_operator": bag} if bag else {}
    profile |= {key: values[key] for key in ("x_agnt", "x_openai") if key in values}
    return json.dumps(profile, indent=2, ensure_ascii=False, default=str) + "\n"


def _launch(table: Table) -> Launch | None:
    branch = table.flag("create_branch")
    made = Launch(
        yolo=table.flag("yolo"),
        permission_mode=table.text("permission_mode"),
        flags=table.texts("flags") or None,
        use_worktree=table.flag("use_worktrees"),
        branch="understudy/{id}" if branch else None,
        prompt_prefix=table.text("prompt_prefix"),
        prompt_suffix=table.text("prompt_suffix"),
        relay=table.flag("operator_relay"),
    )
    table.drop("docker", "Understudy has no Docker wrapper; agents run in a process namespace where there are any.")
    table.end()
    return made if made != Launch() else None
