"""A user's repository, a state folder, and the way from one to the other."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from understudy.git.base.capture import write_base
from understudy.git.base.index import Base, BaseLimits
from understudy.git.object_store import ObjectStore
from understudy.git.repository import Repository, locate
from understudy.git.worktree.worktree import Worktree, create_worktree


class Bench:
    """One user with one checkout (`repo`), and Understudy's state beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = root / "user" / "repo"
        self.state = root / "state"
        self.repo.mkdir(parents=True)
        self.state.mkdir()
        self.count = 0

    def sh(self, command: str, cwd: Path | None = None, check: bool = True) -> str:
        done = subprocess.run(["bash", "-c", command], cwd=cwd or self.repo, capture_output=True, check=False)
        assert not check or done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace")

    def init(self, command: str = "", *, options: str = "") -> None:
        """Make the repository with three files, run `command`, commit everything."""
        self.sh(f"git init -q -b main {options}; for i in 1 2 3; do printf 'l1\\nl2\\nl3\\n%s\\n' $i > f$i; done")
        if command:
            self.sh(command)
        self.sh("git add -A; git commit -qm init")

    def locate(self, path: Path | None = None) -> Repository:
        return locate(path or self.repo)

    def base(
        self,
        path: Path | None = None,
        *,
        kind: str = "current",
        buffers: Mapping[str | bytes, bytes] | None = None,
        limits: BaseLimits | None = None,
    ) -> tuple[ObjectStore, Base]:
        self.count += 1
        repository = locate(path or self.repo)
        store = ObjectStore.create(self.state / f"store{self.count}", repository)
        return store, write_base(store, repository, kind=kind, buffers=buffers, limits=limits)

    def tree(self, path: Path | None = None, **keywords) -> tuple[ObjectStore, Base, Worktree]:
        store, base = self.base(path, **keywords)
        return store, base, create_worktree(store, base, self.state / f"tree{self.count}")


def files_of(root: Path, *, skip: tuple[str, ...] = (".git",)) -> dict[bytes, tuple[str, bytes]]:
    """Return path → (kind, contents) of every file and link below, as a person sees them."""
    found = {}
    top = os.fsencode(root)
    for folder, folders, names in os.walk(top):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = [name for name in folders if os.fsdecode(name) not in skip and name not in links]
        for name in [*names, *links]:
            full = os.path.join(folder, name)
            path = os.path.relpath(full, top)
            if os.fsdecode(name) in skip:
                continue
            if os.path.islink(full):
                found[path] = ("link", os.readlink(full))
            elif os.path.isfile(full):
                with open(full, "rb") as stream:
                    found[path] = ("x" if os.stat(full).st_mode & 0o100 else "f", stream.read())
    return found


def print_of(git_dir: Path) -> dict[str, str]:
    """Fingerprint a git directory: every file's bytes, the index's time; not the references of Understudy."""
    found = {}
    for folder, folders, names in os.walk(git_dir):
        for name in [*names, *(f"{each}/" for each in folders)]:
            full = Path(folder, name)
            relative = str(full.relative_to(git_dir))
            if relative.startswith("refs/understudy"):
                continue
            found[relative] = "" if full.is_dir() else hashlib.sha256(full.read_bytes()).hexdigest()
            if relative == "index":
                found[relative] += str(full.stat().st_mtime_ns)
    return found


def quoted(path: Path | str) -> str:
    return shlex.quote(str(path))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def files():
    return files_of


@pytest.fixture
def fingerprint():
    return print_of


@pytest.fixture
def executed(tmp_path: Path) -> Path:
    """A file that must never appear, and beside it the program that would make it."""
    canary = tmp_path / "EXECUTED"
    payload = tmp_path / "payload.sh"
    payload.write_text(f'#!/bin/sh\necho "$0 $*" >> {quoted(canary)}\ncat 2>/dev/null || true\n')
    payload.chmod(0o755)
    return canary
