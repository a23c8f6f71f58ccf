"""Turn a request into a plan: the recipe, the delegator and the reason for it, the checks and the limits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from understudy import config
from understudy.config import locality
from understudy.config.discovery import declarations
from understudy.config.findings import unusable
from understudy.config.suggestions import unknown_name
from understudy.config.trust import records
from understudy.config.validation import delegator_rules, recipe_rules
from understudy.engine import text_encoding, workspaces
from understudy.engine.planning import limits
from understudy.engine.planning.delegator_choice import choose, incompleteness
from understudy.engine.planning.prompt import FILE_BYTES, Prompt
from understudy.engine.planning.prompt import build as build_prompt
from understudy.git import path_rules as git_names
from understudy.journal import state_folder
from understudy.model.capabilities import Capabilities
from understudy.model.checks import Check
from understudy.model.config.delegators import Delegator, EnvReference, Limits, ModelServer, Scope
from understudy.model.config.evidence_bounds import Evidence
from understudy.model.config.recipes import Recipe
from understudy.model.delegations import AskedBy, Explanation, StartParams
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.spec import SPEC_VERSION, Bootstrap, Spec, SpecCandidate
from understudy.model.text import path_quoting
from understudy.model.wire import camel
from understudy.secrets.redaction import Redactor

DEFAULT_SLOTS = 8
"""Agents mostly wait for a model, so run more of them than cores; each takes a few hundred MB (measured)."""


@dataclass(frozen=True)
class Plan:
    """Everything decided before a delegation has an id."""

    params: StartParams
    recipe: Recipe
    workspace: Path
    candidates: list[SpecCandidate]
    explain: Explanation
    checks: list[Check]
    slots: int
    bootstrap: Bootstrap
    evidence: Evidence
    rounds: int
    interpreter: str | None
    trusted: bool
    files: list[str]
    context: list[str]
    target: str | None
    buffers: dict[str, bytes]
    notes: list[str]

    @property
    def title(self) -> str:
        """Return one line for lists."""
        if self.params.task and self.params.task.strip():
            return self.params.task.strip().splitlines()[0][:80]
        about = self.files or ([self.target] if self.target else self.context)
        names = ", ".join(name.rsplit("/", 1)[-1] for name in about[:3])
        title = f"{self.recipe.title}: {names}" if names else self.recipe.title
        return quoted(title)[:120]

    def read(self, path: str) -> bytes | None:
        """Return what the user sees in a file of the workspace."""
        if path in self.buffers:
            return self.buffers[path]
        return text_encoding.read_bytes(self.workspace / path)

    def prompt(self) -> Prompt:
        """Return exactly what a start would send."""
        first = self.candidates[0]
        return prompt_for(
            recipe=self.recipe,
            params=self.params,
            delegator=first.delegator,
            model_server=first.model_server,
            files=self.files,
            context=self.context,
            target=self.target,
            read=self.read,
        )

    def spec(self, identifier: str, created_at: str, asked_by: AskedBy) -> Spec:
        """Return the specification for ``spec.json``; the buffers' texts are stored beside it under these names."""
        return Spec(
            version=SPEC_VERSION,
            id=identifier,
            title=self.title,
            params=msgspec.structs.replace(self.params, buffers=None),
            recipe=self.recipe,
            workspace=str(self.workspace),
            candidates=self.candidates,
            explain=self.explain,
            files=[quoted(path) for path in self.files],
            context=[quoted(path) for path in self.context],
            target=quoted(self.target) if self.target is not None else None,
            checks=self.checks,
            slots=self.slots,
            bootstrap=self.bootstrap,
            evidence=self.evidence,
            rounds=self.rounds,
            interpreter=self.interpreter,
            trusted=self.trusted,
            asked_by=asked_by,
            created_at=created_at,
            buffers={quoted(path): str(number) for number, path in enumerate(self.buffers)},
            notes=self.notes,
            group_id=self.params.group_id,
        )

    def buffer_files(self) -> dict[str, bytes]:
        """Return file name in ``buffers/`` → bytes, matching ``spec``."""
        return {str(number): content for number, content in enumerate(self.buffers.values())}


def prompt_for(
    *,
    recipe: Recipe,
    params: StartParams,
    delegator: Delegator,
    model_server: ModelServer | None,
    files: list[str],
    context: list[str],
    target: str | None,
    read: object,
) -> Prompt:
    """Return the prompt; one function for the preview and for the run."""
    return build_prompt(
        recipe=recipe,
        params=params,
        delegator=delegator,
        supported=declarations.require_capabilities(delegator, model_server),
        files=files,
        context=context,
        target=target,
        read=read,  # type: ignore[arg-type]
        local=locality.is_local(delegator, model_server),
    )


def quoted(path: str) -> str:
    """Return the wire form of a surrogate-escaped path: unchanged, or C-quoted if it is not UTF-8."""
    return path_quoting.quote(os.fsencode(path))


def plan(params: StartParams, documents: Mapping[str, str], folder: Path | None, *, only_look: bool = False) -> Plan:
    """Plan a request without writing or starting anything.

    ``only_look`` (a preview) does not require trust. ``documents`` are the caller's open documents (URI → text),
    ``folder`` is its current folder.
    """
    uris = [*(params.files or []), *([params.target] if params.target else []), *(params.context_files or [])]
    workspace = workspaces.workspace_of(uris, params.workspace, folder)
    status = records.status(workspace, state_folder.state_root())
    configuration = config.load(workspace, trusted=status.trusted)
    incomplete = incompleteness(configuration)
    if incomplete is not None:
        raise incomplete
    recipe = configuration.recipes.get(params.recipe)
    if recipe is None:
        raise unknown_name(ErrorKind.UNKNOWN_RECIPE, params.recipe, configuration.recipes)
    entry, explain = choose(configuration, recipe, params.delegator)
    delegator = entry.delegator
    server = _server_of(configuration, delegator)
    supported = declarations.require_capabilities(delegator, server)
    if (
        not status.trusted
        and not only_look
        and not (recipe.returns == "text" and not supported.process_in_worktree and entry.scope is not Scope.WORKSPACE)
    ):
        raise UnderstudyError(
            ErrorKind.UNTRUSTED_WORKSPACE,
            f"{workspace} is not trusted, so nothing may run in it.",
            hint=f"Review what it allows and trust it: understudy trust {workspace}.",
            names=list(status.changed or status.allows) or None,
        )
    files = [workspaces.inside(workspace, uri) for uri in params.files or []]
    context = [workspaces.inside(workspace, uri) for uri in params.context_files or []]
    target = workspaces.inside(workspace, params.target) if params.target else None
    if recipe.returns == "file" and target is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"The recipe {recipe.name!r} writes one file.", hint="Name it in `target`."
        )
    buffers, notes = _buffers(workspace, params, documents)
    if recipe.returns == "text" and not supported.process_in_worktree:
        _fix_texts(workspace, [*files, *context], buffers)
    for path in [*files, *context]:
        if path not in buffers and not (workspace / path).is_file():
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, f"{workspace / path} is not a file.", hint="Name files that exist."
            )
    if recipe.name == "tests" and not files:
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY,
            "No file under test is named.",
            hint="Name one, for example: understudy start tests PATH/TO/FILE",
        )
    held = _limits(params, delegator, supported, configuration, notes)
    return Plan(
        params=_without_keys(params, delegator, server),
        recipe=recipe,
        workspace=workspace,
        candidates=[SpecCandidate(delegator=delegator, model_server=server, limits=held)],
        explain=explain,
        checks=checks_to_run(configuration.checks, recipe, params),
        slots=configuration.slots or DEFAULT_SLOTS,
        bootstrap=bootstrap_of(configuration.worktrees),
        evidence=configuration.evidence,
        rounds=_rounds(params, recipe),
        interpreter=configuration.python,
        trusted=status.trusted,
        files=files,
        context=context,
        target=target,
        buffers=buffers,
        notes=notes,
    )


def _server_of(configuration: config.Configuration, delegator: Delegator) -> ModelServer | None:
    if delegator.model_server is None:
        return None
    entry = configuration.model_servers.get(delegator.model_server)
    if entry is None:
        raise unknown_name(ErrorKind.UNKNOWN_MODEL_SERVER, delegator.model_server, configuration.model_servers)
    wrong = next((problem for problem in entry.state.problems if problem.severity == "error"), None)
    if wrong is not None:
        raise unusable("model server", entry.model_server.name, wrong, entry.location)
    return entry.model_server


def bootstrap_of(worktrees: config.Worktrees) -> Bootstrap:
    """Return what each new worktree gets."""
    return Bootstrap(
        copy=list(worktrees.copy),
        link=list(worktrees.link),
        setup=list(worktrees.setup),
        setup_timeout_seconds=worktrees.setup_timeout_seconds,
    )


def checks_to_run(configured: Mapping[str, Check], recipe: Recipe, params: StartParams) -> list[Check]:
    """Return the checks to run: those named by the request, else by the recipe, else all that are configured.

    The recipe ``tests`` has its own check (the test files it wrote), so it uses configured ones only by name.
    """
    names = params.checks if params.checks is not None else recipe.checks
    if names is None:
        return [] if recipe.name == "tests" else list(configured.values())
    for name in names:
        if name not in configured:
            raise unknown_name(ErrorKind.UNKNOWN_CHECK, name, configured)
    return [configured[name] for name in names]


def _rounds(params: StartParams, recipe: Recipe) -> int:
    """Return the most rounds: those of the request, else of the recipe."""
    wrong = recipe_rules.check_rounds(params.rounds, recipe.returns)
    if wrong is not None:
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, wrong.message, hint=wrong.hint)
    return (recipe.rounds if params.rounds is None else params.rounds) or 0


def _buffers(workspace: Path, params: StartParams, documents: Mapping[str, str]) -> tuple[dict[str, bytes], list[str]]:
    """Return the unsaved texts as bytes by path, and a note for each that could not be encoded."""
    found: dict[str, bytes] = {}
    notes: list[str] = []
    current = {workspaces.inside(workspace, item.uri): item.text for item in params.buffers or []}
    for uri in documents:
        try:
            path = workspaces.inside(workspace, uri)
        except UnderstudyError:
            continue  # an open document of another workspace
        if path not in current:
            current[path] = documents[uri]
    for path, text in current.items():
        disk = text_encoding.read_bytes(workspace / path)
        content = text_encoding.bytes_like(disk, text)
        if content is None:
            notes.append(f"the unsaved text of {path} cannot be stored in the file's encoding and was not used")
        elif content != disk:
            found[path] = content
    return found, notes


def _limits(
    params: StartParams,
    delegator: Delegator,
    supported: Capabilities,
    configuration: config.Configuration,
    notes: list[str],
) -> Limits:
    """Return the limits that apply. A limit of this request that has no effect is refused, never ignored.

    A general limit of the user's configuration that has no effect on this delegator is reported in a note.
    """
    if params.limits is not None:
        for finding in delegator_rules.check_supported_limits(params.limits, delegator, supported):
            raise unusable("delegator", delegator.name, finding)
        for finding in delegator_rules.check_limits(params.limits):
            raise UnderstudyError(ErrorKind.INVALID_PARAMS, finding.message, hint=finding.hint)
    general = Limits()
    for name, value in msgspec.structs.asdict(configuration.limits).items():
        if value is None:
            continue
        one = msgspec.structs.replace(Limits(), **{name: value})
        if any(delegator_rules.check_supported_limits(one, delegator, supported)):
            notes.append(f"the general limit {camel(name)} has no effect on {delegator.name}")
        else:
            general = msgspec.structs.replace(general, **{name: value})
    return limits.merged(params.limits, delegator.limits, general)


def _fix_texts(workspace: Path, paths: list[str], buffers: dict[str, bytes]) -> None:
    """Store the files' content at the time of the request: without a worktree there is no base."""
    for path in paths:
        if path in buffers or git_names.looks_secret(os.fsencode(path)):
            continue
        content = text_encoding.read_bytes(workspace / path)
        if content is not None and len(content) <= FILE_BYTES:
            buffers[path] = content


def _without_keys(params: StartParams, delegator: Delegator, server: ModelServer | None) -> StartParams:
    """Return ``params`` without the keys that this delegation uses, in case the user pasted one into the task.

    The task is stored and sent. Keys that are not in the environment are known only to the worker, which
    removes them from the prompt.
    """
    names = [value.from_env for value in (delegator.env or {}).values() if isinstance(value, EnvReference)]
    if server is not None and server.api_key is not None and server.api_key.from_env is not None:
        names.append(server.api_key.from_env)
    known = {name: os.environ[name] for name in names if os.environ.get(name)}
    if not known:
        return params
    redactor = Redactor(known)
    return msgspec.structs.replace(
        params,
        task=redactor.redact(params.task) if params.task else params.task,
        input=redactor.redact(params.input) if params.input else params.input,
    )
