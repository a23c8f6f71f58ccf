"""Nothing survives: hostile trees against every way in which their owners can die."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import understudy
from understudy.process.guardian.marked_processes import kill_leftovers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the promises of Linux")

HERE = Path(__file__).parent
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
PYTHONPATH = os.pathsep.join(str(Path(module.__file__).parent.parent) for module in (understudy, msgspec))


def interpreter_for(prefix):
    """Return a Python that may be used under this prefix: root's own may be in root's home."""
    probe = "import os, sys, msgspec, understudy; os.stat(sys.executable)"
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        argv = [*prefix, python, "-c", probe]
        if (
            os.path.exists(python)
            and not subprocess.run(argv, check=False, capture_output=True, env=ENVIRONMENT).returncode
        ):
            return python
    return None


ENVIRONMENT = {**os.environ, "PYTHONPATH": PYTHONPATH}
CAN_BE_NOBODY = os.getuid() == 0 and shutil.which("setpriv") and interpreter_for(NOBODY)
AS_USER = pytest.param(
    NOBODY,
    id="user",
    marks=[pytest.mark.heavy, pytest.mark.skipif(not CAN_BE_NOBODY, reason="cannot become a user")],
)
AS_ME = pytest.param([], id="me")
EVERYBODY = {"main", "plain", "setsid", "scrubbed", "ignoring", "stopped", "thread"}


def start_owner(tagged, scenario, *, namespace, prefix=()):
    """Start an owner with a hostile child; return the owner and what it says about the child."""
    python = interpreter_for(prefix)
    argv = [*prefix, python, str(HERE / "owner_program.py"), tagged.tag, "namespace" if namespace else "none"]
    argv += [python, str(HERE / "hostile_tree.py"), tagged.tag, scenario]
    owner = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env=ENVIRONMENT)
    about = owner.stdout.readline()
    if not about:
        owner.wait(60)
        raise AssertionError(owner.stderr.read().decode())
    return owner, json.loads(about)


def finish(owner):
    owner.kill()
    owner.wait(60)
    owner.stdout.close()
    owner.stderr.close()


def strike(owner, about, victim):
    if victim in {"owner", "both"}:
        owner.send_signal(signal.SIGSTOP)  # so that it cannot help between the two blows
    if victim in {"guardian", "both"}:
        os.kill(about["guardian"], signal.SIGKILL)
    if victim in {"owner", "both"}:
        finish(owner)


@pytest.mark.parametrize("prefix", [AS_ME, AS_USER])
@pytest.mark.parametrize("victim", ["owner", "guardian", "both"])
@pytest.mark.parametrize("scenario", ["tree", "storm", "comet"])
def test_in_a_namespace_nothing_survives_any_death(tagged, until, scenario, victim, prefix):
    owner, about = start_owner(tagged, scenario, namespace=True, prefix=prefix)
    assert about["reached"] == "namespace", about["reason"]
    if scenario == "tree":
        until(lambda: set(tagged.roles()) >= EVERYBODY)
    strike(owner, about, victim)
    if victim == "guardian":
        assert json.loads(owner.stdout.readline())["code"] is None
        finish(owner)
    assert tagged.gone() == []


@pytest.mark.parametrize("prefix", [AS_ME, AS_USER])
@pytest.mark.parametrize("scenario", ["tree", "storm", "comet"])
def test_without_a_namespace_nothing_survives_its_owner(tagged, until, scenario, prefix):
    owner, about = start_owner(tagged, scenario, namespace=False, prefix=prefix)
    assert about["reached"] == "none"
    if scenario == "tree":
        until(lambda: set(tagged.roles()) >= EVERYBODY)
    strike(owner, about, "owner")
    assert tagged.gone() == []


@pytest.mark.parametrize("victim", ["guardian", "both"])
def test_without_a_namespace_a_dead_guardian_loses_only_what_dropped_its_mark(tagged, until, victim):
    owner, about = start_owner(tagged, "tree", namespace=False)
    until(lambda: set(tagged.roles()) >= EVERYBODY)
    strike(owner, about, victim)
    if victim == "guardian":
        assert owner.stdout.readline()
        finish(owner)
    else:
        assert tagged.gone(but=frozenset(EVERYBODY - {"main"})) == [], "the program itself dies with its guardian"
        assert kill_leftovers(tagged.tag) >= 4
    assert tagged.gone(but=frozenset({"scrubbed"})) == []


def test_a_stopped_tree_dies_with_its_owner(tagged, until):
    owner, about = start_owner(tagged, "tree", namespace=True)
    until(lambda: set(tagged.roles()) >= EVERYBODY)
    for pid, role in tagged.pids().items():
        if role in EVERYBODY:
            os.kill(pid, signal.SIGSTOP)
    strike(owner, about, "owner")
    assert tagged.gone() == []


@pytest.mark.parametrize("namespace", [True, False])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_guardian_that_is_asked_to_end_takes_all_with_it(tagged, until, namespace, signum):
    owner, about = start_owner(tagged, "tree", namespace=namespace)
    until(lambda: set(tagged.roles()) >= EVERYBODY)
    os.kill(about["guardian"], signum)
    assert owner.stdout.readline()
    finish(owner)
    assert tagged.gone() == []


def test_where_namespaces_are_refused_the_child_runs_without_and_says_why(tagged, until):
    refuse = 'echo 0 > /proc/sys/user/max_pid_namespaces && exec "$@"'
    prefix = ["unshare", "-Ur", "sh", "-c", refuse, "sh"]
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespace to refuse one in")
    owner, about = start_owner(tagged, "tree", namespace=True, prefix=prefix)
    assert (about["reached"], about["reason"]) == ("none", "clone: No space left on device")
    until(lambda: set(tagged.roles()) >= EVERYBODY)
    strike(owner, about, "owner")
    assert tagged.gone() == []


def test_where_proc_cannot_be_mounted_the_child_runs_without_and_says_why(tagged, until):
    # What containers do: something is mounted over a part of /proc, so that a fresh one would show more.
    cover = 'mount --bind /dev/null /proc/uptime && exec unshare -Ur "$@"'
    prefix = ["unshare", "-Urm", "sh", "-c", cover, "sh"]
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespace to cover /proc in")
    owner, about = start_owner(tagged, "tree", namespace=True, prefix=prefix)
    assert (about["reached"], about["reason"]) == ("none", "mount /proc: Operation not permitted")
    until(lambda: set(tagged.roles()) >= EVERYBODY)
    strike(owner, about, "owner")
    assert tagged.gone() == []


def test_killing_leftovers_spares_other_marks_itself_and_its_ancestors(tagged):
    environment = {**os.environ, "UNDERSTUDY_DELEGATION": f"{tagged.tag}-other"}
    other = subprocess.Popen([f"{tagged.tag}:other", "600"], executable="/bin/sleep", env=environment)
    inside = (
        "import os,subprocess; from understudy.process.guardian.marked_processes import kill_leftovers; "
        "child = subprocess.Popen(['sleep', '600']); print(kill_leftovers(os.environ['UNDERSTUDY_DELEGATION']), child.wait())"
    )
    marked = {**os.environ, "UNDERSTUDY_DELEGATION": tagged.tag}
    answer = subprocess.run([sys.executable, "-c", inside], env=marked, check=False, capture_output=True, timeout=60)
    assert answer.stdout.split() == [b"1", b"-9"], answer.stderr
    assert other.poll() is None
    other.kill()
    other.wait()
