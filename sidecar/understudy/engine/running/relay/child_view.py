"""What an agent reads about a delegation that it started: short, and with the next step."""

from __future__ import annotations

from typing import Any

from understudy.engine.worktrees.record import load_record
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


def brief(found: Delegation) -> Answer:
    """Return the state of a delegation; ``status`` is ``running`` or ``finished``."""
    done = found.state is State.FINISHED
    answer: Answer = {
        "id": found.id,
        "status": "finished" if done else "running",
        "title": found.title,
        "delegator": found.delegator,
    }
    if not done:
        asks = "it waits for an answer of the user" if found.waiting_for is not None else found.activity
        return answer | {"state": str(found.state), "activity": asks, "next": "wait"}
    text = found.result and (found.result.text if found.result.text is not None else found.result.summary)
    answer |= {
        "verdict": str(found.verdict),
        "meaning": verdict_sentence(found),
        "text": text and text[:MOST_TEXT],
        "tokens": found.usage.input_tokens + found.usage.output_tokens or None,
        "cost_usd": found.cost_usd if found.cost_known else None,
    }
    if found.result is not None and found.result.files:
        answer["files"] = [f"{one.status} {one.path}" for one in found.result.files[:MOST_FILES]]
        answer["next"] = "diff"
    if found.checks:
        answer["checks"] = {check.name: "passed" if check.ok else "failed" for check in found.checks}
    if found.error is not None:
        answer["error"] = f"{found.error.message} {found.error.hint or ''}".strip()
    return {key: value for key, value in answer.items() if value is not None}


def patch_of(folder: Folder, files: list[str]) -> str:
    """Return the patch of a result, or only that of some of its files.

    Errors: ``conflict`` (no result yet), ``base_unavailable``, ``invalid_params`` (files that it does not change).
    """
    found = summary.load(folder)
    if found.state is not State.FINISHED:
        raise UnderstudyError(ErrorKind.CONFLICT, f"{found.id} has no result yet.", hint="Call `wait` first.")
    if found.head is None:
        return "Nothing changed."
    record, objects = load_record(folder)
    patch = diff.unified(objects, record.base_commit, found.head)
    if files:
        changed = [one.path for one in found.result.files] if found.result is not None else []
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
