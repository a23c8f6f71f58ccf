"""From a request to a plan: which recipe, which delegator and why, which checks, within which limits."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from understudy import config
from understudy.config import semantics, trust
from understudy.engine import limits, places, texts
from understudy.engine.prompt import FILE_BYTES, Prompt
from understudy.engine.prompt import build as build_prompt
from understudy.git import names as git_names
from understudy.journal import store
from understudy.model.delegations import Explanation, StartParams, Tried
from understudy.model.delegators import (
    Check,
    Delegator,
    DelegatorEntry,
    EnvReference,
    Limits,
    ModelServer,
    Problem,
    Recipe,
    Scope,
)
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.spec import SPEC_VERSION, Bootstrap, Spec
from understudy.model.wire import camel
from understudy.runners import registry
from understudy.secrets.redaction import Redactor

DEFAULT_SLOTS = 8
"""Agents mostly wait for a model, so more of them than cores is right; each is a few hundred MB (measured)."""
GHOSTWRITER = "ghostwriter"


@dataclass(frozen=True)
class Plan:
    """Everything decided before a delegation has an id."""

    params: StartParams
    recipe: Recipe
    workspace: Path
    delegator: Delegator
    model_server: ModelServer | None
    explain: Explanation
    checks: list[Check]
    slots: int
    bootstrap: Bootstrap
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
        """Return what the person sees in a file of the workspace."""
        if path in self.buffers:
            return self.buffers[path]
        return texts.read_bytes(self.workspace / path)

    def prompt(self) -> Prompt:
        """Return exactly what a start would send."""
        return prompt_for(
            recipe=self.recipe,
            params=self.params,
            delegator=self.delegator,
            model_server=self.model_server,
            files=self.files,
            context=self.context,
            target=self.target,
            read=self.read,
        )

    def spec(self, identifier: str, created_at: str) -> Spec:
        """Return what is written to ``spec.json``; the buffers' texts are stored beside it under these names."""
        return Spec(
            version=SPEC_VERSION,
            id=identifier,
            title=self.title,
            params=msgspec.structs.replace(self.params, buffers=None),
            recipe=self.recipe,
            workspace=str(self.workspace),
            delegator=self.delegator,
            model_server=self.model_server,
            explain=self.explain,
            files=[quoted(path) for path in self.files],
            context=[quoted(path) for path in self.context],
            target=quoted(self.target) if self.target is not None else None,
            checks=self.checks,
            slots=self.slots,
            bootstrap=self.bootstrap,
            interpreter=self.interpreter,
            trusted=self.trusted,
            created_at=created_at,
            buffers={quoted(path): str(number) for number, path in enumerate(self.buffers)},
            notes=self.notes,
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
        files=files,
        context=context,
        target=target,
        read=read,  # type: ignore[arg-type]
        local=model_server is not None and is_local(delegator, model_server),
    )


def is_local(delegator: Delegator, model_server: ModelServer) -> bool:
    """Tell whether what is sent stays on this machine by declaration, or by the server's address."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - only with a model server

    declared = delegator.locality or model_server.locality
    if declared is not None:
        return declared == "local"
    return (urlsplit(model_server.base_url).hostname or "") in {"localhost", "127.0.0.1", "::1"}


def quoted(path: str) -> str:
    """Return a surrogate-escaped path as it travels: as it is, or C-quoted where it is not UTF-8."""
    return git_names.quote(os.fsencode(path))


def plan(params: StartParams, documents: Mapping[str, str], folder: Path | None, *, only_look: bool = False) -> Plan:
    """Decide everything about a request; nothing is written and nothing is started.

    To ``only_look`` (a preview) needs no trust.

    ``documents`` are the caller's open documents (URI → text), ``folder`` where it stands.
    """
    uris = [*(params.files or []), *([params.target] if params.target else []), *(params.context or [])]
    workspace = places.workspace_of(uris, params.workspace, folder)
    status = trust.status(workspace, store.state_root())
    configuration = config.load(workspace, trusted=status.trusted, abilities=registry.ABILITIES)
    incomplete = incompleteness(configuration)
    if incomplete is not None:
        raise incomplete
    recipe = configuration.recipes.get(params.recipe)
    if recipe is None:
        raise _unknown(ErrorKind.UNKNOWN_RECIPE, "recipe", params.recipe, configuration.recipes, "understudy recipes")
    _refuse_routes_and_agents(params)
    entry, explain = choose(configuration, recipe, params.delegator)
    delegator = entry.delegator
    server = _server_of(configuration, delegator)
    if (
        not status.trusted
        and not only_look
        and not (recipe.returns == "text" and delegator.tool is None and entry.scope is not Scope.WORKSPACE)
    ):
        raise UnderstudyError(
            ErrorKind.UNTRUSTED_WORKSPACE,
            f"{workspace} is not trusted, so nothing may run in it.",
            hint=f"Look at what it allows and trust it: understudy trust {workspace}.",
            names=list(status.changed or status.allows) or None,
        )
    files = [places.inside(workspace, uri) for uri in params.files or []]
    context = [places.inside(workspace, uri) for uri in params.context or []]
    target = places.inside(workspace, params.target) if params.target else None
    if recipe.returns == "file" and target is None:
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS, f"The recipe {recipe.name!r} writes one file.", hint="Say which one: `target`."
        )
    buffers, notes = _buffers(workspace, params, documents)
    if recipe.returns == "text" and delegator.tool is None:
        _fix_texts(workspace, [*files, *context], buffers)
    for path in [*files, *context]:
        if path not in buffers and not (workspace / path).is_file():
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS, f"{workspace / path} is not a file.", hint="Name files that exist."
            )
    if recipe.name == "tests" and not files:
        raise UnderstudyError(
            ErrorKind.INPUT_EMPTY, "No file under test is named.", hint="understudy start tests PATH/TO/FILE"
        )
    held = _limits(params, delegator, configuration, notes)
    worktrees = configuration.worktrees
    return Plan(
        params=msgspec.structs.replace(_without_keys(params, delegator, server), limits=held),
        recipe=recipe,
        workspace=workspace,
        delegator=delegator,
        model_server=server,
        explain=explain,
        checks=_checks(configuration.checks, recipe, params),
        slots=configuration.slots or DEFAULT_SLOTS,
        bootstrap=Bootstrap(
            copy=list(worktrees.copy),
            link=list(worktrees.link),
            setup=list(worktrees.setup),
            setup_timeout_seconds=worktrees.setup_timeout_seconds,
        ),
        interpreter=configuration.python,
        trusted=status.trusted,
        files=files,
        context=context,
        target=target,
        buffers=buffers,
        notes=notes,
    )


def incompleteness(configuration: config.Configuration) -> UnderstudyError | None:
    """Return why nothing starts under this configuration, None when it is whole.

    A limit or a check that cannot be read would be left out of a run that a person believes to have it.
    """
    if not configuration.missing:
        return None
    first = configuration.missing[0]
    return UnderstudyError(
        ErrorKind.CONFIG_INVALID,
        f"The configuration has an error, so limits or checks may be missing: {first.message}",
        hint=first.hint or "Correct it; `understudy doctor` lists every problem with its place.",
        location=first.location,
    )


def choose(
    configuration: config.Configuration, recipe: Recipe, explicit: str | None
) -> tuple[DelegatorEntry, Explanation]:
    """Return the delegator and why: explicit → recipe → recipe's default → default → the only one → ghostwriter."""
    entries = configuration.delegators
    tried: list[Tried] = []
    candidates = [
        (explicit, "it was chosen for this"),
        (recipe.delegator, f"the recipe {recipe.name!r} names it"),
        (configuration.defaults.recipes.get(recipe.name), f"it is the default for {recipe.name!r}"),
        (configuration.defaults.delegator, "it is the default delegator"),
    ]
    own = [entry for entry in entries.values() if entry.scope is not Scope.BUILTIN]
    if len(own) == 1:
        candidates.append((own[0].delegator.name, "it is the only one configured"))
    elif not own:
        candidates.append((GHOSTWRITER, "nothing else is configured"))
    for name, because in candidates:
        if name is None:
            continue
        entry = entries.get(name)
        if entry is None:
            broken = next((problem for problem in configuration.problems if _is_of(problem, name)), None)
            if broken is not None:
                raise UnderstudyError(
                    ErrorKind.CONFIG_INVALID,
                    f"The file of the delegator {name!r} cannot be used: {broken.message}",
                    hint=broken.hint or "Correct the file, or remove it.",
                    location=broken.location,
                )
            raise _unknown(ErrorKind.UNKNOWN_DELEGATOR, "delegator", name, entries, "understudy delegators list")
        reason = _unusable(entry, recipe)
        if reason is None:
            return entry, Explanation(delegator=name, tried=tried, because=because)
        if name == explicit:
            # A person who names a delegator gets that one or an error, never another one silently.
            raise reason
        tried.append(Tried(name=name, skipped=reason.message))
    if tried:
        skipped = "; ".join(f"{item.name}: {item.skipped}" for item in tried)
        raise UnderstudyError(
            ErrorKind.UNKNOWN_DELEGATOR,
            f"No delegator can run the recipe {recipe.name!r} ({skipped}).",
            hint="Add one with `understudy delegators add`, or say which one shall: `delegator`.",
            names=[entry.delegator.name for entry in own] or None,
        )
    raise UnderstudyError(
        ErrorKind.UNKNOWN_DELEGATOR,
        f"Several delegators are configured and none is the default for {recipe.name!r}.",
        hint="Say which one: `delegator`. `defaults.delegator` in config.toml says it for good.",
        names=[entry.delegator.name for entry in own],
    )


def able(configuration: config.Configuration, recipe: Recipe) -> list[str]:
    """Return the delegators, as they are configured, that could run a recipe if somebody named them."""
    own = [entry for entry in configuration.delegators.values() if entry.scope is not Scope.BUILTIN]
    return [entry.delegator.name for entry in own if _unusable(entry, recipe) is None]


def _is_of(problem: Problem, name: str) -> bool:
    return problem.location is not None and problem.location.uri.endswith(f"/delegators/{name}.toml")


def _unusable(entry: DelegatorEntry, recipe: Recipe) -> UnderstudyError | None:
    delegator = entry.delegator
    wrong = next((problem for problem in entry.state.problems if problem.severity == "error"), None)
    if wrong is not None:
        return UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"The delegator {delegator.name!r} cannot be used: {wrong.message}",
            hint=wrong.hint or "correct its configuration",
            location=wrong.location or entry.location,
        )
    try:
        registry.check(delegator, recipe)
    except UnderstudyError as refused:
        return refused
    return None


def _server_of(configuration: config.Configuration, delegator: Delegator) -> ModelServer | None:
    if delegator.model_server is None:
        return None
    entry = configuration.model_servers.get(delegator.model_server)
    if entry is None:
        raise _unknown(
            ErrorKind.UNKNOWN_MODEL_SERVER,
            "model server",
            delegator.model_server,
            configuration.model_servers,
            "understudy servers list",
        )
    wrong = next((problem for problem in entry.state.problems if problem.severity == "error"), None)
    if wrong is not None:
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"The model server {entry.model_server.name!r} cannot be used: {wrong.message}",
            hint=wrong.hint or "Correct its configuration.",
            location=wrong.location or entry.location,
        )
    return entry.model_server


def _checks(configured: Mapping[str, Check], recipe: Recipe, params: StartParams) -> list[Check]:
    """Return the checks to run: those named by the request, else by the recipe, else all that are configured.

    The recipe ``tests`` has a check of its own (the test files it wrote), so it takes configured ones by name only.
    """
    names = params.checks if params.checks is not None else recipe.checks
    if names is None:
        return [] if recipe.name == "tests" else list(configured.values())
    for name in names:
        if name not in configured:
            raise _unknown(ErrorKind.UNKNOWN_CHECK, "check", name, configured, "[[checks]] in config.toml")
    return [configured[name] for name in names]


def _buffers(workspace: Path, params: StartParams, documents: Mapping[str, str]) -> tuple[dict[str, bytes], list[str]]:
    """Return the unsaved texts as bytes by path, and a note for each that could not be carried."""
    found: dict[str, bytes] = {}
    notes: list[str] = []
    asked = [(item.uri, item.text, True) for item in params.buffers or []]
    for uri, text, explicit in [*((uri, text, False) for uri, text in documents.items()), *asked]:
        try:
            path = places.inside(workspace, uri)
        except UnderstudyError:
            if explicit:
                raise
            continue  # an open document of another workspace
        disk = texts.read_bytes(workspace / path)
        content = texts.bytes_like(disk, text)
        if content is None:
            notes.append(f"the unsaved text of {path} does not fit the file's encoding and was not carried")
        elif content != disk:
            found[path] = content
    return found, notes


def _limits(params: StartParams, delegator: Delegator, configuration: config.Configuration, notes: list[str]) -> Limits:
    """Return the limits that hold. One that this request asks for and that has no effect is refused, never ignored.

    One of the person's general limits that has no effect on this delegator is named in a note.
    """
    if params.limits is not None:
        registry.check(msgspec.structs.replace(delegator, limits=params.limits))
        for finding in semantics.check_limits(params.limits, frozenset(Limits.__struct_fields__), delegator.name):
            raise UnderstudyError(ErrorKind.INVALID_PARAMS, finding.message, hint=finding.hint)
    general = Limits()
    for name, value in msgspec.structs.asdict(configuration.limits).items():
        if value is None:
            continue
        one = msgspec.structs.replace(Limits(), **{name: value})
        try:
            registry.check(msgspec.structs.replace(delegator, limits=one))
        except UnderstudyError:
            notes.append(f"the general limit {camel(name)} has no effect on {delegator.name}")
        else:
            general = msgspec.structs.replace(general, **{name: value})
    return limits.merged(params.limits, delegator.limits, general)


def _fix_texts(workspace: Path, paths: list[str], buffers: dict[str, bytes]) -> None:
    """Keep what files hold at the click: without a tree there is no base that does, and a queue may be long."""
    for path in paths:
        if path in buffers or git_names.looks_secret(os.fsencode(path)):
            continue
        content = texts.read_bytes(workspace / path)
        if content is not None and len(content) <= FILE_BYTES:
            buffers[path] = content


def _without_keys(params: StartParams, delegator: Delegator, server: ModelServer | None) -> StartParams:
    """Return ``params`` without the keys that this delegation uses, should a person have pasted one into the task.

    What is asked for is stored and sent. Keys that are not in the environment are known to the worker only, which
    takes them out of the prompt.
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


def _refuse_routes_and_agents(params: StartParams) -> None:
    for name in ("route", "agent"):
        value = getattr(params, name)
        if value is not None:
            kind = ErrorKind.UNKNOWN_ROUTE if name == "route" else ErrorKind.UNKNOWN_AGENT
            raise UnderstudyError(
                kind, f"There is no {name} {value!r}: this version has none.", hint="Name a delegator instead."
            )


def _unknown(kind: ErrorKind, what: str, name: str, known: Iterable[str], where: str) -> UnderstudyError:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3)
    return UnderstudyError(
        kind,
        f"There is no {what} {name!r}.",
        hint=f"Did you mean {near[0]!r}?" if near else f"See {where}.",
        names=near or names[:20],
    )
