"""Agents that lie, and the verdict that each one gets: the table of docs/evidence.md, one test a row."""

from __future__ import annotations

import pathlib
import shlex
import subprocess
import sys
import textwrap

import pytest
from project_python import PYTEST, make_environment, project_python

from understudy.journal import delegation_folder
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.failpoints import VARIABLE

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


def test_exit_code_0_without_a_change_means_no_changes(project):
    project.program("idle", 'say(type="result", ok=True, text="I wrote 12 tests, all green.")')
    done = project.run("tests", "calc.py", delegator="idle")
    assert (done.verdict, done.checks) == ("no_changes", [])


@pytest.mark.parametrize(
    "text",
    [
        "def test_it():\n    assert True\n",
        "import calc\n\n\ndef test_it():\n    try:\n        assert calc.add(1, 1) == 3\n    except Exception:\n        pass\n",
        "import calc\n\n\ndef test_it():\n    assert calc.add\n",
    ],
    ids=["assert True", "everything swallowed", "import only"],
)
def test_a_test_that_cannot_fail_is_unverified(project, text):
    project.program("liar", writing("tests/test_calc.py", text))
    done = project.run("tests", "calc.py", delegator="liar")
    assert (done.verdict, done.reservations) == ("unverified", ["no_mutant_killed"])
    [check] = done.checks
    assert check.ok
    assert check.mutation.killed == 0


@pytest.mark.parametrize(
    "text",
    [
        "import pytest\n\n\n@pytest.mark.skip\ndef test_it():\n    assert False\n",
        "import calc\n\n\ndef test_it():\n    assert calc.add(1, 1) == 3\n",
        "",
    ],
    ids=["all skipped", "failing", "an empty file"],
)
def test_red_tests_are_checks_failed(project, text):
    project.program("red", writing("tests/test_calc.py", text))
    assert project.run("tests", "calc.py", delegator="red").verdict == "checks_failed"


def test_deleted_tests_are_outside_the_scope(project):
    project.write("tests/test_old.py", "def test_old():\n    assert 1 + 1 == 2\n")
    project.commit()
    project.trust()
    project.program(
        "deleter", "os.unlink('tests/test_old.py')\n" + textwrap.dedent(writing("tests/test_calc.py", HONEST))
    )
    done = project.run("tests", "calc.py", delegator="deleter")
    assert (done.verdict, done.reservations) == ("unverified", ["outside_scope"])


def test_fewer_tests_than_before_is_outside_the_scope(project):
    project.write("tests/test_calc.py", HONEST)
    project.commit()
    project.program("gutter", writing("tests/test_calc.py", HONEST.split("\n\n\ndef test_clamp", maxsplit=1)[0] + "\n"))
    done = project.run("tests", "calc.py", delegator="gutter")
    assert (done.verdict, done.reservations) == ("unverified", ["outside_scope", "no_mutant_killed"])


@pytest.mark.parametrize("times", [1, 9])
@pytest.mark.parametrize("how", ["signal.SIGINT", pytest.param("signal.SIGKILL", marks=pytest.mark.heavy)])
def test_a_list_of_earlier_tests_that_is_cut_off_says_nothing(project, tmp_path, how, times):
    """Runs with the earlier tests are killed, the first or all; the runs of the result succeed."""
    count = tmp_path / "killed"
    project.write("tests/test_calc.py", HONEST)
    project.write(
        "conftest.py",
        f"""
import os, pathlib, signal
count = pathlib.Path({str(count)!r})
def pytest_collection_modifyitems():
    if "test_clamp" in pathlib.Path("tests/test_calc.py").read_text():
        if not count.exists() or count.stat().st_size < {times}:
            with count.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), {how})
""",
    )
    project.commit()
    project.program("gutter", writing("tests/test_calc.py", HONEST.split("\n\n\ndef test_clamp", maxsplit=1)[0] + "\n"))
    done = project.run("tests", "calc.py", delegator="gutter")
    # If the list can be read the second time, the test that is left is known to be an old one.
    assert done.verdict == "unverified"
    assert done.reservations == ["outside_scope", *(["no_mutant_killed"] if times == 1 else [])]
    # Listed twice; then the older tests run on the result and on the base.
    assert count.stat().st_size == min(times, 4)


def test_edited_code_under_test_is_outside_the_scope(project):
    edit = "pathlib.Path('calc.py').write_text(pathlib.Path('calc.py').read_text().replace('a + b', 'a - b'))\n"
    text = HONEST.replace("add(1, 2) == 3", "add(1, 2) == -1")
    project.program("bender", edit + textwrap.dedent(writing("tests/test_calc.py", text)))
    done = project.run("tests", "calc.py", delegator="bender")
    assert (done.verdict, done.reservations) == ("unverified", ["outside_scope"])


def test_an_edited_conftest_changes_the_check(project):
    conftest = "import pytest\n\n\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_call(item):\n    try:\n        yield\n    except Exception:\n        pass\n    return None\n"
    lie = "import calc\n\n\ndef test_it():\n    assert calc.add(1, 1) == 3\n"
    project.program(
        "judge",
        textwrap.dedent(writing("conftest.py", conftest)).rsplit("say", 1)[0]
        + textwrap.dedent(writing("tests/test_calc.py", lie)),
    )
    done = project.run("tests", "calc.py", delegator="judge")
    assert done.verdict in {"unverified", "checks_failed"}
    assert "check_changed" in done.reservations


def test_a_pass_only_on_the_users_checkout_is_never_verified(project, tmp_path):
    """The user's environment holds an editable install of the checkout; the agent breaks the code in its tree."""
    site = make_environment(tmp_path / "env", PYTEST)
    project.git("rm", "-q", "calc.py")
    project.write("src/calc.py", "def add(a, b):\n    return a + b\n")
    project.commit()
    (project.top / ".git" / "info").mkdir(exist_ok=True)
    (site / "__editable__.calc.pth").write_text(f"{project.top / 'src'}\n")
    project.settings(f'[environment]\npython = "{tmp_path / "env/bin/python"}"\n')
    text = "import calc\n\n\ndef test_it():\n    assert calc.add(1, 2) == 3\n"
    break_it = "pathlib.Path('src/calc.py').write_text('def add(a, b):\\n    return a * b\\n')\n"
    project.program("breaker", break_it + textwrap.dedent(writing("tests/test_calc.py", text)))
    done = project.run("tests", "src/calc.py", delegator="breaker")
    assert done.verdict == "checks_failed", (done.verdict, done.reservations, done.checks)
    project.program("fair", writing("tests/test_calc.py", text))
    assert project.run("tests", "src/calc.py", delegator="fair").verdict == "verified"


def test_an_ignored_file_is_not_part_of_what_is_judged(project):
    text = "import pathlib\n\n\ndef test_it():\n    assert pathlib.Path('ignored.txt').exists()\n"
    project.program(
        "planter",
        "pathlib.Path('ignored.txt').write_text('planted')\n" + textwrap.dedent(writing("tests/test_calc.py", text)),
    )
    done = project.run("tests", "calc.py", delegator="planter")
    assert done.verdict == "checks_failed"
    assert [stat.path for stat in done.result.files] == ["tests/test_calc.py"]


def test_a_child_that_still_writes_is_gone_before_the_judgement(project):
    child = "import time, pathlib\nfor n in range(10**9):\n    pathlib.Path('tests/late.py').write_text(str(n))\n    time.sleep(0.005)\n"
    source = f"""
        import subprocess
        pathlib.Path("tests").mkdir()
        subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True)
        while not pathlib.Path("tests/late.py").exists(): time.sleep(0.01)
    """
    project.program("daemon", textwrap.dedent(source) + textwrap.dedent(writing("tests/test_calc.py", HONEST)))
    done = project.run("tests", "calc.py", delegator="daemon")
    late = project.call("delegations/file", id=done.id, path="tests/late.py", side="result").text
    from pathlib import Path

    assert (Path(done.worktree) / "tests/late.py").read_text() == late, (
        "the worktree is the result and no process writes to it"
    )
    assert done.verdict in {"verified", "unverified"}


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
        state = pathlib.Path(os.environ["UNDERSTUDY_STATE_FOR_TEST"]) / "delegations"
        for journal in state.glob("*/events.jsonl"):
            with journal.open("a") as file: file.write({forged!r})
    """
    from understudy.journal import state_folder

    name = project.program("forger", textwrap.dedent(source) + textwrap.dedent(writing("tests/test_calc.py", HONEST)))
    file = project.config / "delegators" / f"{name}.toml"
    file.write_text(file.read_text() + f'\n[env]\nUNDERSTUDY_STATE_FOR_TEST = "{state_folder.state_root()}"\n')
    done = project.run("tests", "calc.py", delegator="forger")
    assert (done.verdict, done.reservations) == ("unverified", ["tampered"])
    assert kinds(project, done).count("finished") == 1


def test_exit_1_with_good_work_is_failed_and_the_work_is_kept(project):
    project.program("crasher", textwrap.dedent(writing("tests/test_calc.py", HONEST)) + "sys.exit(1)\n")
    done = project.run("tests", "calc.py", delegator="crasher")
    assert (done.verdict, done.error.kind) == ("failed", "tool_crashed")
    assert [stat.path for stat in done.result.files] == ["tests/test_calc.py"]
    assert project.call("delegations/diff", id=done.id).files


def test_no_check_is_unverified(project):
    project.program("doer", writing("notes.md", "# Notes\n"))
    done = project.run("implement", "calc.py", delegator="doer", task="write notes")
    assert (done.verdict, done.reservations) == ("unverified", ["no_checks"])


def test_a_configured_check_verifies_other_recipes(project):
    project.write("tests/test_calc.py", HONEST)
    project.commit()
    project.settings(f"""
        [environment]
        python = "{project_python()}"

        [[checks]]
        name = "tests"
        argv = ["{{python}}", "-m", "pytest", "-q"]
        configured_by = ["conftest.py", "pyproject.toml"]
    """)
    project.program(
        "doer",
        "pathlib.Path('calc.py').write_text(pathlib.Path('calc.py').read_text() + '\\n# more\\n')\nsay(type='result', ok=True, text='done')",
    )
    done = project.run("implement", "calc.py", delegator="doer", task="a comment")
    assert (done.verdict, done.reservations) == ("verified", []), (done.reservations, done.checks)
    project.program(
        "breaker",
        "pathlib.Path('calc.py').write_text('def add(a, b): return 0\\ndef clamp(*a): return 0\\n')\nsay(type='result', ok=True, text='done')",
    )
    assert project.run("implement", "calc.py", delegator="breaker", task="break it").verdict == "checks_failed"


CI = """
    [environment]
    python = "{python}"

    [[checks]]
    name = "ci"
    argv = ["make", "test"]
"""
BROKEN = "def add(a, b): return a + b\ndef clamp(*a): return 0\n"


@pytest.mark.parametrize(
    ("files", "reservations"),
    [
        pytest.param({"calc.py": BROKEN, "tests/test_calc.py": HONEST.replace("== 3\n\n\ndef", "== 3\n\n\ndef later_").replace("later_ test_clamp", "later_clamp")}, ["tests_changed"], id="a test renamed away", marks=pytest.mark.heavy),
        pytest.param({"calc.py": BROKEN, "tests/test_calc.py": HONEST.replace("assert clamp(5, 0, 3) == 3", "clamp(5, 0, 3)")}, ["tests_changed"], id="an assertion deleted"),
        pytest.param({"calc.py": BROKEN, "pytest.ini": "[pytest]\naddopts = -k add\n"}, ["check_changed"], id="pytest.ini", marks=pytest.mark.heavy),
        pytest.param({"calc.py": BROKEN, "run.sh": "true\n"}, ["check_changed"], id="the script of the check"),
        pytest.param({"calc.py": BROKEN, "GNUmakefile": "test:\n\ttrue\n"}, ["check_changed"], id="another Makefile", marks=pytest.mark.heavy),
        pytest.param({"pyproject.toml": "[project]\nname = 'calc'\nversion = '2'\n", "tests/test_calc.py": HONEST + "\n\ndef test_more():\n    assert add(0, 1) == 1\n"}, ["not_mutation_tested"], id="a new version and a new test"),
    ],
)  # fmt: skip
def test_the_base_judges_a_result_that_changes_tests_or_configuration(project, files, reservations):
    project.write("tests/test_calc.py", HONEST)
    project.write("Makefile", "test:\n\tsh run.sh\n")
    project.write("run.sh", f"exec {sys.executable} -m pytest -q\n")
    project.write("pyproject.toml", "[project]\nname = 'calc'\nversion = '1'\n")
    project.commit()
    project.trust()
    project.settings(CI.format(python=sys.executable))
    source = "".join(f"pathlib.Path({path!r}).write_text({text!r})\n" for path, text in files.items())
    project.program("doer", source + "say(type='result', ok=True, text='done')")
    before = project.fingerprint()
    done = project.run("implement", "calc.py", delegator="doer", task="improve it")
    # Changed code that the weakened tests no longer test is another reason.
    assert set(reservations) <= set(done.reservations) <= {*reservations, "change_not_tested"}, done.checks
    assert done.verdict == ("unverified" if reservations else "verified")
    [check] = done.checks
    assert check.ok
    assert (check.base is not None) == (reservations != ["not_mutation_tested"])
    assert [stat.path for stat in done.result.files] == sorted(files), "the result itself is as the agent left it"
    assert project.fingerprint() == before


@pytest.mark.parametrize(
    "text",
    [
        "import calc\n\n\ndef test_it():\n    try:\n        assert calc.add(1, 1) == 3\n    except AssertionError:\n        pass\n",
        "import calc\nimport pytest\n\n\n@pytest.fixture(autouse=True)\ndef quiet(request):\n    real = request.node.obj\n\n    def calm():\n        try:\n            real()\n        except AssertionError:\n            pass\n\n    request.node.obj = calm\n\n\ndef test_it():\n    assert calc.add(1, 1) == 3\n",
    ],
    ids=["a swallowed assertion", "a fixture that swallows"],
)
def test_a_swallowed_assertion_is_unverified(project, text):
    project.program("liar", writing("tests/test_calc.py", text))
    done = project.run("tests", "calc.py", delegator="liar")
    assert (done.verdict, done.reservations) == ("unverified", ["no_mutant_killed"])


def test_a_plugin_of_its_own_changes_the_check(project):
    plugin = "def pytest_collection_modifyitems(items):\n    items[:] = [item for item in items if 'bad' not in item.nodeid]\n"
    text = "from calc import add\n\npytest_plugins = ['tests.helper']\n\n\ndef test_good():\n    assert add(1, 2) == 3\n\n\ndef test_bad():\n    assert add(1, 2) == 4\n"
    source = "\n".join(
        textwrap.dedent(writing(path, content)).rsplit("say", 1)[0]
        for path, content in (("tests/__init__.py", ""), ("tests/helper.py", plugin), ("tests/test_calc.py", text))
    )
    project.program("picker", source + "\nsay(type='result', ok=True, text='done')")
    done = project.run("tests", "calc.py", delegator="picker")
    assert done.verdict == "checks_failed"
    assert "taken out before the run" in done.checks[0].output_tail


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
    project.program("planter", textwrap.dedent(source) + textwrap.dedent(writing("tests/test_calc.py", HONEST)))
    done = project.run("tests", "calc.py", delegator="planter")
    assert not canary.exists()
    project.call("delegations/check", id=done.id)
    assert not canary.exists()


def test_a_forged_summary_is_not_believed(project):
    source = """
        state = pathlib.Path(os.environ["UNDERSTUDY_STATE_FOR_TEST"]) / "delegations"
        for summary in state.glob("*/summary.json"):
            data = json.loads(summary.read_text())
            data |= {"state": "finished", "verdict": "verified", "reservations": []}
            summary.write_text(json.dumps(data))
        time.sleep(1.5)
        say(type="result", ok=True, text="nothing done")
    """
    from understudy.journal import delegation_folder, state_folder

    name = project.program("forger", source)
    file = project.config / "delegators" / f"{name}.toml"
    file.write_text(file.read_text() + f'\n[env]\nUNDERSTUDY_STATE_FOR_TEST = "{state_folder.state_root()}"\n')
    done = project.run("tests", "calc.py", delegator="forger")
    assert done.verdict == "no_changes"
    folder = delegation_folder.open_folder(done.id)
    import json

    data = json.loads(folder.summary.read_bytes()) | {"verdict": "verified", "reservations": []}
    folder.summary.write_text(json.dumps(data))
    assert project.call("delegations/get", id=done.id).verdict == "no_changes"
    assert project.call("delegations/list").delegations[0].verdict == "no_changes"


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


def test_an_object_that_the_check_replaces_is_neither_shown_nor_accepted(project):
    text = HONEST + REPLACE
    project.program("swapper", writing("tests/test_calc.py", text))
    done = project.run("tests", "calc.py", delegator="swapper")
    assert project.call("delegations/file", id=done.id, path="tests/test_calc.py", side="result").text == text
    project.call("delegations/decide", id=done.id, decisions=[{"decision": "accept"}])
    assert (project.top / "tests" / "test_calc.py").read_text() == text


def test_an_object_that_is_replaced_after_the_verdict_is_neither_shown_nor_accepted(project):
    project.program("honest", writing("tests/test_calc.py", HONEST))
    done = project.run("tests", "calc.py", delegator="honest")
    assert done.verdict == "verified"
    subprocess.run([sys.executable, "-c", REPLACE], cwd=pathlib.Path(done.worktree), check=True)
    found = project.call("delegations/diff", id=done.id)
    assert [file.path for file in found.files] == ["tests/test_calc.py"]
    project.call("delegations/decide", id=done.id, decisions=[{"decision": "accept"}])
    assert (project.top / "tests" / "test_calc.py").read_text() == HONEST


def test_without_a_good_copy_a_replaced_object_is_not_accepted(project):
    project.program("honest", writing("tests/test_calc.py", HONEST))
    done = project.run("tests", "calc.py", delegator="honest")
    subprocess.run([sys.executable, "-c", REPLACE], cwd=pathlib.Path(done.worktree), check=True)
    (delegation_folder.open_folder(done.id).path / "result.pack").unlink()
    with pytest.raises(UnderstudyError) as caught:
        project.call("delegations/decide", id=done.id, decisions=[{"decision": "accept"}])
    assert caught.value.kind is ErrorKind.BASE_UNAVAILABLE
    assert "understudy retry" in caught.value.hint
    assert not (project.top / "tests").exists()


def test_a_test_that_edits_the_code_while_it_runs_changes_the_tree(project):
    swap = "\n\ndef test_swap():\n    import pathlib\n    pathlib.Path('calc.py').write_text('def add(a, b): pass')\n"
    project.program("editor", writing("tests/test_calc.py", HONEST + swap))
    done = project.run("tests", "calc.py", delegator="editor")
    assert done.verdict == "unverified"
    assert "tree_changed" in done.reservations
    assert done.checks[0].changed_files == ["calc.py"]


def test_a_test_that_needs_an_order_is_flaky(project):
    text = "\n\nSEEN = []\n\n\ndef test_a():\n    SEEN.append(add(1, 1))\n\n\ndef test_b():\n    assert SEEN == [2]\n"
    project.program("careless", writing("tests/test_calc.py", HONEST + text))
    done = project.run("tests", "calc.py", delegator="careless")
    assert (done.verdict, done.reservations) == ("unverified", ["flaky"])
    assert done.checks[0].flaky_tests == ["tests/test_calc.py::test_b"]


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
    monkeypatch.setenv(VARIABLE, "hidden files placed:1")
    done = project.run("implement", "calc.py", delegator="honest", task="Make add faster.")
    assert done.verdict == "interrupted"
    assert not (pathlib.Path(done.worktree) / "tests" / "test_secret.py").exists()
    assert not (delegation_folder.open_folder(done.id).path / "checks" / "hidden.json").exists()


def test_tests_that_ask_git_find_a_repository_on_mutants_too(project):
    listed = "'calc.py' in subprocess.check_output(['git', 'ls-files'], text=True)"
    asks = f"import subprocess\nfrom calc import add, clamp\n\ndef test_add():\n    assert {listed}\n    assert (add(1, 2), clamp(5, 0, 3)) == (3, 3)\n"
    project.program("curious", writing("tests/test_calc.py", asks))
    done = project.run("tests", "calc.py", delegator="curious")
    assert (done.verdict, done.reservations) == ("verified", [])
    assert done.checks[0].mutation.killed == 5
    assert 0 < done.checks[0].seconds < (done.checks[0].judging_seconds or 0) / 2


WRITE = "calc = pathlib.Path({path!r})\ncalc.write_text(calc.read_text() + '# edited\\n')\n"


def edits_outside(project, path, where="agent"):
    """Run an honest agent, or an honest test, that also appends a line to ``path``."""
    edit = WRITE.format(path=str(path))
    if where == "agent":
        source = edit + textwrap.dedent(writing("tests/test_calc.py", HONEST))
    else:
        source = writing("tests/test_calc.py", f"import pathlib\n{HONEST}\n\n{edit}")
    project.program("outsider", source)
    return project.run("tests", "calc.py", delegator="outsider")


def notes_of(project, done):
    return "\n".join(event.text for event in project.events(done.id) if hasattr(event, "level"))


@pytest.mark.parametrize("where", ["agent", "check"])
def test_an_edit_of_the_checkout_is_noticed(project, where):
    done = edits_outside(project, project.top / "calc.py", where)
    assert done.verdict == "unverified"
    assert "outside_changed" in done.reservations
    notes = notes_of(project, done)
    assert "calc.py" in notes
    assert ("while outsider worked" if where == "agent" else "while the check tests-pytest ran") in notes
    command = notes.partition("To see what a file was: ")[2].splitlines()[0]
    shown = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout
    assert shown == project.git("show", "HEAD:calc.py")


def test_an_edit_of_a_linked_item_is_noticed(project):
    project.write(".gitignore", "ignored.txt\n__pycache__/\nnode_modules/\n")
    project.commit()
    program = project.write("node_modules/.bin/tool", "exit 1\n")
    project.write("node_modules/.cache/x", "1\n")
    project.settings(f'[environment]\npython = "{project_python()}"\n[worktrees]\nlink = ["node_modules"]\n')
    cached = edits_outside(project, "node_modules/.cache/x")
    assert (cached.verdict, cached.reservations) == ("verified", [])
    done = edits_outside(project, "node_modules/.bin/tool")
    assert (done.verdict, done.reservations) == ("unverified", ["outside_changed"])
    assert str(program) in notes_of(project, done)


def test_an_edit_of_the_environment_is_noticed(project, tmp_path):
    site = make_environment(tmp_path / "env", PYTEST)
    (site / "packages.pth").write_text("\n")
    project.settings(f'[environment]\npython = "{tmp_path / "env/bin/python"}"\n')
    done = edits_outside(project, site / "packages.pth")
    assert (done.verdict, done.reservations) == ("unverified", ["outside_changed"])


def test_what_the_persons_editor_saves_is_no_accusation(project):
    save = "import understudy.journal.editor_saves as saves\n" + WRITE.format(path=str(project.top / "calc.py"))
    save += "saves.record([calc])\n"
    project.program("editor", save + textwrap.dedent(writing("tests/test_calc.py", HONEST)))
    done = project.run("tests", "calc.py", delegator="editor")
    assert (done.verdict, done.reservations) == ("verified", [])


def test_a_file_that_is_written_again_with_the_same_content_is_no_change(project):
    same = f"calc = pathlib.Path({str(project.top / 'calc.py')!r})\ncalc.write_text(calc.read_text())\n"
    project.program("toucher", same + textwrap.dedent(writing("tests/test_calc.py", HONEST)))
    done = project.run("tests", "calc.py", delegator="toucher")
    assert (done.verdict, done.reservations) == ("verified", [])
