"""Limits, cancels and kills in every phase: one end, nothing left, the work kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from project_python import project_python
from wait_until import LIMITS, until

from understudy.journal import delegation_folder, worker_files
from understudy.model.errors import ErrorKind, UnderstudyError

ENDLESS = f"600.{os.getpid()}"

SLOW = f"""
    pathlib.Path("half.txt").write_text("half of the work")
    say(type="text", text="working")
    import subprocess
    subprocess.Popen(["sleep", "{ENDLESS}"], start_new_session=True)
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
"""


def working(delegation):
    return delegation.state == "running" and delegation.activity is not None and delegation.last_seq >= 6


def at_work(project, identifier):
    """Wait until the agent has said its word."""
    until(lambda: any(type(event).__struct_config__.tag == "text" for event in project.events(identifier)))


def sleepers():
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += (entry / "cmdline").read_bytes() == f"sleep\0{ENDLESS}\0".encode()
            except OSError:
                continue
    return found


def nothing_left():
    return until(lambda: sleepers() == 0)


@pytest.fixture
def slow(project):
    project.program("slow", SLOW)
    return project


def finished(project, identifier):
    return [e for e in project.events(identifier) if type(e).__struct_config__.tag == "finished"]


def test_cancel_from_this_process_keeps_the_partial_work(slow):
    identifier = slow.start("implement", delegator="slow", task="half")
    at_work(slow, identifier)
    done = slow.call("delegations/cancel", id=identifier)
    assert done.state == "finished"
    assert done.verdict == "cancelled"
    assert nothing_left()
    assert [stat.path for stat in done.result.files] == ["half.txt"]
    assert slow.call("delegations/cancel", id=identifier).verdict == "cancelled", "idempotent"
    assert len(finished(slow, identifier)) == 1


def test_cancel_from_another_process(slow):
    identifier = slow.start("implement", delegator="slow", task="half")
    at_work(slow, identifier)
    code = "import sys; from understudy.api import method_table; from understudy.api.caller import TerminalCaller; print(method_table.call('delegations/cancel', {'id': sys.argv[1]}, TerminalCaller()).verdict)"
    out = subprocess.run(
        [sys.executable, "-c", code, identifier], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert out.strip() == "cancelled"
    assert slow.finish(identifier).verdict == "cancelled"
    assert nothing_left()


def test_cancel_at_once_in_the_preparing_phase(slow):
    identifier = slow.start("implement", delegator="slow", task="half")
    done = slow.call("delegations/cancel", id=identifier)
    assert done.verdict == "cancelled"
    assert nothing_left()


def test_cancel_while_checks_run(project):
    project.settings(f"""
        [environment]
        python = "{project_python()}"

        [[checks]]
        name = "endless"
        argv = ["sleep", "{ENDLESS}"]
    """)
    project.program("quick", "pathlib.Path('new.txt').write_text('x')\nsay(type='result', ok=True, text='done')")
    identifier = project.start("implement", delegator="quick", task="x")
    project.until(identifier, lambda d: d.state == "checking")
    done = project.call("delegations/cancel", id=identifier)
    assert done.verdict == "cancelled"
    assert nothing_left()
    assert [stat.path for stat in done.result.files] == ["new.txt"]


def test_checks_are_stopped_and_what_they_showed_is_decided_on(project):
    project.settings(f"""
        [environment]
        python = "{project_python()}"

        [[checks]]
        name = "quick"
        argv = ["true"]

        [[checks]]
        name = "endless"
        argv = ["sleep", "{ENDLESS}"]
    """)
    project.program("quick", "pathlib.Path('NOTES.md').write_text('x')\nsay(type='result', ok=True, text='done')")
    identifier = project.start("implement", delegator="quick", task="x")
    until(sleepers)
    decision = {"path": "NOTES.md", "decision": "accept"}
    with pytest.raises(UnderstudyError) as refused:
        project.call("delegations/decide", id=identifier, decisions=[decision])
    assert f"understudy cancel {identifier} --checks" in refused.value.hint
    done = project.call("delegations/cancel", id=identifier, onlyChecks=True)
    assert (done.verdict, done.reservations) == ("unverified", ["not_mutation_tested"])
    assert [(check.name, check.ok) for check in done.checks] == [("quick", True)]
    assert [fact.text for fact in done.reservation_facts] == ["The checks were stopped before they had ended."]
    assert nothing_left()
    assert len(finished(project, identifier)) == 1
    [file] = project.call("delegations/diff", id=identifier).files
    assert [hunk.tested for hunk in file.hunks] == [True]
    project.call("delegations/decide", id=identifier, decisions=[decision])
    assert (project.top / "NOTES.md").read_text() == "x"
    assert project.call("delegations/cancel", id=identifier, onlyChecks=True).verdict == "unverified", "idempotent"


def test_what_was_found_before_checks_are_stopped_is_kept(project):
    second = project.config / "second"
    command = f"if test -e {second}; then exec sleep {ENDLESS}; fi; touch {second}; echo >> aware.js; exit 1"
    project.settings(f"""
        [[checks]]
        name = "shell"
        argv = ["sh", "-c", "{command}"]
    """)
    aware = "module.exports = process.env.JEST_WORKER_ID;"
    project.program(
        "quick", f"pathlib.Path('aware.js').write_text({aware!r})\nsay(type='result', ok=True, text='done')"
    )
    identifier = project.start("implement", delegator="quick", task="x")
    until(sleepers)
    done = project.call("delegations/cancel", id=identifier, onlyChecks=True)
    assert done.verdict == "unverified"
    assert set(done.reservations) == {"check_changed", "tree_changed", "no_checks", "not_mutation_tested"}
    assert [fact.text for fact in done.reservation_facts] == [
        "Changed code asks whether tests run it: aware.js:1.",
        "Tracked files changed while the check shell ran: aware.js.",
        "The checks were stopped before they had ended.",
    ]
    assert nothing_left()


def test_a_stopped_repair_leaves_the_label_of_the_result_before(project):
    command = f"if test -e repaired.txt; then exec sleep {ENDLESS}; fi; test ! -e wrong.txt"
    project.settings(f"""
        [[checks]]
        name = "shell"
        argv = ["sh", "-c", "{command}"]
    """)
    project.program(
        "quick",
        "name = 'repaired.txt' if pathlib.Path('wrong.txt').exists() else 'wrong.txt'\n"
        "pathlib.Path(name).write_text('x')\nsay(type='result', ok=True, text='done')",
    )
    identifier = project.start("implement", delegator="quick", task="x", rounds=1)
    until(sleepers)
    done = project.call("delegations/cancel", id=identifier, onlyChecks=True)
    assert (done.verdict, done.reservations) == ("checks_failed", [])
    assert [stat.path for stat in done.result.files] == ["wrong.txt"]
    assert nothing_left()


def test_a_stop_of_checks_does_not_stop_an_agent(slow):
    identifier = slow.start("implement", delegator="slow", task="half")
    at_work(slow, identifier)
    with pytest.raises(UnderstudyError) as refused:
        slow.call("delegations/cancel", id=identifier, onlyChecks=True)
    assert refused.value.kind is ErrorKind.CONFLICT
    # A request that comes too late: the checks have ended, and a round began.
    folder = delegation_folder.open_folder(identifier)
    worker_files.append_request(folder, worker_files.Cancel(by="test", at="9999", only_checks=True))
    heard = len(slow.events(identifier))
    slow.call("delegations/say", id=identifier, text="hello")
    until(lambda: len(slow.events(identifier)) > heard, "the worker has read both requests")
    assert slow.call("delegations/get", id=identifier).state == "running"
    assert slow.call("delegations/cancel", id=identifier).verdict == "cancelled"


def test_the_total_limit_ends_it(slow):
    for seconds in LIMITS:
        done = slow.run("implement", delegator="slow", task="half", limits={"totalSeconds": seconds})
        if done.result is not None and done.result.files:
            break
    assert (done.verdict, done.error.kind) == ("timed_out", "timed_out")
    assert [stat.path for stat in done.result.files] == ["half.txt"]
    assert nothing_left()


def test_the_idle_limit_ends_it(slow):
    done = slow.run("implement", delegator="slow", task="half", limits={"idleSeconds": 0.7})
    assert (done.verdict, done.error.kind) == ("timed_out", "stalled")
    assert nothing_left()


@pytest.mark.usefixtures("cold_workers")
@pytest.mark.parametrize("victims", ["worker", "guardian", "both"])
def test_a_kill_leaves_no_process_and_one_end(slow, victims):
    identifier = slow.start("implement", delegator="slow", task="half")
    at_work(slow, identifier)
    holder = json.loads(delegation_folder.open_folder(identifier).lock.read_bytes())
    assert holder["children"], holder
    seen = len(slow.events(identifier))
    if victims in {"worker", "both"}:
        os.kill(holder["pid"], signal.SIGKILL)
    if victims in {"guardian", "both"}:
        for child in holder["children"]:
            os.kill(child["pid"], signal.SIGKILL)
    done = slow.finish(identifier)
    assert nothing_left()
    assert done.verdict == ("failed" if victims == "guardian" else "interrupted"), done
    assert len(finished(slow, identifier)) == 1
    assert len(slow.events(identifier)) > seen
    until(
        lambda: not worker_files.is_held(delegation_folder.open_folder(identifier)),
        "the lock is free once the worker has left",
    )


def test_the_caller_may_be_killed(project):
    project.program(
        "patient", "time.sleep(1)\npathlib.Path('new.txt').write_text('x')\nsay(type='result', ok=True, text='done')"
    )
    code = (
        "import os, signal, sys; from pathlib import Path; from understudy.api import method_table; from understudy.api.caller import TerminalCaller\n"
        "print(method_table.call('delegations/start', {'recipe': 'implement', 'task': 'x', 'delegator': 'patient', 'workspace': sys.argv[1]}, TerminalCaller()).id, flush=True)\n"
        "os.killpg(os.getpgrp(), signal.SIGKILL)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(project.top)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert project.finish(out.strip()).verdict == "unverified"


def test_the_queue_holds_what_has_no_slot_and_starts_it_in_order(project):
    project.settings(f'[environment]\npython = "{project_python()}"\n\n[limits]\nslots = 1\n')
    project.program(
        "gate",
        "while not pathlib.Path(os.environ['GATE']).exists(): time.sleep(0.02)\nsay(type='result', ok=True, text='done')",
    )
    file = project.config / "delegators" / "gate.toml"
    gate = project.config / "open"
    file.write_text(file.read_text() + f'\n[env]\nGATE = "{gate}"\n')
    first = project.start("implement", delegator="gate", task="1")
    project.until(first, lambda d: d.state == "running")
    second = project.start("implement", delegator="gate", task="2")
    project.until(second, lambda d: d.state == "queued" and d.base is not None)
    third = project.start("implement", delegator="gate", task="3")
    project.until(third, lambda d: d.state == "queued")
    assert project.call("delegations/cancel", id=third).verdict == "cancelled"
    project.write("calc.py", "changed after the request\n")
    gate.touch()
    assert project.finish(first).verdict == "no_changes"
    done = project.finish(second)
    assert done.verdict == "no_changes"
    tree = Path(done.worktree)
    assert "def add" in (tree / "calc.py").read_text(), "the base is fixed when the delegation is requested"


def test_a_killed_holder_of_the_only_slot_frees_it(slow):
    slow.settings(f'[environment]\npython = "{project_python()}"\n\n[limits]\nslots = 1\n')
    slow.program("quick", "say(type='result', ok=True, text='done')")
    first = slow.start("implement", delegator="slow", task="1")
    at_work(slow, first)
    second = slow.start("implement", delegator="quick", task="2")
    slow.until(second, lambda d: d.state == "queued")
    os.kill(json.loads(delegation_folder.open_folder(first).lock.read_bytes())["pid"], signal.SIGKILL)
    assert slow.finish(second, 30).verdict == "no_changes"
    assert slow.finish(first).verdict == "interrupted"
    assert nothing_left()


def test_checks_again_after_the_end(project):
    project.program("doer", "pathlib.Path('new.txt').write_text('x')\nsay(type='result', ok=True, text='done')")
    done = project.run("implement", delegator="doer", task="x")
    assert done.reservations == ["no_checks"]
    again = project.call("delegations/check", id=done.id)
    assert again.verdict == "unverified"
    assert len(finished(project, done.id)) == 2


def test_a_key_never_reaches_journal_log_prompt_or_argv(project, monkeypatch):
    secret = "sk-canary-0123456789abcdef"
    monkeypatch.setenv("CANARY_KEY", secret)
    project.program(
        "leaker",
        """
        key = os.environ["AGENT_KEY"]
        for piece in (key[:9], key[9:], " ", key): say(type="text", text=piece)
        sys.stderr.write(key)
        say(type="result", ok=True, text="the key is " + key)
    """,
    )
    file = project.config / "delegators" / "leaker.toml"
    file.write_text(file.read_text() + '\n[env]\nAGENT_KEY = { from_env = "CANARY_KEY" }\n')
    done = project.run("ask", delegator="leaker", task=f"what is it? {secret}")
    assert done.verdict == "answered"
    assert "<secret:" in done.result.text
    for path in delegation_folder.state_root().rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
