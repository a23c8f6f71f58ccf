"""Test that the kept configuration is always the one that the files have now."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from understudy.config import locality
from understudy.engine.text_recipes import kept_configuration as kept
from understudy.journal import state_folder


def shown(found: kept.Kept) -> bytes:
    """Return everything in a configuration."""
    return msgspec.json.encode(found, order="deterministic")


@pytest.fixture(autouse=True)
def _no_names(monkeypatch):
    monkeypatch.setattr(locality, "_resolved", {})


SERVER = 'name = "{name}"\nkind = "custom"\nbase_url = "http://127.0.0.1:{port}/v1"\n'
NAMES = ("one", "two")
PLACES = ("user/model-servers", "user/config.toml", "work/.understudy/model-servers", "work/.understudy/local")


class FilesChange(RuleBasedStateMachine):
    """Files, trust and environment change in any order; a change keeps size and time if it can."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.before = {name: os.environ.get(name) for name in ("UNDERSTUDY_CONFIG",)}
        os.environ["UNDERSTUDY_CONFIG"] = str(self.root / "user")
        (self.root / "work").mkdir()
        self.trusted = True
        self.settled = kept.SETTLED_SECONDS
        # A reading takes longer than the clock of this machine's files is coarse.
        kept.SETTLED_SECONDS = 0.0

    def path(self, place: str, name: str) -> Path:
        path = self.root / place
        if path.suffix:
            return path
        return path / "model-servers" / f"{name}.toml" if path.name == "local" else path / f"{name}.toml"

    @rule(place=st.sampled_from(PLACES), name=st.sampled_from(NAMES), port=st.integers(1000, 1009), keep=st.booleans())
    def write(self, place: str, name: str, port: int, *, keep: bool) -> None:
        path = self.path(place, name)
        text = SERVER.format(name=name, port=port)
        if path.name == "config.toml":
            text = f"[[model_servers]]\n{text}"
        times = path.stat() if path.exists() else None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if keep and times is not None:
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    @rule(place=st.sampled_from(PLACES), name=st.sampled_from(NAMES))
    def delete(self, place: str, name: str) -> None:
        self.path(place, name).unlink(missing_ok=True)

    @rule(place=st.sampled_from(PLACES))
    def rename(self, place: str) -> None:
        one, two = (self.path(place, name) for name in NAMES)
        if one.exists():
            one.rename(two)

    @rule(place=st.sampled_from(PLACES), port=st.integers(1000, 1009))
    def replace(self, place: str, port: int) -> None:
        path = self.path(place, "one")
        if path.exists():
            times = path.stat()
            fresh = path.with_name("fresh")
            fresh.write_text(path.read_text().replace(":1", f":1{port}")[: times.st_size])
            os.utime(fresh, ns=(times.st_atime_ns, times.st_mtime_ns))
            fresh.rename(path)

    @rule()
    def swap_folder_for_link(self) -> None:
        folder, elsewhere = self.root / "work/.understudy/model-servers", self.root / "elsewhere"
        if folder.is_symlink():
            folder.unlink()
            elsewhere.rename(folder)
        elif folder.is_dir() and not elsewhere.exists():
            folder.rename(elsewhere)
            folder.symlink_to(elsewhere)

    @rule()
    def trust(self) -> None:
        self.trusted = not self.trusted

    @rule()
    def move_the_users_folder(self) -> None:
        other = "user" if os.environ["UNDERSTUDY_CONFIG"].endswith("other") else "other"
        os.environ["UNDERSTUDY_CONFIG"] = str(self.root / other)

    @rule()
    def break_a_file(self) -> None:
        self.write("user/model-servers", "one", 1000, keep=False)
        self.path("user/model-servers", "one").write_text("name = ")

    @invariant()
    def what_is_kept_is_what_the_files_have(self) -> None:
        for workspace in (self.root / "work", None):
            now = shown(kept._read(workspace, trusted=self.trusted))
            assert shown(kept.load(workspace, trusted=self.trusted)) == now
            assert shown(kept.load(workspace, trusted=self.trusted)) == now
            kept._kept.clear()  # as another process, which has only what is on disk
            assert shown(kept.load(workspace, trusted=self.trusted)) == now

    def teardown(self) -> None:
        kept.SETTLED_SECONDS = self.settled
        for name, value in self.before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        shutil.rmtree(self.root)


TestFilesChange = FilesChange.TestCase
TestFilesChange.settings = settings(
    max_examples=15, stateful_step_count=10, suppress_health_check=list(HealthCheck), deadline=None
)


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(tmp_path / "own"))
    path = tmp_path / "own" / "model-servers" / "one.toml"
    path.parent.mkdir(parents=True)
    path.write_text(SERVER.format(name="one", port=1000))
    return path


def test_files_are_read_once(server, monkeypatch):
    monkeypatch.setattr(kept, "SETTLED_SECONDS", -60.0)
    first = kept.load(None, trusted=False)
    assert kept.load(None, trusted=False) is first
    monkeypatch.setattr(locality, "KEPT_SECONDS", 0.0)
    server.write_text(SERVER.format(name="one", port=1001))
    later = kept.load(None, trusted=False)
    assert later is not first
    assert kept.load(None, trusted=False) is not later, "what a resolver said is used for a while only"


def test_a_file_that_changed_just_now_is_read_again(server):
    for port in range(1000, 1030):  # faster than the clock of many file systems, and with the same size and time
        server.write_text(SERVER.format(name="one", port=port))
        os.utime(server, ns=(1, 1))
        url = kept.load(None, trusted=False).model_servers["one"].model_server.base_url
        assert url == f"http://127.0.0.1:{port}/v1"


def test_few_workspaces_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "SETTLED_SECONDS", -60.0)
    for number in range(kept.MOST_KEPT + 3):
        kept.load(tmp_path / str(number), trusted=False)
    assert len(kept._kept) == kept.MOST_KEPT
    assert time.monotonic() < max(one.until for one in kept._kept.values())


@pytest.mark.parametrize("how", ["edited", "replaced"])
def test_a_change_of_the_same_size_and_time_is_noticed(server, monkeypatch, how):
    monkeypatch.setattr(kept, "SETTLED_SECONDS", 0.0)
    time.sleep(0.02)  # the clock of the file system goes on
    assert kept.load(None, trusted=False) is kept.load(None, trusted=False)
    times = server.stat()
    path = server if how == "edited" else server.with_name("fresh")
    path.write_text(SERVER.format(name="one", port=2000))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    path.rename(server)
    assert (server.stat().st_size, server.stat().st_mtime_ns) == (times.st_size, times.st_mtime_ns)
    assert kept.load(None, trusted=False).model_servers["one"].model_server.base_url.endswith(":2000/v1")


def files() -> list[Path]:
    folder = state_folder.state_root() / "configurations"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_another_process_reads_one_file(server, monkeypatch):
    monkeypatch.setattr(kept, "SETTLED_SECONDS", -60.0)
    first = kept.load(None, trusted=False)
    (path,) = files()
    assert path.stat().st_mode & 0o777 == 0o600
    kept._kept.clear()
    monkeypatch.setattr(kept, "_read", None)  # is not called
    assert kept.load(None, trusted=False) == first


@pytest.mark.parametrize("damage", [b"", b"{", b'{"stamp": 1}', b'{"stamp": "x", "kept": {}}'])
def test_what_is_damaged_on_disk_is_read_again(server, monkeypatch, damage):
    monkeypatch.setattr(kept, "SETTLED_SECONDS", -60.0)
    first = kept.load(None, trusted=False)
    (path,) = files()
    path.write_bytes(damage)
    kept._kept.clear()
    assert kept.load(None, trusted=False) == first


def test_another_version_of_the_program_reads_again(server, monkeypatch):
    monkeypatch.setattr(kept, "SETTLED_SECONDS", -60.0)
    kept.load(None, trusted=False)
    before = files()[0].read_bytes()
    kept._kept.clear()
    monkeypatch.setattr(kept, "_program_facts", ["another"])
    kept.load(None, trusted=False)
    assert files()[0].read_bytes() != before


def test_what_a_resolver_said_is_not_kept_on_disk(server, monkeypatch):
    monkeypatch.setattr(kept, "SETTLED_SECONDS", -60.0)
    monkeypatch.setattr(locality, "_resolved", {"server.example": (0.0, ("127.0.0.1",))})
    kept.load(None, trusted=False)
    assert files() == []


def test_few_files_are_kept_and_none_where_nothing_can_be_written(server, monkeypatch, tmp_path):
    monkeypatch.setattr(kept, "SETTLED_SECONDS", -60.0)
    monkeypatch.setattr(kept, "MOST_FILES", 3)
    for number in range(5):
        kept.load(tmp_path / str(number), trusted=False)
    assert len(files()) == 3
    monkeypatch.setenv("UNDERSTUDY_STATE", "/proc/no/state")
    assert kept.load(tmp_path / "last", trusted=False).model_servers.keys() == {"one"}
