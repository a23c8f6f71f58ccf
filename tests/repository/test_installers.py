"""The lines with which the README installs Understudy, in an empty home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
SECONDS = 240
NO_INDEX = ("Failed to fetch", "No matching distribution", "dns error", "error sending request")
"""What pip and uv print when they cannot reach a package index."""


def run(command: list[str | Path], home: Path, folder: Path = TOP) -> str:
    """Run a program that needs a package index; return its output, or skip the test without one."""
    environment = {**os.environ, "HOME": str(home), "PATH": f"{home}/tools/bin:{os.environ['PATH']}"}
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "UV_TOOL_DIR", "PIPX_HOME", "VIRTUAL_ENV"):
        environment.pop(name, None)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    text = done.stdout + done.stderr
    if done.returncode and any(reason in text for reason in NO_INDEX):
        pytest.skip(f"no package index: {text[-500:]}")
    assert done.returncode == 0, text
    return text


@pytest.mark.heavy  # two environments are created and filled
def test_uv_and_pipx_install_this_checkout(tmp_path: Path):
    home = tmp_path / "someone"
    home.mkdir()
    run([sys.executable, "-m", "venv", home / "tools"], home)
    requirements = TOP / "requirements" / "installers.txt"
    options = ["--disable-pip-version-check", "--quiet", "--no-deps", "--require-hashes", "-r", requirements]
    run([home / "tools" / "bin" / "python", "-m", "pip", "install", *options], home)
    installed = home / ".local" / "bin" / "understudy"
    for installer in (["uv", "tool"], ["pipx"]):
        run([home / "tools" / "bin" / installer[0], *installer[1:], "install", "."], home)
        for command in (["--version"], ["start", "--help"], ["doctor"]):
            assert "nderstudy" in run([installed, *command], home, tmp_path)
        run([home / "tools" / "bin" / installer[0], *installer[1:], "uninstall", "understudy"], home)
        assert not installed.exists()
