"""Keep a verified result as a branch (``launch.branch``), once: afterwards the branch is the user's."""

from __future__ import annotations

from pathlib import Path

from understudy.engine.review import result_export
from understudy.files import durable
from understudy.journal.delegation_folder import Folder
from understudy.model.config import result_branch
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorKind, UnderstudyError

SECONDS = 60.0
"""Time limit: the delegation's end waits for the branch. An export of 30,000 files takes 14 s."""


def name_for(spec: Spec, identifier: str, delegator: str) -> str | None:
    """Return the name of the branch for a result of ``delegator``; None if it is configured without one."""
    launch = next(
        (candidate.delegator.launch for candidate in spec.candidates if candidate.delegator.name == delegator), None
    )
    if launch is None or launch.branch is None or spec.recipe.returns == "text":
        return None
    return result_branch.filled(launch.branch, identifier, spec.recipe.name, delegator)


def keep(folder: Folder, name: str) -> str:
    """Commit the result on the new branch ``name`` and return a sentence for the user; raise as ``export`` does.

    Once a branch was made, none is made again: the user may have changed, renamed or deleted it.
    """
    made = _record_file(folder)
    if made.exists():
        return "A branch was made when this was verified before; it is not changed or made again."
    exported = result_export.commit(folder, None, name)
    durable.replace(made, f"{exported.commit} {name}\n".encode())
    return " ".join([f"The result is also on the branch {name}.", *exported.notes])


def failure_text(identifier: str, name: str, error: UnderstudyError) -> str:
    """Return why the branch was not made, and what the user can do."""
    if error.kind is ErrorKind.TIMED_OUT:
        return (
            f"The result is not on the branch {name}: git took longer than {SECONDS:g} s. "
            f"To make a branch later: understudy export {identifier} --to branch --branch NAME"
        )
    return " ".join([f"The result is not on the branch {name}: {error.message}", *([error.hint] if error.hint else [])])


def _record_file(folder: Folder) -> Path:
    return folder.path / "branch"
