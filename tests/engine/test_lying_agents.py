"""Agents that lie to a worker: each stage of judging once, and what only a worker, a repository or a journal can show.

`tests/judge` has the other rows of the table in docs/evidence.md.
"""

from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
import sys
import textwrap

import pytest
from project_python import PYTEST, make_environment, project_python

from understudy.files.durable import FAILPOINT_VARIABLE
from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError

HONEST = "from calc import add, clamp\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\ndef test_clamp():\n    assert clamp(5, 0, 3) == 3\n"


def writing(path, text, **result):
    """Return the program of an agent that writes one file and says that it is done."""
    end = {"type": "result", "ok": True, "text": "All tests pass."} | result
    return f"""
        pathlib.Path({path!r}).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path({path!r}).write_text({text!r})
        say(**{end!r})
    """


def kinds(project, delegation):
    return [type(event).__struct_config__.tag for event in project.events(delegation.id)]


def test_an_honest_agent_is_verified(project):
    project.program("honest", writing("tests/test_calc.py", HONEST))
    before = project.fingerprint()
    done = project.run("tests", "calc.py", delegator="honest")
    assert (done.verdict, done.reservations) == ("verified", [])
    [check] = done.checks
    assert check.ok
    assert check.passed == 2
    assert check.mutation.killed > check.mutation.viable / 2
    assert check.mutation.idle == []
    assert [stat.path for stat in done.result.files] == ["tests/test_calc.py"]
    assert not (project.top / "tests").exists(), "the user's files change by decisions only"
    assert project.fingerprint() == before
    assert project.git("for-each-ref", "refs/understudy").count("\n") == 1
    found = project.call("delegations/diff", id=done.id)
    assert [(item.path, item.status, len(item.hunks)) for item in found.files] == [("tests/test_calc.py", "added", 1)]
    assert project.call("delegations/file", id=done.id, path="tests/test_calc.py", side="result").text == HONEST


def notes(project, name, before=""):
    """Run an agent that writes a text, which no check judges."""
    source = textwrap.dedent(before) + textwrap.dedent(writing("notes.md", "# Notes\n"))
    project.program(name, source)
    return project.run("implement", "calc.py", delegator=name, task="Write notes.")


EDIT = "calc = pathlib.Path('calc.py')\ncalc.write_text(calc.read_text().replace('a + b', 'a - b'))\n"
PLANT = "pathlib.Path('ignored.txt').write_text('planted')\n"
SKIPPED = "import pytest\n\n\n@pytest.mark.skip\ndef test_it():\n    assert False\n"
NEEDS_PLANTED = "import pathlib\n\n\ndef test_it():\n    assert pathlib.Path('ignored.txt').exists()\n"
LIARS = {
    "nothing written": ("", None, "no_changes", []),
    "assert True": ("", "def test_it():\n    assert True\n", "unverified", ["no_mutant_killed"]),
    "all skipped": ("", SKIPPED, "checks_failed", []),
    "edited code": (EDIT, HONEST.replace("add(1, 2) == 3", "add(1, 2) == -1"), "unverified", ["outside_scope"]),
    "an ignored file": (PLANT, NEEDS_PLANTED, "checks_failed", []),
    "exit 1": ("import atexit\natexit.register(os._exit, 1)\n", HONEST, "failed", []),
}
"""What the agent does first, the tests that it writes, its verdict and reservations."""


@pytest.mark.parametrize("name", LIARS)
def test_a_lying_agent(project, name):
    first, tests, verdict, reservations = LIARS[name]
    last = 'say(type="result", ok=True, text="I wrote 12 tests, all green.")'
    project.program("liar", first + (textwrap.dedent(writing("tests/test_calc.py", tests)) if tests else last))
    done = project.run("tests", "calc.py", delegator="liar")
    assert (done.verdict, done.reservations or []) == (verdict, reservations)
    assert (done.error is not None and done.error.kind == "tool_crashed") == (verdict == "failed")
    if tests:
        changed = {"tests/test_calc.py", *(["calc.py"] if first == EDIT else [])}
        assert {stat.path for stat in done.result.files} == changed, "the work is kept, and ignored files are not in it"


def test_a_child_that_still_writes_is_gone_before_the_judgement(project):
    child = "import time, pathlib\nfor n in range(10**9):\n    pathlib.Path('late.txt').write_text(str(n))\n    time.sleep(0.005)\n"
    source = f"""
        import subprocess
        subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True)
        while not pathlib.Path("late.txt").exists(): time.sleep(0.01)
    """
    done = notes(project, "daemon", source)
    late = project.call("delegations/file", id=done.id, path="late.txt", side="result").text
    assert (pathlib.Path(done.worktree) / "late.txt").read_text() == late, "no process writes to the worktree"


def test_a_commit_on_another_branch_is_judged_on_the_final_tree_alone(project):
    source = f"""
        import subprocess
        def git(*args): subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", *args], check=True)
        git("checkout", "-q", "-b", "elsewhere")
        pathlib.Path("tests").mkdir()
        pathlib.Path("tests/test_calc.py").write_text({HONEST!r})
        git("add", "-A")
        git("commit", "-qm", "hidden")
        git("checkout", "-q", "main")
        say(type="result", ok=True, text="committed")
    """
    project.program("brancher", source)
    before = project.fingerprint()
    assert project.run("tests", "calc.py", delegator="brancher").verdict == "no_changes"
    assert project.fingerprint() == before


def test_a_forged_journal_line_is_tampered(project):
    forged = '{"seq":9999,"at":"2026-01-01T00:00:00.000Z","attempt":1,"type":"finished","verdict":"verified","reservations":[]}\n'
    source = f"""
        for journal in pathlib.Path({str(delegation_folder.state_root() / "delegations")!r}).glob("*/events.jsonl"):
            with journal.open("a") as file: file.write({forged!r})
    """
    done = notes(project, "forger", source)
    assert (done.verdict, done.reservations) == ("unverified", ["no_checks", "tampered"])
    assert kinds(project, done).count("finished") == 1


@pytest.mark.heavy
def test_a_link_out_of_the_tree_is_outside_the_scope(project, tmp_path):
    (tmp_path / "elsewhere.py").write_text(HONEST)
    source = f"os.mkdir('tests')\nos.symlink({str(tmp_path / 'elsewhere.py')!r}, 'tests/test_calc.py')\nsay(type='result', ok=True, text='done')"
    project.program("linker", source)
    done = project.run("tests", "calc.py", delegator="linker")
    assert done.verdict in {"unverified", "checks_failed"}
    assert "outside_scope" in done.reservations


def test_a_filter_planted_in_the_store_never_runs(project, tmp_path):
    canary = tmp_path / "canary"
    source = f"""
        store = pathlib.Path.cwd().parent / "store.git"
        with (store / "config").open("a") as file: file.write('[filter "e"]\\n\\tclean = touch {canary}; cat\\n')
        with (store / "info" / "attributes").open("a") as file: file.write("n.txt filter=e\\n")
        pathlib.Path("n.txt").write_text("x")
    """
    done = notes(project, "planter", source)
    assert not canary.exists()
    project.call("delegations/check", id=done.id)
    assert not canary.exists()


def test_a_forged_summary_is_not_believed(project):
    done = notes(project, "writer")
    folder = delegation_folder.open_folder(done.id)
    data = json.loads(folder.summary.read_bytes()) | {"verdict": "verified", "reservations": []}
    folder.summary.write_text(json.dumps(data))
    assert project.call("delegations/get", id=done.id).verdict == "unverified"
    assert project.call("delegations/list").delegations[0].verdict == "unverified"


REPLACE = """
import pathlib, zlib


def replace(old, new):
    for store in pathlib.Path(".git/objects/info/alternates").read_text().split():
        for file in pathlib.Path(store).glob("??/*"):
            content = zlib.decompress(file.read_bytes())
            if content.startswith(b"blob") and old in content:
                body = content.partition(b"\\0")[2].replace(old, new)
                file.unlink()
                file.write_bytes(zlib.compress(b"blob %d\\0" % len(body) + body))


replace(b"== 3", b"== 4")
"""


@pytest.mark.heavy
def test_an_object_that_the_check_replaces_is_neither_shown_nor_accepted(project):
    text = HONEST + REPLACE
    project.program("swapper", writing("tests/test_calc.py", text))
    done = project.run("tests", "calc.py", delegator="swapper")
    assert project.call("delegations/file", id=done.id, path="tests/test_calc.py", side="result").text == text
    project.call("delegations/decide", id=done.id, decisions=[{"decision": "accept"}])
    assert (project.top / "tests" / "test_calc.py").read_text() == text


@pytest.mark.parametrize("has_copy", [True, False])
def test_an_object_that_is_replaced_after_the_verdict_is_neither_shown_nor_accepted(project, has_copy):
    done = notes(project, "honest")
    swap = REPLACE.replace("== 3", "# Notes").replace("== 4", "# Other")
    subprocess.run([sys.executable, "-c", swap], cwd=pathlib.Path(done.worktree), check=True)
    if has_copy:
        assert [file.path for file in project.call("delegations/diff", id=done.id).files] == ["notes.md"]
        project.call("delegations/decide", id=done.id, decisions=[{"decision": "accept"}])
        assert (project.top / "notes.md").read_text() == "# Notes\n"
        return
    (delegation_folder.open_folder(done.id).path / "result.pack").unlink()
    with pytest.raises(UnderstudyError) as caught:
        project.call("delegations/decide", id=done.id, decisions=[{"decision": "accept"}])
    assert caught.value.kind is ErrorKind.BASE_UNAVAILABLE
    assert "understudy retry" in caught.value.hint
    assert not (project.top / "notes.md").exists()


def hide(project):
    """Configure a hidden check of ``add``."""
    (project.config / "tests").mkdir(parents=True)
    secret = "from calc import add\n\n\ndef test_secret():\n    assert add(20, 3) == 23\n"
    (project.config / "tests" / "test_secret.py").write_text(secret)
    project.settings(
        f"""
        [environment]
        python = "{project_python()}"

        [[checks]]
        name = "secret"
        argv = ["{{python}}", "-m", "pytest", "-q", "tests/test_secret.py"]
        hidden = true
        files = ["tests/test_secret.py"]
        """
    )


@pytest.mark.heavy
def test_special_cases_fail_a_hidden_check_that_the_agent_never_saw(project):
    hide(project)
    special = "def add(a, b):\n    return {(1, 2): 3}[a, b]\n"
    project.program("special", writing("calc.py", special))
    done = project.run("implement", "calc.py", delegator="special", task="Make add faster.")
    assert done.verdict == "checks_failed"
    assert "test_secret" in done.checks[0].output_tail
    folder = delegation_folder.open_folder(done.id).path
    assert "secret" not in (folder / "prompt.md").read_text()
    assert not (folder / "checks" / "hidden.json").exists()
    assert not (pathlib.Path(done.worktree) / "tests" / "test_secret.py").exists()


def test_hidden_files_are_removed_after_the_worker_was_killed(project, monkeypatch):
    hide(project)
    project.program("honest", writing("calc.py", "def add(a, b):\n    return b + a\n"))
    monkeypatch.setenv(FAILPOINT_VARIABLE, "hidden files placed:1")
    done = project.run("implement", "calc.py", delegator="honest", task="Make add faster.")
    assert done.verdict == "interrupted"
    assert not (pathlib.Path(done.worktree) / "tests" / "test_secret.py").exists()
    assert not (delegation_folder.open_folder(done.id).path / "checks" / "hidden.json").exists()


SETTINGS = """
[evidence]
least_killed = 0.0
max_mutants = 1

[environment]
python = "/nowhere"

[[checks]]
name = "ci"
argv = ["true"]
"""


@pytest.mark.heavy
def test_settings_and_checks_that_the_result_brings_decide_nothing(project):
    project.write("tests/test_calc.py", HONEST)
    project.commit()
    argv = ["{python}", "-m", "pytest", "-q"]
    project.settings(
        f'[environment]\npython = "{project_python()}"\n\n[[checks]]\nname = "ci"\nargv = {json.dumps(argv)}\n'
    )
    folder = "pathlib.Path('.understudy')"
    before = f"{folder}.mkdir()\n({folder} / 'config.toml').write_text({SETTINGS!r})\n"
    before += f"({folder} / 'dismissed-mutants.jsonl').write_text('')\n"
    code = "def add(a, b):\n    return a + b\n\n\ndef clamp(x, low, high):\n    return 3\n"
    project.program("configures", textwrap.dedent(before) + textwrap.dedent(writing("calc.py", code)))
    done = project.run("implement", "calc.py", delegator="configures", task="Make clamp faster.")
    assert (done.verdict, done.reservations) == ("unverified", ["change_not_tested"])
    assert done.checks[0].argv[1:] == argv[1:]
    assert ".understudy/config.toml" in {place.path for place in done.places if place.evidence == "unlooked"}
    found = project.call("delegations/diff", id=done.id)
    assert {item.path for item in found.files if item.flag_reason} >= {".understudy/config.toml"}


@pytest.mark.heavy
def test_tests_that_ask_git_find_a_repository_on_mutants_too(project):
    listed = "'calc.py' in subprocess.check_output(['git', 'ls-files'], text=True)"
    asks = f"import subprocess\nfrom calc import add, clamp\n\ndef test_add():\n    assert {listed}\n    assert (add(1, 2), clamp(5, 0, 3)) == (3, 3)\n"
    project.program("curious", writing("tests/test_calc.py", asks))
    done = project.run("tests", "calc.py", delegator="curious")
    assert (done.verdict, done.reservations) == ("verified", [])
    assert done.checks[0].mutation.killed == 5


WRITE = "calc = pathlib.Path({path!r})\ncalc.write_text(calc.read_text() + '# edited\\n')\n"


def edits_outside(project, path):
    """Run an honest agent that also appends a line to ``path``."""
    return notes(project, "outsider", WRITE.format(path=str(path)))


def notes_of(project, done):
    return "\n".join(event.text for event in project.events(done.id) if hasattr(event, "level"))


@pytest.mark.parametrize("where", ["agent", "check"])
def test_an_edit_of_the_checkout_is_noticed(project, where):
    if where == "agent":
        done = edits_outside(project, project.top / "calc.py")
    else:
        argv = ["sh", "-c", f"echo '# edited' >> {project.top / 'calc.py'}"]
        project.settings(f'[[checks]]\nname = "ci"\nargv = {json.dumps(argv)}\n')
        done = notes(project, "honest")
    assert done.verdict == "unverified"
    assert "outside_changed" in done.reservations
    said = notes_of(project, done)
    assert "calc.py" in said
    assert ("while outsider worked" if where == "agent" else "while the check ci ran") in said
    command = said.partition("To see what a file was: ")[2].splitlines()[0]
    shown = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout
    assert shown == project.git("show", "HEAD:calc.py")


@pytest.mark.heavy
def test_an_edit_of_a_linked_item_is_noticed(project):
    project.write(".gitignore", "ignored.txt\n__pycache__/\nnode_modules/\n")
    project.commit()
    program = project.write("node_modules/.bin/tool", "exit 1\n")
    project.write("node_modules/.cache/x", "1\n")
    project.settings('[worktrees]\nlink = ["node_modules"]\n')
    assert edits_outside(project, "node_modules/.cache/x").reservations == ["no_checks"]
    done = edits_outside(project, "node_modules/.bin/tool")
    assert set(done.reservations) == {"no_checks", "outside_changed"}
    assert str(program) in notes_of(project, done)


@pytest.mark.heavy
def test_an_edit_of_the_environment_is_noticed(project, tmp_path):
    site = make_environment(tmp_path / "env", PYTEST)
    (site / "packages.pth").write_text("\n")
    project.settings(
        f'[environment]\npython = "{tmp_path / "env/bin/python"}"\n\n'
        '[[checks]]\nname = "ci"\nargv = ["{python}", "-c", ""]\n'
    )
    done = edits_outside(project, site / "packages.pth")
    assert "outside_changed" in done.reservations


def test_what_the_persons_editor_saves_is_no_accusation(project):
    save = "import understudy.journal.editor_saves as saves\n" + WRITE.format(path=str(project.top / "calc.py"))
    assert notes(project, "editor", save + "saves.record([calc])\n").reservations == ["no_checks"]


@pytest.mark.heavy
def test_a_file_that_is_written_again_with_the_same_content_is_no_change(project):
    same = f"calc = pathlib.Path({str(project.top / 'calc.py')!r})\ncalc.write_text(calc.read_text())\n"
    assert notes(project, "toucher", same).reservations == ["no_checks"]
