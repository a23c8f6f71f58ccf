"""Write delegators as a workflow of AGNT: a graph of nodes, one after the other.

An agent that lives on AGNT is a node ``agnt-agent``, which AGNT runs itself. Every other delegator is a node
``operator-run-step``, which AGNT hands to the program that its plug-in belongs to. What a node cannot hold is named in
its parameter ``gap``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from understudy.model.config.delegators import Delegator
from understudy.model.errors import ErrorKind, UnderstudyError

PLATFORM = "agnt"
_GAP = "OPERATOR-GAP"
_DISTANCE = 160
"""Between two nodes, in AGNT's units."""
_HELD = frozenset({"name", "display_name", "tool", "model", "remote_agent", "extensions"})


@dataclass
class AgntWorkflow:
    """A workflow as JSON, and what it does not have."""

    text: str
    left_out: list[tuple[str, str]] = field(default_factory=list)


def agnt_workflow(delegators: Sequence[Delegator], task: str | None) -> AgntWorkflow:
    """Return the workflow in which ``delegators`` work on ``task``, in this order.

    Raises ``remote_only_delegator`` for an agent on another service than AGNT: no node can run it.
    """
    made = AgntWorkflow("")
    nodes = [_node(delegator, number, task, made) for number, delegator in enumerate(delegators)]
    names = [node["id"] for node in nodes]
    workflow = {
        "name": " → ".join(names),
        "description": task or "",
        "nodes": nodes,
        "edges": [
            {"id": f"{start}->{end}", "start": {"id": start}, "end": {"id": end}}
            for start, end in itertools.pairwise(names)
        ],
    }
    made.text = json.dumps(workflow, indent=2, ensure_ascii=False) + "\n"
    return made


def _node(delegator: Delegator, number: int, task: str | None, made: AgntWorkflow) -> dict[str, Any]:
    agent = delegator.remote_agent
    if agent is not None and agent.platform.lower() != PLATFORM:
        raise UnderstudyError(
            ErrorKind.REMOTE_ONLY_DELEGATOR,
            f"The delegator {delegator.name!r} stands for the agent {agent.id!r} on {agent.platform}, and AGNT runs "
            "only its own.",
            hint=f"Export it as an agent profile: understudy delegators export {delegator.name}",
        )
    launch = delegator.launch
    parts = [launch.prompt_prefix, task, launch.prompt_suffix] if launch is not None else [task]
    prompt = "\n\n".join(part for part in parts if part)
    gaps = [name for name in delegator.__struct_fields__ if name not in _HELD and getattr(delegator, name) is not None]
    notes = [f"{_GAP}: {', '.join(gaps)} of {delegator.name!r} has no counterpart in AGNT."] if gaps else []
    made.left_out += [(f"{delegator.name}: {name}", "AGNT has no counterpart.") for name in gaps]
    if not prompt:
        notes.append(f"{_GAP}: no task was given; write it into the node.")
    parameters: dict[str, Any] = {"step": delegator.name}
    if agent is not None:
        parameters |= {"agentId": agent.id, "message": prompt}
    else:
        parameters |= {"prompt": prompt}
        notes.append(f"{_GAP}: AGNT does not run {delegator.name!r} itself; set the ticket of the plug-in.")
    parameters["model"] = delegator.name
    if notes:
        parameters["gap"] = " | ".join(notes)
    return {
        "id": delegator.name,
        "type": "agnt-agent" if agent is not None else "operator-run-step",
        "text": delegator.display_name or delegator.name,
        "x": 0,
        "y": number * _DISTANCE,
        "parameters": parameters,
    }
