"""Where a key comes from, and everything that must not be taken for one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import ClassVar

import pytest

from understudy.model.config.delegators import KeyReference, ModelServer
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.secrets import forget_key, keyring_status, keys, resolve, store_key

KEY = "sk-0123456789abcdef"


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch):
    monkeypatch.setattr(keys, "BACKENDS", ())


def failure(reference: KeyReference, environ: dict[str, str] | None = None, **options) -> UnderstudyError:
    with pytest.raises(UnderstudyError) as caught:
        resolve(reference, environ or {}, **options)
    assert KEY not in str(caught.value) + str(caught.value.hint)
    return caught.value


def install_keyring(monkeypatch, backend: type) -> None:
    module = types.ModuleType("keyring_for_the_test")
    module.Keyring = backend
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(keys, "BACKENDS", ((module.__name__, "Keyring", "the test's keyring"),))


class MemoryKeyring:
    viable = True
    entries: ClassVar[dict] = {}

    def get_password(self, service, entry):
        return self.entries.get((service, entry))

    def set_password(self, service, entry, key):
        self.entries[service, entry] = key

    def delete_password(self, service, entry):
        del self.entries[service, entry]


def test_from_the_environment_by_name():
    assert resolve(KeyReference(from_env="THE_KEY"), {"THE_KEY": KEY + "\n"}) == KEY


def test_a_variable_that_is_not_set_says_which():
    error = failure(KeyReference(from_env="THE_KEY"))
    assert error.kind is ErrorKind.SECRET_WITHHELD
    assert "THE_KEY" in error.message
    assert error.hint


def test_a_key_written_where_a_variable_name_belongs_is_not_repeated():
    assert failure(KeyReference(from_env=KEY)).kind is ErrorKind.CONFIG_INVALID


@pytest.mark.parametrize(
    "reference",
    [KeyReference(), KeyReference(from_env="A", keyring="b"), KeyReference(from_env="A", file="/b", keyring="c")],
)
def test_exactly_one_place(reference):
    assert failure(reference).kind is ErrorKind.CONFIG_INVALID


def test_a_private_file_is_read(tmp_path):
    file = tmp_path / "key"
    file.write_text(KEY + "\r\n")
    file.chmod(0o600)
    assert resolve(KeyReference(file=str(file)), {}) == KEY


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda file: file.chmod(0o640), "other users"),
        (lambda file: file.chmod(0o604), "other users"),
        (lambda file: file.write_text("x" * 9000), "one key"),
        (lambda file: file.write_text("  \n"), "one key"),
        (lambda file: file.write_text(KEY + "\n" + KEY), "one key"),
        (lambda file: file.write_bytes(b"\xff\x00" * 8), "one key"),
        (
            lambda file: (file.rename(file.with_suffix(".real")), file.symlink_to(file.with_suffix(".real"))),
            "cannot be opened",
        ),
        (lambda file: (file.unlink(), os.mkfifo(file, 0o600)), "regular file"),
        (lambda file: (file.unlink(), file.mkdir(0o700)), "regular file"),
        (lambda file: file.unlink(), "cannot be opened"),
    ],
)
def test_any_other_file_is_refused_and_nothing_waits(tmp_path, spoil, words):
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o600)
    spoil(file)
    error = failure(KeyReference(file=str(file)))
    assert error.kind is ErrorKind.SECRET_WITHHELD
    assert words in error.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path):
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o600)
    os.chown(file, 12345, -1)
    assert "another user" in failure(KeyReference(file=str(file))).message


def test_a_relative_path_is_refused():
    assert failure(KeyReference(file="keys/openai")).kind is ErrorKind.CONFIG_INVALID


def test_without_a_keyring_a_key_is_kept_in_a_file_of_ones_own():
    reference = store_key("openai", f" {KEY}\n")
    assert reference.keyring is None
    path = Path(str(reference.file))
    assert path.is_relative_to(os.environ["XDG_DATA_HOME"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [item.name for item in path.parent.iterdir()] == ["openai"]
    assert resolve(reference, {}) == KEY
    assert resolve(store_key("openai", KEY + "2"), {}) == KEY + "2"
    forget_key(reference)
    assert not path.exists()


def test_forgetting_leaves_a_persons_own_file_alone(tmp_path):
    file = tmp_path / "mine"
    file.write_text(KEY)
    forget_key(KeyReference(file=str(file)))
    assert file.exists()


@pytest.mark.parametrize("name", ["../x", "", "A", "a/b", ".hidden", "a\n"])
def test_a_name_that_could_lead_elsewhere_is_refused(name, tmp_path):
    with pytest.raises(UnderstudyError) as caught:
        store_key(name, KEY, folder=tmp_path)
    assert caught.value.kind is ErrorKind.INVALID_PARAMS
    assert [item.name for item in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("key", ["", "  ", "two words", "line\nline", "x" * 9000, "schlüssel", "1234567"])
def test_what_is_no_key_is_refused_and_not_repeated(key, tmp_path):
    with pytest.raises(UnderstudyError) as caught:
        store_key("openai", key, folder=tmp_path)
    assert caught.value.kind is ErrorKind.INVALID_PARAMS
    assert not key.strip() or key not in str(caught.value)


def test_an_allowed_keyring_is_used(monkeypatch):
    install_keyring(monkeypatch, MemoryKeyring)
    reference = store_key("openai", KEY)
    assert reference == KeyReference(keyring="openai")
    assert resolve(reference, {}) == KEY
    assert keyring_status().backend == "the test's keyring"
    forget_key(reference)
    assert failure(reference).kind is ErrorKind.SECRET_WITHHELD


def test_a_locked_keyring_is_not_waited_for(monkeypatch):
    released = threading.Event()

    class Locked(MemoryKeyring):
        def get_password(self, service, entry):
            released.wait(20)

    install_keyring(monkeypatch, Locked)
    started = time.monotonic()
    error = failure(KeyReference(keyring="openai"), timeout_seconds=0.05)
    released.set()
    assert time.monotonic() - started < 15
    assert "did not answer" in error.message


def test_a_keyring_that_refuses_to_store_does_not_lose_the_key(monkeypatch, tmp_path):
    class Failing(MemoryKeyring):
        def set_password(self, service, entry, key):
            raise RuntimeError(key)

    install_keyring(monkeypatch, Failing)
    assert resolve(store_key("openai", KEY, folder=tmp_path), {}) == KEY


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (None, "Model server 's' has no key: set one with `understudy servers set-key s`."),
        (
            KeyReference(keyring="s"),
            "The stored key of model server 's' is not valid: run `understudy servers set-key s`.",
        ),
        (
            KeyReference(file="/keys/s"),
            "Model server 's' takes its key from the file /keys/s: write a valid key to it.",
        ),
        (
            KeyReference(from_env="S_KEY"),
            "Model server 's' takes its key from the environment variable S_KEY: set it to a valid key.",
        ),
    ],
)
def test_a_refused_key_is_named_with_its_place(reference, said):
    server = ModelServer(name="s", kind="custom", base_url="http://127.0.0.1:1/v1", api_key=reference)
    assert keys.how_to_correct(server) == said


def test_a_plain_text_keyring_is_never_used(tmp_path):
    # What `pip install keyrings.alt` plus a keyringrc.cfg do: keyring's own selection would take it.
    (tmp_path / "plain.py").write_text(
        "import pathlib, keyring.backend\n"
        "class Plain(keyring.backend.KeyringBackend):\n"
        "    priority = 99\n"
        f"    def set_password(self, s, u, p): pathlib.Path({str(tmp_path / 'leak')!r}).write_text(p)\n"
        "    def get_password(self, s, u): return 'planted'\n",
    )
    script = (
        "import plain, keyring; keyring.set_keyring(plain.Plain())\n"
        "from understudy.secrets import store_key, resolve\n"
        f"r = store_key('openai', {KEY!r}); print(r.keyring, resolve(r, {{}}))\n"
    )
    environ = {
        **{name: value for name, value in os.environ.items() if name != "DBUS_SESSION_BUS_ADDRESS"},
        "PYTHONPATH": f"{tmp_path}:{Path(keys.__file__).parents[2]}",
        "PYTHON_KEYRING_BACKEND": "plain.Plain",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["None", KEY], done.stderr
    assert not (tmp_path / "leak").exists()


def test_the_shipped_list_names_no_backend_that_keeps_plain_text():
    script = "from understudy.secrets import keys; print(*[module for module, _, _ in keys.BACKENDS])"
    environ = {**os.environ, "PYTHONPATH": str(Path(keys.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [
        f"keyring.backends.{name}" for name in ("macOS", "Windows", "SecretService", "libsecret", "kwallet")
    ]


def test_importing_the_room_does_not_import_keyring():
    script = (
        "import sys, understudy.secrets; print([m for m in ('keyring', 'platformdirs', 'asyncio') if m in sys.modules])"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(keys.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
