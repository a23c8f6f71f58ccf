"""Where configuration files are, and a cheap fingerprint that changes with them."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from understudy.model.config.delegators import Scope

WORKSPACE_FOLDER = ".understudy"
LOCAL_FOLDER = "local"
MAX_FILES = 1000
"""The most files read in one folder; that others are left out is one problem."""

BUILTIN = Path(__file__).parent / "builtin"


class FileKind(enum.StrEnum):
    """The kinds of configuration files."""

    WORKTREES = "worktrees"
    """``worktrees.toml``: what worktrees get, as chosen in a frontend; ``config.toml`` beside it adds to it."""
    DEFAULTS = "defaults"
    """``defaults.toml``: default delegators that were chosen in a frontend; ``config.toml`` beside it overrides it."""
    CONFIG = "config"
    """``config.toml``, only written by hand."""
    DELEGATOR = "delegator"
    """``delegators/<name>.toml``."""
    ROUTE = "route"
    """``routes/<name>.toml``."""
    MODEL_SERVER = "model-server"
    """``model-servers/<name>.toml``."""
    SCHEDULE = "schedule"
    """``schedules/<name>.toml``."""
    NOTIFICATION = "notification"
    """``notifications/<name>.toml``."""
    CHECK = "check"
    """``checks/<name>.toml``."""
    RECIPE = "recipe"
    """``recipes/<name>.md``: front matter, then the instructions."""
    TOOL = "tool"
    """``tools/<name>.toml``: an agent CLI that Understudy does not know."""


SINGLE: dict[FileKind, str] = {
    FileKind.WORKTREES: "worktrees.toml",
    FileKind.DEFAULTS: "defaults.toml",
    FileKind.CONFIG: "config.toml",
}
"""The kinds with one file, in the order in which they are read."""

PLACES: dict[FileKind, tuple[str, str]] = {
    FileKind.DELEGATOR: ("delegators", ".toml"),
    FileKind.ROUTE: ("routes", ".toml"),
    FileKind.MODEL_SERVER: ("model-servers", ".toml"),
    FileKind.CHECK: ("checks", ".toml"),
    FileKind.SCHEDULE: ("schedules", ".toml"),
    FileKind.NOTIFICATION: ("notifications", ".toml"),
    FileKind.RECIPE: ("recipes", ".md"),
    FileKind.TOOL: ("tools", ".toml"),
}
"""Folder and ending of the kinds with one entry per file, in the order in which they are read."""

SCHEMA_FOLDER = "schema"
"""The folder of a layer for the JSON Schemas of the files that Understudy wrote into it, for TOML editors."""


class Layer(msgspec.Struct, frozen=True):
    """One folder of configuration; later layers override earlier ones."""

    scope: Scope
    root: Path
    inside: Path | None
    """The workspace that must contain the files; ``None`` if links may lead anywhere."""
    title: str


def user_folder() -> Path:
    """Return the user's configuration folder: ``$UNDERSTUDY_CONFIG``, else the platform's."""
    folder = os.environ.get("UNDERSTUDY_CONFIG")
    if folder:
        return Path(folder).absolute()
    import platformdirs

    return Path(platformdirs.user_config_dir("understudy", appauthor=False))


def is_used(kind: FileKind) -> bool:
    """Return whether the user's files may have an entry of a kind of ``PLACES``, without reading a configuration."""
    root, (name, suffix) = user_folder(), PLACES[kind]
    mentioned = False
    with contextlib.suppress(OSError):
        mentioned = name.encode() in (root / SINGLE[FileKind.CONFIG]).read_bytes()
    return mentioned or any((root / name).glob(f"*{suffix}"))


def layers(workspace: Path | None, *, trusted: bool) -> list[Layer]:
    """Return the layers that apply, the lowest first: builtin, user, workspace, the user's part of it."""
    all_layers = [Layer(Scope.BUILTIN, BUILTIN, None, "built in"), Layer(Scope.USER, user_folder(), None, "user")]
    if workspace is not None and trusted:
        root = workspace / WORKSPACE_FOLDER
        all_layers.append(Layer(Scope.WORKSPACE, root, workspace, "workspace"))
        all_layers.append(Layer(Scope.WORKSPACE, root / LOCAL_FOLDER, workspace, "workspace, local"))
    return all_layers


def place_of(path: Path) -> tuple[FileKind, Layer] | None:
    """Return the kind and the layer of a configuration file, which need not exist; ``None`` for any other file.

    Configuration files are below any ``.understudy``, trusted or not, and in the user's own folder, also
    if that folder links to them (some users keep their configuration elsewhere).
    """
    kind = _kind(path)
    if kind is None:
        return None
    root = path.parent if kind in SINGLE else path.parent.parent
    folder_of_user = user_folder()
    if root == folder_of_user or os.path.realpath(folder_of_user / path.relative_to(root)) == os.path.realpath(path):
        return kind, Layer(Scope.USER, folder_of_user, None, "user")
    if root.name == WORKSPACE_FOLDER:
        return kind, Layer(Scope.WORKSPACE, root, root.parent, "workspace")
    if root.name == LOCAL_FOLDER and root.parent.name == WORKSPACE_FOLDER:
        return kind, Layer(Scope.WORKSPACE, root, root.parent.parent, "workspace, local")
    return None


def _kind(path: Path) -> FileKind | None:
    for kind, name in SINGLE.items():
        if path.name == name:
            return kind
    for kind, (folder, suffix) in PLACES.items():
        if path.parent.name == folder and path.name.endswith(suffix) and not path.name.startswith("."):
            return kind
    return None


def schema_name(kind: FileKind) -> str:
    """Return the file name of the JSON Schema of files of a kind."""
    return f"{kind}.schema.json"


def names_in(folder: Path, suffix: str, *, left_out: bool = False) -> Iterator[Path]:
    """Yield the files of a folder that end in ``suffix``, by name; none when there is no such folder.

    These are those that are read, or those that are ``left_out`` because there are too many.
    """
    try:
        with os.scandir(folder) as items:
            names = sorted(item.name for item in items if item.name.endswith(suffix) and not item.name.startswith("."))
    except OSError:
        return
    for name in names[MAX_FILES:] if left_out else names[:MAX_FILES]:
        yield folder / name


def fingerprint(workspace: Path | None) -> str:
    """Return a digest that changes when any configuration file does, without opening files.

    It covers an untrusted workspace too: the user may have to be asked about the change.
    """
    digest = hashlib.sha256()
    for layer in layers(workspace, trusted=True):
        if layer.scope is Scope.BUILTIN:
            continue
        for name in SINGLE.values():
            _stat(digest, layer.root / name)
        for folder, suffix in PLACES.values():
            for path in names_in(layer.root / folder, suffix):
                _stat(digest, path)
    return digest.hexdigest()[:32]


def _stat(digest: hashlib._Hash, path: Path) -> None:
    try:
        facts = path.stat()
    except OSError:
        return
    # The inode and the time of the last status change catch a replacement that keeps size and time.
    state = (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino, facts.st_mode)
    digest.update(os.fsencode(path) + b"\0" + repr(state).encode())
