"""Making, changing and removing delegators and model servers: one file each, never somebody's own words.

A file is edited only while it is exactly what a face would write for what it says; comments, other
spellings, an own order make it a person's file (``not_editable``, with its place). Between reading
and writing a lock is held, so two processes cannot lose each other's edits, and a revision that is
no longer current is a ``conflict``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, overload

from understudy.config import folders, locks, semantics, shapes
from understudy.config.load import Configuration, load, render
from understudy.config.semantics import Abilities
from understudy.config.sources import unusable_value
from understudy.config.trust import keeping, status
from understudy.model.delegators import NAME_PATTERN, Delegator, DelegatorEntry, ModelServer, ModelServerEntry, Scope
from understudy.model.errors import ErrorKind, UnderstudyError

Kind = Literal["delegator", "model_server"]

_FOLDER: dict[Kind, str] = {"delegator": "delegators", "model_server": "model-servers"}
_TITLE: dict[Kind, str] = {"delegator": "delegator", "model_server": "model server"}
_UNKNOWN: dict[Kind, ErrorKind] = {
    "delegator": ErrorKind.UNKNOWN_DELEGATOR,
    "model_server": ErrorKind.UNKNOWN_MODEL_SERVER,
}


class Editor:
    """Edits the configuration as seen from one workspace.

    ``state`` is the state folder (for trust), ``abilities`` what the runners honour. Every method
    reads the files anew, and returns what a ``load`` in any process returns from then on.
    """

    def __init__(
        self,
        workspace: Path | None,
        *,
        state: Path,
        abilities: Mapping[str, Abilities] = semantics.DEFAULT_ABILITIES,
    ) -> None:
        """Keep what all edits need; nothing is read yet."""
        self.workspace = workspace
        self.state = state
        self.abilities = abilities

    @overload
    def create(self, thing: Delegator, scope: Scope) -> DelegatorEntry: ...
    @overload
    def create(self, thing: ModelServer, scope: Scope) -> ModelServerEntry: ...
    def create(self, thing: Delegator | ModelServer, scope: Scope) -> DelegatorEntry | ModelServerEntry:
        """Write a new thing into ``scope``.

        Kinds: ``already_exists``, ``config_invalid`` (with everything that is wrong), ``untrusted_workspace``,
        ``invalid_params`` (a builtin scope, no workspace), ``store_unavailable``.
        """
        kind = _kind(thing)
        _check_name(kind, thing.name)
        root = self._root(scope)
        with self._locked(root):
            before = self._load()
            self._refuse_untrusted(before, scope)
            self._refuse_taken(before, kind, thing.name, scope, root)
            self._judge(before, thing, scope)
            self._apply(root, [(_file(root, kind, thing.name), render(thing))])
            return self._entry(self._load(), kind, thing.name)

    @overload
    def update(self, name: str, thing: Delegator, revision: str | None = None) -> DelegatorEntry: ...
    @overload
    def update(self, name: str, thing: ModelServer, revision: str | None = None) -> ModelServerEntry: ...
    def update(
        self, name: str, thing: Delegator | ModelServer, revision: str | None = None
    ) -> DelegatorEntry | ModelServerEntry:
        """Replace the thing called ``name``, in its own scope; another name in ``thing`` renames it.

        Kinds: those of ``create``, ``unknown_delegator`` or ``unknown_model_server``, ``not_editable`` with
        the place, ``conflict`` when ``revision`` is not the current one.
        """
        kind = _kind(thing)
        _check_name(kind, thing.name)
        root = self._editable(self._entry(self._load(), kind, name), kind, name).parent.parent
        with self._locked(root):
            before = self._load()
            entry = self._entry(before, kind, name)
            path = self._editable(entry, kind, name)
            _refuse_stale(entry, kind, name, revision)
            changes: list[tuple[Path, bytes | None]] = [(_file(root, kind, thing.name), render(thing))]
            if thing.name != name:
                self._refuse_taken(before, kind, thing.name, entry.scope, root)
                changes.append((path, None))
            self._judge(before, thing, entry.scope)
            self._apply(root, changes)
            return self._entry(self._load(), kind, thing.name)

    def judge(self, thing: Delegator | ModelServer, scope: Scope) -> None:
        """Raise what ``create`` would raise for the values of ``thing``; whether its name is free is not asked."""
        _check_name(_kind(thing), thing.name)
        self._root(scope)
        before = self._load()
        self._refuse_untrusted(before, scope)
        self._judge(before, thing, scope)

    def delete(self, kind: Kind, name: str, revision: str | None = None) -> None:
        """Remove the thing called ``name``; kinds as for ``update``."""
        root = self._editable(self._entry(self._load(), kind, name), kind, name).parent.parent
        with self._locked(root):
            entry = self._entry(self._load(), kind, name)
            path = self._editable(entry, kind, name)
            _refuse_stale(entry, kind, name, revision)
            self._apply(root, [(path, None)])

    def generate_name(self, tool: str, model: str = "") -> str:
        """Return a name for a delegator of ``tool`` and ``model`` that nothing in this configuration has."""
        own = model.rpartition("/")[2]
        base = re.sub(r"[^a-z0-9._-]+", "-", f"{tool}-{own}".lower()).strip("-._")[:56] or "delegator"
        taken = self._load().delegators
        name, number = base, 2
        while name in taken:
            name, number = f"{base}-{number}", number + 1
        return name

    def _root(self, scope: Scope) -> Path:
        if scope is Scope.USER:
            return folders.user_folder()
        if scope is Scope.BUILTIN or self.workspace is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                "Nothing can be added to what is built in."
                if scope is Scope.BUILTIN
                else "A thing of the workspace needs a workspace, and none is given.",
                hint="Use the scope `user`, or name the workspace.",
            )
        return self.workspace / folders.WORKSPACE_FOLDER

    def _refuse_untrusted(self, before: Configuration, scope: Scope) -> None:
        if scope is Scope.WORKSPACE and not before.trusted:
            raise UnderstudyError(
                ErrorKind.UNTRUSTED_WORKSPACE,
                f"{self.workspace} is not trusted, so what is written into it would have no effect.",
                hint="Run `understudy trust` there first, or use the scope `user`.",
            )

    def _load(self) -> Configuration:
        trusted = self.workspace is not None and status(self.workspace, self.state).trusted
        return load(self.workspace, trusted=trusted, abilities=self.abilities)

    def _entry(self, configuration: Configuration, kind: Kind, name: str) -> DelegatorEntry | ModelServerEntry:
        entries: Mapping[str, DelegatorEntry | ModelServerEntry]
        entries = configuration.delegators if kind == "delegator" else configuration.model_servers
        entry = entries.get(name)
        if entry is None:
            from understudy.config.problems import near  # noqa: PLC0415 - only when something is wrong

            raise UnderstudyError(
                _UNKNOWN[kind], f"There is no {_TITLE[kind]} `{name}`.", hint=near(name, entries), names=sorted(entries)
            )
        return entry

    def _editable(self, entry: DelegatorEntry | ModelServerEntry, kind: Kind, name: str) -> Path:
        if not entry.editable or entry.location is None:
            builtin = entry.scope is Scope.BUILTIN
            raise UnderstudyError(
                ErrorKind.NOT_EDITABLE,
                f"The {_TITLE[kind]} `{name}` is "
                + ("built in." if builtin else "written by hand, so it is left alone."),
                hint="Make one of your own under another name." if builtin else "Change the file itself.",
                location=entry.location,
            )
        # The location was made by ``load`` from this very path; as a path it is known again by scope and name.
        for layer in folders.layers(self.workspace, trusted=True):
            path = _file(layer.root, kind, name)
            if path.as_uri() == entry.location.uri:
                return path
        raise UnderstudyError(ErrorKind.INTERNAL, f"The file of {_TITLE[kind]} `{name}` is in no known folder.")

    def _refuse_taken(self, before: Configuration, kind: Kind, name: str, scope: Scope, root: Path) -> None:
        entries: Mapping[str, DelegatorEntry | ModelServerEntry]
        entries = before.delegators if kind == "delegator" else before.model_servers
        entry = entries.get(name)
        path = _file(root, kind, name)
        taken = entry is not None and entry.scope is scope
        # A file that cannot be read is somebody's all the same.
        if taken or os.path.lexists(path):
            raise UnderstudyError(
                ErrorKind.ALREADY_EXISTS,
                f"There is a {_TITLE[kind]} `{name}` already.",
                hint="Choose another name, or change that one.",
                location=entry.location if entry is not None and taken else None,
            )

    def _judge(self, before: Configuration, thing: Delegator | ModelServer, scope: Scope) -> None:
        """Raise ``config_invalid`` for what ``load`` would say of it: nothing that does not work is ever written."""
        mapping = shapes.to_file(thing)
        unusable = unusable_value(mapping)
        if unusable is not None or _holds_null(mapping):
            where = ".".join(map(str, unusable[0])) if unusable else "A value"
            why = unusable[1] if unusable else "is null, which a TOML file cannot hold"
            raise UnderstudyError(ErrorKind.INVALID_PARAMS, f"{where} {why}.", hint="Leave it out.")
        personal = load(None, trusted=False, abilities=self.abilities)
        servers = {name: entry.model_server for name, entry in before.model_servers.items()}
        own_servers = {name: entry.model_server for name, entry in personal.model_servers.items()}
        if isinstance(thing, ModelServer):
            findings = list(semantics.check_server(thing))
            if scope is Scope.WORKSPACE:
                findings += semantics.check_workspace_server(thing, own_servers)
        else:
            from understudy.config.tools import TOOLS  # noqa: PLC0415 - a table

            visible = servers if scope is Scope.WORKSPACE else own_servers
            around = semantics.Surroundings(self.abilities, visible, frozenset(TOOLS))
            findings = list(semantics.check_delegator(thing, around))
            if scope is Scope.WORKSPACE:
                own = {
                    name: entry.delegator for name, entry in personal.delegators.items() if entry.scope is Scope.USER
                }
                findings += semantics.check_workspace_delegator(thing, own, servers)
        errors = [finding for finding in findings if finding.severity == "error"]
        if errors:
            message = " ".join(finding.message for finding in errors)
            raise UnderstudyError(ErrorKind.CONFIG_INVALID, message, hint=errors[0].hint)

    def _ours(self, root: Path) -> Path | None:
        """Return the workspace when ``root`` is (in) its folder."""
        inside = self.workspace is not None and root.is_relative_to(self.workspace / folders.WORKSPACE_FOLDER)
        return self.workspace if inside else None

    @contextlib.contextmanager
    def _locked(self, root: Path) -> Iterator[None]:
        """Hold the lock of a scope: of a workspace the folder that is always there, so that asking makes nothing."""
        folder = self._ours(root)
        with _told(root):
            if folder is None:
                root.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locks.folder_lock(folder or root):
                yield

    def _apply(self, root: Path, changes: list[tuple[Path, bytes | None]]) -> None:
        """Write and remove (``None``) files, each in one step, in this order; the workspace's trust goes along."""
        workspace = self._ours(root)
        folder = changes[0][0].parent
        if workspace is None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(changes, mode=0o600)
            return
        if not os.path.realpath(folder).startswith(os.path.realpath(workspace) + os.sep):
            raise UnderstudyError(
                ErrorKind.PATH_ESCAPE,
                f"{folder} leads out of the workspace by a link, so nothing is written there.",
                hint="Make it a folder.",
            )
        ignore = workspace / folders.WORKSPACE_FOLDER / ".gitignore"
        if not os.path.lexists(ignore):
            # What a person chooses for themselves in a workspace is not the repository's.
            changes = [(ignore, f"{folders.LOCAL_FOLDER}/\n".encode()), *changes]
        steps = [(path.relative_to(workspace).as_posix(), data) for path, data in changes]
        with keeping(workspace, self.state, steps=steps):
            folder.mkdir(parents=True, exist_ok=True)
            _write(changes, mode=0o644)


def _file(root: Path, kind: Kind, name: str) -> Path:
    return root / _FOLDER[kind] / f"{name}.toml"


def _write(changes: list[tuple[Path, bytes | None]], *, mode: int) -> None:
    for path, data in changes:
        if data is None:
            path.unlink(missing_ok=True)
            locks.sync_folder(path.parent)
        else:
            locks.replace(path, data, mode=mode)


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Turn what the disk says into a typed error."""
    try:
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise UnderstudyError(
            ErrorKind.STORE_FULL if full else ErrorKind.STORE_UNAVAILABLE,
            f"{folder} cannot be written: {error.strerror}.",
            hint="Free some space and try again." if full else "Make the folder writable and try again.",
        ) from error


def _kind(thing: Delegator | ModelServer) -> Kind:
    return "delegator" if isinstance(thing, Delegator) else "model_server"


def _check_name(kind: Kind, name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{name!r} cannot be the name of a {_TITLE[kind]}.",
            hint="Use lower case letters, digits, dots, dashes and underscores, at most 64.",
        )


def _refuse_stale(entry: DelegatorEntry | ModelServerEntry, kind: Kind, name: str, revision: str | None) -> None:
    if revision is not None and revision != entry.revision:
        raise UnderstudyError(
            ErrorKind.CONFLICT,
            f"The {_TITLE[kind]} `{name}` has been changed since it was read.",
            hint="Read it again and make the change on what it is now.",
            location=entry.location,
        )


def _holds_null(value: object) -> bool:
    """Tell whether there is a null in a value that is known not to be deep."""
    if isinstance(value, dict):
        return any(_holds_null(item) for item in value.values())
    if isinstance(value, list):
        return any(_holds_null(item) for item in value)
    return value is None
