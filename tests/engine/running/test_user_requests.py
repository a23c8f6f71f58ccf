"""Rules answer permission requests: narrowly where they allow, broadly where they reject."""

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.engine.running.user_requests import PermissionRequests, decide, rule_for
from understudy.journal import worker_files
from understudy.journal.delegation_folder import Folder
from understudy.model.config.delegators import Delegator, Launch, PermissionRule
from understudy.model.delegation import events
from understudy.model.delegation.delegations import PermissionOption
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.runner import Question

OPTIONS = [
    PermissionOption(id="yes", title="Yes", kind="allow_once"),
    PermissionOption(id="no", title="No", kind="reject_once"),
]


def runs(command: str | None) -> Question:
    return Question(
        question_id="1", title="Run", detail="", options=OPTIONS, tool="Bash", kind="execute", command=command
    )


def touches(*paths: str, kind: str = "edit") -> Question:
    return Question(
        question_id="1", title="Edit", detail="", options=OPTIONS, tool="Edit", kind=kind, paths=list(paths) or None
    )


def allow(**fields: Any) -> PermissionRule:
    return PermissionRule(decision="allow", **fields)


def reject(**fields: str) -> PermissionRule:
    return PermissionRule(decision="reject", **fields)


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("npm test", "allow"),
        ("npm  test -- --bail", "allow"),
        ("'npm' \"test\"", "allow"),
        ("npm testx", None),
        ("npm", None),
        ("npx npm test", None),
        ("npm test; rm -r x", None),
        ("npm test && make", None),
        ("npm test | tee out", None),
        ("npm test > /etc/passwd", None),
        ("npm test $(id)", None),
        ("npm test `id`", None),
        ("npm test\nrm -r x", None),
        ("npm test $HOME", None),
        ("PATH=. npm test", None),
        ("npm test 'unbalanced", None),
        ("(npm test)", None),
        ("", None),
        (None, None),
    ],
)
def test_a_command_is_allowed_only_if_it_is_that_command(command, decision):
    assert decide([allow(command="npm test")], runs(command), None) == decision
    assert decide([allow(kind="execute", command="npm test")], runs(command), None) == decision
    assert decide([allow(kind="fetch", command="npm test")], runs(command), None) is None


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push --force",
        "cd x && git push",
        "sudo git  push",
        'bash -c "git push"',
        "echo $(git push)",
        "'git' push",
        'g"i"t push',
        "git \\\npush",
        "/usr/bin/git push",
    ],
)
def test_a_command_is_rejected_wherever_it_occurs(command):
    assert decide([reject(command="git push"), allow()], runs(command), None) == "reject"
    assert decide([PermissionRule(decision="ask", command="git push"), allow()], runs(command), None) == "ask"


@pytest.mark.parametrize("command", ["git pushx", "git status", "legit push"])
def test_a_command_that_only_looks_like_it_is_not_rejected(command):
    assert decide([reject(command="git push")], runs(command), None) is None


def test_the_first_matching_rule_decides():
    rules = [reject(path="/src/secret/**"), allow(kind="edit", path="/src/**"), reject(kind="edit")]
    tree = Path("/nowhere")
    assert decide(rules, touches("src/a.py", "src/b/c.py"), tree) == "allow"
    assert decide(rules, touches("src/a.py", "src/secret/k"), tree) == "reject"
    assert decide(rules, touches("src/a.py", "setup.py"), tree) == "reject"
    assert decide(rules[:2], touches("src/a.py", "setup.py"), tree) is None
    assert decide(rules, touches("src/a.py", kind="read"), tree) is None
    assert decide([], runs("ls"), tree) is None


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "src/../../x", "link/x", "src/link/x", ".git/hooks/pre-commit", "src/.GIT/config"]
)
def test_nothing_outside_the_worktree_is_allowed(tmp_path, path):
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    (tree / "src").mkdir(parents=True)
    outside.mkdir()
    for link in (tree / "link", tree / "src/link"):
        link.symlink_to(outside)
    for rule in (allow(), allow(kind="edit"), allow(path="**"), allow(path="src/**"), allow(path="*")):
        assert decide([rule], touches(path), tree) is None
        assert decide([rule], touches("src/a.py", path), tree) is None
        assert decide([rule], touches(path, kind="other"), tree) is None
    assert rule_for(touches(path), tree) is None
    assert rule_for(touches("src"), tree) is None, "everything in the folder"
    assert decide([allow(path="*")], touches("src/a.py"), tree) == "allow"
    assert decide([allow(kind="edit")], touches(), tree) is None, "unknown files may be anywhere"
    assert decide([allow(kind="edit")], touches("src/a.py"), None) is None


def test_a_question_that_is_not_shown_as_it_is_can_only_be_rejected_by_a_rule():
    question = msgspec.structs.replace(runs("./run.sh"), altered=True)
    assert decide([allow()], question, None) is None
    assert decide([allow(), reject(command="./run.sh")], question, None) == "reject"
    assert rule_for(question, None) is None


@pytest.mark.parametrize(
    ("question", "rule"),
    [
        (runs("npm test"), allow(kind="execute", command="npm test", exact=True)),
        (runs('pytest -k "a b"'), allow(kind="execute", command="pytest -k 'a b'", exact=True)),
        (runs("make"), allow(kind="execute", command="make", exact=True)),
        (runs("make; id"), None),
        (runs("x" * 600), None),
        (touches("src/a.py"), allow(kind="edit", path="/src/a.py")),
        (touches("a b[1].py", kind="read"), allow(kind="read", path="/a\\ b\\[1\\].py")),
        (touches("a", "b"), None),
        (touches(), None),
        (Question(question_id="1", title="x", detail="", options=OPTIONS, tool="WebFetch", kind="fetch"), None),
    ],
)
def test_the_proposed_rule_allows_what_was_asked_and_not_more(question, rule):
    assert rule_for(question, Path("/nowhere")) == rule
    if rule is not None:
        assert decide([rule], question, Path("/nowhere")) == "allow"
        assert decide([rule], touches("src/other.py"), Path("/nowhere")) is None
        assert decide([rule], runs("id"), Path("/nowhere")) is None
        if question.command is not None:
            assert decide([rule], runs(f"{question.command} more"), Path("/nowhere")) is None


WORDS = st.lists(st.sampled_from(["npm", "test", "rm", "a b", "-x", "x=1", "'", '"', "é"]), min_size=1, max_size=4)


@settings(max_examples=examples(200))
@given(WORDS, st.text(alphabet=" ;&|<>$`()\n\\'\"ab", max_size=6), WORDS)
def test_what_is_allowed_begins_with_the_words_of_the_rule(rule, between, rest):
    line = f"{shlex.join(rule)}{between}{shlex.join(rest)}"
    if decide([allow(command=shlex.join(rule))], runs(line), None) == "allow":
        assert shlex.split(line)[: len(rule)] == rule
        assert not set(line) & set(";&|<>$`()\n\\")


class Asked:
    """The questions of one attempt, and what was recorded."""

    def __init__(self, folder, *rules: PermissionRule, unanswered=None, seconds=60.0) -> None:
        self.told: list[events.Event] = []
        self.folder = folder
        self.requests = PermissionRequests(folder, self.emit)
        delegator = Delegator(name="x", tool="claude", launch=Launch(unanswered=unanswered), permissions=list(rules))
        self.requests.begin_attempt(delegator, seconds, Path("/nowhere"))
        self.answer: dict[str, object] | None = None

    def emit(self, event: events.Event) -> None:
        self.told.append(event)
        if isinstance(event, events.Permission) and self.answer is not None:
            given = worker_files.Answer(request_id=event.request_id, by="cli", **self.answer)
            self.requests.take([given])

    def answers(self) -> list[tuple[str, str]]:
        return [(one.option, one.by) for one in self.told if isinstance(one, events.PermissionAnswered)]


@pytest.fixture
def folder(tmp_path):
    return Folder(id="20261121-004512-k3f9q", path=tmp_path)


async def test_a_rule_answers_at_once_and_is_recorded(folder):
    asked = Asked(folder, allow(command="npm test"), reject(command="git push"))
    assert (await asked.requests.ask(runs("npm test")))[0].id == "yes"
    option, note = await asked.requests.ask(runs("git push"))
    assert (option.id, "rule" in (note or "")) == ("no", True)
    assert asked.answers() == [("yes", "policy"), ("no", "policy")]
    assert [one.command for one in asked.told if isinstance(one, events.Permission)] == ["npm test", "git push"]


async def test_an_answer_that_is_remembered_decides_the_next_time(folder):
    asked = Asked(folder)
    asked.answer = {"option": "yes", "remember": True}
    await asked.requests.ask(runs("npm test"))
    asked.answer = None
    assert (await asked.requests.ask(runs("npm  test")))[0].id == "yes"
    assert asked.answers() == [("yes", "cli"), ("yes", "policy")]


async def test_a_rejection_is_not_remembered(folder):
    asked = Asked(folder)
    asked.answer = {"option": "no", "remember": True}
    await asked.requests.ask(runs("npm test"))
    await asked.requests.ask(runs("npm test"))
    assert asked.answers() == [("no", "cli")] * 2


@pytest.mark.parametrize(("unanswered", "option"), [(None, "no"), ("reject", "no"), ("allow", "yes")])
async def test_what_happens_when_nobody_answers(folder, unanswered, option):
    asked = Asked(folder, unanswered=unanswered, seconds=0.05)
    assert (await asked.requests.ask(runs("npm test")))[0].id == option
    assert asked.answers() == [(option, "deadline")]


async def test_nobody_answering_can_end_the_attempt(folder):
    asked = Asked(folder, unanswered="stop", seconds=0.05)
    with pytest.raises(UnderstudyError) as caught:
        await asked.requests.ask(runs("npm test"))
    assert caught.value.kind is ErrorKind.PERMISSION_DENIED
    assert "answer_seconds" in (caught.value.hint or "")
    assert asked.answers() == [("no", "deadline")]
