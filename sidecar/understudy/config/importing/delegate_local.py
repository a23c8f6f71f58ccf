"""Read the settings of claude-code-delegate-local: environment variables, also those that register it as an MCP server.

They are in ``mcpServers`` of ``.mcp.json`` or ``~/.claude.json``, or in the environment of this process. Nothing else
of these files is read.
"""

from __future__ import annotations

from collections.abc import Mapping

from understudy.config.discovery import declarations
from understudy.config.findings import KeyPath
from understudy.config.importing.agent_delegate import kind_of
from understudy.config.importing.draft import Draft, Drafted, FoundKey, Table, expansion, is_secret, reasons
from understudy.config.importing.foreign_files import Document
from understudy.model.config.delegators import Delegator, KeyReference, Limits, ModelServer
from understudy.model.errors import Location

PREFIX = "DELEGATE_"
NAME = "delegate-local"
_MARKS = ("DELEGATE_LOCAL_", "DELEGATE_CLOUD_", "DELEGATE_CODEX_")
_URL, _KEY, _MODEL = "DELEGATE_LOCAL_URL", "DELEGATE_LOCAL_KEY", "DELEGATE_LOCAL_MODEL"
_USUAL_URL, _USUAL_MODEL = "http://localhost:4000/v1/messages", "local-qwen-3-6-35b"


def read(document: Document, draft: Draft, project: str | None = None) -> bool:
    """Add the servers of ``mcpServers``, also those of one project, that are delegate-local; return whether any is."""
    has_any = _read_servers(document, draft, ("mcpServers",), document.values.get("mcpServers"))
    projects = document.values.get("projects")
    of_project = projects.get(project) if isinstance(projects, dict) and project is not None else None
    if isinstance(of_project, dict) and project is not None:
        path = ("projects", project, "mcpServers")
        has_any = _read_servers(document, draft, path, of_project.get("mcpServers")) or has_any
    return has_any


def _read_servers(document: Document, draft: Draft, path: KeyPath, values: object) -> bool:
    if values is None:
        return False
    has_any = False
    for name, server in Table(document, draft, path, values).named():
        variables = server.values.get("env")
        marked = isinstance(variables, dict) and any(key.startswith(_MARKS) for key in variables)
        if name == NAME or marked:
            env = server.table("env")
            if env is not None:
                _add(env, draft, server)
            else:
                _build({}, draft, None, server.name(), server.location())
            has_any = True
    return has_any


def read_environment(variables: Mapping[str, str], draft: Draft) -> bool:
    """Add what environment variables of this process configure; return whether one of them is set."""
    own_variables = {name: value for name, value in variables.items() if name.startswith(PREFIX) and value}
    if not any(name.startswith(_MARKS) for name in own_variables):
        return False
    _build(own_variables, draft, None, "the environment", None)
    return True


def _add(env: Table, draft: Draft, server: Table) -> None:
    variables: dict[str, str] = {}
    for name in env.values:
        if name.startswith(PREFIX):
            value = env.text(name)
            if value:
                variables[name] = value
    env.end("It is passed to the MCP server only.")
    _build(variables, draft, env, server.name(), server.location())


def _build(variables: dict[str, str], draft: Draft, env: Table | None, name: str, location: Location | None) -> None:
    left = dict(variables)

    def drop(variable: str, reason: str) -> None:
        where = env.location(variable) if env is not None else None
        draft.drop(env.name(variable) if env is not None else variable, reason, where)

    def take(variable: str) -> str | None:
        value = left.pop(variable, None)
        if value is not None and expansion(value) is not None:
            drop(variable, "Its value is another variable's, which is not carried over. Set the value itself.")
            return None
        return value

    def number(variable: str) -> int | None:
        value = take(variable)
        if value is None:
            return None
        if not value.strip().isdecimal() or not 0 < int(value.strip()[:10]) < 10**9:
            drop(variable, "It is not a whole number above zero.")
            return None
        return int(value.strip()[:10])

    reference, key = None, None
    secret = left.pop(_KEY, None)
    if secret is not None:
        variable = expansion(secret) if env is not None else _KEY
        if env is None or variable is not None:
            reference = KeyReference(from_env=variable)
        else:
            key = FoundKey(secret, env.name(_KEY), env.location(_KEY))
    model = take(_MODEL) or _USUAL_MODEL
    url = (take(_URL) or _USUAL_URL).rstrip("/")
    for suffix in ("/messages", "/chat/completions"):
        url = url.removesuffix(suffix)
    server = ModelServer(
        name=NAME,
        kind=kind_of(url),
        base_url=url,
        protocols=[declarations.AUTO],  # by the name of each call's model
        api_key=reference,
        max_concurrent=number("DELEGATE_CONCURRENCY_DEFAULT"),
    )
    turns, total = number("DELEGATE_LOCAL_MAX_TURNS"), number("DELEGATE_DISPATCH_TIMEOUT")
    limits = Limits(max_turns=turns, total_seconds=total) if turns or total else None
    draft.servers.append(Drafted(server, name, location, key))
    first = Delegator(name=NAME, model_server=NAME, model=model, limits=limits)
    draft.delegators.append(Drafted(first, name, location))
    draft.default = (NAME, name, location)
    coding = take("DELEGATE_LOCAL_CODING_MODEL") or take("DELEGATE_CODING_MODEL")
    if coding is not None and coding != model:
        second = Delegator(name=f"{NAME}-coding", model_server=NAME, model=coding, limits=limits)
        draft.delegators.append(Drafted(second, name, location))
    codex = take("DELEGATE_CODEX_MODEL")
    if codex is not None:
        draft.delegators.append(Drafted(Delegator(name="codex", tool="codex", model=codex), name, location))
    for variable, value in left.items():
        if variable.startswith("DELEGATE_CONCURRENCY_"):
            drop(variable, "Set it on the model server of this provider: understudy servers add --max-concurrent")
        elif is_secret(variable, value):
            drop(variable, "A key in plain text is not copied.")
        else:
            drop(variable, reasons("delegate-local").get(variable, "Understudy does not know this setting."))
