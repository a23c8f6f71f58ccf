"""A tool and a backend that exist only here, one file each, appear everywhere and run; nothing else is edited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parents[1] / "sidecar"

TOOL = """
from understudy.model.capabilities import TIME_LIMITS, Capabilities, OptionValue

CAPABILITIES = Capabilities(
    name="parrot",
    title="Parrot",
    runner="understudy.model.tools.parrot:Runner",
    launch={"permission_mode": (OptionValue(value="loud", title="Loud", description="It shouts."),)},
    limits=TIME_LIMITS,
)


class Runner:
    capabilities = CAPABILITIES

    async def run(self, task, emit):
        from understudy.model.delegation.delegations import Usage
        from understudy.runners.runner import Outcome

        assert task.worktree is not None
        return Outcome(text="parrot says " + (task.delegator.launch.permission_mode or ""), usage=Usage(**dict.fromkeys(Usage.__struct_fields__, 0)))
"""

BACKEND = """
from understudy.model.capabilities import COMMON_FIELDS, TIME_LIMITS, Capabilities

CAPABILITIES = Capabilities(
    name="squawk",
    title="Squawk protocol",
    runner="understudy.model.backends.squawk:Runner",
    launch=COMMON_FIELDS,
    limits=TIME_LIMITS,
    protocols=("squawk",),
    needs_model_server=True,
    process_in_worktree=False,
    inline_files=True,
)


class Runner:
    capabilities = CAPABILITIES

    async def run(self, task, emit):
        from understudy.model.delegation.delegations import Usage
        from understudy.runners.runner import Outcome

        assert task.worktree is None
        return Outcome(text=f"squawk from {task.model_server.name}", usage=Usage(**dict.fromkeys(Usage.__struct_fields__, 0)))
"""

SCHEMAS = """
from understudy.config.locations import FileKind
from understudy.config.reference import fields
print(fields.schema_document(FileKind.DELEGATOR), fields.schema_document(FileKind.MODEL_SERVER))
"""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    for folder, name, text in (("tools", "parrot", TOOL), ("backends", "squawk", BACKEND)):
        path = tmp_path / "more" / "understudy" / "model" / folder / f"{name}.py"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    workspace = tmp_path / "project"
    workspace.mkdir()
    subprocess.run(["git", "init", "-q", workspace], check=True)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path / 'more'}{os.pathsep}{PACKAGE}"}

    def start(*argv: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-P", *argv],
            cwd=workspace,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return start


def test_one_file_adds_a_tool_and_one_a_backend(run: Any) -> None:
    def understudy(*arguments: str, code: int = 0) -> str:
        said: str = run("-m", "understudy", *arguments, code=code)
        return said

    listed = json.loads(understudy("tools", "--json"))
    (parrot,) = [tool for tool in listed["tools"] if tool["name"] == "parrot"]
    assert (parrot["displayName"], parrot["runnable"]) == ("Parrot", True)
    (option,) = parrot["supports"]["launch"]
    assert option["title"] == "Permissions"
    assert option["values"] == [{"value": "loud", "title": "Loud", "description": "It shouts."}]
    (squawk,) = [backend for backend in listed["backends"] if backend["name"] == "squawk"]
    assert [option["name"] for option in squawk["supports"]["launch"]] == [
        "promptPrefix",
        "promptSuffix",
        "branch",
        "useWorktree",
    ]

    schemas = run("-c", SCHEMAS)
    assert '"parrot"' in schemas
    assert '"squawk"' in schemas

    refused = understudy("delegators", "add", "p", "--tool", "parrot", "--permission-mode", "quiet", code=8)
    assert "must be one of loud" in refused
    refused = understudy("delegators", "add", "p", "--tool", "parrot", "--yolo", code=8)
    assert "not supported by the tool `parrot`" in refused
    understudy("delegators", "add", "p", "--tool", "parrot", "--permission-mode", "loud")
    understudy("servers", "add", "s", "--url", "http://127.0.0.1:9/v1", "--protocol", "squawk")
    understudy("delegators", "add", "b", "--server", "s", "--model", "m")

    assert "parrot says loud" in understudy("start", "ask", "-t", "Hello", "-d", "p", "--trust")
    assert "squawk from s" in understudy("start", "ask", "-t", "Hello", "-d", "b")


def test_an_option_that_no_delegator_has_is_refused_by_name(tmp_path: Path, run: Any) -> None:
    tool = tmp_path / "more" / "understudy" / "model" / "tools" / "parrot.py"
    tool.write_text(tool.read_text().replace('launch={"permission_mode"', 'launch={"volume": (), "permission_mode"'))
    refused = run("-m", "understudy", "tools", code=8)
    assert "The declaration parrot of Parrot lists volume, which Launch does not have." in refused
    assert "Traceback" not in refused


@pytest.mark.parametrize("start", [["-m", "understudy"], ["-c", "from understudy.__main__ import main; main()"]])
def test_a_declaration_in_the_current_folder_is_not_imported(tmp_path: Path, start: list[str]) -> None:
    folder = tmp_path / "workspace" / "understudy" / "model" / "tools"
    folder.mkdir(parents=True)
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n" + TOOL)
    done = subprocess.run(
        [sys.executable, *start, "tools", "--json"],
        check=False,
        cwd=tmp_path / "workspace",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "parrot" not in done.stdout
    assert not (tmp_path / "ran").exists()
