"""Run a delegation in the user's checkout, one at a time, and record it there.

::

    enter: record what is on disk ─► the agent works ─► checkpoint: the result ─► leave: its hunks are accepted

After ``enter``, ``checkout.json`` says what was there. Until ``leave`` has marked it as collected,
``resume_collection`` does the rest for a worker that was killed.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from understudy.engine.review import decision_recovery, review_state
from understudy.engine.worktrees import worktree_record
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.engine.worktrees.worktree_record import START_COPY
from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.git import diff, path_rules, repository
from understudy.git.checkout import checkout_changes, checkout_tree
from understudy.git.checkout.checkout_changes import RepositoryState
from understudy.git.checkout.checkout_tree import Beginning, Collected, SavedText
from understudy.git.merge import undo as undo_merge
from understudy.git.verification import require_tree
from understudy.journal import delegation_folder, editor_saves
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.delegation.events import Event
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.text import path_quoting
from understudy.model.text.sanitize import name_list
from understudy.model.verdicts import Reservation
from understudy.model.wire import ready

_BY = "understudy"
_LIMIT = 16 * 1024 * 1024


class CheckoutWorktree(DelegationWorktree):
    """The worktree and the checkout of one delegation. The methods block; call them from a thread, or as they say."""

    def __init__(self, folder: Folder, spec: Spec, state: Path) -> None:
        """Create nothing on disk."""
        super().__init__(folder, spec, state)
        self._repository_changed = False
        self._claim: CheckoutClaim | None = None
        self._entered: CheckoutRecord | None = None
        self._collected: Collected | None = None
        self._unrecorded: checkout_changes.Stamps | None = None

    @property
    def agent_path(self) -> Path:
        """Return the checkout."""
        return self.store.top

    def claim_checkout(self) -> None:
        """Take the checkout. Raises ``conflict`` if another agent works there."""
        self._claim = CheckoutClaim(repository.locate(self._workspace).top, self._folder.id)

    def enter(self, emit: Callable[[Event], None]) -> None:
        """Record what is on disk now; from here on, what changes there is the agent's, or said."""
        record, store = self.record, self.store
        if record.start is not None and record.start != record.base_commit:
            raise UnderstudyError(
                ErrorKind.CONFLICT,
                "Changes of the earlier result are not decided, and your checkout does not have them.",
                hint="Accept or reject them, then reply again; or reply to it with a worktree.",
            )
        repo = repository.locate(self._workspace)
        state = checkout_changes.look(repo.top)
        if self._claim is not None:
            self._claim.keep_saves()
        beginning = checkout_tree.begin(store, repo)
        if record.base_commit != beginning.commit:
            checkout_tree.keep_objects(store, record.base_commit)
        self._copy(START_COPY, beginning.commit, repo.head_commit)
        recorded = require_tree(store, beginning.commit)
        self._unrecorded = checkout_changes.unrecorded_files(repo.top, recorded)
        entered = CheckoutRecord(
            commit=beginning.commit,
            different=[path_quoting.quote(path) for path in beginning.different],
            repository=state,
        )
        write_record(self._folder, entered)
        self._entered = entered
        failpoint("checkout entered")
        text = f"The agent works in your checkout {repo.top}, without isolation. "
        text += "Its changes are in your files at once; when it has ended, each can be undone."
        emit(events.Note(level="warning", text=text))
        if self._unrecorded is None:
            text = "The checkout has too many ignored and untracked files: changes of those are not noticed."
            emit(events.Note(level="warning", text=text))
        unsaved = [path_quoting.readable(path) for path in self._spec.buffers]
        if unsaved:
            text = f"The agent does not see the unsaved text of {name_list(unsaved)}: it reads the files on disk."
            emit(events.Note(level="warning", text=text))

    def resume_collection(self) -> bool:
        """Return whether a killed worker left changes of the checkout; then ``checkpoint`` collects them."""
        record = read_record(self._folder)
        self._entered = record
        if record is None or record.collected or is_applied(self._folder):
            return False
        self._claim = CheckoutClaim(self.store.top, self._folder.id)
        return True

    def checkpoint(self, emit: Callable[[Event], None]) -> str:
        """Commit the agent's changes of the checkout on top of the base; return the commit."""
        record, store = self.record, self.store
        if self._entered is None:
            return record.base_commit
        entered = self._entered
        beginning = Beginning(entered.commit, [path_quoting.unquote(path) for path in entered.different])
        top = self.store.top
        self._collected = checkout_tree.collect(
            store, top, (record.base_commit, beginning), saved=lambda: self._saved(top), message=self._message
        )
        for text in self._collected.notes:
            emit(events.Note(level="warning", text=text))
        return self._collected.commit

    def compare(self, emit: Callable[[Event], None], seconds: float | None) -> None:
        """Report what changed in the checkout and is not part of the result, within ``seconds`` if they are given.

        Called after ``checkpoint``.
        """
        if self._entered is None or self._collected is None:
            return
        try:
            changed = checkout_changes.differences(self._entered.repository, checkout_changes.look(self.store.top))
        except (UnderstudyError, OSError) as error:
            changed = [f"It can no longer be read: {error}"]
        if changed:
            self._repository_changed = True
            text = "The repository changed while the agent worked; you or the agent changed it, and no undo changes it "
            emit(events.Note(level="warning", text=f"{text}back. {' '.join(changed)}"))
        store = self.store
        recorded = (
            require_tree(store, self._collected.on_disk).keys() | require_tree(store, self._entered.commit).keys()
        )
        now: checkout_changes.Stamps | None = None
        if self._unrecorded is not None:
            limit = checkout_changes.LONGEST_SECONDS if seconds is None else seconds
            now = checkout_changes.unrecorded_files(self.store.top, recorded, limit)
        if now is not None and self._unrecorded is not None:
            before = {path: stamp for path, stamp in self._unrecorded.items() if path not in recorded}
            paths = [path_quoting.readable(path_quoting.quote(p)) for p in checkout_changes.differing(before, now)]
            if paths:
                text = f"These files, which are ignored or which the base left out, changed: {name_list(paths)}. They "
                text += "are not part of the result, and no undo restores them."
                emit(events.Note(level="warning", text=text))
        flagged = {change.path: why for change in self._collected.changes if (why := path_rules.flagged(change.path))}
        if flagged:
            named = name_list(
                [f"{path_quoting.readable(path_quoting.quote(path))} ({why})" for path, why in flagged.items()]
            )
            text = f"The agent changed files that programs execute or follow, and they are in your checkout: {named}."
            emit(events.Note(level="warning", text=text))

    @property
    def is_to_leave(self) -> bool:
        """Return whether there is a result that is not marked as accepted yet."""
        return self._collected is not None and self._entered is not None and not self._entered.collected

    def prepare_undo(self) -> review_state.DecisionIntent | None:
        """Record how to undo the result, and the intent to mark its hunks as accepted; None if it changes nothing."""
        collected = self._collected
        if collected is None:
            return None
        record, store = self.record, self.store
        hunks = [
            review_state.HunkRef(file.path, hunk.id)
            for file in diff.file_diffs(store, record.base_commit, collected.commit)
            for hunk in file.hunks
        ]
        if not hunks:
            return None
        token = f"{self._folder.id}.{secrets.token_hex(4)}"
        kept = review_state.UndoFile(undo_merge.record(store, collected.changes))
        review_state.write_record(review_state.undo_file(self._folder, token), msgspec.json.encode(kept))
        paths = [path_quoting.quote(change.path) for change in collected.changes]
        intent = review_state.DecisionIntent("accept", token, _BY, hunks, paths, final=True)
        review_state.record_intent(self._folder, intent)
        return intent

    def leave(self, writer: Writer, intent: review_state.DecisionIntent | None) -> None:
        """Mark the hunks as accepted, and the work as collected; runs in the thread that writes the journal."""
        if self._entered is None:
            return
        if intent is not None:
            decision_recovery.complete(self._folder, writer, intent)
        self._entered.collected = True
        write_record(self._folder, self._entered)

    def release(self) -> None:
        """Let other agents work in the checkout."""
        if self._claim is not None:
            self._claim.release(collected=self._entered is None or self._entered.collected)
            self._claim = None

    def ended(self, error: ErrorInfo | None) -> ErrorInfo | None:
        """Return why the work ended, once what a killed worker left is collected."""
        if error is None or self._collected is None:
            return error
        return msgspec.structs.replace(
            error, hint="What the agent changed is collected, and in your files; undo what is wrong."
        )

    def reservations(self) -> set[Reservation]:
        """Return what the result cannot be trusted for."""
        reservations = {Reservation.NOT_ISOLATED} if self._entered is not None else set()
        return reservations | {Reservation.OUTSIDE_CHANGED} if self._repository_changed else reservations

    def _saved(self, top: Path) -> dict[bytes, list[SavedText]]:
        """Return the saves of each file that an editor saved since the claim, oldest first."""
        prefix = os.fsencode(os.path.realpath(top)) + b"/"
        saves: dict[bytes, list[SavedText]] = {}
        for save in editor_saves.kept_saves(top):
            path = path_quoting.unquote(save.path)
            if path.startswith(prefix):
                content = editor_saves.kept_content(top, save)
                saves.setdefault(path[len(prefix) :], []).append(SavedText(save.exists, save.digest, content))
        return saves


class CheckoutRecord(msgspec.Struct, kw_only=True):
    """``checkout.json`` in the folder of a delegation whose agent worked in the checkout."""

    commit: str
    """What was on disk when the agent started."""
    different: list[str]
    """See ``checkout_tree.Beginning``."""
    repository: RepositoryState
    collected: bool = False
    """The changes are the delegation's result, and their undo is recorded."""


class CheckoutClaim:
    """The right of this process to let an agent work in a checkout, until ``release`` or the end of the process."""

    def __init__(self, checkout: Path, identifier: str) -> None:
        """Take it for a delegation. Raises ``conflict`` if another works there, or left work that is not collected."""
        self._checkout = checkout
        place = _lock(checkout)
        with durable.named_failures(place):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            taken = durable.try_lock(place)
        if taken is None:
            raise _taken(checkout)
        self._descriptor = taken
        try:
            _forget_earlier(checkout, identifier)
            with durable.named_failures(place):
                durable.replace(_name(checkout), identifier.encode())
        except BaseException:
            self.release()
            raise

    def keep_saves(self) -> None:
        """Keep what the user saves in the checkout from here on."""
        editor_saves.forget_contents(self._checkout)
        editor_saves.keep_contents(self._checkout)

    def release(self, *, collected: bool = False) -> None:
        """Let others work there. If the work is ``collected``, what the user saved is no longer needed."""
        if self._descriptor >= 0:
            if collected:
                editor_saves.forget_contents(self._checkout)
            os.close(self._descriptor)
            self._descriptor = -1


def refuse_if_taken(checkout: Path) -> None:
    """Raise ``conflict`` if an agent works in the checkout now."""
    if durable.is_locked(_lock(checkout)):
        raise _taken(checkout)


def write_record(folder: Folder, record: CheckoutRecord) -> None:
    """Write the record durably."""
    with durable.named_failures(folder.checkout):
        durable.replace(folder.checkout, msgspec.json.encode(record), sync=True)


def read_record(folder: Folder) -> CheckoutRecord | None:
    """Return the record; None if no agent of this delegation has worked in the checkout."""
    with durable.named_failures(folder.checkout), suppress(FileNotFoundError):
        try:
            return msgspec.json.decode(durable.read_whole(folder.checkout, _LIMIT), type=ready(CheckoutRecord))
        except msgspec.MsgspecError as error:
            raise UnderstudyError(
                ErrorKind.STATE_UNAVAILABLE,
                f"{folder.checkout} is damaged: {error}.",
                hint="What the agent changed is in your checkout; compare it with `git diff`.",
            ) from error
    return None


def is_uncollected(identifier: str) -> bool:
    """Return whether an agent was killed in its checkout, and what it changed can still be collected."""
    folder = worktree_record.folder_of(identifier)
    if folder is None:
        return False
    with suppress(UnderstudyError):
        record = read_record(folder)
        if record is None or record.collected:
            return False
        decision_recovery.recover_delegation(folder)
        root = Path(worktree_record.read_record(folder).root)
        return not is_applied(folder) and worktree_record.removed(root) is None
    return False


def is_applied(folder: Folder) -> bool:
    """Return whether the undo of what the agent changed is recorded: it was killed only after that."""
    return bool(review_state.read(folder).applied)


def uncollected(identifier: str) -> UnderstudyError:
    """Return the error for a delegation whose agent was killed in the checkout."""
    return UnderstudyError(
        ErrorKind.CONFLICT,
        f"The agent of {identifier} was interrupted in this checkout, and what it changed is not collected yet.",
        hint=f"Collect it with `understudy check {identifier}`, or give up its undo: understudy discard {identifier}",
        names=[identifier],
    )


def _forget_earlier(checkout: Path, identifier: str) -> None:
    """Remove what was kept for another delegation; raise ``conflict`` if that is still needed."""
    other = _last(checkout)
    if other is not None and other != identifier:
        if is_uncollected(other):
            raise uncollected(other)
        editor_saves.forget_contents(checkout)


def _taken(checkout: Path) -> UnderstudyError:
    other = _last(checkout)
    return UnderstudyError(
        ErrorKind.CONFLICT,
        f"The agent of {other or 'another delegation'} works in {checkout}; only one at a time can.",
        hint="Wait until it has finished, or let it work in a worktree: `useWorktree`.",
        names=[other] if other else None,
    )


def _last(checkout: Path) -> str | None:
    """Return the delegation that claimed the checkout last."""
    with suppress(OSError):
        name = durable.read_whole(_name(checkout), 256).decode("ascii", "replace")
        return name if delegation_folder.is_id(name) else None
    return None


def _lock(checkout: Path) -> Path:
    return editor_saves.keeper(checkout).with_suffix(".lock")


def _name(checkout: Path) -> Path:
    return editor_saves.keeper(checkout).with_suffix(".last")
