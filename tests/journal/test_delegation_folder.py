"""Birth, names and finding of folders."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import resource
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.files import durable
from understudy.journal import delegation_folder, reader, worker_files
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.states import State


def test_a_new_folder_is_complete_private_and_locked(make_spec) -> None:
    folder, lock = delegation_folder.create(make_spec, {"b1": b"unsaved\r\n\xff"})
    try:
        assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-v]{5}", folder.id)
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        for path in (folder.spec, folder.lock, folder.buffers / "b1", folder.summary):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert (folder.buffers / "b1").read_bytes() == b"unsaved\r\n\xff"
        assert delegation_folder.read_spec(folder) == make_spec(folder.id)
        assert worker_files.is_held(folder)
        assert not os.get_inheritable(lock)
        assert reader.load(folder).state is State.PREPARING
        assert delegation_folder.ids() == [folder.id]
    finally:
        os.close(lock)
    assert not worker_files.is_held(folder)


def test_no_process_sees_a_new_folder_without_its_holder(make, second) -> None:
    """A second process looks all the time while a hundred delegations are born and handed over."""
    first, _ = make()
    watcher = second(
        first,
        """
known = set()
say('looking')
import select
while not select.select([sys.stdin], [], [], 0)[0]:
    for name in delegation_folder.ids():
        if name in known: continue
        f = delegation_folder.Folder(name, delegation_folder.delegations_root() / name)
        if not worker_files.is_held(f) or not f.spec.exists(): say('FREE', name); sys.exit(1)
        known.add(name)
say('seen', len(known))
""",
    )
    assert watcher.line() == "looking"
    for _ in range(100):
        make()
    watcher.process.stdin.close()
    word, *_ = watcher.line().split()
    assert word == "seen"


def test_the_lock_is_handed_over_without_a_gap(make, second) -> None:
    folder, lock = make()
    worker = second(
        folder,
        """
lock = int(sys.argv[2])
with Writer(folder(), lock) as writer:
    import subprocess
    # What the worker starts does not inherit the lock, or it would outlive the worker in it.
    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], close_fds=False, stdout=subprocess.DEVNULL)
    children = Path(f'/proc/self/task/{os.getpid()}/children').read_text().split()
    say('ready', *children)
    sys.stdin.read()
""",
        lock=lock,
    )
    os.close(lock)
    assert worker_files.is_held(folder)
    _, child = worker.line().split()
    try:
        assert worker_files.is_held(folder)
        assert worker_files.try_lock(folder) is None
        worker.kill()
        assert not worker_files.is_held(folder)
    finally:
        os.kill(int(child), 9)


def test_a_failed_creation_leaves_nothing(make_spec) -> None:
    root = delegation_folder.delegations_root()

    def build(name: str):
        raise UnderstudyError(ErrorKind.INTERNAL, "no")

    for attempt in (
        lambda: delegation_folder.create(build, {}),
        lambda: delegation_folder.create(make_spec, {"../x": b""}),
    ):
        with pytest.raises(UnderstudyError):
            attempt()
        assert list(root.iterdir()) == []


def test_an_id_in_use_is_not_reused(make, make_spec, monkeypatch) -> None:
    folder, _ = make()
    answers = iter([folder.id, folder.id, "20261121-004512-k3f9q"])
    monkeypatch.setattr(delegation_folder, "new_id", lambda now=None: next(answers))
    other, _lock = make()
    assert other.id == "20261121-004512-k3f9q"
    assert delegation_folder.read_spec(folder).id == folder.id
    assert delegation_folder.read_spec(other).id == other.id


def test_two_processes_never_share_an_id(make, second) -> None:
    folder, _ = make()
    code = """
from understudy.model.delegation.spec import Spec
import msgspec
spec = delegation_folder.read_spec(folder())
delegation_folder.new_id = lambda now=None: f'20261121-00{next(numbers):04d}-aaaaa'
numbers = iter(range(1000))
sys.stdin.readline()
mine = []
for _ in range(40):
    f, lock = delegation_folder.create(lambda n: msgspec.structs.replace(spec, id=n, title=str(os.getpid())), {})
    os.close(lock); mine.append(f.id)
say(*mine)
"""
    both = [second(folder, code) for _ in range(2)]
    for one in both:
        one.process.stdin.write("go\n")
        one.process.stdin.flush()
    first, other = (set(one.line().split()) for one in both)
    assert len(first) == len(other) == 40
    assert not first & other


def test_one_key_makes_one_delegation(make, second) -> None:
    folder, _ = make()
    code = """
import msgspec
spec = delegation_folder.read_spec(folder())
sys.stdin.readline()
for n in range(20):
    f, lock = delegation_folder.create_once(f'key {n}', lambda name: msgspec.structs.replace(spec, id=name), {})
    say(f.id, lock is not None)
"""
    racers = [second(folder, code) for _ in range(3)]
    for racer in racers:
        racer.process.stdin.write("go\n")
        racer.process.stdin.flush()
    for _ in range(20):
        answers = [racer.line().split() for racer in racers]
        assert len({name for name, _ in answers}) == 1
        assert sorted(made for _, made in answers) == ["False", "False", "True"]
    assert len(delegation_folder.ids()) == 21
    assert [name for name in os.listdir(delegation_folder.delegations_root()) if name.startswith(".")] == []


def test_a_key_whose_delegation_was_never_created_is_void(make_spec) -> None:
    folder, lock = delegation_folder.create_once("k", make_spec, {})
    os.close(lock)
    again, none = delegation_folder.create_once("k", make_spec, {})
    assert (again.id, none) == (folder.id, None)
    folder.path.rename(folder.path.with_name("elsewhere"))
    fresh, lock = delegation_folder.create_once("k", make_spec, {})
    assert fresh.id != folder.id
    os.close(lock)


@given(
    st.text() | st.sampled_from(["..", "../x", "/etc", "20261121-004512-k3f9q/..", "20261121-004512-k3f9Q", "", "\0"])
)
def test_only_ids_become_paths(text: str) -> None:
    with pytest.raises(UnderstudyError) as caught:
        delegation_folder.open_folder(text)
    assert caught.value.kind is ErrorKind.UNKNOWN_DELEGATION
    with pytest.raises(UnderstudyError) as caught:
        delegation_folder.resolve_id(text)
    assert caught.value.kind is ErrorKind.UNKNOWN_DELEGATION


def test_near_ids_are_named_and_prefixes_resolved(make) -> None:
    folder, _ = make()
    wrong = folder.id[:-1] + ("0" if folder.id[-1] != "0" else "1")
    with pytest.raises(UnderstudyError) as caught:
        delegation_folder.open_folder(wrong)
    assert caught.value.names == [folder.id]
    assert delegation_folder.resolve_id(folder.id[:10]) == folder.id
    assert delegation_folder.resolve_id(folder.id[-5:]) == folder.id
    other, _ = make()
    with pytest.raises(UnderstudyError) as caught:
        delegation_folder.resolve_id("20")
    assert sorted(caught.value.names) == sorted([folder.id, other.id])


@given(st.floats(0, 4e9), st.floats(0, 4e9))
def test_ids_sort_by_time(one: float, other: float) -> None:
    earlier, later = sorted((one, other))
    if later - earlier > 0.002:
        assert delegation_folder.new_id(earlier) < delegation_folder.new_id(later)
    assert delegation_folder.is_id(delegation_folder.new_id(one))


def test_a_state_folder_that_cannot_be_used_is_refused(tmp_path: Path, monkeypatch) -> None:
    def refused(path) -> UnderstudyError:
        monkeypatch.setenv("UNDERSTUDY_STATE", str(path))
        with pytest.raises(UnderstudyError) as caught:
            delegation_folder.state_root()
        assert caught.value.kind is ErrorKind.STATE_UNAVAILABLE
        assert caught.value.hint
        return caught.value

    (tmp_path / "file").write_text("")
    refused(tmp_path / "file")
    refused(tmp_path / "file" / "below")
    refused("relative")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert "Other users may write" in str(refused(shared))
    assert stat.S_IMODE(shared.stat().st_mode) == 0o777


def test_a_state_folder_is_named_without_detours(tmp_path, monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_STATE", f"{tmp_path}/project/../state/./")
    assert delegation_folder.state_root() == tmp_path / "state", "folders of worktrees are compared with it"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_state_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "theirs").mkdir(mode=0o755)
    os.chown(tmp_path / "theirs", 12345, 12345)
    monkeypatch.setenv("UNDERSTUDY_STATE", str(tmp_path / "theirs"))
    with pytest.raises(UnderstudyError, match="belongs to user 12345"):
        delegation_folder.state_root()


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs", "afs"])
def test_network_file_systems_are_refused(kind: str, tmp_path: Path, monkeypatch) -> None:
    # The table as proc(5) describes it; a later mount on the same point hides the earlier one.
    table = tmp_path / "mountinfo"
    far = tmp_path / "far away"
    escaped = str(far).replace(" ", "\\040")
    table.write_text(
        "22 1 8:1 / / rw - ext4 /dev/a rw\n"
        f"30 22 0:5 / {escaped} rw shared:1 - ext4 /dev/b rw\n"
        f"31 30 0:6 / {escaped} rw,nosuid shared:2 master:1 - {kind} host:/x rw\n"
    )
    monkeypatch.setattr(delegation_folder, "MOUNTINFO", table)
    monkeypatch.setenv("UNDERSTUDY_STATE", str(far / "state"))
    with pytest.raises(UnderstudyError, match=re.escape(f"network file system ({kind})")) as caught:
        delegation_folder.state_root()
    assert caught.value.kind is ErrorKind.STATE_UNAVAILABLE
    monkeypatch.setenv("UNDERSTUDY_STATE", str(tmp_path / "far away too"))
    delegation_folder.state_root()


def test_this_machines_own_table_is_understood(tmp_path: Path) -> None:
    if not Path("/proc/self/mountinfo").exists():
        pytest.skip("no mountinfo here")
    assert delegation_folder._file_system("/proc/self") == "proc"


def test_a_size_limit_reads_as_a_full_disk(make_spec) -> None:
    root = delegation_folder.delegations_root()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(UnderstudyError) as caught:
            delegation_folder.create(make_spec, {"b": b"x" * 100_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.kind is ErrorKind.DISK_FULL
    assert list(root.iterdir()) == []


def test_errors_of_the_disk_have_names(tmp_path: Path) -> None:
    for number, kind in (
        (errno.ENOSPC, ErrorKind.DISK_FULL),
        (errno.EDQUOT, ErrorKind.DISK_FULL),
        (errno.EROFS, ErrorKind.STATE_UNAVAILABLE),
        (errno.EACCES, ErrorKind.STATE_UNAVAILABLE),
    ):
        assert durable.failure(OSError(number, "x"), tmp_path).kind is kind


def test_abandoned_births_are_removed(make, make_spec) -> None:
    root = delegation_folder.delegations_root()
    for name, age in ((".new-1-old", 7200), (".new-1-now", 0)):
        (root / name).mkdir()
        os.utime(root / name, (time.time() - age,) * 2)
    make()
    assert delegation_folder.remove_abandoned() == 1
    assert sorted(name for name in os.listdir(root) if name.startswith(".")) == [".new-1-now"]


def test_the_holder_is_read_whole_while_it_is_written(make, second, eventually) -> None:
    folder, lock = make()
    writer = second(
        folder,
        """
lock = int(sys.argv[2])
me = identity.current()
say('go')
for n in range(20000):
    worker_files.write_holder(lock, me, [me] * (n * 7 % 9))
say('done')
""",
        lock=lock,
    )
    assert writer.line() == "go"
    seen = set()
    while writer.process.poll() is None:
        holder = worker_files.read_holder(folder)
        if holder is None:
            assert not seen, "a holder that was written was gone"
        else:
            assert holder.pid == writer.pid
            seen.add(len(holder.children))
    assert len(seen) > 1
    assert fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB) is None


@pytest.mark.parametrize("content", [b"", b"{}\n", b'{"pid":-1,"startTime":1,"bootId":""}\n', b'{"pid":7', b"\xff\n"])
def test_a_damaged_holder_file_names_no_process(make, content: bytes) -> None:
    folder, _ = make()
    folder.lock.write_bytes(content)
    assert worker_files.read_holder(folder) is None


def test_git_ignores_a_state_folder_in_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_STATE", str(tmp_path / "state"))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    state = delegation_folder.state_root()
    (state / "delegations").mkdir()
    (state / "delegations" / "events.jsonl").touch()
    status = ["git", "status", "--porcelain", "--untracked-files=all", "state"]
    assert subprocess.run(status, cwd=tmp_path, check=True, capture_output=True).stdout == b""


def test_the_first_users_of_a_state_folder_do_not_disturb_each_other(tmp_path: Path, monkeypatch) -> None:
    """Requests that arrive together create the folder and its version at the same time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            for turn in range(60):
                monkeypatch.setenv("UNDERSTUDY_STATE", str(tmp_path / str(turn)))
                roots = [threads.submit(delegation_folder.state_root) for _ in range(8)]
                assert {root.result(30) for root in roots} == {tmp_path / str(turn)}
                assert sorted(path.name for path in (tmp_path / str(turn)).iterdir()) == [".gitignore", "version"]
    finally:
        sys.setswitchinterval(interval)


def test_importing_the_package_starts_no_event_loop() -> None:
    modules = "worker_files, change_notifications, reader"
    code = f"import sys; from understudy.journal import {modules}; from understudy.journal.writing import dead_workers, writer; from understudy.journal import reader; print([m for m in ('asyncio', 'httpx', 'click', 'platformdirs', 'difflib', 'subprocess') if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_an_id_with_a_wrong_character_is_answered_with_the_right_one(make) -> None:
    folder, _ = make()
    short = folder.id.rpartition("-")[2]
    wrong = ("a" if short[-1] != "a" else "b").join([short[:-1], ""])
    for asked in (wrong, f"{folder.id[:-1]}{wrong[-1]}"):
        with pytest.raises(UnderstudyError) as unknown:
            delegation_folder.open_folder(asked)
        assert unknown.value.names == [folder.id], asked
