"""The course of a review, what is shown of a hunk, and which hunks a person means: all without a terminal."""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.api import messages as m
from understudy.api import review_messages as r
from understudy.frontends.cli.review import decide, hunk_targets, hunk_view, review
from understudy.frontends.cli.review.review import Dialogue, VerdictNotice
from understudy.frontends.cli.terminal import editor, permission_prompt, terminal
from understudy.git import path_rules
from understudy.model.delegation.delegations import PermissionOption, PermissionRequest
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import EarlierRejection, FileDiff, Hunk, HunkState
from understudy.model.places import ChangedPlace, PlaceEvidence
from understudy.model.states import State
from understudy.model.text import path_quoting
from understudy.model.verdicts import Verdict

PLAIN = terminal.Paint(on=False)
WHOLE = "20261121-004512-k3f9q"
BASE = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"


def hunk_of(identifier: str, *lines: int, **changes: Any) -> Hunk:
    old_start, old_lines, new_start, new_lines = lines or (1, 1, 1, 1)
    fields = {"state": HunkState.PENDING, "conflict": False, "edited": False} | changes
    return Hunk(
        id=identifier, old_start=old_start, old_lines=old_lines, new_start=new_start, new_lines=new_lines, **fields
    )


def file_of(path: str, *hunks_: Hunk, **changes: Any) -> FileDiff:
    fields = {
        "status": "modified",
        "binary": False,
        "flag_reason": path_rules.flagged(path_quoting.unquote(path)),
    } | changes
    return FileDiff(path=path, hunks=list(hunks_), **fields)


def three() -> list[FileDiff]:
    return [
        file_of("a.py", hunk_of("a1"), hunk_of("a2", 5, 1, 5, 2)),
        file_of("b.py", hunk_of("b1")),
        file_of(".github/workflows/ci.yml", hunk_of("c1"), hunk_of("c2", 9, 1, 9, 1)),
    ]


class Files:
    """Both sides of files, as ``delegations/file`` gives them; amends change the result."""

    def __init__(self, **sides: dict[str, Any]) -> None:
        self.sides = sides
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.files: list[FileDiff] = []

    def __call__(self, name: str, /, **params: Any) -> Any:
        self.asked.append((name, params))
        if name == "delegations/diff":
            return m.DiffResult(base="b" * 40, head="h" * 40, files=self.files, undoable=[])
        if name == "delegations/amend":
            self.sides["result"][params["path"]] = params["text"]
            return r.AmendResult(head="i" * 40, hunks=[])
        found = self.sides[params["side"]].get(params["path"])
        if found is None:
            raise UnderstudyError(ErrorKind.INVALID_PARAMS, "not there")
        content, mode = found if isinstance(found, tuple) else (found, "100644")
        if isinstance(content, bytes):
            return m.FileResult(base64=base64.b64encode(content).decode(), mode=mode)
        return m.FileResult(text=content, mode=mode)


class Person:
    """Answers from a list until its end, and keeps what they were shown."""

    paint = PLAIN

    def __init__(self, *lines: str | None, edits: Any = None) -> None:
        self.lines = list(lines)
        self.seen: list[str] = []
        self.confirmed = False
        """Whether they said yes to a flagged file."""
        self.edits = edits

    def say(self, text: str) -> None:
        self.seen.append(text)

    def ask(self, prompt: str) -> str | None:
        self.seen.append(prompt)
        line = self.lines.pop(0) if self.lines else None
        self.confirmed = self.confirmed or ("Accept anyway" in prompt and line == "y")
        return line

    def edit(self, text: str, name: str) -> str | None:
        changed = self.edits(text) if self.edits else text
        return None if changed == text else changed

    @property
    def shown(self) -> list[int]:
        """Return the numbers of the hunks that were shown, in order."""
        return [int(match[1]) for text in self.seen if (match := re.match(r"\n\S+  \((\d)/\d\) ", text))]


def dialogue(
    files: list[FileDiff], person: Person, edits: Any = None, news: Callable[[], None] = lambda: None
) -> tuple[Dialogue, Files]:
    call = Files(
        base={file.path: BASE for file in files}, result={file.path: BASE.replace("one", "1") for file in files}
    )
    call.files = files
    person.edits = edits
    return Dialogue(WHOLE, hunk_view.pending(files), (), call, person, news=news), call


def reviewed(*lines: str) -> tuple[Person, list[dict[str, Any]], bool]:
    """Return who reviewed ``three`` files with these answers, the decisions, and whether a flagged file is accepted."""
    person = Person(*lines)
    return person, *dialogue(three(), person)[0].run()


# -- the course ----------------------------------------------------------------------------------------------------


def test_each_answer_decides_one_hunk_and_the_last_one_ends_it() -> None:
    assert reviewed("y", "n", "r", "too slow", "y", "y", "n")[1:] == (
        [
            {"path": "a.py", "hunk": "a1", "decision": "accept"},
            {"path": "a.py", "hunk": "a2", "decision": "reject"},
            {"path": "b.py", "hunk": "b1", "decision": "reject", "reason": "too slow"},
            {"path": ".github/workflows/ci.yml", "hunk": "c1", "decision": "accept"},
            {"path": ".github/workflows/ci.yml", "hunk": "c2", "decision": "reject"},
        ],
        True,
    )


def test_a_flagged_file_is_accepted_only_after_a_second_yes() -> None:
    assert reviewed("g 4", "a", "")[1:] == ([], False)
    _, decided, flagged = reviewed("g 4", "a", "", "a", "y")
    assert [entry["hunk"] for entry in decided] == ["c1", "c2"]
    assert flagged
    assert not reviewed("g 4", "a", "y", "g 4", "n", "g 5", "n")[2], "what is rejected needs no consent"


def test_a_and_d_stay_within_the_file_and_leave_what_was_decided() -> None:
    person, decided, _ = reviewed("g 2", "n", "g 1", "a")
    assert [entry["decision"] for entry in decided] == ["accept", "reject"]
    assert person.shown[-1] == 3
    _, decided, _ = reviewed("g 2", "n", "g 1", "a", "g 4", "d")
    assert [entry["decision"] for entry in decided] == ["accept", "reject", "reject", "reject"]


def test_leaving_open_and_going_back() -> None:
    person, decided, _ = reviewed("k", "j", "j", "k", "y", "j", "j", "n", "q")
    assert "No pending hunk before this one." in person.seen
    assert person.shown == [1, 2, 3, 2, 3, 4, 5, 1], "at the end it restarts with the pending hunks"
    assert [entry["hunk"] for entry in decided] == ["a2", "c2"]


@pytest.mark.parametrize("before", [[], ["r"], ["g"], ["g 4", "y"]])
def test_the_end_of_input_ends_the_review_and_keeps_the_decisions(before: list[str]) -> None:
    assert [entry["hunk"] for entry in reviewed("y", *before)[1]] == ["a1"]


@pytest.mark.parametrize("line", ["", "x", "yes", "Y", "y please", "g", "g 0", "g 6", "g ²", "r", "  ", "?"])
def test_an_invalid_key_decides_nothing(line: str) -> None:
    assert reviewed(line, *([""] if line in {"g", "r"} else []))[1:] == ([], False)


def test_an_edit_resets_the_decisions_on_its_file_only() -> None:
    person = Person("y", "y", "n", "g 1", "e")
    talk, call = dialogue(three(), person, edits=lambda text: text + "eight\n")
    call.files = [file_of("a.py", hunk_of("a9"), hunk_of("a2", 5, 1, 5, 2)), *three()[1:]]
    assert [entry["hunk"] for entry in talk.run()[0]] == ["b1"]
    assert person.shown == [1, 2, 3, 4, 1, 1]
    person = Person("j", "j", "y", "g 1", "e")
    talk, call = dialogue(three()[:2], person, edits=lambda text: text + "eight\n")
    call.files = three()[1:2]
    assert [entry["hunk"] for entry in talk.run()[0]] == ["b1"], "nothing is left to ask about"


@given(st.lists(st.sampled_from([*review.KEYS, "r no", "g 1", "g 5", "y", "", "nonsense", "3"]), max_size=40))
def test_whatever_is_typed_only_shown_hunks_are_decided_and_flagged_ones_never_by_one_key(lines: list[str]) -> None:
    person, decided, flagged = reviewed(*lines)
    hunks = [entry["hunk"] for entry in decided]
    assert len(hunks) == len(set(hunks))
    risky = any(entry["decision"] == "accept" and entry["path"].startswith(".github") for entry in decided)
    assert flagged == risky
    assert person.confirmed or not risky
    if not any(line in {"a", "d"} for line in lines):
        assert set(hunks) <= {["a1", "a2", "b1", "c1", "c2"][number - 1] for number in person.shown}


# -- what is shown -------------------------------------------------------------------------------------------------


def shown(file: FileDiff, number: int = 1, **sides: Any) -> str:
    item = hunk_view.items([file])[number - 1]
    return hunk_view.render(item, hunk_view.Sides(WHOLE, Files(**sides)), PLAIN, "(1/1) ")


def test_a_hunk_has_context_up_to_its_neighbours() -> None:
    file = file_of("a.py", hunk_of("x", 2, 1, 2, 2), hunk_of("y", 4, 0, 6, 1), hunk_of("z", 6, 1, 8, 0))
    sides = {"base": {"a.py": BASE}, "result": {"a.py": "one\nTWO\nand\nthree\nfour\nmore\nfive\nseven\n"}}
    assert shown(file, 1, **sides) == (
        "a.py  (1/1) lines 2-3\n@@ -2,1 +2,2 @@\n one\n-two\n+TWO\n+and\n three\n four\n"
    )
    assert shown(file, 2, **sides) == "a.py  (1/1) line 6\n@@ -4,0 +6,1 @@\n three\n four\n+more\n five\n"
    assert shown(file, 3, **sides) == "a.py  (1/1) removed line 6\n@@ -6,1 +8,0 @@\n five\n-six\n seven\n"


def test_a_change_that_was_rejected_before_says_why() -> None:
    hunk = hunk_of("x")
    for reason, said in ("Keep\nit.", "! rejected before: Keep it.\n"), (None, "! rejected before, in other\n"):
        hunk.rejected_before = EarlierRejection(id="other", reason=reason)
        text = shown(file_of("a.py", hunk), base={"a.py": "a\n"}, result={"a.py": "b\n"})
        assert said in text


def test_control_characters_are_made_visible() -> None:
    file = file_of("a.py", hunk_of("x"))
    text = shown(file, base={"a.py": "a\n"}, result={"a.py": "a\x1b[2K\u202eb\r\n"})
    assert "+a^[[2K<U+202E>b^M\n" in text
    assert "\x1b" not in text


def test_added_deleted_renamed_and_binary_files() -> None:
    new = file_of("n", hunk_of("x", 0, 0, 1, 1), status="added")
    assert shown(new, base={}, result={"n": ("x", "100755")}) == (
        "n  (1/1) new file\nmode 100755\n@@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file\n"
    )
    gone = file_of("n", hunk_of("x", 1, 2, 0, 0), status="deleted")
    assert "-x\n-y\n" in shown(gone, base={"n": "x\ny\n"}, result={})
    moved = file_of("n", hunk_of("x", 0, 0, 0, 0), status="renamed", from_="o")
    assert shown(moved, base={"o": "x\n"}, result={"n": "x\n"}) == "n  (1/1) renamed from o\n"
    mode = file_of("n", hunk_of("x", 0, 0, 0, 0), status="mode")
    assert "mode 100644 → 100755\n" in shown(mode, base={"n": "x"}, result={"n": ("x", "100755")})
    binary = file_of("n", hunk_of("x", 0, 0, 0, 0), binary=True)
    assert "binary: 3 bytes → 1 byte\n" in shown(binary, base={"n": b"\0ab"}, result={"n": b"\0"})
    latin = file_of("n", hunk_of("x"))
    assert "+caf�\n" in shown(latin, base={"n": "x\n"}, result={"n": b"caf\xe9\n"})
    assert "cannot be shown" in shown(file_of("module", hunk_of("x")), base={}, result={})


@pytest.mark.parametrize(
    ("path", "target", "outside"),
    [("a", "b", False), ("d/a", "../b", False), ("a", "../b", True), ("d/a", "../../x", True), ("a", "/etc/x", True)],
)
def test_a_link_and_its_target_are_shown(path: str, target: str, outside: bool) -> None:
    new = shown(file_of(path, hunk_of("x", 0, 0, 1, 1), status="added"), base={}, result={path: (target, "120000")})
    assert "mode 120000 (a symbolic link)\n" in new
    assert ("! this link points outside the workspace\n" in new) is outside
    changed = shown(file_of(path, hunk_of("x")), base={path: ("c", "120000")}, result={path: (target, "120000")})
    assert "mode 120000 (a symbolic link)\n" in changed
    assert ("points outside" in changed) is outside


def test_a_large_hunk_is_cut_with_a_note() -> None:
    many = hunk_view.LINES_SHOWN + 50
    file = file_of("n", hunk_of("x", 0, 0, 1, many), status="added")
    text = shown(file, base={}, result={"n": "x\n" * many})
    assert text.count("\n") == hunk_view.LINES_SHOWN + 2
    assert "51 more lines" in text


def test_warnings_are_printed_above_the_hunk() -> None:
    file = file_of("package.json", hunk_of("x", conflict=True, edited=True))
    text = shown(file, base={"package.json": "a\n"}, result={"package.json": "b\n"})
    assert text.splitlines()[1:4] == [
        "! flagged: this file can run commands in builds or tests",
        "! conflict: an earlier accept of this hunk failed",
        "edited",
    ]


def test_a_conflict_shows_three_sides() -> None:
    conflict = r.Conflict(path="a.py", hunk="a1", base="two\n", result="TWO\n", yours="\x1b[8mzwei\n")
    assert hunk_view.three_sides("a.py", conflict, PLAIN) == (
        "a.py:a1 has a conflict and stays pending\n"
        "  yours now:\n    ^[[8mzwei\n  the base:\n    two\n  the result:\n    TWO\n"
    )
    gone = r.Conflict(path="a.py", hunk="a1", base="two\n", result="")
    assert "yours now: no such file\n" in hunk_view.three_sides("a.py", gone, PLAIN)
    assert "the result: empty\n" in hunk_view.three_sides("a.py", gone, PLAIN)
    gone.result, gone.base = None, "\0"
    assert "the result: deleted\n" in hunk_view.three_sides("a.py", gone, PLAIN)
    assert "the base: binary\n" in hunk_view.three_sides("a.py", gone, PLAIN)
    gone.blocked = True
    assert "yours now: not a regular file\n" in hunk_view.three_sides("a.py", gone, PLAIN)


def test_the_summary_counts_the_changes_and_shows_how_to_undo() -> None:
    before = three()
    now = [
        hunk_of("a1", state=HunkState.ACCEPTED),
        hunk_of("a2", state=HunkState.REJECTED),
        hunk_of("b1", conflict=True),
        hunk_of("c1", state=HunkState.ACCEPTED),
        hunk_of("c2", state=HunkState.ACCEPTED),  # another process accepted it at the same moment
    ]
    done = r.DecideResult(
        hunks=now,
        decided=["a1", "a2", "c1"],
        conflicts=[r.Conflict(path="b.py", hunk="b1")],
        undo_token=f"{WHOLE}.0a1b2c3d",
    )
    text = decide.summary(WHOLE, before, done, PLAIN)
    assert "b.py:b1 has a conflict" in text
    assert "accepted: 2 hunks in 2 files\n" in text
    assert "rejected: 1 hunk in 1 file\n" in text
    assert f"undo the accept: understudy undo {WHOLE}.0a1b2c3d\n" in text
    assert f"pending: 1 hunk; understudy review {WHOLE}\n" in text


# -- the dialogue --------------------------------------------------------------------------------------------------


def test_a_dialogue_shows_every_hunk_before_it_asks_and_sends_nothing() -> None:
    person = Person("?", "y", "g", "3", "r", "no\n", "g 4", "y", "n", "q")
    talk, call = dialogue(three(), person)
    decided, flagged = talk.run()
    assert [(entry["hunk"], entry["decision"]) for entry in decided] == [("a1", "accept"), ("b1", "reject")]
    assert not flagged
    assert not person.lines
    text = "\n".join(person.seen)
    assert "(1/5) line 1\n@@ -1,1 +1,1 @@\n-one\n+1\n two" in text
    assert "> " in text
    assert "Accept anyway [y/N]?" in text
    assert {name for name, _ in call.asked} == {"delegations/file"}


def test_an_edit_goes_to_the_result_and_its_failure_ends_nothing() -> None:
    person = Person("e", "q")
    talk, call = dialogue(three()[:2], person, edits=lambda text: text + "eight\n")
    talk.run()
    amended = [params for name, params in call.asked if name == "delegations/amend"]
    assert amended == [{"id": WHOLE, "path": "a.py", "text": BASE.replace("one", "1") + "eight\n", "head": "h" * 40}]

    def broken(text: str) -> str:
        raise UnderstudyError(ErrorKind.TOOL_CRASHED, "vi ended with 1", hint="again")

    person = Person("y", "e", "e", "q")
    talk, call = dialogue(three(), person, edits=broken)
    assert len(talk.run()[0]) == 1
    assert "The edit failed: vi ended with 1 (again)" in person.seen


def test_concurrent_decisions_do_not_lose_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    person = Person()
    talk, call = dialogue(three(), person)
    call.files = [
        file_of("a.py", hunk_of("a1", state=HunkState.ACCEPTED), hunk_of("a2", state=HunkState.ACCEPTED)),
        file_of("b.py", hunk_of("b1", state=HunkState.SUPERSEDED, by="another")),
        file_of(".github/workflows/ci.yml", hunk_of("c1")),
    ]
    decided = [
        {"path": "a.py", "hunk": "a1", "decision": "reject", "reason": "slow"},
        {"path": "a.py", "hunk": "a2", "decision": "accept"},
        {"path": "b.py", "hunk": "b1", "decision": "accept"},
        {"path": ".github/workflows/ci.yml", "hunk": "c1", "decision": "reject", "reason": "no"},
        {"path": ".github/workflows/ci.yml", "hunk": "c2", "decision": "reject"},
    ]
    sent: list[list[str]] = []

    def send(_: object, entries: list[dict[str, Any]]) -> int:
        sent.append([entry["hunk"] for entry in entries])
        if len(sent) == 1:
            raise UnderstudyError(ErrorKind.CONFLICT, "The hunk a1 is in your files already.")
        return 0

    assert talk.deliver(three(), decided, send) == 0
    assert sent == [["a1", "a2", "b1", "c1", "c2"], ["a2", "c1"]]
    assert "is in your files already" in capsys.readouterr().err
    assert person.seen == [
        "left out: a.py:a1 is in your files; undo that accept first",
        "left out: b.py:b1 is now part of another",
        "left out: .github/workflows/ci.yml:c2 is no longer in the result: it was edited",
    ]


@pytest.mark.parametrize(("answers", "code", "tries"), [(["y\n"], 0, 2), (["n\n"], 8, 1), ([None], 8, 1)])
def test_failed_decisions_can_be_sent_again(
    answers: list[str | None], code: int, tries: int, capsys: pytest.CaptureFixture[str]
) -> None:
    person = Person(*answers)
    talk, _ = dialogue(three(), person)
    count = 0

    def send(_: object, entries: list[dict[str, Any]]) -> int:
        nonlocal count
        count += 1
        if count == 1:
            raise UnderstudyError(ErrorKind.DISK_FULL, "The disk is full", hint="Free some space.")
        assert entries == [{"path": "a.py", "hunk": "a1", "decision": "accept"}]
        return 0

    assert talk.deliver(three(), [{"path": "a.py", "hunk": "a1", "decision": "accept"}], send) == code
    assert count == tries
    assert person.seen == ["The decisions were not applied. Send your 1 decision again [y/n]?"]
    assert "Free some space." in capsys.readouterr().err


def test_ctrl_c_while_sending_shows_how_to_check_the_outcome(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(decide, "call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decide.send(WHOLE, three(), [{"path": "a.py", "hunk": "a1", "decision": "accept"}])
    assert f"either all accepted hunks or none: understudy review {WHOLE} --list" in capsys.readouterr().err


# -- which hunks ---------------------------------------------------------------------------------------------------


def test_files_folders_hunks_and_everything() -> None:
    files = [*three(), file_of("src/x:y", hunk_of("d1")), file_of("done", hunk_of("e1", state=HunkState.ACCEPTED))]
    assert hunk_targets.find(files, ["./a.py", "b.py:b"]) == [("a.py", None), ("b.py", "b1")]
    assert hunk_targets.find(files, ["src/"]) == [("src/x:y", None)]
    assert hunk_targets.find(files, ["src/x:y:d1"]) == [("src/x:y", "d1")]
    assert hunk_targets.find(files, ["done:e1"]) == [("done", "e1")], "what was decided can be named"
    assert [path for path, _ in hunk_targets.find(files, [], everything=True)] == [file.path for file in files[:4]]
    assert hunk_targets.decisions([("a", None), ("b", "1")], "reject", "no") == [
        {"path": "a", "decision": "reject", "reason": "no"},
        {"path": "b", "hunk": "1", "decision": "reject", "reason": "no"},
    ]
    for nothing in (["a.py:a"], ["a.py:"], ["a.py:zz"], ["c.py"], ["done"]):
        with pytest.raises(UnderstudyError):
            hunk_targets.find(files, nothing)
    for unclear in (([], False), (["a.py"], True)):
        with pytest.raises(click.UsageError):
            hunk_targets.find(files, unclear[0], everything=unclear[1], command="accept")


def test_paths_are_accepted_as_printed_or_typed() -> None:
    wires = ["täst.py", "a\nb", "esc\x1b[31m.txt", '"caf\\351/x y"', '"\\"quoted\\""', "two  blanks"]
    files = [file_of(wire, hunk_of(f"{number}1")) for number, wire in enumerate(wires)]
    for number, item in enumerate(hunk_view.items(files)):
        typed = os.fsdecode(path_quoting.unquote(item.file.path))
        for text in (terminal.path(item.file.path), typed):
            assert hunk_targets.find(files, [text]) == [(item.file.path, None)], text
            assert hunk_targets.find(files, [f"{text}:{number}"]) == [(item.file.path, f"{number}1")], text
            assert [one.name for one in hunk_targets.named(files, [f"{text}:{number}"])] == [item.name], text
        assert item.spelled == f"{terminal.path(item.file.path)}:{number}1"
    assert hunk_targets.find(files, ["caf\udce9/"]) == [('"caf\\351/x y"', None)]


# -- the editor ----------------------------------------------------------------------------------------------------


def test_the_editor_is_an_argument_vector(tmp_path) -> None:
    program = tmp_path / "my editor"
    program.write_text(
        f"#!{sys.executable}\nimport sys, pathlib\nassert sys.argv[1] == '$HOME;x', sys.argv\n"
        "file = pathlib.Path(sys.argv[2])\nassert file.name == 'wrap.py'\n"
        "file.write_bytes(file.read_bytes() + 'é\\r\\n'.encode())\n"
    )
    program.chmod(0o755)
    assert editor.edited("a\r\n", "src/wrap.py", {"EDITOR": f"'{program}' '$HOME;x'"}) == "a\r\né\r\n"
    assert editor.edited("a", "x", {"VISUAL": "true", "EDITOR": "false"}) is None
    for chosen, kind in (("false", "tool_crashed"), ("/nowhere/vi", "tool_missing"), ("'", "tool_missing")):
        with pytest.raises(UnderstudyError) as caught:
            editor.edited("a", "x", {"EDITOR": chosen, "PATH": "/usr/bin:/bin"})
        assert caught.value.kind == kind


# -- questions -----------------------------------------------------------------------------------------------------

OPTIONS = [
    PermissionOption(id="x", title="Yes", kind="allow_once"),
    PermissionOption(id="allow_once", title="Always", kind="allow_always"),
    PermissionOption(id="z", title="No", kind="reject_once"),
]


def request_of(**changes: Any) -> PermissionRequest:
    fields = {"request_id": "q1", "attempt": 1, "title": "Run rm?", "detail": "rm \x1b[8m-rf\nx", "options": OPTIONS}
    return PermissionRequest(**(fields | {"deadline_action": "reject"} | changes))


def test_an_option_is_a_number_a_kind_or_an_id() -> None:
    assert permission_prompt.chosen(OPTIONS, " 3\n").id == "z"
    assert permission_prompt.chosen(OPTIONS, "allow_once").id == "x", "the kind counts before the id"
    assert permission_prompt.chosen(OPTIONS, "z").id == "z"
    for wrong in ("", "0", "4", "y"):
        with pytest.raises(UnderstudyError):
            permission_prompt.chosen(OPTIONS, wrong)


class Desk:
    """A delegation with a question, and a person who types."""

    def __init__(self, delegation: Any, *typed: str) -> None:
        self.waiting = delegation(waiting_for=request_of())
        self.typed = list(typed)
        self.said: list[str] = []
        self.answered: list[dict[str, Any]] = []
        self.asking = permission_prompt.Asking(
            WHOLE,
            self.call,
            self.said.append,
            read=lambda: self.typed.pop(0) if self.typed else None,
            discard=lambda: None,
        )

    def call(self, name: str, /, **params: Any) -> Any:
        if name == "delegations/answer":
            self.answered.append(params)
        return self.waiting


def test_a_question_is_asked_on_a_watched_terminal(delegation) -> None:
    desk = Desk(delegation, "\n", "perhaps\n", "3\n")
    desk.asking.begin("q1")
    assert desk.said[:3] == ["  | rm ^[[8m-rf", "  | x", "  1  Yes  (allow_once)"]
    while desk.asking.asks:
        desk.asking.poll()
    assert desk.answered == [{"id": WHOLE, "requestId": "q1", "option": "z", "remember": False}]
    assert any("perhaps" in text for text in desk.said)


def test_a_question_answered_by_another_process_is_closed(delegation) -> None:
    desk = Desk(delegation, "1\n")
    desk.asking.begin("an older one")
    assert not desk.asking.asks
    desk.asking.begin("q1")
    desk.asking.close("q1")
    desk.asking.poll()
    assert desk.answered == []
    end = Desk(delegation, "")
    end.asking.begin("q1")
    end.asking.poll()
    assert not end.asking.asks
    assert end.answered == []


# -- the verdict at the top ----------------------------------------------------------------------------------------


class Checks:
    """Delegations whose checks end when ``ended`` is set."""

    def __init__(self, delegation: Any) -> None:
        self.delegation = delegation
        self.ended = False
        self.agent_works = False

    def __call__(self, name: str, **params: Any) -> Any:
        if name == "delegations/cancel":
            assert params == {"id": WHOLE, "onlyChecks": True}
            if not self.ended and self.agent_works:
                raise UnderstudyError(ErrorKind.CONFLICT, "none of its checks runs.")
            self.ended = True
            return None
        assert (name, params) == ("delegations/get", {"id": WHOLE})
        return (
            self.delegation(state=State.FINISHED, verdict=Verdict.CHECKS_FAILED)
            if self.ended
            else self.delegation(state=State.CHECKING, verdict=None)
        )

    def end(self) -> None:
        self.ended = True


def test_a_review_says_the_verdict_first(delegation: Any) -> None:
    checks, person = Checks(delegation), Person()
    checks.end()
    assert VerdictNotice(WHOLE, checks, person).begin(checks.end)
    assert person.seen[0].startswith(WHOLE)
    assert person.seen[1].startswith("CHECKS FAILED: ")


@pytest.mark.parametrize("answer", ["", "y\n"])
def test_a_review_waits_for_the_verdict(delegation: Any, answer: str) -> None:
    checks, person = Checks(delegation), Person(answer)
    assert VerdictNotice(WHOLE, checks, person).begin(checks.end)
    assert person.seen[1:3] == ["NO VERDICT YET: its checks still run", review.VERDICT_QUESTION]
    assert person.seen[3].startswith("CHECKS FAILED: ")


def test_a_review_stops_the_checks(delegation: Any) -> None:
    checks, person = Checks(delegation), Person("s\n")
    assert VerdictNotice(WHOLE, checks, person).begin(lambda: pytest.fail("it does not wait"))
    assert person.seen[3].startswith("CHECKS FAILED: ")
    checks, person = Checks(delegation), Person("s\n", "q\n")
    checks.agent_works = True
    assert not VerdictNotice(WHOLE, checks, person).begin(checks.end)
    assert "none of its checks runs." in person.seen


def test_a_review_without_a_verdict_says_it_as_soon_as_there_is_one(delegation: Any) -> None:
    checks, person = Checks(delegation), Person("what\n", "n\n")
    notice = VerdictNotice(WHOLE, checks, person)
    assert notice.begin(lambda: pytest.fail("it does not wait"))
    assert review.VERDICT_HELP in person.seen
    talk, _ = dialogue(three()[:2], Person("y", "y", "y"), news=notice.update)
    count = len(person.seen)
    notice.update()
    assert len(person.seen) == count
    checks.end()
    talk.run()
    assert [line.partition(":")[0] for line in person.seen[count:]] == ["CHECKS FAILED"], "the verdict is printed once"


@pytest.mark.parametrize(("answer", "applied"), [("\n", True), ("y\n", True), ("n\n", False), (None, False)])
def test_decisions_without_a_verdict_are_asked_about_again(delegation: Any, answer: str | None, applied: bool) -> None:
    checks, person = Checks(delegation), Person("n\n", answer)
    notice = VerdictNotice(WHOLE, checks, person)
    notice.begin(checks.end)
    assert notice.before_sending(0, lambda: pytest.fail("there is nothing to apply"))
    assert notice.before_sending(2, checks.end) is applied
    assert person.seen[-2].startswith("CHECKS FAILED: ")
    assert person.seen[-1] == "Apply your 2 decisions [Y/n]?"
    assert notice.before_sending(2, lambda: pytest.fail("the verdict is known")), "nothing is asked twice"


@pytest.mark.parametrize("answer", ["q\n", None])
def test_a_review_without_a_verdict_can_be_left(delegation: Any, answer: str | None) -> None:
    checks = Checks(delegation)
    assert not VerdictNotice(WHOLE, checks, Person(answer)).begin(checks.end)
    assert not checks.ended


def place_of(hunk: str, evidence: PlaceEvidence) -> ChangedPlace:
    return ChangedPlace(hunk=hunk, path="a.py", line=1, lines=1, function="", evidence=evidence, why="why")


def test_only_hunks_with_evidence_that_nothing_doubts_are_taken_as_verified() -> None:
    noticed, missed = place_of("a1", PlaceEvidence.NOTICED), place_of("a2", PlaceEvidence.UNEXECUTED)
    file = file_of(
        "a.py",
        hunk_of("a1", tested=True, places=[noticed]),
        hunk_of("a2", 5, 1, 5, 2, tested=False, places=[missed]),
        hunk_of("a3", 9, 1, 9, 1),
    )
    assert hunk_targets.tested([file], [("a.py", None)], WHOLE) == [("a.py", "a1")]
    with pytest.raises(UnderstudyError, match="Of 1 hunk, none is tested"):
        hunk_targets.tested([file], [("a.py", "a2")], WHOLE)
    weak = hunk_of("a4", 13, 1, 13, 1, tested=False, places=[place_of("a4", PlaceEvidence.NEW_TEST)])
    file.hunks.append(weak)
    assert hunk_targets.tested([file], [("a.py", None)], WHOLE) == [("a.py", "a1")]
    doubted = file_of("a.py", hunk_of("a1", tested=False, places=[noticed]))
    with pytest.raises(UnderstudyError, match="puts in doubt") as refused:
        hunk_targets.tested([doubted], [("a.py", None)], WHOLE)
    assert f"understudy show {WHOLE}" in refused.value.hint
