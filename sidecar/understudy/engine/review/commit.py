"""Commit the accepted files of a result on the user's branch, with the evidence in the message.

It is the user's own ``git commit``, as in their terminal: with their settings, hooks, filters and signature. These are
programs of the workspace, so it needs trust. Only the accepted files are committed, as they are on disk: what else is
changed or staged stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import stat
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from understudy.config.trust import records
from understudy.engine.review import decisions, review_state
from understudy.engine.review.editor_documents import Documents
from understudy.git import changes, repository
from understudy.git.apply import transaction
from understudy.git.command import Completed, git_output, run_users_git
from understudy.git.merge import hunk_merge
from understudy.git.repository import Repository
from understudy.journal import delegation_folder
from understudy.journal.delegation_folder import Folder
from understudy.model.delegation.delegations import Delegation
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import FileDiff, HunkState
from understudy.model.places import share
from understudy.model.text import path_quoting
from understudy.model.text.delegation_text import verdict_sentence
from understudy.model.text.sanitize import one_line, sanitize
from understudy.model.verdicts import Reservation

_TITLE = 72
_PRINTED = 1_000
"""Characters of what git and its hooks printed, from the end."""


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """What is committed, or would be."""

    message: str
    files: list[str]
    """Wire paths."""
    mixed: list[str]
    """Those of them in which the user changed more than was accepted."""
    commit: str | None


def commit(folder: Folder, message: str | None, documents: Documents, *, dry_run: bool) -> CommitOutcome:
    """Commit the files with accepted hunks that differ from the last commit; ``dry_run``: only say which.

    Errors: ``input_empty`` (there are none), ``untrusted_workspace``, ``isolation_unavailable`` (no repository),
    ``conflict`` (a file is unsaved in the editor; git or a hook refused), ``base_unavailable``, ``timed_out``.
    """
    with decisions.lock_result(folder) as at:
        decisions.refuse_without_result(at)
        repo = _repository(at)
        files = at.files()
        accepted = [file for file in files if any(hunk.state is HunkState.ACCEPTED for hunk in file.hunks)]
        names = [name for file in accepted for name in (file.path, file.from_) if name is not None]
        decisions.refuse_unsaved(at.workspace, documents, names, ())
        new, changed = _differing(repo, [path_quoting.unquote(name) for name in names])
        paths = sorted({*new, *changed})
        if not paths:
            raise UnderstudyError(
                ErrorKind.INPUT_EMPTY,
                f"Nothing of {folder.id} is left to commit.",
                hint="Your last commit contains what was accepted." if names else "Accept changes first.",
            )
        mixed = _mixed(at, repo, files, paths)
        delegation = at.delegation
    text = message.strip() if message and message.strip() else message_of(delegation, files)
    identifier = None if dry_run else _commit(repo, text, paths, new)
    return CommitOutcome(text, [*map(path_quoting.quote, paths)], [*map(path_quoting.quote, mixed)], identifier)


def message_of(delegation: Delegation, files: Sequence[FileDiff]) -> str:
    """Return the message: the task, who did it, its verdict, and how much of it is tested and was accepted."""
    states = [hunk.state for file in files for hunk in file.hunks]
    accepted = states.count(HunkState.ACCEPTED)
    models = [attempt.model for attempt in delegation.attempts if attempt.model]
    who = f"{delegation.delegator} ({models[-1]})" if models else delegation.delegator
    facts = [f"Delegated to {who} with Understudy.", f"Verdict: {verdict_sentence(delegation)}."]
    facts += [
        f"{check.name}: {check.passed or 0} passed, {check.failed or 0} failed."
        for check in delegation.checks
        if check.passed is not None
    ]
    if delegation.places and Reservation.CHECKS_OUTDATED not in delegation.reservations:
        facts.append(f"{share(delegation.places)}.")
    if accepted < len(states):
        facts.append(f"Accepted: {accepted} of {len(states)} changes. The verdict is about all of them together.")
    body = [textwrap.fill(one_line(fact), _TITLE, break_long_words=False, break_on_hyphens=False) for fact in facts]
    return "\n".join([textwrap.shorten(one_line(delegation.title), _TITLE, placeholder="…"), "", *body, "",
                      f"Delegation: {delegation.id}", ""])  # fmt: skip


def _repository(at: decisions.LockedResult) -> Repository:
    repo = repository.locate(at.workspace)
    if repo.git_dir is None:
        raise UnderstudyError(
            ErrorKind.ISOLATION_UNAVAILABLE,
            f"{at.workspace} is not in a git repository, so there is nothing to commit to.",
            hint="Create one (git init), or keep the files as they are.",
        )
    trust = records.status(at.workspace, delegation_folder.state_root())
    if not trust.trusted:
        raise UnderstudyError(
            ErrorKind.UNTRUSTED_WORKSPACE,
            f"{trust.why_not(at.workspace)}, so its git hooks cannot run.",
            hint=repository.trust_hint(at.workspace),
        )
    return repo


def _differing(repo: Repository, paths: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return which paths are files and not in the index, and which of those in the index differ from the commit."""
    if not paths:
        return [], []
    assert repo.git_dir is not None  # noqa: S101 - _repository refused it
    listed = git_output("ls-files", "-z", "--", *paths, git_dir=repo.git_dir, work_tree=repo.top)
    tracked = set(listed.split(b"\0")[:-1])
    new = [path for path in paths if path not in tracked and _is_file(repo, path)]
    status = _git(repo, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no", "--", *_exact(paths))
    if status.code != 0:
        raise _refused(status)
    # Those that the index has marked as removed are in the commit, but not among the tracked. Git also lists what is
    # below a path that is a folder now.
    named = set(paths) - set(new)
    return new, [entry[3:] for entry in status.stdout.split(b"\0")[:-1] if entry[3:] in named]


def _is_file(repo: Repository, path: bytes) -> bool:
    with contextlib.suppress(OSError):
        return not stat.S_ISDIR(os.lstat(os.path.join(os.fsencode(repo.top), path)).st_mode)  # noqa: PTH118 - bytes
    return False


def _mixed(at: decisions.LockedResult, repo: Repository, files: list[FileDiff], paths: list[bytes]) -> list[bytes]:
    """Return the paths whose content is not that of the last commit with the accepted hunks."""
    if repo.head_commit is None:
        return []
    chosen = review_state.selection(review_state.in_state(files, HunkState.ACCEPTED))
    before = changes.reader(at.store, repo.head_commit)
    with contextlib.suppress(UnderstudyError):  # an object is not in reach: then it is not known
        plan = hunk_merge.plan(at.store, at.record.base_commit, at.head, chosen, before)
        after = {change.path: change.after for change in plan.changes}
        return [
            path
            for path in paths
            if _text(after[path] if path in after else before(path)) != _text(transaction.read_entry(repo.top, path))
        ]
    return []


def _text(entry: changes.Entry | None) -> bytes | None:
    """Return the content with the line endings of a commit."""
    return None if entry is None else entry.content.replace(b"\r\n", b"\n")


def _commit(repo: Repository, message: str, paths: list[bytes], new: list[bytes]) -> str:
    assert repo.git_dir is not None  # noqa: S101 - _repository refused it
    replaced = _replaced_entries(repo, paths, new) if new else b""
    try:
        _add_and_commit(repo, message, paths, new)
    except BaseException:
        head = _git(repo, "rev-parse", "--verify", "--quiet", "HEAD").stdout.decode().strip() or None
        if new and head == repo.head_commit:  # not if a hook was stopped that runs after the commit
            _git(repo, "update-index", "--force-remove", "-z", "--stdin", stdin=b"".join(path + b"\0" for path in new))
            _git(repo, "update-index", "-z", "--index-info", stdin=replaced)
        raise
    return git_output("rev-parse", "--verify", "HEAD", git_dir=repo.git_dir).decode().strip()


def _add_and_commit(repo: Repository, message: str, paths: list[bytes], new: list[bytes]) -> None:
    # git removes a file itself when it commits one below its path, and refuses to commit a folder.
    folders = _parents(paths)
    named = [path for path in paths if path not in folders or _is_file(repo, path)]
    completed = _git(repo, "add", "--intent-to-add", "--force", "--", *_exact(new)) if new else None
    if completed is None or completed.code == 0:
        data = message.encode("utf-8", "replace")
        completed = _git(repo, "commit", "--only", "--quiet", "--file=-", "--", *_exact(named), stdin=data)
    if completed.code != 0:
        raise _refused(completed)


def _replaced_entries(repo: Repository, paths: list[bytes], new: list[bytes]) -> bytes:
    """Return the entries of the index that new files replace: a file where they need a folder, and what was below."""
    assert repo.git_dir is not None  # noqa: S101 - _repository refused it
    listed = git_output("ls-files", "-s", "-z", "--", *paths, git_dir=repo.git_dir, work_tree=repo.top)
    folders, files = _parents(new), set(new)
    lines = ((line, line.partition(b"\t")[2]) for line in listed.split(b"\0")[:-1])
    return b"".join(line + b"\0" for line, path in lines if path in folders or _parents([path]) & files)


def _parents(paths: list[bytes]) -> set[bytes]:
    return {path[:end] for path in paths for end, byte in enumerate(path) if byte == ord("/")}


def _git(repo: Repository, *arguments: str | bytes, stdin: bytes | None = None) -> Completed:
    assert repo.git_dir is not None  # noqa: S101 - _repository refused it
    return run_users_git(*arguments, git_dir=repo.git_dir, work_tree=repo.top, stdin=stdin)


def _exact(paths: list[bytes]) -> list[bytes]:
    """Return pathspecs for exactly these paths; the hooks get no setting for them."""
    return [b":(top,literal)" + path for path in paths]


def _refused(completed: Completed) -> UnderstudyError:
    printed = sanitize((completed.stderr + completed.stdout).decode("utf-8", "replace")).strip()[-_PRINTED:]
    return UnderstudyError(
        ErrorKind.CONFLICT,
        f"git did not commit (exit code {completed.code}): {printed or 'it printed no message'}",
        hint="Your branch and what you had staged are as before. Correct what it names, then commit again.",
    )
