"""The tools of claude-code-delegate-local, by their names and parameters, as requests of the API.

What differs: the work is done in a worktree and verified, an answer that takes longer than a call continues under its
id, and a key is never a parameter. Its ``delegate_to_codex`` is ``start`` with a delegator of Codex.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from understudy.frontends.mcp.tools import tool_params
from understudy.frontends.mcp.tools.tool_answers import Answer, brief, marked
from understudy.frontends.mcp.tools.tool_caller import ToolCaller
from understudy.frontends.mcp.tools.tool_functions import Begun, Follow, start_group, start_once
from understudy.model.config.config_entries import ModelServerEntry
from understudy.model.config.delegators import Limits
from understudy.model.delegation.delegations import Delegation, LaunchOverride, StartParams
from understudy.model.delegation.events import ToolCall, ToolResult
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.text import path_quoting
from understudy.model.verdicts import Verdict

MODE = "MODE:LOCAL"
_DESCRIBED = 200
_MODELS = 20
_SHELLS = frozenset({"run_command", "Bash"})
"""The names of the tool that runs commands: that of our loop, and that of agent CLIs like Claude Code."""
_EXIT_CODE = re.compile(r"\[Exit code (-?\d{1,9})\.")
_GOOD = frozenset({Verdict.ANSWERED, Verdict.VERIFIED, Verdict.UNVERIFIED, Verdict.NO_CHANGES})


def delegate_to_local_agent(caller: ToolCaller, args: tool_params.LocalAgentTask) -> Follow:
    """Let an agent do a task, and wait."""
    return _followed(caller, start_once(caller, _params(caller, args), again=False), args)


def delegate_batch(caller: ToolCaller, args: tool_params.LocalBatch) -> Follow:
    """Let agents do several tasks, and wait for all."""
    begun = start_group(caller, [_params(caller, task) for task in args.tasks], None)

    def render(members: Sequence[Delegation]) -> Answer:
        pairs = zip(members, args.tasks, strict=False)
        results = [result(caller, member, task) | {"task_index": at} for at, (member, task) in enumerate(pairs)]
        good = sum(bool(entry["success"]) for entry in results)
        running = any(member.state is not State.FINISHED for member in members)
        whole: Answer = {"success": good == len(args.tasks), "batch_size": len(args.tasks), "successes": good}
        if running:
            whole |= {"status": "running", "id": begun.id, "next": "wait"}
        else:
            whole |= {"failures": len(args.tasks) - good, "elapsed_s": _seconds(*members)}
        return marked(whole, begun.marks, again=False) | {"results": results}

    return Follow(begun.id, group=True, render=render)


def delegate_to_provider(caller: ToolCaller, args: tool_params.ProviderTask) -> Follow:
    """Let an agent do a task on a configured model server, and wait. Errors: ``secret_withheld``."""
    reference = _key_reference(args.api_key)
    folder = caller.require_folder(args.workdir)
    workspace = path_quoting.uri_of(folder)
    server = _server(caller.call("modelServers/list", workspace=workspace).model_servers, args.provider_url)
    server_key = server.model_server.api_key
    if reference is not None and (server_key is None or server_key.from_env != reference):
        raise UnderstudyError(
            ErrorKind.SECRET_WITHHELD,
            f"The key of the model server {server.model_server.name!r} is not the variable {reference!r}.",
            hint="Leave api_key out: the configured key is used.",
            parameter="api_key",
        )
    delegators = caller.call("delegators/list", workspace=workspace).delegators
    on_it = [entry.delegator for entry in delegators if entry.delegator.model_server == server.model_server.name]
    exact = [delegator for delegator in on_it if delegator.model == args.model]
    if not on_it:
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATOR,
            f"No delegator uses the model server {server.model_server.name!r}.",
            hint=f"The user adds one: understudy delegators add NAME --model-server {server.model_server.name}",
        )
    task = args.task if args.mode_tag == MODE else f"[{args.mode_tag}]\n\n{args.task}"
    same = tool_params.LocalAgentTask(
        agent_name=args.agent_name,
        task=task,
        workdir=args.workdir,
        max_turns=args.max_turns,
        model=None if exact else args.model,
        max_tokens=args.max_tokens,
    )
    return _followed(caller, start_once(caller, _params(caller, same, (exact or on_it)[0].name), again=False), same)


def list_local_agents(caller: ToolCaller, args: tool_params.NoArguments) -> Answer:
    """List the agents."""
    _ = args
    agents = caller.call("agents/list", workspace=path_quoting.uri_of(caller.require_folder(None))).agents
    return {
        "agents": [
            {
                "name": agent.name,
                "description": agent.description[:_DESCRIBED],
                "declared_model": agent.model,
                "path": str(path_quoting.path_of(agent.location.uri) or ""),
            }
            for agent in agents
        ]
    }


def local_backend_status(caller: ToolCaller, args: tool_params.NoArguments) -> Answer:
    """Test the model servers."""
    _ = args
    workspace = path_quoting.uri_of(caller.require_folder(None))
    servers = []
    for entry in caller.call("modelServers/list", workspace=workspace).model_servers:
        server = entry.model_server
        if caller.cancelled():
            break
        status: Answer = {"name": server.name, "url": server.base_url}
        try:
            listed = caller.call("modelServers/models", name=server.name, workspace=workspace).models
            status |= {"healthy": True, "models": [model.id for model in listed[:_MODELS]]}
        except UnderstudyError as error:
            status |= {"healthy": False, "error": error.message}
        servers.append(status)
    return {"healthy": bool(servers) and all(status["healthy"] for status in servers), "servers": servers}


def _followed(caller: ToolCaller, begun: Begun, task: tool_params.LocalAgentTask) -> Follow:
    return Follow(begun.id, render=lambda members: marked(result(caller, members[0], task), begun.marks, again=False))


def result(caller: ToolCaller, delegation: Delegation, task: tool_params.LocalAgentTask) -> Answer:
    """Return a result with the names that claude-code-delegate-local gave its parts, as far as they apply."""
    finished = delegation.state is State.FINISHED
    good = finished and delegation.verdict in _GOOD and delegation.error is None
    usage = delegation.usage
    answer: Answer = {
        "success": good,
        "agent_name": task.agent_name,
        "agent_source": _source(caller, delegation, task.agent_name),
        "model": delegation.attempts[-1].model if delegation.attempts else None,
        "workdir": delegation.workspace,
        "turns": usage.turns,
        "max_turns": task.max_turns or None,
        "tool_calls": usage.tool_calls,
        "tokens_in": usage.input_tokens,
        "tokens_out": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_creation_tokens": usage.cache_write_tokens,
        "cache_hit_pct": round(100 * usage.cache_read_tokens / usage.input_tokens, 1) if usage.input_tokens else None,
        "incomplete": finished and not good,
    }
    short = brief(delegation)
    if "text" in short:
        answer["final_response"] = short.pop("text")
    if finished:
        answer["stop_reason"] = str(delegation.verdict)
        answer["hit_turn_limit"] = delegation.verdict is Verdict.BUDGET_EXHAUSTED
        answer["elapsed_s"] = _seconds(delegation)
        answer |= _commands(caller, delegation)
    return {key: value for key, value in answer.items() if value is not None} | short


def _params(caller: ToolCaller, args: tool_params.LocalAgentTask, delegator: str | None = None) -> StartParams:
    folder = caller.require_folder(args.workdir)
    properties: dict[str, Any] | None = None if args.max_tokens is None else {"max_tokens": args.max_tokens}
    launch = LaunchOverride(model=args.model or None, model_properties=properties)
    return StartParams(
        recipe="implement",
        task=args.task,
        agent=args.agent_name,
        delegator=delegator,
        workspace=path_quoting.uri_of(Path(folder)),
        launch=None if launch == LaunchOverride() else launch,
        limits=Limits(max_turns=args.max_turns) if args.max_turns else None,
    )


def _key_reference(value: Any) -> str | None:
    """Return the variable that ``api_key`` refers to. Errors: ``secret_withheld`` for a key; it is not repeated."""
    if value in (None, ""):
        return None
    if isinstance(value, dict) and value.keys() == {"from_env"} and isinstance(value["from_env"], str):
        return str(value["from_env"])
    raise UnderstudyError(
        ErrorKind.SECRET_WITHHELD,
        "A key is not accepted as a parameter: it would be in the transcript of this conversation.",
        hint='Leave api_key out, or pass {"from_env": NAME}; the user configures the server: understudy servers add',
        parameter="api_key",
    )


def _server(entries: Sequence[ModelServerEntry], url: str) -> ModelServerEntry:
    for entry in entries:
        if _address(entry.model_server.base_url) == _address(url):
            return entry
    raise UnderstudyError(
        ErrorKind.UNKNOWN_MODEL_SERVER,
        "No model server is configured with this address.",
        hint="The user adds it: understudy servers add",
        names=[entry.model_server.base_url for entry in entries][:10] or None,
        parameter="provider_url",
    )


def _address(url: str) -> tuple[str, str, str]:
    """Return scheme, host and path of an address, without the end that names a request of the API."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for end in ("/chat/completions", "/messages", "/v1"):
        path = path.removesuffix(end).rstrip("/")
    return parts.scheme.lower(), parts.netloc.lower(), path


def _source(caller: ToolCaller, delegation: Delegation, agent: str) -> str | None:
    """Return the file of the agent that was used."""
    agents = caller.call("agents/list", workspace=path_quoting.uri_of(Path(delegation.workspace))).agents
    location = next((entry.location for entry in agents if entry.name == agent), None)
    return None if location is None else str(path_quoting.path_of(location.uri) or "") or None


def _commands(caller: ToolCaller, delegation: Delegation) -> Answer:
    """Return how many commands of the shell an agent ran, how many failed, and how the last one ended."""
    calls: list[str] = []
    ends: list[ToolResult] = []
    last = -1
    page = caller.call("delegations/events", id=delegation.id)
    while page.last > last:
        calls += [event.call_id for event in page.events if isinstance(event, ToolCall) and event.name in _SHELLS]
        ends += [event for event in page.events if isinstance(event, ToolResult) and event.call_id in calls]
        last = page.last
        page = caller.call("delegations/events", id=delegation.id, after=last)
    codes = [match[1] for end in ends if (match := _EXIT_CODE.search(end.output)) is not None]
    return {
        "bash_calls": len(calls),
        "bash_failures": sum(not end.ok for end in ends),
        "last_bash_exit": int(codes[-1]) if codes else None,
    }


def _seconds(*delegations: Delegation) -> float | None:
    """Return the seconds from the first start to the last end; None while one of them runs."""
    ends = [delegation.finished_at for delegation in delegations if delegation.finished_at is not None]
    if not ends or len(ends) < len(delegations):
        return None
    began = min(datetime.fromisoformat(delegation.started_at) for delegation in delegations)
    return round((max(map(datetime.fromisoformat, ends)) - began).total_seconds(), 1)
