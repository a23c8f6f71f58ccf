"""Test ``delegations/logs``: the prompt as it was sent, and the logs that an agent's program left."""

from __future__ import annotations

import json
from pathlib import Path

from project_python import project_python

from understudy.api.handlers import delegations
from understudy.journal import delegation_folder


def test_logs_return_the_prompt_and_the_programs_output(project, monkeypatch):
    project.write("text.txt", "one\n")
    project.commit()
    project.program("talker", 'sys.stderr.write("no such model\\n"); sys.exit(3)')
    done = project.run("implement", "text.txt", task="Add ünd two.", delegator="talker")
    logs = project.call("delegations/logs", id=done.id)
    assert "Add ünd two." in logs.prompt
    assert logs.prompt_omitted_bytes == 0
    printed = {Path(log.path).name: Path(log.path).read_text() for log in logs.files}
    assert printed == {"stderr.log": "no such model\n"}
    assert [log.bytes for log in logs.files] == [len("no such model\n")]

    monkeypatch.setattr(delegations, "PROMPT_BYTES", 10)
    cut = project.call("delegations/logs", id=done.id)
    assert len(cut.prompt.encode()) == 10
    assert cut.prompt_omitted_bytes == len(logs.prompt.encode()) - 10

    folder = delegation_folder.open_folder(done.id)
    for name in ("stdout.10.log", "stdout.2.log", "stdout.old.log"):
        (folder.path / name).write_text("x")
    folder.prompt.unlink()
    later = project.call("delegations/logs", id=done.id)
    assert later.prompt is None
    assert [(log.attempt, Path(log.path).name) for log in later.files] == [
        (1, "stderr.log"),
        (2, "stdout.2.log"),
        (10, "stdout.10.log"),
    ]


def test_an_agent_gets_how_the_project_is_run_and_finds_its_programs(project):
    project.write("a.py", "a = 1\n")
    project.write(".gitignore", ".venv\n")
    project.commit()
    programs = project.top / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(project_python())
    for name in ("own-tool", "sh"):
        (programs / name).write_text("#!/bin/sh\necho found\n")
        (programs / name).chmod(0o755)
    project.settings(
        """\
        [[checks]]
        name = "unit"
        argv = ["{python}", "-c", "", "{tests}"]

        [[checks]]
        name = "secret"
        argv = ["true"]
        hidden = true
        """
    )
    project.trust()
    scenario = project.config / "scenario.json"
    steps = [{"run": ["sh", "-c", "own-tool && touch tool.txt"]}, {"result": True}]
    scenario.write_text(json.dumps({"steps": steps}))
    project.agent("mine", str(scenario))
    request = {"recipe": "implement", "files": [str(project.top / "a.py")], "task": "Do it.", "delegator": "mine"}
    shown = project.call("delegations/preview", workspace=str(project.top), **request).prompt
    done = project.run("implement", "a.py", task="Do it.", delegator="mine")
    assert [file.path for file in done.result.files] == ["tool.txt"]
    prompt = project.call("delegations/logs", id=done.id).prompt
    assert prompt == shown
    python, *checks = prompt.partition("# How this project is run\n\n")[2].splitlines()
    assert python.startswith(f"- Python: `PYTHONPATH=. {programs}/python`")
    assert checks == [f"- Check `unit`: `{programs}/python -c '' TEST_FILES`"], "and not the hidden one"
