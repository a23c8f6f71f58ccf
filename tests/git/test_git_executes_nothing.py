"""Ways in which a tree, or the repository it came from, can make git run a program: none works on ours.

Each vector prepares the user's repository, makes a tree, lets a hostile agent loose in it, and then makes every call of
this package. The same preparation makes plain git run the program: that the vectors still work is tested as well.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.git import command as call
from understudy.git import diff
from understudy.git.base.capture import pin, unpin, write_base
from understudy.git.checkout import checkout_changes, checkout_tree
from understudy.git.object_store import ObjectStore
from understudy.git.worktree import extra_files
from understudy.git.worktree.worktree import create_worktree
from understudy.model.errors import UnderstudyError

DRIVERS = "printf '*.nb filter=fmt diff=nb merge=nb\\n' > .gitattributes; echo hello > a.nb; mkdir scripts .husky;"
SCRIPT = "printf '#!/bin/sh\\ncat\\n' > scripts/fmt.sh; printf '#!/bin/sh\\n' > .husky/pre-commit; chmod +x scripts/fmt.sh .husky/*"


class Agent:
    """A hostile agent: the tree it works in and the program it wants to see run."""

    def __init__(self, bench, tree: Path, payload: Path) -> None:
        self.bench = bench
        self.tree = tree
        self.payload = payload

    def sh(self, command: str) -> None:
        self.bench.sh(command, self.tree)

    def plant(self, *paths: str) -> None:
        for path in paths:
            target = self.tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copy(self.payload, target)

    def write(self, path: str, text: str) -> None:
        (self.tree / path).write_text(text)

    def repository(self, path: Path) -> None:
        self.sh(
            f"git init -q {path}; git -C {path} commit -q --allow-empty -m x; git -C {path} config core.fsmonitor {self.payload}"
        )


def pointer(agent: Agent) -> None:
    agent.repository(agent.tree / "x")
    shutil.rmtree(agent.tree / ".git")
    agent.write(".git", "gitdir: x/.git\n")


def replaced(agent: Agent) -> None:
    agent.repository(agent.bench.root / "e")
    shutil.rmtree(agent.tree / ".git")
    shutil.move(agent.bench.root / "e" / ".git", agent.tree / ".git")


def nested_added(agent: Agent) -> None:
    agent.repository(agent.tree / "sub")
    agent.sh("git -c core.fsmonitor=false -c advice.addEmbeddedRepo=false add sub")


def nested(agent: Agent) -> None:
    agent.repository(agent.tree / "sub")


def buried_bare(agent: Agent) -> None:
    agent.sh("mkdir -p assets/objects assets/refs; echo 'ref: refs/heads/main' > assets/HEAD")
    agent.write(
        "assets/config",
        f"[core]\n\trepositoryformatversion=0\n\tbare=false\n\tworktree=.\n\tfsmonitor={agent.payload}\n",
    )


def hook(name: str) -> Callable[[Agent], None]:
    def act(agent: Agent) -> None:
        agent.plant(f".husky/{name}")
        agent.sh("git add -A")

    return act


def script(agent: Agent) -> None:
    agent.plant("scripts/fmt.sh")
    agent.write("a.nb", "hellO\n")


def smudge(agent: Agent) -> None:
    script(agent)
    agent.write(".gitattributes", "scripts/fmt.sh -filter\n*.txt filter=fmt\n")


def textconv_for_all(agent: Agent) -> None:
    script(agent)
    agent.write("f1", "changed\n")
    agent.write(".gitattributes", "* diff=nb\n")


def fake_work_tree(agent: Agent) -> None:
    victim = agent.bench.root / "victim"
    victim.mkdir()
    (victim / "precious").write_text("p")
    agent.repository(agent.tree / "x")
    agent.sh(f"git -C x config core.worktree {victim}; git -C x config core.fsmonitor false")
    shutil.rmtree(agent.tree / ".git")
    agent.write(".git", "gitdir: x/.git\n")


def fsmonitor_in_own(agent: Agent) -> None:
    agent.sh(f"git config core.fsmonitor {agent.payload}; git config diff.external {agent.payload}")


HUSKY = "git config core.hooksPath .husky"
FILTER = "git config filter.fmt.clean scripts/fmt.sh; git config filter.fmt.smudge cat"
SMUDGE = "git config filter.fmt.clean cat; git config filter.fmt.smudge scripts/fmt.sh"
TEXTCONV = "git config diff.nb.textconv scripts/fmt.sh"
DRIVER = "git config merge.nb.driver 'scripts/fmt.sh %O %A %B'"

VECTORS = {
    "pointer to a git directory in the tree": ("", pointer),
    "git directory replaced": ("", replaced),
    "nested repository as a submodule, status": ("", nested_added),
    "nested repository as a submodule, diff": ("git config diff.submodule log", nested_added),
    "nested repository not added": ("", nested),
    "buried bare repository": ("", buried_bare),
    "hook before a commit": (HUSKY, hook("pre-commit")),
    "hook after a checkout": (HUSKY, hook("post-checkout")),
    "hook after a merge": (HUSKY, hook("post-merge")),
    "filter on add": (FILTER, script),
    "filter on status and diff": (FILTER, script),
    "filter on checkout": (SMUDGE, smudge),
    "text converter": (TEXTCONV, script),
    "text converter switched on for all": (TEXTCONV, textconv_for_all),
    "merge driver, apply": (DRIVER, script),
    "merge driver, merge-tree": (DRIVER, script),
    "work tree elsewhere": ("", fake_work_tree),
    "monitor and external diff in the tree's own configuration": ("", fsmonitor_in_own),
}


@pytest.fixture
def payload(executed) -> Path:
    return executed.parent / "payload.sh"


def everything(bench, before_agent: Callable[[Path], None]) -> None:
    """Make every call of the package over a repository and a worktree."""
    repository = bench.locate()
    store, base, tree = bench.tree()
    pin(repository, "x", repository.head_commit)
    items = extra_files.apply(tree, repository, copy=["*.secret"])
    before_agent(tree.path)
    shot = tree.snapshot("work", base.commit)
    for function in (diff.file_diffs, diff.splits, diff.unified, diff.changed_paths):
        function(store, base.commit, shot.commit)
    diff.read_file(store, shot.commit, b"a.nb")
    extra_files.restore_changed(items)
    tree.materialise(base.commit, items.paths())
    tree.materialise(shot.commit, items.paths())
    assert tree.snapshot("again", shot.commit).commit == shot.commit
    other = create_worktree(ObjectStore.open(store.path), shot.commit, bench.state / "other")
    # And the user takes the work into the checkout, so that the next base is read from hostile files.
    bench.sh(
        f"cp -a {other.path}/. {bench.root}/taken; rm -rf {bench.root}/taken/.git; cp -a {bench.root}/taken/. {bench.repo}"
    )
    write_base(ObjectStore.create(bench.state / "next", bench.locate()), bench.locate(), buffers={"a.nb": b"unsaved"})
    unpin(repository, "x")
    other.remove(bench.state / "trash")
    tree.remove(bench.state / "trash")


@pytest.mark.parametrize("name", VECTORS)
def test_no_vector_runs_a_program(bench, executed, payload, name):
    settings, act = VECTORS[name]
    bench.init(DRIVERS + SCRIPT)
    if settings:
        bench.sh(settings)

    def agent(tree: Path) -> None:
        act(Agent(bench, tree, payload))
        executed.unlink(missing_ok=True)  # what the agent's own git ran

    everything(bench, agent)
    assert not executed.exists(), executed.read_text()
    victim = bench.root / "victim"
    assert not victim.exists() or (victim / "precious").read_text() == "p"


@pytest.mark.parametrize("name", VECTORS)
def test_no_vector_in_the_checkout_itself_runs_a_program(bench, executed, payload, name):
    settings, act = VECTORS[name]
    bench.init(DRIVERS + SCRIPT)
    if settings:
        bench.sh(settings)
    store, base = bench.base()
    beginning = checkout_tree.begin(store, bench.locate())
    state = checkout_changes.look(bench.repo)
    act(Agent(bench, bench.repo, payload))
    executed.unlink(missing_ok=True)  # what the agent's own git ran
    with contextlib.suppress(UnderstudyError):  # without the objects of the repository, there is no result
        collected = checkout_tree.collect(store, bench.repo, (base.commit, beginning), saved=dict, message="work")
        diff.file_diffs(store, base.commit, collected.commit)
    with contextlib.suppress(UnderstudyError):
        checkout_changes.differences(state, checkout_changes.look(bench.repo))
    assert not executed.exists(), executed.read_text()
    victim = bench.root / "victim"
    assert not victim.exists() or (victim / "precious").read_text() == "p"


@pytest.mark.parametrize(
    "case",
    [
        ("", replaced, "git status"),
        ("", pointer, "git status"),
        (FILTER, script, "cp -a {tree}/. ../c; rm -rf ../c/.git; cp -a ../c/. .; git add -A"),
        (TEXTCONV, script, "cp -a {tree}/. ../c; rm -rf ../c/.git; cp -a ../c/. .; git diff"),
    ],
)
def test_plain_git_executes_each_payload(bench, executed, payload, case):
    settings, act, plain = case
    bench.init(DRIVERS + SCRIPT)
    if settings:
        bench.sh(settings)
    _, _, tree = bench.tree()
    act(Agent(bench, tree.path, payload))
    executed.unlink(missing_ok=True)
    bench.sh(plain.format(tree=tree.path), bench.repo if settings else tree.path, check=False)
    assert executed.exists()


def test_hostile_user_repository_runs_nothing(bench, executed, payload):
    bench.init(DRIVERS + SCRIPT)
    keys = "core.fsmonitor core.sshCommand core.editor core.pager core.askPass diff.external core.alternateRefsCommand credential.helper gpg.program uploadpack.packObjectsHook core.gitProxy"
    bench.sh(
        "; ".join(f"git config {key} {payload}" for key in keys.split()) + f"; git config alias.status '!{payload}'"
    )
    for each in ("reference-transaction", "post-index-change", "post-checkout", "fsmonitor-watchman", "pre-commit"):
        shutil.copy(payload, bench.repo / ".git" / "hooks" / each)
    executed.unlink(missing_ok=True)
    everything(bench, lambda tree: (tree / "f1").write_text("x"))
    assert not executed.exists(), executed.read_text()


def test_every_call_names_its_git_directory(bench, monkeypatch, tmp_path):
    """A git first in PATH that refuses to work without an explicit directory, and tells what it was asked."""
    real = shutil.which("git")
    shim = tmp_path / "shim" / "git"
    shim.parent.mkdir()
    log = tmp_path / "calls"
    bench.init("echo '*.x filter=x' > .gitattributes")
    bench.sh("git init -q inner")
    shim.write_text(
        "#!/bin/sh\n"
        'test -n "$GIT_DIR" || { echo "no GIT_DIR: $*" >> ' + f"{log}.bad; exit 99; }}\n"
        'test "$GIT_CONFIG_GLOBAL" = /dev/null -o "$2" = config || echo "user settings: $*" >> ' + f"{log}.bad\n"
        'test "$HOME" = /nonexistent -o "$2" = config || echo "home: $*" >> ' + f"{log}.bad\n"
        f'echo "$*" >> {log}\nexec {real} "$@"\n'
    )
    shim.chmod(0o755)
    user = os.environ["PATH"]
    monkeypatch.setattr(
        bench, "sh", lambda command, cwd=None, check=True, sh=bench.sh: sh(f"PATH={user}; {command}", cwd, check)
    )
    monkeypatch.setenv("PATH", f"{shim.parent}:{user}")
    everything(bench, lambda tree: (tree / "f1").write_text("x"))
    assert not Path(f"{log}.bad").exists(), Path(f"{log}.bad").read_text()
    assert len(log.read_text().splitlines()) > 50


def test_arguments_cannot_become_options(bench, tmp_path):
    bench.init()
    store, base = bench.base()
    target = tmp_path / "written"
    for act in (
        lambda: diff.unified(store, base.commit, f"--output={target}"),
        lambda: diff.read_file(store, f"--output={target}", b"f1"),
        lambda: diff.file_diffs(store, f"--output={target}", base.commit),
    ):
        with pytest.raises(UnderstudyError):
            act()
    assert diff.read_file(store, base.commit, b"-rf") is None
    assert diff.read_file(store, base.commit, b":(glob)*") is None
    assert not target.exists()


def test_the_environment_is_built_from_nothing(bench, monkeypatch):
    bench.init()
    for name, value in (
        ("GIT_INDEX_FILE", "/x"),
        ("GIT_EXTERNAL_DIFF", "/x"),
        ("GIT_SSH_COMMAND", "/x"),
        ("GIT_CONFIG_PARAMETERS", "'x.y=z'"),
    ):
        monkeypatch.setenv(name, value)
    variables = call._environment(None, user_settings=False)
    assert "GIT_EXTERNAL_DIFF" not in variables
    assert "GIT_SSH_COMMAND" not in variables
    assert "GIT_INDEX_FILE" not in variables
    assert "GIT_CONFIG_PARAMETERS" not in variables
