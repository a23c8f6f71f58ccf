"""Understudy's own bare git directory, which borrows the objects of the user's repository.

A store belongs to one delegation or to a chain of them. It contains every object that the user's repository might lose
(staged, changed, untracked or unsaved content), the indexes of its worktrees, and the template of a worktree's private
`.git`. It is created without git. Its configuration is a short list of settings that describe the file system; it never
contains a user's setting that names a program.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from understudy.files.durable import named_failures
from understudy.git.command import CallOptions, Completed, git_output, run_git
from understudy.git.repository import Repository, is_true, read_regular, settings_without_repository
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import c_quote

TEMPORARY = ".understudy-apply-"
"""Prefix of temporary files in the user's folders; never part of a base or a result."""

SCRATCH = ".understudy-run"
"""The folder in a worktree for prompt files and other handover files; never part of a result."""

ATTRIBUTES = b"* -text -ident -filter -working-tree-encoding\n"
"""Attributes of a store and of its worktrees: contents are bytes.

`info/attributes` overrides every `.gitattributes` (gitattributes(5)), so no line ending, keyword, encoding or filter is
converted in either direction: a worktree gets the bytes that the user sees, and a result contains the bytes that the
agent wrote. ``export`` converts a result for the user's history, with the user's settings.
"""

_KEPT_SETTINGS = ("core.filemode", "core.ignorecase", "core.symlinks", "core.precomposeunicode")
"""The settings that are copied: each describes the file system, none names a program or a path."""

_COPIED_LIMIT = 16 * 1024 * 1024
"""Largest exclude, attributes, sparse-checkout or shallow file; the largest known sparse lists are below 1 MiB."""

_REFERENCE_NAME = re.compile(r"refs/(?:heads|tags)/[^\x00-\x20\x7f~^:?*\[\\]+")


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """An open store. ``path`` is a git directory."""

    path: Path
    description: Mapping[str, Any]
    copies: tuple[Path, ...] = ()
    """Packs outside the store, some of which may not exist, from which damaged objects are recovered."""

    @classmethod
    def create(cls, path: Path, repository: Repository) -> ObjectStore:
        """Create a store for ``repository`` (or for a folder without git) at ``path``, which must not exist.

        Errors: ``isolation_unavailable`` for a bare repository, ``already_exists``, ``disk_full``,
        ``state_unavailable``.
        """
        repository.require_files()
        if path.exists():
            raise UnderstudyError(
                ErrorKind.ALREADY_EXISTS, f"{path} already exists.", hint="Open the existing store instead."
            )
        with named_failures(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            unfinished = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
            try:
                description = _fill(unfinished, repository)
                unfinished.rename(path)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
        return cls(path, description)

    @classmethod
    def open(cls, path: Path) -> ObjectStore:
        """Open an existing store; raise ``state_unavailable`` when there is none."""
        try:
            description = json.loads((path / "understudy" / "store.json").read_bytes())
        except (OSError, ValueError) as error:
            raise UnderstudyError(
                ErrorKind.STATE_UNAVAILABLE,
                f"{path} is not an object store of Understudy: {error}.",
                hint="Start the delegation again.",
            ) from error
        return cls(path, description)

    def copy_to(self, path: Path) -> ObjectStore:
        """Copy the objects, the base and the settings to a new store, but no data of worktrees (their indexes).

        Errors: ``disk_full``, ``state_unavailable``.
        """

        def leave_out(folder: str, entries: list[str]) -> set[str]:
            # Of a store in use: these are renamed or removed at any moment.
            unfinished = {entry for entry in entries if entry.startswith("tmp_") or entry.endswith(".lock")}
            if Path(folder) != self.own:
                return unfinished
            return unfinished | {entry for entry in entries if entry == "trees" or entry.startswith("tmp.")}

        def copy(source: str, target: str) -> str:
            # copytree() would turn an OSError into a list of texts.
            with named_failures(path):
                return shutil.copy2(source, target, follow_symlinks=False)

        with named_failures(path):
            shutil.copytree(self.path, path, symlinks=True, ignore=leave_out, copy_function=copy)
        return ObjectStore.open(path)

    @property
    def own(self) -> Path:
        """The folder inside for files that are not git's: indexes, the template of worktrees, temporary files."""
        return self.path / "understudy"

    @property
    def top(self) -> Path:
        """The user's workspace to which this store belongs."""
        return Path(os.fsdecode(bytes.fromhex(self.description["top"])))

    def missing_origin(self) -> Path | None:
        """Return the path of objects of the user's repository that no longer exists; None if all exist."""
        folders = (Path(os.fsdecode(bytes.fromhex(path))) for path in self.description["objects"])
        return next((folder for folder in folders if not folder.is_dir()), None)

    @property
    def branch(self) -> str:
        """Full name of the branch of a worktree; empty when the user's HEAD is detached."""
        return str(self.description["branch"])

    @property
    def sparse(self) -> bool:
        """Whether worktrees use the user's sparse cone."""
        return bool(self.description["sparse"])

    @property
    def base_index(self) -> Path:
        """The index of the last base, which shows what is tracked."""
        return self.own / "base.index"

    @property
    def object_format(self) -> str:
        """The hash of object ids: ``sha1`` or ``sha256``."""
        return str(self.description["objectFormat"])

    @property
    def empty_tree(self) -> str:
        """Object id of the empty tree."""
        return (
            "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
            if self.description["objectFormat"] == "sha256"
            else "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        )

    def base_commit(self) -> str | None:
        """Return the last base, whose ignore rules apply to every worktree of the store."""
        try:
            return (self.own / "base").read_text()
        except FileNotFoundError:
            return None

    def hide(self, commit: str, paths: list[bytes]) -> None:
        """Store the base, and which of its files the user does not see because they are outside the sparse cone."""
        (self.own / "base").write_text(commit)
        if self.sparse:
            (self.own / "hidden").write_bytes(commit.encode() + b"\0" + b"\0".join(paths))

    def hidden(self, commit: str) -> set[bytes]:
        """Return the files of ``commit`` that no worktree shows: those hidden in the base that it does not change."""
        record = self.own / "hidden"
        if not record.exists():
            return set()
        base, *paths = record.read_bytes().split(b"\0")
        changed = set(self.git_output("diff-tree", "-r", "-z", "--name-only", base, commit).split(b"\0"))
        return set(paths) - changed - {b""}

    def git_output(self, *arguments: str | bytes | Path, **options: Unpack[CallOptions]) -> bytes:
        """Run ``command.git_output`` on this store."""
        self._protect()
        return git_output(*arguments, git_dir=self.path, **options)

    def run_git(self, *arguments: str | bytes | Path, **options: Unpack[CallOptions]) -> Completed:
        """Run ``command.run_git`` on this store."""
        self._protect()
        return run_git(*arguments, git_dir=self.path, **options)

    def removal(self, path: bytes) -> bytes:
        """Return the line that removes a path, for ``git update-index -z --index-info``."""
        return f"0 {'0' * len(self.empty_tree)}\t".encode() + path + b"\0"

    def _protect(self) -> None:
        """Rewrite the files that decide which programs git runs and which objects it borrows, if they have changed.

        An agent without a sandbox can write here, too: git would run a filter from the configuration with an attribute
        that enables it when it next reads the worktree.
        """
        expected = {
            "config": _configuration(self.description),
            "info/attributes": ATTRIBUTES,
            "objects/info/alternates": _alternates(
                Path(os.fsdecode(bytes.fromhex(folder))) for folder in self.description["objects"]
            ),
        }
        for name, content in expected.items():
            if _copied(self.path / name) != content:
                with contextlib.suppress(FileNotFoundError):
                    (self.path / name).unlink()
                (self.path / name).write_bytes(content)
        for name in ("config.worktree", "commondir", "info/grafts"):
            # Reading works on a read-only disk, where a removal fails also if there is nothing.
            if os.path.lexists(self.path / name):
                with contextlib.suppress(FileNotFoundError):
                    (self.path / name).unlink()

    def attribute(self, name: str, paths: list[bytes], work_tree: Path) -> dict[bytes, bytes]:
        """Return the value of an attribute for the ``paths`` where the user's attributes set it to a string."""
        if not paths:
            return {}
        output = git_output(
            "check-attr",
            "-z",
            "--stdin",
            name,
            git_dir=self.own / "attributes.git",
            work_tree=work_tree,
            index=self.own / "attributes.git" / "no-index",
            stdin=b"\0".join(paths) + b"\0",
            extra_config={"core.attributesFile": str(self.own / "attributes.git" / "global")},
        )
        fields = output.split(b"\0")
        return {
            path: value
            for path, value in zip(fields[::3], fields[2::3], strict=False)
            if value not in {b"unspecified", b"unset", b"set", b""}
        }

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn errors of the disk into ``disk_full`` and ``state_unavailable``."""
        with named_failures(self.path):
            yield

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """Yield a temporary folder inside the store."""
        with named_failures(self.path):
            folder = Path(tempfile.mkdtemp(prefix="tmp.", dir=self.own))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def write_worktree_git_dir(store: ObjectStore, git_dir: Path, commit: str, index: Path | None) -> None:
    """Create a private, complete `.git` folder for a worktree of exactly ``commit``.

    Objects come from the store and the user's repository by alternates; branches and tags are copied; HEAD is on the
    user's branch, which points at ``commit`` here, or detached. There are no remotes, hooks or identity. ``git_dir``
    must not exist.
    """
    _empty_git_dir(git_dir)
    (git_dir / "config").write_bytes(_configuration(store.description))
    objects = [store.path / "objects", *(Path(os.fsdecode(bytes.fromhex(o))) for o in store.description["objects"])]
    _write_alternates(git_dir, objects)
    for name in ("exclude", "sparse-checkout"):
        source = store.path / "info" / name
        if source.exists():
            shutil.copyfile(source, git_dir / "info" / name)
    (git_dir / "info" / "attributes").write_bytes(ATTRIBUTES)
    if (store.path / "shallow").exists():
        shutil.copyfile(store.path / "shallow", git_dir / "shallow")
    references = (store.own / "references").read_bytes().splitlines()
    branch = store.branch.encode(errors="surrogateescape")
    if branch:
        references = [line for line in references if line.partition(b" ")[2] != branch]
        references.append(commit.encode() + b" " + branch)
        references.sort(key=lambda line: line.partition(b" ")[2])
        (git_dir / "HEAD").write_bytes(b"ref: " + branch + b"\n")
    else:
        (git_dir / "HEAD").write_text(commit + "\n")
    (git_dir / "packed-refs").write_bytes(b"".join(line + b"\n" for line in references))
    if index is not None:
        copy_index(index, git_dir / "index")


def copy_index(source: Path, target: Path) -> None:
    """Copy an index with its time, which shows git which entries it must check again."""
    shutil.copyfile(source, target)
    facts = source.stat()
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # copystat would change the mode, which CIFS refuses


def borrowing_git_dir(git_dir: Path, objects: list[Path], object_format: str, *, commit: str | None = None) -> None:
    """Create a git directory that borrows ``objects``: for submodules, and to query attributes."""
    _empty_git_dir(git_dir)
    (git_dir / "config").write_bytes(_configuration({"objectFormat": object_format, "settings": {}, "sparse": False}))
    _write_alternates(git_dir, objects)
    (git_dir / "info" / "attributes").write_bytes(ATTRIBUTES)
    if commit is not None:
        (git_dir / "HEAD").write_text(commit + "\n")


def _fill(path: Path, repository: Repository) -> dict[str, Any]:
    settings = dict(repository.settings) if repository.is_repository else settings_without_repository()
    sparse = repository.sparse
    kept = {key: settings[key] for key in _KEPT_SETTINGS if key in settings and repository.is_repository}
    if sparse:
        kept["core.sparsecheckoutcone"] = settings.get("core.sparsecheckoutcone", "true")
    branch = repository.head_ref or ("" if repository.is_repository and repository.head_commit else "refs/heads/main")
    if branch and not _usable_reference(branch):
        branch = ""
    description: dict[str, Any] = {
        "version": 1,
        "top": os.fsencode(repository.top).hex(),
        "branch": branch,
        "objectFormat": repository.object_format,
        "sparse": sparse,
        "settings": kept,
        "objects": [os.fsencode(folder).hex() for folder in repository.objects()],
    }
    _empty_git_dir(path)
    (path / "HEAD").write_text("ref: refs/heads/understudy\n")
    (path / "config").write_bytes(_configuration(description))
    _write_alternates(path, repository.objects())
    common, git_dir = repository.common_dir, repository.git_dir
    excludes = [_global_file(settings, "core.excludesfile", "ignore")]
    if common is not None:
        excludes.append(_copied(common / "info" / "exclude"))
        shallow = _copied(common / "shallow")
        if shallow:
            (path / "shallow").write_bytes(shallow)
    excludes.append(f"/{SCRATCH}/\n{TEMPORARY}*\n".encode())
    (path / "info" / "exclude").write_bytes(b"\n".join(excludes))
    (path / "info" / "attributes").write_bytes(ATTRIBUTES)
    if sparse and git_dir is not None:
        (path / "info" / "sparse-checkout").write_bytes(_copied(git_dir / "info" / "sparse-checkout"))
    own_folder = path / "understudy"
    own_folder.mkdir(mode=0o700)
    attributes = own_folder / "attributes.git"
    borrowing_git_dir(attributes, [], repository.object_format)
    (attributes / "info" / "attributes").write_bytes(_copied(common / "info" / "attributes") if common else b"")
    (attributes / "global").write_bytes(_global_file(settings, "core.attributesfile", "attributes"))
    references = sorted((name, target) for name, target in repository.references().items() if _usable_reference(name))
    (own_folder / "references").write_bytes(
        b"".join(f"{target} {name}\n".encode(errors="surrogateescape") for name, target in references)
    )
    (own_folder / "store.json").write_text(json.dumps(description))
    return description


def _usable_reference(name: str) -> bool:
    return bool(_REFERENCE_NAME.fullmatch(name)) and not any(
        not part or part.startswith(".") or part.endswith((".", ".lock")) or ".." in part or "@{" in part
        for part in name.split("/")
    )


def _empty_git_dir(path: Path) -> None:
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (path / folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    (path / "HEAD").write_text("ref: refs/heads/main\n")


def _configuration(description: Mapping[str, Any]) -> bytes:
    """Return the text of a configuration file: only the copied settings, and only with known values."""
    sha256 = description["objectFormat"] == "sha256"
    lines = ["[core]", f"\trepositoryformatversion = {int(sha256)}", "\tbare = false"]
    for key, value in sorted(description["settings"].items()):
        if key not in (*_KEPT_SETTINGS, "core.sparsecheckoutcone"):
            continue  # the settings may come from a file that another program can write
        lines.append(f"\t{key.partition('.')[2]} = {str(is_true(value)).lower()}")
    if description["sparse"]:
        lines.append("\tsparseCheckout = true")
    if sha256:
        lines += ["[extensions]", "\tobjectFormat = sha256"]
    return "\n".join([*lines, "[gc]", "\tauto = 0", ""]).encode()


def _alternates(objects: Iterable[Path]) -> bytes:
    raw = (os.fsencode(folder) for folder in objects)
    return b"".join((path if b"\n" not in path else c_quote(path).encode()) + b"\n" for path in raw)


def _write_alternates(git_dir: Path, objects: list[Path]) -> None:
    if objects:
        (git_dir / "objects" / "info" / "alternates").write_bytes(_alternates(objects))


def _copied(path: Path) -> bytes:
    return read_regular(path, _COPIED_LIMIT) or b""


def _global_file(settings: Mapping[str, str], key: str, default: str) -> bytes:
    """Return the user's own exclude or attributes file: the path in the setting ``key``, else git's default."""
    home = os.environ.get("HOME", "")
    value = settings.get(key)
    if value is None:
        folder = os.environ.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
        value = f"{folder}/git/{default}" if folder else ""
    elif value.startswith("~/"):
        value = home + value[1:]
    return _copied(Path(value)) if value.startswith("/") else b""


@contextmanager
def disk_full_errors(path: Path) -> Iterator[None]:
    """Raise ``disk_full`` for a write without space; do not change other disk errors."""
    try:
        yield
    except OSError as error:
        import errno

        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise UnderstudyError(
                ErrorKind.DISK_FULL, f"The disk under {path} is full.", hint="Free some space there."
            ) from error
        raise
