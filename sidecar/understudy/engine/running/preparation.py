"""Prepare a run (record the base, create the worktree, look at the files outside it), and what its attempts need."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.config import locality
from understudy.config.trust import records
from understudy.engine.bases import base_recorder
from understudy.engine.planning.prompt import FILE_BYTES, how_to_run, project_python, prompt_for, python_folder
from understudy.engine.queueing import launcher
from understudy.engine.running.outside_watch import OutsideWatch
from understudy.engine.running.run_context import RunContext
from understudy.engine.worktrees import delegation_worktree
from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.files import nofollow
from understudy.git import repository
from understudy.journal.delegation_folder import Folder
from understudy.judge.project import interpreter
from understudy.model.config.delegators import EnvReference
from understudy.model.delegation import events
from understudy.model.delegation.spec import Spec, SpecCandidate
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import unquote
from understudy.process.call_checks import proxy_passwords
from understudy.process.guardian import marked_processes
from understudy.runners.runner import ProjectPython
from understudy.secrets import keys

_NONE: Mapping[str, str] = {}


class Preparation:
    """Gives the agent a folder to work in: once before the first attempt, and again after one that failed."""

    def __init__(self, run: RunContext, outside: OutsideWatch) -> None:
        """Create nothing on disk."""
        self._run = run
        self._outside = outside

    async def prepare(self) -> None:
        """Prepare the first attempt. Raises ``untrusted_workspace``, and the errors of the base and the worktree."""
        if not launcher.needs_worktree(self._run.spec):
            self._check_trust()
            return
        checkout, bootstrap = self._run.checkout, self._run.spec.bootstrap
        if checkout is not None:
            await self._run.in_thread(checkout.claim_checkout)
        looking: asyncio.Task[None] | None = None
        # A set-up command may change files outside, and what is linked is outside: those are looked at later.
        if not bootstrap.setup and not bootstrap.link:
            looking = asyncio.create_task(self._run.in_thread(self._look_early))
        await self._run.in_thread(self._make_base)
        self._check_trust()
        await self._make_tree(looking)
        if checkout is not None:
            await self._run.in_thread(checkout.enter, self._run.tell)

    async def renew(self) -> None:
        """Replace the worktree of a failed attempt by a fresh one, for the next candidate."""
        # No process of the failed attempt may write to the new one.
        await self._run.in_thread(marked_processes.kill_leftovers, self._run.folder.id)
        await self._run.in_thread(self._run.worktree.make_tree, self._run.tell)
        await self._set_up()

    def _make_base(self) -> None:
        """Record the base, unless that was done while it waited; runs in a thread."""
        run = self._run
        if not base_recorder.is_recorded(run.writer.delegation, run.worktree):
            run.tell(events.Phase(text="Recording your files"))
            base_recorder.record_base(run.folder, run.spec, run.worktree, run.state, run.tell)

    def _check_trust(self) -> None:
        """Raise an error if trust was revoked, or the covered files changed, since the request."""
        workspace = Path(self._run.spec.workspace)
        if self._run.spec.trusted and not records.status(workspace, self._run.state).trusted:
            raise UnderstudyError(
                ErrorKind.UNTRUSTED_WORKSPACE,
                f"{workspace} is no longer trusted: trust was revoked, or its configuration changed.",
                hint=repository.trust_hint(workspace),
            )

    def _look_early(self) -> None:
        """Look at the environment while the base is recorded; runs in a thread, and raises nothing."""
        with contextlib.suppress(UnderstudyError):  # reported when the base is recorded
            self._check_trust()  # finding the environment may start tools of the project
            self._outside.look_early()

    async def _make_tree(self, looking: asyncio.Task[None] | None) -> None:
        """Create the worktree, and look at the files outside it before an agent runs."""
        made = self._run.in_thread(self._run.worktree.make_tree, self._run.tell)
        if looking is None:
            await made
            await self._set_up()
            await self._outside.start()
        else:
            await asyncio.gather(made, self._start_after(looking))

    async def _start_after(self, looking: asyncio.Task[None]) -> None:
        await looking
        await self._outside.start()

    async def _set_up(self) -> None:
        argv = self._run.spec.bootstrap.setup
        if not argv:
            return
        self._run.emit(events.Phase(text=f"Setting up the worktree: {argv[0]}"))
        await delegation_worktree.run_setup(
            argv,
            self._run.worktree.tree_path,
            self._run.worktree.environment(),
            mark=self._run.folder.id,
            timeout_seconds=self._run.spec.bootstrap.setup_timeout_seconds,
            limits=self._run.spec.program_limits,
        )


def prompt_of(run: RunContext, spec: Spec, candidate: SpecCandidate) -> str:
    """Return the prompt of an attempt, and warn of each file that is not sent. Raises the errors of the prompt."""
    folder, worktree = run.folder, run.tree
    prompt = prompt_for(
        recipe=spec.recipe,
        params=spec.asked(),
        delegator=candidate.delegator,
        model_server=candidate.model_server,
        tool_definition=candidate.tool_definition,
        files=paths(spec.files),
        context=paths(spec.context),
        target=target_of(spec),
        read=lambda path: _as_asked(folder, spec, path) if worktree is None else _as_it_is(worktree, path),
        how_to_run=how_to_run(spec),
    )
    for item in prompt.files:
        if item.withheld:
            run.tell(events.Note(level="warning", text=f"{item.path} was not sent: {item.withheld}."))
    return prompt.text


def path_of(spec: Spec) -> dict[str, str]:
    """Return PATH with the programs of the project's Python environment for an agent.

    They come last: no program of the project takes the place of the agent's own, or of the Python that runs it.
    """
    python = project_python(spec)
    return {} if python is None else {"PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), str(python.parent)])}


def resolve_environment(declared: Mapping[str, str | EnvReference]) -> tuple[dict[str, str], dict[str, str]]:
    """Return a delegator's variables with their values, and the secrets to redact from what its agent prints.

    These are the values taken from this process's environment by name, and the passwords of proxies. Raises
    ``secret_withheld`` when a variable is not set, or too short to be redacted.
    """
    values: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for name, value in declared.items():
        if isinstance(value, str):
            values[name] = value
        else:
            values[name] = secrets[name] = keys.redactable_variable(value.from_env, os.environ, purpose=name)
    return values, secrets | proxy_secrets(values)


def secrets_of(candidates: Sequence[SpecCandidate]) -> dict[str, str]:
    """Return the keys and the secret variables of candidates, by a name for each, without those not available."""
    secrets = keys.available([candidate.model_server for candidate in candidates], os.environ)
    for delegator in (candidate.delegator for candidate in candidates):
        with contextlib.suppress(UnderstudyError):
            variables = resolve_environment(delegator.env or {})[1]
            secrets |= {f"{delegator.name}.{name}": value for name, value in variables.items()}
    return secrets


def warn_of_withheld_proxies(run: RunContext, candidate: SpecCandidate) -> None:
    """Say how an agent gets the password of the user's proxy, unless it has it, or must not reach other machines."""
    delegator = candidate.delegator
    if delegator.tool is None or locality.is_bound(delegator, candidate.model_server):
        return
    names = [name for name, value in os.environ.items() if proxy_passwords({name: value})]
    for name in [name for name in names if name not in (delegator.env or {})][:1]:
        line = f'env = {{ {name} = {{ from_env = "{name}" }} }}'
        text = f"{delegator.name} does not get the password of your proxy. If it needs it, write into its file: {line}"
        run.tell(events.Note(level="info", text=text))


def proxy_secrets(declared: Mapping[str, str] = _NONE) -> dict[str, str]:
    """Return the passwords of the proxies in this process's environment and in ``declared``, by a name for each.

    Children get it if their delegator names it, and the set-up command gets it, so it can appear in what they print.
    """
    passwords = dict.fromkeys([*proxy_passwords(os.environ), *proxy_passwords(declared)])
    return {f"proxy password {number}": password for number, password in enumerate(passwords, 1)}


def paths(quoted: list[str]) -> list[str]:
    """Convert C-quoted paths to surrogate-escaped ones."""
    return [os.fsdecode(unquote(path)) for path in quoted]


def target_of(spec: Spec) -> str | None:
    """Return the file to write, for recipes that return a file."""
    return None if spec.target is None else paths([spec.target])[0]


def _as_asked(folder: Folder, spec: Spec, path: str) -> bytes | None:
    """Return the content of a file that the user saw at the time of the request."""
    for quoted, name in spec.buffers.items():
        if paths([quoted])[0] == path:
            return (folder.buffers / name).read_bytes()
    file = Path(spec.workspace) / path
    return file.read_bytes() if file.is_file() else None


def _as_it_is(worktree: DelegationWorktree, path: str) -> bytes | None:
    """Return the content of a file of the worktree, which an earlier attempt may have changed."""
    try:
        return nofollow.read(worktree.agent_path, path, 2 * FILE_BYTES)
    except (UnderstudyError, OSError):  # a link, or too large
        return worktree.read_base(path)


def interpreter_of(spec: Spec, folder: Folder, worktree: DelegationWorktree) -> ProjectPython | None:
    """Return the project's Python as the checks of the result will start it."""
    tree = worktree.agent_path
    place = python_folder(spec)
    project = interpreter.project_python(
        Path(spec.workspace), spec.interpreter, tree=tree, scratch=folder.path / "python", folder=place
    )
    if project is None:
        return None
    first = interpreter.first_imports(project.plan, project.shadows, tree)
    on_path = project.facts.origin == "PATH"
    return ProjectPython(project.facts.executable, first, place, on_path=on_path, checkout=spec.workspace)


def log_of(path: Path, number: int) -> Path:
    """Return the log's name for an attempt: each one after the first has its own (``stdout.2.log``)."""
    return path if number == 1 else path.with_name(f"{path.stem}.{number}{path.suffix}")
