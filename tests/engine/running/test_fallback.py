"""Another delegator takes over from one that cannot work: here one that crashed, in a fresh worktree."""

from __future__ import annotations

import pytest

from understudy.engine.worktrees import worktree_record
from understudy.git import diff
from understudy.git.worktree import rescue
from understudy.journal import delegation_folder, ledger
from understudy.model.delegation import events
from understudy.model.errors import ErrorKind, UnderstudyError

FAILS = """
    sys.stdin.read()
    pathlib.Path("started.txt").write_text("half of the work")
    pathlib.Path("calc.py").write_text("broken")
    say(type="session", sessionId="session of first")
    say(type="usage", inputTokens={tokens}, outputTokens=10, turns=1)
    say(type="result", ok=False, error={{"kind": "{kind}", "message": "It does not work."}})
"""
FINISHES = """
    prompt = sys.stdin.read()
    assert not pathlib.Path("started.txt").exists() and not pathlib.Path("ignored").exists()
    assert sys.argv[1:] == []
    assert "broken" not in pathlib.Path("calc.py").read_text()
    pathlib.Path("finished.txt").write_text("all of the work")
    say(type="usage", inputTokens=7, outputTokens=3, turns=1)
    say(type="result", ok=True, text="Done.")
"""


@pytest.fixture
def two(project):
    project.program("first", FAILS.format(kind="tool_crashed", tokens=100))
    project.program("second", FINISHES)
    for name in ("first", "second"):  # a session of the first one must not reach the second
        file = project.config / "delegators" / f"{name}.toml"
        file.write_text(file.read_text().replace('.py"]', '.py", "{sessionId}"]'))
    return project


def work(project, **params):
    return project.run("implement", task="Do it.", delegator="first", **params)


def told(project, done, kind):
    return [event for event in project.events(done.id) if isinstance(event, kind)]


def test_the_next_delegator_begins_again_from_the_base(two):
    done = work(two, fallback=["second"])
    assert (done.verdict, done.error) == ("unverified", None)
    assert [stat.path for stat in done.result.files] == ["finished.txt"], "no change of the first attempt is in it"
    first, second = done.attempts
    assert (first.delegator, second.delegator, first.failure.kind, second.failure) == (
        *("first", "second"),
        *("tool_crashed", None),
    )
    assert first.start_commit == second.start_commit == done.base
    assert "It does not work." in second.reason
    [failed] = told(two, done, events.AttemptFailed)
    assert (failed.next_delegator, failed.will_retry) == ("second", False)

    found, objects = worktree_record.load_record(delegation_folder.open_folder(done.id))
    changed = diff.changed_paths(objects, found.base_commit, first.end_commit)
    assert sorted(path.decode() for _, path in changed) == ["calc.py", "started.txt"]

    lines = [one for one in ledger.read() if one.id == done.id]
    assert [(one.attempt, one.delegator, one.failure) for one in lines] == [
        (1, "first", "tool_crashed"),
        (2, "second", None),
    ]


def test_the_worktree_of_the_failed_attempt_can_be_restored_byte_for_byte(two, tmp_path):
    two.program(
        "first",
        '    pathlib.Path("ignored").write_bytes(bytes(range(256)))\n' + FAILS.format(kind="tool_crashed", tokens=1),
    )
    two.write(".gitignore", "ignored\n")
    done = work(two, fallback=["second"])
    assert done.verdict == "unverified"
    restored = rescue.restore(delegation_folder.state_root(), done.attempts[0].rescue_ref, tmp_path / "restored")
    assert (restored.path / "started.txt").read_text() == "half of the work"
    assert (restored.path / "calc.py").read_text() == "broken"
    assert (restored.path / "ignored").read_bytes() == bytes(range(256))
    assert not (restored.path / "finished.txt").exists()
    assert done.attempts[1].rescue_ref is None


def test_nothing_is_kept_of_an_attempt_that_changed_nothing(two):
    two.delegator("first", "/nonexistent/program")
    done = work(two, fallback=["second"])
    assert done.verdict == "unverified"
    assert (done.attempts[0].failure.kind, done.attempts[0].rescue_ref) == ("tool_missing", None)


def test_a_program_that_was_not_found_is_looked_for_once(two):
    two.delegator("first", "/nonexistent/program")
    two.delegator("alike", "/nonexistent/program")
    done = work(two, fallback=["alike", "second"])
    assert [attempt.delegator for attempt in done.attempts] == ["first", "second"]
    why = "alike is not tried: it needs the program that first did not find."
    assert why in [note.text for note in told(two, done, events.Note)]


@pytest.mark.heavy
def test_the_set_up_command_runs_for_each_worktree(two):
    two.settings('[worktrees]\nsetup = ["sh", "-c", "echo once >> set-up.txt"]\n')
    two.write(".gitignore", "set-up.txt\n")
    two.program(
        "second",
        FINISHES.replace("assert sys", 'assert pathlib.Path("set-up.txt").read_text() == "once\\n"; assert sys'),
    )
    assert work(two, fallback=["second"]).verdict == "unverified"


@pytest.mark.parametrize("kind", ["content_refused", "permission_denied", "budget_exhausted", "bad_request"])
def test_no_other_delegator_gets_what_is_not_the_fault_of_the_first(two, kind):
    two.program("first", FAILS.format(kind=kind, tokens=1))
    done = work(two, fallback=["second"])
    assert [one.delegator for one in done.attempts] == ["first"]
    assert done.error.kind == kind
    assert "started.txt" in [stat.path for stat in done.result.files], "partial work is kept"


def test_the_last_failure_counts_when_all_fail(two):
    two.program("second", FAILS.format(kind="overloaded", tokens=1))
    done = work(two, fallback=["second"])
    assert (done.verdict, done.error.kind) == ("failed", "overloaded")
    assert [one.failure.kind for one in done.attempts] == ["tool_crashed", "overloaded"]


def test_a_delegator_names_its_own_fallbacks_and_a_request_replaces_them(two):
    file = two.config / "delegators" / "first.toml"
    file.write_text(file.read_text().replace("[launch]", 'fallback = ["second"]\n[launch]'))
    assert [one.delegator for one in work(two).attempts] == ["first", "second"]
    assert [one.delegator for one in work(two, fallback=[]).attempts] == ["first"]


@pytest.mark.heavy
def test_all_attempts_share_the_tokens(two):
    done = work(two, fallback=["second"], limits={"maxTokens": 110})
    assert [one.delegator for one in done.attempts] == ["first"]
    assert "second is not tried: the limit `max_tokens` of 110 is used up." in [
        one.text for one in told(two, done, events.Note)
    ]
    done = work(two, fallback=["second"], limits={"maxTokens": 111})
    assert (done.verdict, len(done.attempts)) == ("budget_exhausted", 2), "one token is left, and it used ten"


def test_a_refused_login_leaves_a_budget_in_money_as_it_was(two):
    two.program(
        "first",
        """
    sys.stdin.read()
    say(type="result", ok=False, error={"kind": "auth_failed", "message": "No."})
""",
    )
    done = work(two, fallback=["second"], limits={"maxUsd": "1"})
    assert [one.delegator for one in done.attempts] == ["first", "second"]


@pytest.mark.heavy
def test_a_reply_after_a_fallback_uses_the_same_chain(two):
    done = work(two, fallback=["second"])
    two.program(
        "second",
        """
    sys.stdin.read()
    assert pathlib.Path("finished.txt").exists() and not pathlib.Path("started.txt").exists()
    pathlib.Path("more.txt").write_text("more")
    say(type="result", ok=True, text="Done.")
""",
    )
    again = two.finish(two.call("delegations/reply", id=done.id, text="More.").id)
    assert [one.delegator for one in again.attempts] == ["first", "second"]
    assert sorted(stat.path for stat in again.result.files) == ["finished.txt", "more.txt"]


def refused(project, *names, **params):
    with pytest.raises(UnderstudyError) as error:
        project.start("implement", task="Do it.", delegator="first", fallback=list(names), **params)
    return error.value


def test_a_list_that_makes_no_sense_is_refused(two):
    error = refused(two, "secnd")
    assert (error.kind, error.hint, error.parameter) == (
        ErrorKind.UNKNOWN_DELEGATOR,
        "Did you mean 'second'?",
        "fallback",
    )
    assert refused(two, "first").message == "`first` cannot take over from itself."
    assert refused(two, "second", "second").parameter == "fallback[1]"
    assert refused(two, *(f"d{number}" for number in range(9))).kind is ErrorKind.INVALID_PARAMS


def test_a_chain_in_the_checkout_is_refused(two):
    error = refused(two, "second", launch={"useWorktree": False})
    assert (error.kind, error.parameter) == (ErrorKind.INVALID_PARAMS, "fallback")


def servers(project, *, declared=""):
    folder = project.config / "model-servers"
    folder.mkdir()
    for name, host in (("here", "127.0.0.1:9"), ("there", "203.0.113.1")):
        (folder / f"{name}.toml").write_text(f'kind = "custom"\nbase_url = "http://{host}/v1"\n')
    delegators = project.config / "delegators"
    (delegators / "here.toml").write_text(f'model_server = "here"\nmodel = "m"\nfallback = ["there"]\n{declared}')
    (delegators / "there.toml").write_text('model_server = "there"\nmodel = "m"\n')


def preview(project, **params):
    return project.call(
        "delegations/preview", recipe="ask", task="Why?", delegator="here", workspace=str(project.top), **params
    ).explain


def test_nothing_leaves_the_machine_unless_the_user_allows_it(two):
    servers(two)
    explain = preview(two)
    assert explain.fallback == []
    assert "may send texts to other machines" in explain.candidates[-1].skipped_because
    with pytest.raises(UnderstudyError) as error:
        preview(two, fallback=["there"])
    assert error.value.kind is ErrorKind.SECRET_WITHHELD

    two.write(".understudy/config.toml", "[fallback]\nremote = true\n")
    two.trust()
    problem = two.call("delegators/list", workspace=str(two.top)).problems[0]
    assert "A workspace cannot say" in problem.message
    (two.top / ".understudy" / "config.toml").unlink()
    two.trust()

    two.settings("[fallback]\nremote = true\n")
    assert preview(two).fallback == ["there"]


def test_a_delegator_that_is_declared_local_has_no_remote_fallback_at_all(two):
    servers(two, declared='locality = "local"\n')
    two.settings("[fallback]\nremote = true\n")
    assert preview(two).fallback == []


def test_mistakes_in_a_file_are_found_where_they_are(two):
    file = two.config / "delegators" / "first.toml"
    file.write_text(file.read_text().replace("[launch]", 'fallback = ["secnd", "first"]\n[launch]'))
    entry = two.call("delegators/get", name="first", workspace=str(two.top))
    said = [(one.message, one.hint) for one in entry.state.problems]
    assert said == [
        ("`first` cannot take over from itself.", "Name another delegator."),
        ("There is no delegator `secnd`.", "Did you mean `second`?"),
    ]
    assert not entry.state.ready


@pytest.mark.heavy
def test_the_delegators_of_a_comparison_do_not_take_over(two):
    file = two.config / "delegators" / "first.toml"
    file.write_text(file.read_text().replace("[launch]", 'fallback = ["second"]\n[launch]'))
    tasks = [
        {"recipe": "implement", "task": "Do it.", "delegator": name, "workspace": str(two.top)}
        for name in ("first", "second")
    ]
    started = two.call("groups/start", tasks=tasks, kind="compare")
    found = [two.finish(name) for name in started.group.delegations]
    assert [[attempt.delegator for attempt in one.attempts] for one in found] == [["first"], ["second"]]


def test_what_an_agent_says_is_recorded_without_the_keys_of_other_candidates(two, monkeypatch):
    monkeypatch.setenv("KEY_OF_SECOND", "a-secret-of-the-second-0123456789")
    file = two.config / "delegators" / "second.toml"
    variable = 'env = { KEY = { from_env = "KEY_OF_SECOND" } }'
    file.write_text(file.read_text().replace("[launch]", variable + "\n[launch]"))
    two.program("first", 'say(type="result", ok=True, text=pathlib.Path("notes.txt").read_text())')
    two.write("notes.txt", "It is a-secret-of-the-second-0123456789.")
    done = two.run("ask", task="What is it?", delegator="first", fallback=["second"])
    assert done.result.text == "It is <secret:second.KEY>."
