"""Find and read the user's repository, and the workspace of a file, without letting git search for it.

This module only reads files; it runs git only for settings and to resolve revisions, with an explicit git directory.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting
from understudy.model.text.path_quoting import unquote

_SMALL_FILE = 64 * 1024
"""Largest `.git` file, `HEAD`, `commondir` or loose reference; real ones are far smaller."""
_REFERENCES_LIMIT = 64 * 1024 * 1024
"""Bytes of `packed-refs` that are read: about a million references."""
_ALTERNATES_DEPTH = 8
"""Git itself follows alternates five deep."""
_MOST_ALTERNATES = 100
"""Folders of objects that are searched: a file of a few bytes can name itself again and again."""
_READ_BY_GIT = (
    *("HEAD", "config", "config.worktree", "index", "packed-refs", "shallow"),
    *("info/attributes", "info/exclude", "info/grafts", "info/sparse-checkout", "objects/info/alternates"),
)
"""Files of a git directory that most commands read."""
_OPERATIONS = (
    ("MERGE_HEAD", "a merge"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
)
_OBJECT_ID = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")


_SYSTEM_FOLDERS = frozenset(
    f"/{name}"
    for name in (
        *("", "bin", "boot", "dev", "etc", "home", "lib", "lib64", "mnt", "opt", "proc", "root", "run", "sbin"),
        *("srv", "sys", "usr", "var"),
        *("Applications", "Library", "System", "Users", "private", "private/etc", "private/var"),
    )
)


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """The repository or folder of a path. ``top`` is the workspace: git's top level, or the folder without git."""

    top: Path
    git_dir: Path | None = None
    """The git directory of this working tree: `.git`, or `.git/worktrees/<name>` of a linked one."""
    common_dir: Path | None = None
    """Where objects and branches are; differs from ``git_dir`` in linked working trees only."""
    head_commit: str | None = None
    """None without git, and before the first commit."""
    head_ref: str | None = None
    """Full name of the branch that HEAD is on (`refs/heads/main`); None when detached or without git."""
    object_format: str = "sha1"
    bare: bool = False
    shallow: bool = False
    sparse: bool = False
    partial: bool = False
    """Whether it is a partial clone: only its promisor may have some of its objects."""
    operation: str | None = None
    """`a merge`, `a rebase` … while one is in progress."""
    settings: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The user's effective settings as data, keys in lower case; they do not apply when Understudy runs git."""
    notes: tuple[str, ...] = ()

    @property
    def is_repository(self) -> bool:
        """Whether there is a git repository at all."""
        return self.git_dir is not None

    @property
    def merging(self) -> bool:
        """Whether a merge is in progress."""
        return self.operation == "a merge"

    def require_files(self) -> None:
        """Raise ``isolation_unavailable`` for a bare repository."""
        if self.bare:
            raise UnderstudyError(
                ErrorKind.ISOLATION_UNAVAILABLE,
                f"{self.top} is a bare repository, so it has no files to start from.",
                hint="Open a working tree of it (`git worktree add` creates one).",
            )

    def objects(self) -> list[Path]:
        """Return the object folders of the repository as absolute paths: its own, then those it borrows from."""
        return _object_folders(self.common_dir / "objects") if self.common_dir else []

    def setting(self, key: str, *, default: bool = False) -> bool:
        """Return a boolean setting of the user."""
        return is_true(self.settings.get(key.lower()), default=default)

    def references(self) -> dict[str, str]:
        """Return branches and tags: full name → object id (tags unpeeled)."""
        return _references(self.common_dir) if self.common_dir else {}


def locate(path: Path) -> Repository:
    """Return the repository that ``path`` (a file or a folder, existing or not) belongs to.

    The search goes upwards, as git's does, but not through the home folder from below, and accepts a `.git` only if it
    has the contents of a git directory. A submodule's files belong to the submodule.

    Errors: ``permission_denied`` when the repository belongs to another user; ``isolation_unavailable`` when it stores
    its references or working tree in an unsupported way; ``base_unavailable`` when it cannot be read.
    """
    start = Path(os.path.realpath(path))
    while not start.is_dir():
        if start.parent == start:
            break
        start = start.parent
    home = _home()
    for folder in (start, *start.parents):
        if folder == folder.parent or (folder == home and folder != start):
            break
        git_dir = _git_dir_at(folder)
        if git_dir is not None:
            return _describe(folder, git_dir)
        if _is_git_dir(folder):
            # Inside a bare repository, or inside `.git` itself.
            return Repository(top=folder, git_dir=folder, common_dir=folder, bare=True)
    return Repository(top=start)


def top_of(path: Path, *, otherwise: Path | None = None) -> Path:
    """Return the workspace of a file or folder: the git top level, else ``otherwise``, else the folder."""
    start = Path(os.path.realpath(path))
    folder = start if start.is_dir() else start.parent
    home = _home()
    for candidate in (folder, *folder.parents):
        if candidate == candidate.parent or (candidate == home and candidate != folder):
            break
        if _git_dir_at(candidate) is not None:
            return candidate
    return otherwise or folder


def resolve(repository: Repository, revision: str) -> str:
    """Return the commit of a revision in the user's repository; raise ``base_unavailable`` when there is none."""
    if repository.git_dir is not None and "\0" not in revision:
        from understudy.git.command import run_git  # only what git itself must answer

        completed = run_git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}", git_dir=repository.git_dir
        )
        commit = completed.stdout.decode().strip()
        if completed.code == 0 and _OBJECT_ID.fullmatch(commit):
            return commit
    raise UnderstudyError(
        ErrorKind.BASE_UNAVAILABLE,
        f"{revision!r} does not name a commit in {repository.top}.",
        hint="Name a branch, a tag or a commit id, or omit the base to start from your current files.",
    )


def check_owner(top: Path) -> None:
    """Raise ``permission_denied`` if git refuses the repository at ``top``; cheap for one of the user.

    Git refuses a repository of another user, except for those in the user's ``safe.directory``.
    """
    git_dir = _git_dir_at(top)
    if git_dir is not None and _is_foreign(top, git_dir):
        _refuse_foreign(top, git_dir, _settings(git_dir)[1])


def refuse_wide_folder(top: Path, state: Path) -> None:
    """Raise ``base_unavailable`` for a folder without git that is a system's, a home, or contains ``state``.

    Without git there is nothing that says which files belong to the work, so all of them would be copied.
    """
    if _git_dir_at(top) is not None:
        return
    home = _home()
    if top.as_posix() in _SYSTEM_FOLDERS:
        what = "a folder of the operating system"
    elif home is not None and home.is_relative_to(top):
        what = "your home folder" if home == top else "above your home folder"
    elif state.resolve().is_relative_to(top):
        what = "the folder in which Understudy keeps its own files"
    else:
        return
    raise UnderstudyError(
        ErrorKind.BASE_UNAVAILABLE,
        f"{top} is {what}, and not a git repository: every file in it would be copied.",
        hint="Put the files into a folder of their own, or run `git init` in the folder that is meant.",
    )


def submodule_objects(repository: Repository, path: bytes) -> list[Path]:
    """Return the object folders of the submodule at ``path``; empty when it has never been fetched."""
    inside = os.fsdecode(path)
    candidates = [_git_dir_at(repository.top / inside)]
    if repository.common_dir is not None:
        by_name = repository.common_dir / "modules" / inside
        candidates.append(by_name if _is_git_dir(by_name) else None)
    for candidate in candidates:
        if candidate is not None:
            return _object_folders(_common_dir(candidate) / "objects")
    return []


def _home() -> Path | None:
    home = os.environ.get("HOME")
    return Path(os.path.realpath(home)) if home else None


def read_regular(path: Path, limit: int) -> bytes | None:
    """Return the first ``limit`` bytes of a regular file; None if there is none or it cannot be read.

    Never waits: anything else, such as a pipe that an agent made, counts as no file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(limit)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _small(path: Path) -> str | None:
    content = read_regular(path, _SMALL_FILE)
    return content.decode(errors="surrogateescape") if content is not None else None


def _is_git_dir(folder: Path) -> bool:
    common = _common_dir(folder)
    head = folder / "HEAD"
    return (head.is_file() or head.is_symlink()) and (common / "objects").is_dir() and (common / "refs").is_dir()


def _common_dir(git_dir: Path) -> Path:
    text = _small(git_dir / "commondir")
    if text is None or not text.strip():
        return git_dir
    return Path(os.path.realpath(git_dir / text.rstrip("\r\n")))


def _git_dir_at(folder: Path) -> Path | None:
    dot_git = folder / ".git"
    if dot_git.is_dir():
        return Path(os.path.realpath(dot_git)) if _is_git_dir(dot_git) else None
    text = _small(dot_git)
    if text is None or not text.startswith("gitdir: "):
        return None
    target = Path(os.path.realpath(folder / text[len("gitdir: ") :].rstrip("\r\n")))
    return target if _is_git_dir(target) else None


def _refuse_pipes(git_dir: Path, common: Path) -> None:
    """Refuse a repository in which git would wait for someone to write to a pipe, without limit."""
    for path in (folder / name for folder in {git_dir, common} for name in _READ_BY_GIT):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE,
                f"{path} is a pipe, and git would wait for it without limit.",
                hint="Remove it, then run `git fsck` there.",
            )


def _describe(top: Path, git_dir: Path) -> Repository:
    common = _common_dir(git_dir)
    _refuse_pipes(git_dir, common)
    settings, safe = _settings(git_dir)
    if _is_foreign(top, git_dir):
        _refuse_foreign(top, git_dir, safe)
    if settings.get("extensions.refstorage", "files").lower() != "files":
        raise UnderstudyError(
            ErrorKind.ISOLATION_UNAVAILABLE,
            f"{top} stores its references in the format {settings['extensions.refstorage']!r}, which is not supported.",
            hint="Convert it with `git refs migrate --ref-format=files`.",
        )
    declared = settings.get("core.worktree")
    if declared and git_dir == common and Path(os.path.realpath(git_dir / declared)) != top:
        raise UnderstudyError(
            ErrorKind.ISOLATION_UNAVAILABLE,
            f"{git_dir} declares the working tree {declared} instead of {top}.",
            hint="Unset core.worktree, or open that folder.",
        )
    head_ref, head_commit = _head(git_dir, common)
    operation = next((words for name, words in _OPERATIONS if (git_dir / name).exists()), None)
    partial = "extensions.partialclone" in settings or any(
        key.startswith("remote.") and key.endswith(".promisor") and is_true(value) for key, value in settings.items()
    )
    return Repository(
        top=top,
        git_dir=git_dir,
        common_dir=common,
        head_commit=head_commit,
        head_ref=head_ref,
        object_format=settings.get("extensions.objectformat", "sha1").lower(),
        shallow=(common / "shallow").is_file(),
        sparse=is_true(settings.get("core.sparsecheckout")) and (git_dir / "info" / "sparse-checkout").is_file(),
        partial=partial,
        operation=operation,
        settings=settings,
    )


def _is_foreign(top: Path, git_dir: Path) -> bool:
    me = os.geteuid()
    accepted = {me}
    if me == 0 and os.environ.get("SUDO_UID", "").isdigit():
        accepted.add(int(os.environ["SUDO_UID"]))
    return not {os.lstat(place).st_uid for place in (top, git_dir)} <= accepted


def _refuse_foreign(top: Path, git_dir: Path, safe: list[str]) -> None:
    if "*" in safe or str(top) in safe or str(git_dir) in safe:
        return
    raise UnderstudyError(
        ErrorKind.PERMISSION_DENIED,
        f"git refuses the repository {top} because it belongs to another user.",
        hint=f"If you trust its contents, run: git config --global --add safe.directory {shlex.quote(str(top))}",
    )


def settings_without_repository() -> dict[str, str]:
    """Return the user's own settings, for a folder that is not a repository."""
    return _settings(Path("/nonexistent"))[0]


def _settings(git_dir: Path) -> tuple[dict[str, str], list[str]]:
    """Return the user's effective settings, and the folders in the user's own `safe.directory`."""
    from understudy.git.command import run_git

    completed = run_git("config", "--includes", "--show-scope", "--null", "--list", git_dir=git_dir, user_settings=True)
    if completed.code != 0:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE,
            f"The effective git configuration of {git_dir} cannot be read: "
            + completed.stderr.decode(errors="replace").strip()[-300:],
            hint="Run `git config --list` there to see the invalid line.",
        )
    settings: dict[str, str] = {}
    safe: list[str] = []
    fields = completed.stdout.decode(errors="surrogateescape").split("\0")
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):
        if scope == "command":
            continue
        key, separator, value = entry.partition("\n")
        settings[key.lower()] = value if separator else "true"
        if key.lower() == "safe.directory" and scope in {"system", "global"}:
            safe = [*safe, value] if value else []
    return settings, safe


def is_true(value: object, *, default: bool = False) -> bool:
    """Return what a setting says; ``default`` if it is None, so not set."""
    return default if value is None else str(value).strip().lower() in {"true", "yes", "on", "1"}


def _head(git_dir: Path, common: Path) -> tuple[str | None, str | None]:
    text = _small(git_dir / "HEAD")
    if text is None:
        raise UnderstudyError(
            ErrorKind.BASE_UNAVAILABLE, f"{git_dir / 'HEAD'} cannot be read.", hint="Run `git fsck` there."
        )
    text = text.strip()
    if _OBJECT_ID.fullmatch(text):
        return None, text
    reference = text.removeprefix("ref:").strip()
    name = reference
    for _ in range(5):  # git follows symbolic references five deep
        target = _reference(git_dir, common, name)
        if target is None or _OBJECT_ID.fullmatch(target):
            return reference, target
        name = target.removeprefix("ref:").strip()
    return reference, None


def _reference(git_dir: Path, common: Path, name: str) -> str | None:
    if not name.startswith("refs/") or ".." in name.split("/"):
        return None
    for place in (git_dir, common):
        text = _small(place / name)
        if text is not None and text.strip():
            return text.strip()
    return _packed(common).get(name)


def _packed(common: Path) -> dict[str, str]:
    data = read_regular(common / "packed-refs", _REFERENCES_LIMIT) or b""
    identifiers = {}
    for line in data.decode(errors="surrogateescape").split("\n"):
        identifier, separator, name = line.partition(" ")
        if separator and _OBJECT_ID.fullmatch(identifier):
            identifiers[name] = identifier
    return identifiers


def _references(common: Path) -> dict[str, str]:
    identifiers = {
        name: identifier
        for name, identifier in _packed(common).items()
        if name.startswith(("refs/heads/", "refs/tags/"))
    }
    for kind in ("heads", "tags"):
        for path in _files_below(common / "refs" / kind):
            text = (_small(path) or "").strip()
            if _OBJECT_ID.fullmatch(text) and not path.name.endswith(".lock"):
                identifiers[str(path.relative_to(common))] = text
    return identifiers


def _files_below(folder: Path) -> Iterator[Path]:
    for current, _, names in os.walk(folder):
        for name in names:
            yield Path(current, name)


def _object_folders(objects: Path) -> list[Path]:
    """Return a folder of objects and its alternates, each once."""
    folders: dict[Path, None] = {}
    waiting = [(Path(os.path.realpath(objects)), 0)]
    while waiting and len(folders) < _MOST_ALTERNATES:
        folder, depth = waiting.pop(0)
        if folder in folders:
            continue
        folders[folder] = None
        if depth < _ALTERNATES_DEPTH:
            waiting += [(named, depth + 1) for named in _alternates(folder)]
    return list(folders)


def _alternates(folder: Path) -> list[Path]:
    lines = (raw.rstrip("\r") for raw in (_small(folder / "info" / "alternates") or "").split("\n"))
    named = [line for line in lines if line and not line.startswith("#")]
    paths = (os.fsdecode(unquote(line)) if line.startswith('"') else line for line in named[:_MOST_ALTERNATES])
    return [Path(os.path.realpath(folder / path)) for path in paths]


def require_path(uri: str) -> Path:
    """Return the normalised path for a ``file:`` URI or an absolute path. Errors: ``invalid_params``."""
    path = path_quoting.path_of(uri) if not uri.startswith("/") else Path(uri)
    if path is None or "\0" in str(path):
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"{uri!r} does not name a file on this machine.",
            hint="Use a `file:` URI or an absolute path.",
        )
    return Path(os.path.normpath(path))


def real(path: Path) -> Path:
    """Return ``path`` with the links of its folder resolved, but not a link at its end, which is treated as a file."""
    return path.parent.resolve() / path.name


def workspace_of(files: list[str], workspace: str | None, folder: Path | None, opened: Sequence[Path] = ()) -> Path:
    """Return the workspace: the named one, else that of the first file, else that of the caller's folder.

    The workspace of a file is its git top level. Without git it is the innermost of the ``opened`` folders that
    contains the file, else the file's own folder. A folder among the files counts as the folder of its files.
    """
    if workspace is not None:
        named = require_path(workspace)
        if not named.is_dir():
            raise UnderstudyError(
                ErrorKind.BASE_UNAVAILABLE, f"{named} is not a folder.", hint="Name the folder of the workspace."
            )
        return top_of(named.resolve())
    if files:
        path = real(require_path(files[0]))
        within = path if path.is_dir() and not path.is_symlink() else path.parent
        around = [place for place in map(Path.resolve, opened) if place in (within, *within.parents)]
        innermost = max(around, key=lambda place: len(place.parts), default=None)
        return top_of(within, otherwise=innermost)
    if folder is not None:
        return top_of(folder.resolve())
    raise UnderstudyError(
        ErrorKind.INVALID_PARAMS, "No file and no workspace is named.", hint="Name a file, or pass `workspace`."
    )


def inside(workspace: Path, uri: str) -> str:
    """Return the path of ``uri`` inside ``workspace`` (POSIX, surrogate-escaped); raise ``path_escape`` outside it."""
    path = real(require_path(uri))
    try:
        relative = path.relative_to(workspace)
    except ValueError:
        raise UnderstudyError(
            ErrorKind.PATH_ESCAPE,
            f"{path} is outside the workspace {workspace}.",
            hint="Name files of one workspace; start another delegation for other workspaces.",
        ) from None
    if relative == Path() or ".git" in relative.parts:
        raise UnderstudyError(ErrorKind.PATH_ESCAPE, f"{path} is not a file of the workspace.", hint="Name a file.")
    return relative.as_posix()


def texts_inside(workspace: Path, texts: Mapping[str, str]) -> dict[str, str]:
    """Return path → text of what is in the workspace, from URI → text; the rest belongs to other workspaces."""
    paths: dict[str, str] = {}
    for uri in texts:
        try:
            path = inside(workspace, uri)
        except UnderstudyError:
            continue
        paths[path] = texts[uri]  # raises, if the text of a document of this workspace is unknown
    return paths


def trust_hint(workspace: Path) -> str:
    """Return the hint of ``untrusted_workspace``, with the command that trusts ``workspace``."""
    return f"Review what it allows and trust it: understudy trust {shlex.quote(str(workspace))}"
