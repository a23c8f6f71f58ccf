"""Test ``delegations/logs``: the prompt as it was sent, and the logs that an agent's program left."""

from __future__ import annotations

from pathlib import Path

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
