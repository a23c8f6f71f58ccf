"""What each tool does: a request or two of the API. The functions block, and are called in a thread."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from understudy.api import result_files
from understudy.api.serving import base_digest, mcp_permissions
from understudy.frontends.mcp.tools import tool_params
from understudy.frontends.mcp.tools.tool_answers import Answer, brief, marked, of_group, offered, question
from understudy.frontends.mcp.tools.tool_caller import ToolCaller
from understudy.model.config.delegators import Limits, Scope
from understudy.model.delegation.delegations import Delegation, GroupBudget, LaunchOverride, StartParams
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.text import patches, path_quoting
from understudy.model.verdicts import Verdict
from understudy.model.wire import timestamp

ATTACH_SECONDS = 300.0
"""How long after its end an equal call attaches to work: the answer to the first call may have been lost."""
MOST_PATCH = 60_000
"""Characters of a patch; the rest is a resource, and `files` selects."""
_ASK = "ask"
_DESCRIBED = 200
_MOST_KEYS = 50
"""How much equal work on the same files is passed over. Keys are kept for a day."""
_RESULTS = frozenset(
    {Verdict.ANSWERED, Verdict.VERIFIED, Verdict.UNVERIFIED, Verdict.CHECKS_FAILED, Verdict.NO_CHANGES}
)
"""How work ended that an equal call may want; what failed or was stopped, it wants to be done."""


@dataclass(frozen=True)
class Follow:
    """The call waits for a delegation, or for a group, and answers with what ``render`` makes of it."""

    id: str
    seconds: float = 45.0
    group: bool = False
    render: Callable[[Sequence[Delegation]], Answer] | None = None


@dataclass(frozen=True)
class Begun:
    """What a call started, or attached to: a delegation, or the members of a group."""

    id: str
    members: Sequence[Delegation]
    created_at: str
    marks: Answer | None = None
    """What tells the model that an earlier call started it; None if this call did."""


def start(caller: ToolCaller, args: tool_params.Start) -> Answer:
    """Start a delegation, or attach to the one that an equal call started."""
    folder = caller.require_folder(args.workspace, args.files)
    begun = start_once(caller, start_params(args, folder), again=args.again)
    return {**marked(brief(begun.members[0]), begun.marks, again=True), "workspace": str(folder)}


def start_params(task: tool_params.Task, folder: Path) -> StartParams:
    """Return the request for a task; relative paths start in ``folder``."""
    limits = Limits(max_turns=task.max_turns, max_usd=task.max_usd)
    return StartParams(
        recipe=task.recipe,
        task=task.task,
        files=_uris(task.files, folder),
        context_files=_uris(task.context_files, folder),
        delegator=task.delegator,
        agent=task.agent,
        launch=None if task.model is None else LaunchOverride(model=task.model),
        checks=task.checks,
        limits=None if limits == Limits() else limits,
        workspace=path_quoting.uri_of(folder),
    )


def start_once(caller: ToolCaller, params: StartParams, *, again: bool) -> Begun:
    """Start a delegation, or attach to the one that an equal request started."""

    def begin(key: str) -> Begun:
        begun = caller.call("delegations/start", **_wire(msgspec.structs.replace(params, idempotency_key=key)))
        delegation: Delegation = caller.call("delegations/get", id=begun.id)
        return Begun(delegation.id, [delegation], delegation.started_at)

    return _once(begin, _key(caller, "start", params, [params], again=again))


def batch(caller: ToolCaller, args: tool_params.Batch) -> Answer:
    """Start a group, or attach to the one that an equal call started."""
    folder = caller.require_folder(args.workspace, args.tasks[0].files if args.tasks else ())
    budget = GroupBudget(max_tokens=args.max_tokens, max_usd=args.max_usd)
    tasks = [start_params(task, folder) for task in args.tasks]
    begun = start_group(caller, tasks, None if budget == GroupBudget() else budget, again=args.again)
    return marked(of_group(begun.id, begun.members), begun.marks, again=True)


def start_group(
    caller: ToolCaller, tasks: Sequence[StartParams], budget: GroupBudget | None, *, again: bool = False
) -> Begun:
    """Start a group, or attach to the one that an equal request started."""

    def begin(key: str) -> Begun:
        group = caller.call(
            "groups/start",
            tasks=[_wire(task) for task in tasks],
            budget=None if budget is None else msgspec.to_builtins(budget),
            idempotencyKey=key,
        ).group
        members = caller.call("groups/wait", id=group.id, timeoutSeconds=0).delegations
        return Begun(group.id, members, group.created_at)

    return _once(begin, _key(caller, "batch", [list(tasks), budget], tasks, again=again))


def wait(caller: ToolCaller, args: tool_params.Wait) -> Follow:
    """Wait for a delegation or a group."""
    identifier, group = which(caller, args.id)
    return Follow(identifier, args.timeout_seconds, group)


def show(caller: ToolCaller, args: tool_params.Named) -> Answer:
    """Return the state of a delegation or a group."""
    identifier, group = which(caller, args.id)
    if group:
        return of_group(identifier, caller.call("groups/wait", id=identifier, timeoutSeconds=0).delegations)
    return brief(caller.call("delegations/get", id=identifier))


def which(caller: ToolCaller, named: str) -> tuple[str, bool]:
    """Return the full id of a delegation or a group, and whether it is a group. Errors: ``unknown_delegation``."""
    try:
        return caller.call("delegations/get", id=named).id, False
    except UnderstudyError as error:
        if error.kind is not ErrorKind.UNKNOWN_DELEGATION:
            raise
        try:
            return caller.call("groups/get", id=named).id, True
        except UnderstudyError:
            raise error from None


def diff(caller: ToolCaller, args: tool_params.Diff) -> str:
    """Return the patch of a result."""
    delegation: Delegation = caller.call("delegations/get", id=args.id)
    changed = [file.path for file in delegation.result.files] if delegation.result is not None else []
    patch = patches.without_notes(result_files.read_review(delegation.id))
    text = patches.chosen(patch, changed, args.files or ()).decode("utf-8", "replace")
    if not text:
        return "Nothing changed."
    if len(text) > MOST_PATCH:
        whole = f"understudy://delegations/{delegation.id}/diff"
        return f"{text[:MOST_PATCH]}\n[cut: {len(text)} characters; pass `files`, or read the resource {whole}]"
    return text


def evidence(caller: ToolCaller, args: tool_params.Named) -> str:
    """Return everything that the verdict rests on."""
    return str(caller.call("delegations/evidence", id=args.id).markdown)


def reply(caller: ToolCaller, args: tool_params.Reply) -> Answer:
    """Send a result back; one that was sent back already is answered with its follow-up."""
    delegation: Delegation = caller.call("delegations/get", id=args.id)
    if delegation.superseded_by is not None:
        note = (
            f"{delegation.id} was sent back before; this is its follow-up, and its instructions are the earlier ones."
        )
        return {**brief(caller.call("delegations/get", id=delegation.superseded_by)), "note": note}
    begun = caller.call("delegations/reply", id=delegation.id, text=args.text)
    return brief(caller.call("delegations/get", id=begun.id))


def answer(caller: ToolCaller, args: tool_params.Answer) -> Answer:
    """Answer the permission request of a delegation."""
    delegation: Delegation = caller.call("delegations/get", id=args.id)
    request = delegation.waiting_for
    if request is None:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"{delegation.id} does not wait for an answer.",
            hint="Call wait or show to see its state.",
        )
    picked = [option for option in offered(request) if args.option in {option.kind, option.id, option.title}]
    if len(picked) != 1:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{args.option!r} does not name one of the options.",
            hint="Use an `option` of the question.",
            names=[str(option["option"]) for option in question(request)["options"]],
            parameter="option",
        )
    params = {"requestId": request.request_id, "option": picked[0].id, "note": args.note}
    caller.call("delegations/answer", id=delegation.id, **params)
    answered = picked[0].title if request.kind == "question" else picked[0].kind
    return {"id": delegation.id, "answered": answered, "next": "wait"}


def say(caller: ToolCaller, args: tool_params.Say) -> Answer:
    """Say something to the agent of a running delegation."""
    return {"delivery": caller.call("delegations/say", id=args.id, text=args.text).delivery}


def cancel(caller: ToolCaller, args: tool_params.Named) -> Answer:
    """Stop a delegation or all of a group."""
    identifier, group = which(caller, args.id)
    if group:
        return of_group(identifier, caller.call("groups/cancel", id=identifier).delegations)
    return brief(caller.call("delegations/cancel", id=identifier))


def list_delegators(caller: ToolCaller, args: tool_params.Workspace) -> Answer:
    """List delegators, recipes and agents."""
    workspace = path_quoting.uri_of(caller.require_folder(args.workspace))
    page = caller.call("delegators/list", workspace=workspace)
    agents = caller.call("agents/list", workspace=workspace).agents
    recipes = caller.call("recipes/list", uri=f"{workspace}/any").recipes
    trusted = caller.call("workspace/trust", workspace=workspace)
    listed: Answer = {
        "delegators": [
            {
                "name": entry.delegator.name,
                "runs": entry.tool_display_name or entry.delegator.tool or entry.delegator.model_server,
                "model": entry.delegator.model or None,
                "default": entry.is_default or None,
                "default_for": entry.default_for or None,
                "problem": next(
                    (problem.message for problem in entry.state.problems if problem.severity == "error"), None
                ),
            }
            for entry in page.delegators
            if entry.scope is not Scope.BUILTIN or len(page.delegators) == 1
        ],
        "recipes": {recipe.name: recipe.title for recipe in recipes},
        "agents": {agent.name: agent.description[:_DESCRIBED] for agent in agents},
    }
    if not trusted.trusted:
        listed["untrusted"] = f"Only the user can trust this workspace: understudy trust {trusted.workspace}"
    return listed


def ask(caller: ToolCaller, args: tool_params.Ask) -> Follow:
    """Ask about files, and wait for the answer."""
    folder = caller.require_folder(args.workspace, args.files)
    params = StartParams(
        recipe=_ASK,
        task=args.question,
        context_files=_uris(args.files, folder),
        delegator=args.delegator,
        launch=None if args.model is None else LaunchOverride(model=args.model),
        workspace=path_quoting.uri_of(folder),
    )
    begun = start_once(caller, params, again=args.again)
    return Follow(begun.id, render=lambda members: marked(brief(members[0]), begun.marks, again=True))


def decide(caller: ToolCaller, args: tool_params.Decide) -> Answer:
    """Accept or reject a result, if the user allows it. Errors: ``permission_denied``."""
    mcp_permissions.require_decide()
    paths: Sequence[str | None] = args.files or [None]
    decisions = [
        {key: value for key, value in entry.items() if value is not None}
        for entry in ({"path": path, "decision": args.decision, "reason": args.reason} for path in paths)
    ]
    outcome = caller.call("delegations/decide", id=args.id, decisions=decisions)
    return {
        "decided": len(outcome.decided),
        "conflicts": sorted({conflict.path for conflict in outcome.conflicts}),
        "undo_token": outcome.undo_token,
    }


def _uris(paths: Sequence[str], folder: Path) -> list[str] | None:
    spelled = [
        path if path.startswith("file:") else path_quoting.uri_of(folder / Path(path).expanduser()) for path in paths
    ]
    return spelled or None


def _wire(params: StartParams) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(params)
    return fields


def _key(caller: ToolCaller, kind: str, content: Any, tasks: Sequence[StartParams], *, again: bool) -> str:
    """Return the idempotency key of a request: equal requests on the same files have the same."""
    if again:
        return f"mcp {kind} {secrets.token_hex(16)}"
    text = json.dumps(msgspec.to_builtins(content), sort_keys=True)
    files = [uri for task in tasks for uri in (*(task.files or ()), *(task.context_files or ()))]
    workspace = next((path_quoting.path_of(task.workspace) for task in tasks if task.workspace), None)
    answering = {recipe.name for recipe in caller.call("recipes/list").recipes if recipe.returns == "text"}
    only_files = all(task.recipe in answering for task in tasks)
    base = base_digest.of(workspace, files, only_files_without_git=only_files) if workspace is not None else ""
    digest = hashlib.sha256(f"{base} {text}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"mcp {kind} {digest}"


def _once(begin: Callable[[str], Begun], key: str) -> Begun:
    """Start something with a key, or attach to what an equal call started.

    What an equal call must not get gives the key of the next try, so that of two calls at the same time only one starts
    something.
    """
    now = timestamp()
    for _ in range(_MOST_KEYS):
        begun = begin(key)
        if begun.created_at >= now:
            return begun
        running = any(member.state is not State.FINISHED for member in begun.members)
        if begun.members and (running or all(map(_attaches, begun.members))):
            return replace(begun, marks=_marks(begun.members))
        key = f"{key} after {begun.id}"
    raise UnderstudyError(
        ErrorKind.CONFLICT,
        "Equal calls were made too often, or this computer's clock was changed.",
        hint="Pass `again`: true.",
    )


def _attaches(delegation: Delegation) -> bool:
    """Return whether an equal call gets this work: it runs or waits, or has just ended with a result to decide on."""
    if delegation.state is not State.FINISHED:
        return True
    is_decided = (
        delegation.review.accepted or delegation.review.rejected or delegation.superseded_by or delegation.rescue_ref
    )
    return delegation.verdict in _RESULTS and not is_decided and _ago(delegation) < ATTACH_SECONDS


def _marks(members: Sequence[Delegation]) -> Answer:
    if any(member.state is not State.FINISHED for member in members):
        return {"attached": True}
    return {"attached": True, "finished_seconds_ago": round(min(map(_ago, members)))}


def _ago(finished: Delegation) -> float:
    return age(finished.finished_at or finished.started_at)


def age(at: str) -> float:
    """Return how many seconds ago something happened."""
    return (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
