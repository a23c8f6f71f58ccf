"""Turn a request into a plan: the recipe, the delegator and the reason for it, the checks and the limits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path, PurePosixPath

import msgspec

from understudy.config.configuration import Configuration, default_slots
from understudy.config.findings import close
from understudy.config.loading import agent_files, agent_use, loader
from understudy.config.trust import records
from understudy.config.validation import start_options
from understudy.engine.planning.delegator_choice import NAMED, ChainRequest, chain_after, choose_candidate, without_keys
from understudy.engine.planning.prompt import FILE_BYTES, Prompt, how_to_run, nothing_to_work_on, prompt_for
from understudy.engine.planning.route_order import sizes_of, work_of
from understudy.files import user_file
from understudy.git import path_rules, repository
from understudy.journal import delegation_folder
from understudy.model.capabilities import Capabilities, Pane
from understudy.model.config.delegators import Scope
from understudy.model.delegation.delegations import AskedBy, StartParams
from understudy.model.delegation.spec import (
    SPEC_VERSION,
    Spec,
    SpecCandidate,
    runs_in_checkout,
)
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.remedies import Lack
from understudy.model.text import path_quoting
from understudy.model.wire import timestamp
from understudy.process.terminals import tmux

_LOOKED_AT = 2000
"""How many files of a folder are compared with a name that is missing."""
MOST_DAYS_AHEAD = 366
"""How far ahead a start may be."""
_COMMON_NAMES = frozenset({"__init__", "__main__", "index", "main", "mod", "lib"})
"""Names of files that many folders have, without their endings."""


@dataclass(frozen=True)
class Plan:
    """Everything decided before a delegation has an id."""

    draft: Spec
    """The specification, but for what a start adds to it, and for the paths of the files."""
    files: list[str]
    context: list[str]
    target: str | None
    buffers: dict[str, bytes]
    waits: bool = False
    """Whether it waits while all of its candidates are paused."""

    @property
    def title(self) -> str:
        """Return one line for lists."""
        if self.draft.params.task and self.draft.params.task.strip():
            first = self.draft.params.task.strip().splitlines()[0]
            # "Do these things:" introduces the lines below it, which a list does not show.
            return (first.rstrip(": ") or first)[:80]
        about = self.files or ([self.target] if self.target else self.context)
        names = self._names(about)
        title = f"{self.draft.recipe.title}: {names}" if names else self.draft.recipe.title
        return quoted(title)[:120]

    @staticmethod
    def _names(files: list[str]) -> str:
        parts = (name.split("/") for name in files[:3])
        # Every package has an __init__.py: with its folder, the name says which one.
        return ", ".join(
            "/".join(names[-2:] if names[-1].split(".")[0] in _COMMON_NAMES else names[-1:]) for names in parts
        )

    def read(self, path: str) -> bytes | None:
        """Return what the user sees in a file of the workspace."""
        if path in self.buffers:
            return self.buffers[path]
        return user_file.read_bytes(Path(self.draft.workspace, path))

    def prompt(self) -> Prompt:
        """Return exactly what a start would send."""
        first = self.draft.candidates[0]
        sent = prompt_for(
            recipe=self.draft.recipe,
            params=self.draft.params,
            delegator=first.delegator,
            model_server=first.model_server,
            tool_definition=first.tool_definition,
            files=self.files,
            context=self.context,
            target=self.target,
            read=self.read,
            how_to_run=how_to_run(self.draft),
        )
        return sent if first.tools is None else sent.restricted(self.draft.recipe, first.tools)

    def spec(
        self,
        identifier: str,
        created_at: str,
        asked_by: AskedBy,
        group_id: str | None = None,
        *,
        with_files: bool = False,
    ) -> Spec:
        """Return the specification for ``spec.json``; the buffers' texts are stored beside it under these names.

        ``group_id`` is a group that did not exist when the request was made. ``with_files``: the title names the files,
        because others in the group have the same task.
        """
        title = self.title
        return msgspec.structs.replace(
            self.draft,
            id=identifier,
            title=quoted(f"{title} ({self._names(self.files)})")[:120] if with_files and self.files else title,
            files=[quoted(path) for path in self.files],
            context=[quoted(path) for path in self.context],
            target=quoted(self.target) if self.target is not None else None,
            asked_by=asked_by,
            created_at=created_at,
            buffers={quoted(path): str(number) for number, path in enumerate(self.buffers)},
            group_id=group_id or self.draft.group_id,
        )

    def buffer_files(self) -> dict[str, bytes]:
        """Return file name in ``buffers/`` → bytes, matching ``spec``."""
        return {str(number): content for number, content in enumerate(self.buffers.values())}


def caller_pane(candidates: Sequence[SpecCandidate]) -> Pane | None:
    """Return the tmux pane in which this process runs, if a candidate may be shown beside it."""
    if not any(candidate.delegator.mode == "tmux" for candidate in candidates):
        return None
    return tmux.pane_of(os.environ.get("TMUX"), os.environ.get("TMUX_PANE"))


def quoted(path: str) -> str:
    """Return the wire form of a surrogate-escaped path: unchanged, or C-quoted if it is not UTF-8."""
    return path_quoting.quote(os.fsencode(path))


def plan(
    params: StartParams,
    documents: Mapping[str, str],
    folder: Path | None,
    *,
    opened: Sequence[Path] = (),
    only_look: bool = False,
    follow_up: str | None = None,
) -> Plan:
    """Plan a request without writing or starting anything.

    ``only_look`` (a preview) does not require trust. ``documents`` are the caller's open documents (URI → text),
    ``folder`` is its current folder, ``opened`` are the folders that its editor shows. ``follow_up`` says, for a reply
    or a retry, why its delegator does it; the range is one of an earlier base, whose lines the current file need not
    have.
    """
    uris = [*(params.files or []), *([params.target] if params.target else []), *(params.context_files or [])]
    workspace = repository.workspace_of(uris, params.workspace, folder, opened)
    status = records.status(workspace, delegation_folder.state_root())
    configuration = loader.load(workspace, trusted=status.trusted)
    recipe = configuration.require_recipe(params.recipe)
    agent = None
    if params.agent is not None:
        agent = agent_files.agents_of(workspace, trusted=status.trusted).require(params.agent)
        recipe = agent_use.instructed(recipe, agent, workspace)
    files = [repository.inside(workspace, uri) for uri in params.files or []]
    work = work_of(recipe.name, sizes_of(workspace, files), params.labels)
    chosen = choose_candidate(
        configuration,
        recipe,
        params,
        agent,
        workspace,
        named_by=follow_up or NAMED,
        with_fallback=params.fallback is None,
        work=work if configuration.routes else None,
    )
    delegator, server, supported, explain = chosen.delegator, chosen.model_server, chosen.supported, chosen.explain
    _refuse_other_files(files, delegator.name, supported)
    context = [repository.inside(workspace, uri) for uri in params.context_files or []]
    target = repository.inside(workspace, params.target) if params.target else None
    sent = {repository.inside(workspace, item.uri): item.text for item in params.buffers or []}
    unsaved = repository.texts_inside(workspace, documents) | sent
    if recipe.returns == "file" and target is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"The recipe {recipe.name!r} writes one file.", hint="Name it in `target`."
        )
    if recipe.returns != "file" and target is not None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"`target` has no effect on the recipe {recipe.name!r}, which does not write one file.",
            hint="Leave it out, or name the file in the task.",
            parameter="target",
        )
    in_worktree = recipe.returns != "text" or supported.process_in_worktree
    if in_worktree:
        repository.check_owner(workspace)
        repository.refuse_wide_folder(workspace, delegation_folder.state_root())
        if not params.whole_folder and not only_look:
            from understudy.git.base import capture  # only a start needs it

            capture.refuse_large_folder(workspace)
    if "file" in (recipe.needs or ()) and not files and follow_up is None:
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY,
            f"The recipe {recipe.name!r} needs a file to work on, and none is named.",
            hint=f"Name one, for example: understudy start {recipe.name} PATH/TO/FILE",
        )
    if follow_up is None and not (params.task or files or context or params.input or target):
        raise nothing_to_work_on(recipe)
    described = (params.task or "").strip() or params.range or params.diagnostics or params.input or context
    if "task" in (recipe.needs or ()) and follow_up is None and not described:
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY,
            f"The recipe {recipe.name!r} needs a task, and none is described.",
            hint=f"Describe it, for example: understudy start {recipe.name} FILE -t 'what to do'",
        )
    rounds = start_options.rounds_of(params, recipe)
    start_options.refuse_checkout(params, delegator, recipe, rounds)
    start_options.check_named_fallback(params, delegator.name)
    held, notes = start_options.limits_for(params, delegator, supported, configuration.limits)
    if params.workspace is not None and (named := repository.require_path(params.workspace).resolve()) != workspace:
        notes.append(f"The workspace is the whole repository {workspace}: {named.name} is a folder of it.")
    lacks: list[Lack] = []
    if in_worktree and recipe.returns == "tree":
        lacks = _lacking_packages(workspace, files, configuration)
    for path in [*files, *context]:
        if path not in unsaved and not (workspace / path).is_file():
            raise _missing_file(workspace, path)
    buffers = _buffers(workspace, unsaved, notes, fixed=() if in_worktree else (*files, *context))
    if params.range is not None and follow_up is None:
        user_file.check_lines(workspace, files[0] if files else None, buffers, params.range)
    if not status.trusted and not only_look and (in_worktree or chosen.scope is Scope.WORKSPACE):
        raise UnderstudyError(
            ErrorKind.UNTRUSTED_WORKSPACE,
            f"{status.why_not(workspace)}, so nothing may run in it.",
            hint=repository.trust_hint(workspace),
            names=list(status.changed or status.allows) or None,
        )
    if runs_in_checkout(delegator, recipe):
        explain.reason += "; in your checkout"
    if not supported.follows_instructions and params.task and params.task.strip() and follow_up is None:
        notes.append(f"{delegator.name} works without a model: it does not follow the task's text.")
    chain = chain_after(
        ChainRequest(
            first=chosen,
            limits=held,
            configuration=configuration,
            recipe=recipe,
            params=start_options.for_successors(params),
            workspace=workspace,
            agent=agent,
            only_look=only_look,
        )
    )
    explain.candidates += [
        candidate for candidate in chain.left_out if all(candidate.name != other.name for other in explain.candidates)
    ]
    explain.fallback = [candidate.delegator.name for candidate in chain.following]
    notes += chain.notes
    candidates = [
        SpecCandidate(
            delegator=delegator,
            model_server=server,
            tool_definition=chosen.tool_definition,
            tools=chosen.tools,
            limits=held,
        ),
        *chain.following,
    ]
    for candidate in candidates:
        params = without_keys(params, candidate.delegator, candidate.model_server)
    route = configuration.delegators[explain.route].delegator.route if explain.route is not None else None
    escalates = route is not None and route.escalate and len(candidates) > 1 and recipe.returns == "tree"
    repairs = start_options.repairs_of(params, recipe, delegator)
    if escalates and params.rounds is None:
        rounds, repairs = max(rounds, 1), max(repairs, 1)
    draft = Spec(
        version=SPEC_VERSION,
        id="",
        title="",
        params=msgspec.structs.replace(params, buffers=None),
        recipe=recipe,
        workspace=str(workspace),
        candidates=candidates,
        explain=explain,
        files=[],
        context=[],
        size=work.size if files else None,
        checks=start_options.checks_to_run(configuration.checks, recipe, params),
        fallback_checks=start_options.fallback_checks(configuration.checks, recipe, params),
        slots=configuration.limits.slots or default_slots(),
        program_limits=configuration.programs,
        bootstrap=configuration.worktrees,
        evidence=configuration.evidence,
        pauses=configuration.fallback,
        per_day=configuration.per_day,
        handover=configuration.fallback.handover,
        relay=configuration.relay,
        rounds=rounds,
        repairs=repairs,
        escalates=escalates,
        interpreter=configuration.python,
        trusted=status.trusted,
        asked_by=AskedBy(frontend="", depth=0),
        caller_pane=caller_pane(candidates),
        created_at="",
        buffers={},
        notes=notes,
        lacks=lacks,
        group_id=params.group_id,
        start_at=_start_of(params),
    )
    waits = draft.start_at is None and (params.when is not None or (route is not None and route.wait))
    return Plan(draft, files, context, target, buffers, waits=waits)


def _start_of(params: StartParams) -> str | None:
    """Return when a delegation may start at the earliest, in UTC; None: at once. Raises ``invalid_params``."""
    if params.start_at is None:
        return None
    moment = None
    with contextlib.suppress(ValueError):
        moment = datetime.fromisoformat(params.start_at)
    now = datetime.now(UTC)
    if moment is None or moment.tzinfo is None or moment > now + timedelta(days=MOST_DAYS_AHEAD):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{params.start_at!r} is not a time with an offset within {MOST_DAYS_AHEAD} days.",
            hint="Write it like 2026-11-21T22:00:00+01:00.",
            parameter="startAt",
        )
    return timestamp(moment, "seconds") if moment > now else None


def _refuse_other_files(files: list[str], delegator: str, supported: Capabilities) -> None:
    """Raise ``invalid_params`` for a file that the delegator's tool cannot work on."""
    endings = supported.works_on
    for path in files if endings else ():
        if PurePosixPath(path).suffix not in endings:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{path} is not a file that {delegator} can work on: it works on {', '.join(endings)} files only.",
                hint="Name another file, or a delegator with a model: -d NAME.",
                parameter="files",
            )


def _lacking_packages(workspace: Path, files: list[str], configuration: Configuration) -> list[Lack]:
    """Return that no test of JavaScript can run in a worktree, if that is so."""
    from understudy.judge.project import installed_packages

    trees = configuration.worktrees
    places = [path for path in files if PurePosixPath(path).suffix in installed_packages.SCRIPTS]
    if not files and not configuration.checks:
        places = [""]
    lacking = installed_packages.lacking_packages(workspace, places, trees.link, set_up=bool(trees.setup))
    return [] if lacking is None else [lacking]


def _missing_file(workspace: Path, path: str) -> UnderstudyError:
    """Return the error for a path that is not a file, with the files beside it that may be meant."""
    there = workspace / path
    if there.is_dir():
        return UnderstudyError(ErrorKind.INVALID_PARAMS, f"{there} is a folder.", hint="Name files in it.")
    near = _near(workspace, Path(path))
    hint = "Name files that exist." if near is None else f"Did you mean {near}?"
    return UnderstudyError(ErrorKind.INVALID_PARAMS, f"{there} is not a file.", hint=hint)


def _near(workspace: Path, path: Path) -> Path | None:
    """Return the file whose path is nearest to one that does not exist, in folders as in its own name, or None."""
    nearest = Path()
    for position, name in enumerate(path.parts, 1):
        is_file = position == len(path.parts)
        there = workspace / nearest / name
        if there.is_file() if is_file else there.is_dir():
            nearest /= name
            continue
        near: list[str] = []
        with contextlib.suppress(OSError), os.scandir(there.parent) as entries:
            names = [
                entry.name for entry in islice(entries, _LOOKED_AT) if (entry.is_file() if is_file else entry.is_dir())
            ]
            near = close(name, names)
        if not near:
            return None
        nearest /= near[0]
    return nearest


def _buffers(
    workspace: Path, unsaved: Mapping[str, str], notes: list[str], *, fixed: Sequence[str]
) -> dict[str, bytes]:
    """Return the unsaved texts as bytes by path; add a note for each that could not be encoded.

    ``fixed`` are the files whose content at the time of the request is kept: without a worktree, a request has no base.
    """
    buffers: dict[str, bytes] = {}
    for path, text in unsaved.items():
        disk = user_file.read_bytes(workspace / path)
        content = user_file.bytes_like(disk, text)
        if content is None:
            notes.append(f"the unsaved text of {path} cannot be stored in the file's encoding and was not used")
        elif content != disk:
            buffers[path] = content
    for path in fixed:
        if path in buffers or path_rules.looks_secret(os.fsencode(path)):
            continue
        content = user_file.read_bytes(workspace / path)
        if content is not None and len(content) <= FILE_BYTES:
            buffers[path] = content
    return buffers
