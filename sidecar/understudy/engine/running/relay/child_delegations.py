"""Delegations that an agent starts: within its bounds, for itself only, and never longer than itself.

A child belongs to the group of its parent and starts from its parent's base. It may do no more than its parent: not in
the user's checkout, not without asking if its parent asks, not on another machine if its parent stays on this one. It
does not wait for a slot: its parent has one and may wait for it, so children that waited for slots could wait forever.

When the parent's attempts have ended, for whatever reason, its children are cancelled: their results were for it. A
parent whose worker is killed cancels nothing; its children notice that themselves, within a second or two.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from understudy.config import locality
from understudy.config.discovery import declarations
from understudy.engine.planning.plan import Plan, plan
from understudy.engine.queueing import start_conditions
from understudy.engine.running import start, supervision
from understudy.engine.worktrees.worktree_record import load_record, read_record
from understudy.files import durable
from understudy.git import diff, path_rules
from understudy.journal import delegation_folder, groups, reader, worker_files
from understudy.journal.delegation_folder import Folder
from understudy.model.config.delegators import Launch
from understudy.model.delegation.delegations import AskedBy, Delegation, GroupBudget, StartParams
from understudy.model.delegation.spec import RELAY, Origin, Spec, SpecCandidate, runs_in_checkout
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.relay.relay_tools import Delegate
from understudy.model.states import State
from understudy.model.text import patches, path_quoting
from understudy.model.text.delegation_text import verdict_sentence
from understudy.model.wire import timestamp
from understudy.policy.budget import Shortage
from understudy.store import store

BY = RELAY
"""The frontend that a cancel of a child names."""
LOCK_SECONDS = 60.0
"""How long a start waits for those of other agents; each takes a fraction of a second."""
MOST_TEXT = 20_000
"""Characters of an answer."""
MOST_PATCH = 60_000
"""Characters of a patch."""
MOST_FILES = 100
Answer = dict[str, Any]


class ChildDelegations:
    """The children of one delegation. The methods block; call them from a thread."""

    def __init__(self, folder: Folder, spec: Spec, state: Path) -> None:
        """Start nothing."""
        self._folder = folder
        self._spec = spec
        self._state = state
        self._closed = False
        self.group_id = spec.group_id
        """The group of the delegation; it has one at the latest with its first child."""
        self.ids: list[str] = []

    def open(self) -> None:
        """Allow starts (again)."""
        self._closed = False

    def start(self, args: Delegate, candidate: SpecCandidate, joined: Callable[[str], None]) -> Delegation:
        """Start a child of an attempt on ``candidate``; ``joined`` is called with the id of a new group.

        Errors: ``permission_denied`` (a bound is reached, or the child could do more than its parent),
        ``budget_exhausted``, and those of a start.
        """
        with durable.file_lock(self._state / "relay.lock", LOCK_SECONDS):
            self._require_open()
            depth = self._spec.asked_by.depth + 1
            if depth > self._spec.relay.max_depth:
                raise _bound(f"Agents delegate at most {self._spec.relay.max_depth} levels deep (`relay.max_depth`).")
            if store.is_paused(self._state):
                raise _bound("The user has paused the queue: nothing starts now.")
            if self.group_id is None:
                self._require_room([])
            else:
                self._require_room(groups.read(self.group_id).delegations)
            decided = plan(self._params(args), {}, Path(self._spec.workspace))
            _require_no_more(decided, candidate)
            self._require_readable(decided, candidate)
            if self.group_id is None:
                self.group_id = self._new_group(candidate)
                joined(self.group_id)
            asked_by = AskedBy(frontend=RELAY, agent=candidate.delegator.tool, parent=self._folder.id, depth=depth)
            identifier = start.start_child(decided, timestamp(), asked_by, self._origin(), self.group_id)
            self.ids.append(identifier)
        if self._closed:  # the attempt has ended meanwhile
            self.cancel(identifier)
        return reader.load(delegation_folder.open_folder(identifier))

    def get(self, named: str) -> Delegation:
        """Return a child by its id, or the end of it. Errors: ``unknown_delegation``."""
        return supervision.current(self._folder_of(named))

    def diff(self, named: str, files: list[str]) -> str:
        """Return what a child changed. Errors: ``unknown_delegation``, ``conflict`` (no result yet)."""
        return patch_of(self._folder_of(named), files)

    def cancel(self, named: str) -> None:
        """Ask a child to stop; it ends soon after. Errors: ``unknown_delegation``."""
        folder = self._folder_of(named)
        if reader.load(folder).state is not State.FINISHED:
            worker_files.append_request(folder, worker_files.Cancel(by=BY))

    def close(self) -> None:
        """Start no more, and stop those that run."""
        self._closed = True
        for identifier in list(self.ids):
            with contextlib.suppress(UnderstudyError):  # it is gone; or the disk is full, and it notices our end itself
                self.cancel(identifier)

    def _folder_of(self, named: str) -> Folder:
        matching = [
            identifier for identifier in self.ids if identifier == named or (named and identifier.endswith(f"-{named}"))
        ]
        if len(matching) != 1:
            raise UnderstudyError(
                ErrorKind.UNKNOWN_DELEGATION,
                f"You have started no delegation {named[:64]!r}.",
                hint="Use an id that `delegate` returned.",
                names=self.ids[:20] or None,
            )
        return delegation_folder.open_folder(matching[0])

    def _params(self, args: Delegate) -> StartParams:
        workspace = Path(self._spec.workspace)
        return StartParams(
            recipe=args.recipe,
            task=args.task,
            files=[_uri(workspace, path) for path in args.files] or None,
            context_files=[_uri(workspace, path) for path in args.context_files] or None,
            delegator=args.delegator,
            workspace=path_quoting.uri_of(workspace),
        )

    def _require_readable(self, decided: Plan, candidate: SpecCandidate) -> None:
        """Raise an error if a child would be sent a file that its parent does not have, or is not sent itself.

        A child without a worktree reads the user's checkout: what git ignores there is not in the parent's base, and
        the child's answer would show it.
        """
        named = [*decided.files, *decided.context]
        named_paths = {os.fsdecode(path_quoting.unquote(path)) for path in (*self._spec.files, *self._spec.context)}
        readable = named_paths | self._in_base(named)
        local = locality.is_local(candidate.delegator, candidate.model_server)
        for path in named:
            if path not in readable:
                raise _bound(f"{path} is not among the files that you started from.")
            if not local and path_rules.looks_secret(os.fsencode(path)):
                raise _bound(f"The name of {path} suggests that it contains secrets, and you may work elsewhere.")

    def _in_base(self, named: list[str]) -> set[str]:
        try:
            record, store = load_record(self._folder)
        except UnderstudyError:  # no worktree
            return set()
        if not named:
            return set()
        paths = [os.fsencode(path) for path in named]
        listed = store.git_output(
            "ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options", record.base_commit, *paths
        )
        return {os.fsdecode(path) for path in listed.split(b"\0")}

    def _origin(self) -> Origin | None:
        try:
            base = read_record(self._folder).base_commit
        except UnderstudyError:  # a recipe that returns a text has no worktree
            return None
        return Origin(kind="retry", parent=self._folder.id, base=base)

    def _new_group(self, candidate: SpecCandidate) -> str:
        group = groups.create("relay", self._spec.asked_by, timestamp(), budget_of(self._spec, candidate))
        groups.add(group.id, self._folder.id)
        return group.id

    def _require_open(self) -> None:
        if self._closed:
            raise _bound("Your work has ended.")

    def _require_room(self, members: list[str]) -> None:
        """Raise an error if the agents of the group have started, or spent, as much as they may."""
        bounds, started = self._spec.relay, list[Delegation]()
        for member in members:
            with contextlib.suppress(UnderstudyError):  # one that was removed
                delegation = reader.peek(delegation_folder.open_folder(member))
                if delegation.asked_by.frontend == RELAY:
                    started.append(delegation)
        if len(started) >= bounds.max_delegations:
            raise _bound(
                f"The agents of your group have started {len(started)} delegations, as many as they may "
                "(`relay.max_delegations`)."
            )
        spent = start_conditions.exceeded_group_budget(self.group_id)
        if spent is not None:
            raise spent
        short = start_conditions.budget_of(bounds).charge(*map(start_conditions.spent_by, started)).reserve()
        if isinstance(short, Shortage):
            raise _spent(f"{start_conditions.shortage_text(short)} (`relay.{short.limit}`)")


def budget_of(spec: Spec, candidate: SpecCandidate) -> GroupBudget | None:
    """Return the budget of a group that an agent's first delegation makes: as configured, else its own limits.

    Otherwise an agent could get around the limits of its own delegation by delegating.
    """
    budget = GroupBudget(
        max_tokens=candidate.limits.max_tokens if spec.relay.max_tokens is None else spec.relay.max_tokens,
        max_usd=candidate.limits.max_usd if spec.relay.max_usd is None else spec.relay.max_usd,
    )
    return None if budget == GroupBudget() else budget


def _require_no_more(decided: Plan, parent: SpecCandidate) -> None:
    """Raise ``permission_denied`` if a child could do more than its parent."""
    free = _is_unrestricted(parent)
    stays = locality.is_local(parent.delegator, parent.model_server)
    for candidate in decided.draft.candidates:
        name = candidate.delegator.name
        if runs_in_checkout(candidate.delegator, decided.draft.recipe):
            raise _bound(f"{name} works in the user's checkout, where an agent may start nothing.")
        if _is_unrestricted(candidate) and not free:
            raise _bound(f"{name} does everything without asking, and you do not.")
        if stays and not locality.is_local(candidate.delegator, candidate.model_server):
            raise _bound(f"{name} may send texts to other machines, and you work on this one only.")


def _is_unrestricted(candidate: SpecCandidate) -> bool:
    launch = candidate.delegator.launch or Launch()
    if launch.yolo or launch.unanswered == "allow":
        return True
    supported = declarations.require_capabilities(
        candidate.delegator, candidate.model_server, candidate.tool_definition
    )
    # Over the Agent Client Protocol, an agent names its modes itself: those that are known have the same names.
    declared = declarations.tools().get(candidate.delegator.tool or "")
    modes = [*supported.permission_modes, *(declared.permission_modes if declared is not None else ())]
    return any(mode.value == launch.permission_mode and mode.unrestricted for mode in modes)


def _uri(workspace: Path, path: str) -> str:
    return path_quoting.uri_of(workspace / path.removeprefix("file://"))


def _bound(message: str) -> UnderstudyError:
    return UnderstudyError(ErrorKind.PERMISSION_DENIED, message, hint="Do the work yourself, or finish.")


def _spent(how_much: str) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.BUDGET_EXHAUSTED,
        f"What the agents of your group delegated has spent its budget: {how_much}.",
        hint="Do the work yourself, or finish.",
    )


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
    delegation = reader.load(folder)
    if delegation.state is not State.FINISHED:
        raise UnderstudyError(ErrorKind.CONFLICT, f"{delegation.id} has no result yet.", hint="Call `wait` first.")
    if delegation.head is None:
        return "Nothing changed."
    record, objects = load_record(folder)
    patch = diff.unified(objects, record.base_commit, delegation.head)
    changed = [file.path for file in delegation.result.files] if delegation.result is not None else []
    text = patches.chosen(patch, changed, files).decode("utf-8", "replace")
    if len(text) > MOST_PATCH:
        return f"{text[:MOST_PATCH]}\n[cut: {len(text)} characters; pass `files` to get less]"
    return text or "Nothing changed."
