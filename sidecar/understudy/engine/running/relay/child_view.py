"""What an agent reads about a delegation that it started: short, and with the next step."""

from __future__ import annotations

from typing import Any

from understudy.engine.worktrees.worktree_record import load_record
from understudy.git import diff
from understudy.journal.delegation_folder import Folder
from understudy.journal.summaries import summary
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State
from understudy.model.text import patches
from understudy.model.text.verdict_text import verdict_sentence

MOST_TEXT = 20_000
"""Characters of an answer."""
MOST_PATCH = 60_000
"""Characters of a patch."""
MOST_FILES = 100

Answer = dict[str, Any]


def brief(delegation: Delegation) -> Answer:
    """Return the state of a delegation; ``status`` is ``running`` or ``finished``."""
    finished = delegation.state is State.FINISHED
    answer: Answer = {
        "id": delegation.id,
        "status": "finished" if finished else "running",
        "title": delegation.title,
        "delegator": delegation.delegator,
    }
    if not finished:
        asks = "it waits for an answer of the user" if delegation.waiting_for is not None else delegation.activity
        return answer | {"state": str(delegation.state), "activity": asks, "next": "wait"}
    text = delegation.result and (
        delegation.result.text if delegation.result.text is not None else delegation.result.summary
    )
    answer |= {
        "verdict": str(delegation.verdict),
        "meaning": verdict_sentence(delegation),
        "text": text and text[:MOST_TEXT],
        "tokens": delegation.usage.input_tokens + delegation.usage.output_tokens or None,
        "cost_usd": delegation.cost_usd if delegation.cost_known else None,
    }
    if delegation.result is not None and delegation.result.files:
        answer["files"] = [f"{file.status} {file.path}" for file in delegation.result.files[:MOST_FILES]]
        answer["next"] = "diff"
    if delegation.checks:
        answer["checks"] = {check.name: "passed" if check.ok else "failed" for check in delegation.checks}
    if delegation.error is not None:
        answer["error"] = f"{delegation.error.message} {delegation.error.hint or ''}".strip()
    return {key: value for key, value in answer.items() if value is not None}


def patch_of(folder: Folder, files: list[str]) -> str:
    """Return the patch of a result, or only that of some of its files.

    Errors: ``conflict`` (no result yet), ``base_unavailable``, ``invalid_params`` (files that it does not change).
    """
    delegation = summary.load(folder)
    if delegation.state is not State.FINISHED:
        raise UnderstudyError(ErrorKind.CONFLICT, f"{delegation.id} has no result yet.", hint="Call `wait` first.")
    if delegation.head is None:
        return "Nothing changed."
    record, objects = load_record(folder)
    patch = diff.unified(objects, record.base_commit, delegation.head)
    if files:
        changed = [one.path for one in delegation.result.files] if delegation.result is not None else []
        names = {path for path in changed if path in {one.removeprefix("./") for one in files}}
        if not names:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                "The result does not change these files.",
                hint="Name files of the result.",
                names=changed[:20] or None,
            )
        patch = b"".join(part for part in patches.split(patch) if patches.concerns(part, names))
    text = patch.decode("utf-8", "replace")
    if len(text) > MOST_PATCH:
        return f"{text[:MOST_PATCH]}\n[cut: {len(text)} characters; pass `files` to get less]"
    return text or "Nothing changed."
