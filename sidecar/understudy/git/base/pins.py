"""Protect the commits that delegations start from against garbage collection in the user's repository."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from understudy.git.command import git_output, run_git
from understudy.git.repository import Repository
from understudy.model.errors import ErrorKind, UnderstudyError

REFERENCES = "refs/understudy/"
"""Prefix of the only references that Understudy writes to the user's repository without being asked."""
EXPORTED = f"{REFERENCES}export-"
"""Prefix of the references that keep exported commits."""

_BASE = f"{REFERENCES}base="
"""Prefix of pins. git looks for ``refs/<name>`` before ``refs/heads/<name>``, so a pin ``refs/understudy/<id>`` would
hide the user's branch ``understudy/<id>``. No ``launch.branch`` may contain ``=``."""
_IDENTIFIER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.|lock\b|$)){0,127}")


def pin(repository: Repository, identifier: str, commit: str) -> None:
    """Keep ``commit`` (HEAD, or the revision a delegation starts from) in the user's repository.

    Writes only the reference ``refs/understudy/base=<identifier>``, with hooks off and no reflog, and moves the pins of
    earlier versions. Does nothing without a repository, or when the commit is not the user's (before the first commit).
    """
    name = _reference_name(identifier)
    if repository.common_dir is None or not commit:
        return
    move_earlier(repository)
    with _as_base_error(repository):
        git_output("update-ref", "--end-of-options", name, commit, git_dir=repository.common_dir)


def unpin(repository: Repository, identifier: str) -> None:
    """Remove the reference that ``pin`` wrote, or an earlier version did, if there is one."""
    names = (_reference_name(identifier), REFERENCES + identifier)
    if repository.common_dir is not None:
        steps = "".join(f"delete {name}\n" for name in names)
        with _as_base_error(repository):
            git_output("update-ref", "--stdin", git_dir=repository.common_dir, stdin=steps.encode())
        # git leaves the empty folder; it is removed with the last reference.
        with contextlib.suppress(OSError):
            (repository.common_dir / "refs" / "understudy").rmdir()


def move_earlier(repository: Repository) -> None:
    """Move the pins that earlier versions wrote as ``refs/understudy/<id>``, all or none.

    If git cannot, for example because another process is moving them, they stay where they are: they still protect
    their commits.
    """
    if repository.common_dir is None:
        return
    form = "--format=%(refname) %(objectname)"
    listing = run_git("for-each-ref", form, REFERENCES.rstrip("/"), git_dir=repository.common_dir).stdout
    steps = ""
    for line in listing.decode(errors="replace").splitlines():
        name, _, commit = line.partition(" ")
        identifier = identifier_of(name)
        if identifier is not None and name == REFERENCES + identifier:
            steps += f"update {_BASE}{identifier} {commit}\ndelete {name} {commit}\n"
    if steps:
        run_git("update-ref", "--stdin", git_dir=repository.common_dir, stdin=steps.encode())


def identifier_of(name: str) -> str | None:
    """Return the delegation whose pin has this full name, also in the form of earlier versions; None for others."""
    if name.startswith(EXPORTED) or not name.startswith(REFERENCES):
        return None
    identifier = name.removeprefix(_BASE).removeprefix(REFERENCES)
    return identifier if _IDENTIFIER.fullmatch(identifier) else None


def _reference_name(identifier: str) -> str:
    if not _IDENTIFIER.fullmatch(identifier):
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, f"{identifier!r} cannot be part of a reference's name.")
    return _BASE + identifier


@contextlib.contextmanager
def _as_base_error(repository: Repository) -> Iterator[None]:
    try:
        yield
    except UnderstudyError as error:
        if error.kind is not ErrorKind.INTERNAL:
            raise
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The starting commit could not be kept in {repository.top}: {error.message}",
            hint="Look for a stale lock file or missing permissions in its git folder.",
        ) from error
