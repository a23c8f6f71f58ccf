"""Chosen hunks merged into what the user sees: against git's own merge, and case by case."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.git import changes
from understudy.git.apply.transaction import FileTransaction, read_entry
from understudy.git.changes import Change, Entry, reader
from understudy.git.diff import file_diffs, read_file
from understudy.git.merge import hunk_merge
from understudy.git.merge.hunk_merge import MergePlan, follow_up
from understudy.git.merge.line_edits import Edit, merge_edits, replace
from understudy.git.object_store import ObjectStore
from understudy.git.repository import locate
from understudy.git.worktree.worktree import create_worktree
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text.path_quoting import unquote

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"}\n", b"\n", b"c\r\n", b"d\n", b"\xff\n"]), max_size=9)


def text(lines: list[bytes]) -> bytes:
    return b"".join(lines)


class Sides:
    """A store in which commits are made of dictionaries."""

    def __init__(self, root: Path) -> None:
        repo = root / "repo"
        repo.mkdir()
        subprocess.run(["git", "init", "-q", "-b", "main", str(repo)], check=True)
        self.repo = repo
        self.store = ObjectStore.create(root / "store", locate(repo))
        self.root_commit = (
            self.store.git_output("commit-tree", self.store.empty_tree, "-F", "-", stdin=b"empty").decode().strip()
        )

    def commit(self, files: dict[bytes, Entry]) -> str:
        return changes.write_commit(
            self.store, self.root_commit, [Change(path, None, entry) for path, entry in files.items()], "x"
        )

    def plan(self, base: dict, result: dict, now: dict, selection=None) -> MergePlan:
        first, second = self.commit(base), self.commit(result)
        if selection is None:
            selection = dict.fromkeys(unquote(each.path) for each in file_diffs(self.store, first, second))
        return hunk_merge.plan(self.store, first, second, selection, now.get)

    def ids(self, base: dict, result: dict) -> dict[bytes, list[str]]:
        found = file_diffs(self.store, self.commit(base), self.commit(result))
        return {unquote(each.path): [hunk.id for hunk in each.hunks] for each in found}


def after(now: dict[bytes, Entry], plan: MergePlan) -> dict[bytes, Entry]:
    found = dict(now)
    for change in plan.changes:
        assert found.get(change.path) == change.before or (change.before is None)
        found.pop(change.path, None)
        if change.after is not None:
            found[change.path] = change.after
    return found


def f(content: bytes) -> Entry:
    return Entry("100644", content)


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    return Sides(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[Sides]:
    root = Path(tempfile.mkdtemp(dir=tmp_path_factory.getbasetemp()))
    saved = dict(os.environ)
    os.environ |= {"HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    try:
        yield Sides(root)
    finally:
        os.environ.clear()
        os.environ.update(saved)
        shutil.rmtree(root)


def merge_file(root: Path, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Git's own merge of whole files; None when it finds a conflict."""
    with tempfile.TemporaryDirectory(dir=root) as folder:
        names = []
        for name, content in (("ours", ours), ("base", base), ("theirs", theirs)):
            names.append(str(Path(folder, name)))
            Path(names[-1]).write_bytes(content)
        done = subprocess.run(["git", "merge-file", "-p", *names], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


EXAMPLES = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@EXAMPLES
@given(base=LINES, result=LINES, user=LINES)
def test_where_git_merges_whole_files_and_nothing_conflicts_here_both_agree(shared, base, result, user):
    if base == result:
        return
    path = b"f"
    before, wanted, now = ({path: f(text(each))} for each in (base, result, user))
    plan = shared.plan(before, wanted, now)
    expected = merge_file(shared.repo, text(base), text(user), text(result))
    if text(user) == text(base):
        assert after(now, plan) == wanted
        assert not plan.conflicts
    if expected is not None and not plan.conflicts:
        got = after(now, plan)[path].content
        # The two may place one of several equal lines differently, but lose or add only what both sides did.
        ours, gits, old, mine, theirs = (
            Counter(side.split(b"\n")) for side in (got, expected, *map(text, (base, user, result)))
        )
        assert gits - ours <= (mine - old) & (theirs - old)
        assert ours - gits <= (old - mine) & (old - theirs)
    every = shared.ids(before, wanted)[path]
    listed = [*plan.merged.get(path, ()), *(each.hunk for each in plan.conflicts)]
    assert sorted(listed) == sorted(every)


@EXAMPLES
@given(data=st.data())
def test_edits_apart_from_each_other_merge_as_if_each_had_been_made_alone(shared, data):
    """The reference: unique lines, each side replaces, removes or adds around its own ones, two lines apart."""
    count = data.draw(st.integers(2, 12))
    base = [b"line %d\n" % number for number in range(count * 3)]
    result, now, both, chosen = list(base), list(base), list(base), []
    for number in range(count):
        side = data.draw(st.sampled_from(["chosen", "other", "user", "none"]))
        edit = data.draw(st.sampled_from([b"", b"new %d\n" % number, b"line %d\nmore %d\n" % (number * 3 + 1, number)]))
        at = number * 3 + 1
        if side in {"chosen", "other"}:
            result[at] = edit
        if side == "user":
            now[at] = edit
        if side in {"chosen", "user"}:
            both[at] = edit
        if side in {"chosen", "other"}:
            chosen.append(side == "chosen")
    path = b"\xffname \n"
    before, wanted = {path: f(text(base))}, {path: f(text(result))}
    if before == wanted:
        return
    every = shared.ids(before, wanted)[path]
    assert len(every) == len(chosen)
    selection = {path: {each for each, take in zip(every, chosen, strict=True) if take}}
    plan = shared.plan(before, wanted, {path: f(text(now))}, selection)
    assert not plan.conflicts
    assert after({path: f(text(now))}, plan) == {path: f(text(both))}


@EXAMPLES
@given(base=LINES, result=LINES, data=st.data())
def test_accepting_in_two_goes_is_accepting_at_once(shared, base, result, data):
    if base == result:
        return
    before, wanted = {b"f": f(text(base))}, {b"f": f(text(result))}
    every = shared.ids(before, wanted)[b"f"]
    first = set(data.draw(st.lists(st.sampled_from(every), unique=True)))
    once = after(before, shared.plan(before, wanted, before, {b"f": first}))
    plan = shared.plan(before, wanted, once, {b"f": set(every) - first})
    # The diff of base and the half-way state may cut the lines otherwise; then a hunk conflicts, but never comes twice.
    if not plan.conflicts:
        assert after(once, plan) == wanted
    again = shared.plan(before, wanted, wanted, {b"f": first})
    assert not again.changes
    assert not again.conflicts


def test_a_hunk_that_conflicts_stays_out_and_the_others_of_its_file_go_in(sides):
    base = {b"f": f(b"1\n2\n3\n4\n5\n6\n7\n8\n9\n")}
    result = {b"f": f(b"1\nA\n3\n4\n5\n6\n7\nB\n9\n")}
    now = {b"f": f(b"1\nmine\n3\n4\n5\n6\n7\n8\n9\n")}
    plan = sides.plan(base, result, now)
    ids = sides.ids(base, result)[b"f"]
    assert [each.hunk for each in plan.conflicts] == [ids[0]]
    conflict = plan.conflicts[0]
    assert (conflict.base, conflict.result, conflict.yours) == (b"2\n", b"A\n", b"mine\n")
    assert plan.merged == {b"f": (ids[1],)}
    assert after(now, plan)[b"f"].content == b"1\nmine\n3\n4\n5\n6\n7\nB\n9\n"


def test_changes_that_touch_are_a_conflict_as_in_git(sides):
    base, result, now = ({b"f": f(content)} for content in (b"1\n2\n3\n4\n", b"1\nA\n3\n4\n", b"1\n2\nmine\n4\n"))
    assert merge_file(sides.repo, base[b"f"].content, now[b"f"].content, result[b"f"].content) is None
    plan = sides.plan(base, result, now)
    assert len(plan.conflicts) == 1
    assert not plan.changes


def test_a_line_that_the_user_has_already_at_an_equal_place_does_not_come_twice():
    base = [b"}\n"] * 3 + [b"x\n"]
    added, removed = (b"}\n",), ()
    for chosen, mine in ((Edit(0, 0, added), Edit(2, 2, added)), (Edit(0, 1, removed), Edit(2, 3, removed))):
        content, conflicts = merge_edits(base, [chosen], [mine])
        assert not conflicts
        assert content == replace(base, [mine])


DOCUMENT = b'"""Tests."""\n\nfrom shop import prices\n\n\ndef test_a():\n    assert prices\n'
IMPORT = DOCUMENT.replace(b"\n\nfrom", b"\n\nimport pytest\n\nfrom")
TEST = DOCUMENT + b"\n\ndef test_b():\n    assert 1\n"


@pytest.mark.parametrize(
    ("base", "result", "now"),
    [
        (DOCUMENT, IMPORT, IMPORT.replace(b"import pytest", b"# for raises\nimport pytest")),
        (DOCUMENT, IMPORT, IMPORT.replace(b"import pytest", b"import os\nimport pytest\nimport sys")),
        (DOCUMENT, TEST, TEST + b"\n\ndef test_c():\n    assert 2\n"),
        (DOCUMENT, TEST, TEST.replace(b"def test_b", b"# new\ndef test_b")),
        (b"a\nb\nc\n", b"a\nB\nc\n", b"a\n# big\nB\nc\n"),
        (b"", DOCUMENT, b"# first\n" + DOCUMENT),
        (None, DOCUMENT, DOCUMENT + b"\n\ndef test_b():\n    assert 1\n"),
    ],
)
def test_a_hunk_that_is_there_beside_a_new_line_does_not_come_twice(sides, base, result, now):
    plan = sides.plan({} if base is None else {b"f": f(base)}, {b"f": f(result)}, {b"f": f(now)})
    assert not plan.conflicts
    assert not plan.changes
    assert plan.merged[b"f"]


@pytest.mark.parametrize(
    ("base", "result", "now"),
    [
        (DOCUMENT, IMPORT, DOCUMENT.replace(b"from", b"import pytest_mock\n\nfrom")),
        (DOCUMENT, TEST, TEST.replace(b"assert 1", b"x = 1\n    assert 1")),
        (DOCUMENT, TEST, TEST.replace(b"assert 1", b"assert 2")),
        (b"a\nb\nc\n", b"a\nc\n", b"a\nB\nc\n"),
        (b"a\nb\nc\n", b"a\n\nb\nc\n", b"a\n\nx\n\nb\nc\n"),
        (None, DOCUMENT, DOCUMENT.replace(b"assert", b"assert not")),
    ],
)
def test_a_hunk_that_is_there_in_part_is_a_conflict(sides, base, result, now):
    plan = sides.plan({} if base is None else {b"f": f(base)}, {b"f": f(result)}, {b"f": f(now)})
    assert plan.conflicts
    assert not plan.changes


def test_the_same_line_at_another_place_is_another_hunk(sides):
    base, result = DOCUMENT + TEST, (DOCUMENT + TEST).replace(b"assert 1\n", b"assert 1\n    assert prices.VAT\n")
    now = base.replace(b"assert prices\n", b"assert prices\n    assert prices.VAT\n", 1)
    plan = sides.plan({b"f": f(base)}, {b"f": f(result)}, {b"f": f(now)})
    assert not plan.conflicts
    assert after({b"f": f(now)}, plan)[b"f"].content.count(b"prices.VAT") == 2


def test_a_change_that_the_user_made_too_is_merged_and_writes_nothing(sides):
    base, result = {b"f": f(b"1\n2\n3\n")}, {b"f": f(b"1\nX\n3\n")}
    plan = sides.plan(base, result, result)
    assert not plan.changes
    assert not plan.conflicts
    assert plan.merged[b"f"]


WHOLE = [
    # base, result, now → after, or "conflict"
    (None, f(b"n"), None, f(b"n")),
    (None, f(b"n"), f(b"n"), f(b"n")),
    (None, f(b"n"), f(b"other"), "conflict"),
    (None, f(b"n"), Entry(changes.OTHER, b""), "conflict"),
    (f(b"x\n"), None, f(b"x\n"), None),
    (f(b"x\n"), None, None, None),
    (f(b"x\n"), None, f(b"y\n"), "conflict"),
    (f(b"x\n"), f(b"y\n"), None, "conflict"),
    (f(b"\0a"), f(b"\0b"), f(b"\0a"), f(b"\0b")),
    (f(b"\0a"), f(b"\0b"), f(b"\0c"), "conflict"),
    (f(b"\0a"), f(b"\0b"), Entry("100755", b"\0a"), Entry("100755", b"\0b")),
    (f(b"x\n"), Entry("100755", b"x\n"), f(b"y\n"), Entry("100755", b"y\n")),
    (f(b"x\n"), Entry("100755", b"y\n"), f(b"x\n"), Entry("100755", b"y\n")),
    (Entry("120000", b"a"), Entry("120000", b"b"), Entry("120000", b"a"), Entry("120000", b"b")),
    (Entry("120000", b"a"), Entry("120000", b"b"), Entry("120000", b"c"), "conflict"),
    (f(b"x\n"), Entry("120000", b"t"), f(b"x\n"), Entry("120000", b"t")),
    (f(b"x\n"), Entry("120000", b"t"), f(b"y\n"), "conflict"),
    (f(b"x\n"), f(b"y\n"), Entry("120000", b"t"), "conflict"),
    (f(b""), f(b"no end"), f(b""), f(b"no end")),
]


@pytest.mark.parametrize("number", range(len(WHOLE)))
def test_files_links_modes_and_binary_contents(sides, number):
    base, result, now, expected = WHOLE[number]
    state = {} if now is None else {b"f": now}
    plan = sides.plan({} if base is None else {b"f": base}, {} if result is None else {b"f": result}, state)
    if expected == "conflict":
        assert plan.conflicts
        assert not plan.changes
    else:
        assert not plan.conflicts
        assert after(state, plan).get(b"f") == expected


def test_a_rename_takes_the_edits_of_the_user_along(sides):
    body = b"".join(b"line %d\n" % number for number in range(20))
    base = {b"old": f(body)}
    result = {b"d/new": f(body.replace(b"line 15\n", b"LINE 15\n"))}
    now = {b"old": f(body.replace(b"line 3\n", b"mine\n"))}
    plan = sides.plan(base, result, now)
    assert after(now, plan) == {b"d/new": f(body.replace(b"line 15\n", b"LINE 15\n").replace(b"line 3\n", b"mine\n"))}
    blocked = now | {b"d/new": f(b"something\n")}
    assert sides.plan(base, result, blocked).conflicts
    clash = {b"old": f(body.replace(b"line 15\n", b"mine\n"))}
    assert sides.plan(base, result, clash).conflicts
    assert not sides.plan(base, result, result).changes


def test_a_file_becomes_a_folder_and_a_folder_a_file(sides):
    folder = {b"a/b": f(b"1\n"), b"a/c": f(b"2\n")}
    file = {b"a": f(b"something else entirely\n")}
    seen = folder | {b"a": Entry(changes.OTHER, b"")}
    plan = sides.plan(folder, file, seen)
    assert {each.path: each.after for each in plan.changes} == {b"a/b": None, b"a/c": None, b"a": file[b"a"]}
    seen = file | {b"a/b": Entry(changes.OTHER, b""), b"a/c": Entry(changes.OTHER, b"")}
    plan = sides.plan(file, folder, seen)
    assert {each.path: each.after for each in plan.changes} == folder | {b"a": None}


@pytest.mark.parametrize("own", ["a/mine", "a/x/mine", "a/empty/", "a/link"])
def test_a_folder_with_files_of_the_user_stays(sides, tmp_path, own):
    base, result = {b"a/b": f(b"1\n"), b"a/x/c": f(b"2\n")}, {b"a": f(b"something else entirely\n")}
    top = tmp_path / "seen"
    (top / "a" / "x").mkdir(parents=True)
    (top / "a" / "b").write_text("1\n")
    (top / "a" / "x" / "c").write_text("2\n")
    commits_ = sides.commit(base), sides.commit(result)
    plan = hunk_merge.plan(sides.store, *commits_, dict.fromkeys((b"a", b"a/b", b"a/x/c")), partial(read_entry, top))
    assert [each.path for each in plan.changes] == [b"a", b"a/b", b"a/x/c"]
    assert not plan.conflicts
    if own.endswith("/"):
        (top / own).mkdir()
    elif own == "a/link":
        (top / own).symlink_to("x")
    else:
        (top / own).write_text("mine\n")
    plan = hunk_merge.plan(sides.store, *commits_, dict.fromkeys((b"a", b"a/b", b"a/x/c")), partial(read_entry, top))
    assert [each.path for each in plan.changes] == [b"a/b", b"a/x/c"]
    assert [(each.path, each.blocked) for each in plan.conflicts] == [(b"a", True)]


def test_a_file_or_hunk_that_is_not_there_is_refused(sides):
    base, result = {b"f": f(b"1\n")}, {b"f": f(b"2\n")}
    for selection in ({b"g": None}, {b"f": {"000000000000"}}):
        with pytest.raises(UnderstudyError) as caught:
            sides.plan(base, result, base, selection)
        assert caught.value.kind is ErrorKind.INVALID_PARAMS


def test_amend_replaces_one_file_of_the_result_and_keeps_its_mode(sides):
    base = sides.commit({b"f": f(b"1\n"), b"gone": f(b"g\n")})
    head = sides.commit({b"f": Entry("100755", b"2\n")})
    new = changes.amend(sides.store, base, head, b"f", b"3\n")
    assert changes.reader(sides.store, new)(b"f") == Entry("100755", b"3\n")
    assert changes.amend(sides.store, base, new, b"f", b"3\n") == new
    assert changes.reader(sides.store, changes.amend(sides.store, base, head, b"gone", b"h\n"))(b"gone") == f(b"h\n")
    for path, kind in ((b"never", ErrorKind.INVALID_PARAMS), (b"../x", ErrorKind.PATH_ESCAPE)):
        with pytest.raises(UnderstudyError) as caught:
            changes.amend(sides.store, base, head, path, b"")
        assert caught.value.kind is kind


def test_reading_the_disk_follows_no_link(tmp_path):
    read = partial(read_entry, tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_bytes(b"1")
    (tmp_path / "d" / "x").chmod(0o755)
    (tmp_path / "to").symlink_to("d")
    os.mkfifo(tmp_path / "pipe")
    assert read(b"d/x") == Entry("100755", b"1")
    assert read(b"to") == Entry("120000", b"d")
    for path in (b"to/x", b"d", b"pipe", b"d/x/y"):
        assert read(path) == Entry(changes.OTHER, b"")
    assert read(b"no/such") is None
    with pytest.raises(UnderstudyError) as caught:
        read(b"../x")
    assert caught.value.kind is ErrorKind.PATH_ESCAPE


def ids_of(store, base: str, head: str) -> dict[bytes, list[str]]:
    return {unquote(each.path): [hunk.id for hunk in each.hunks] for each in file_diffs(store, base, head)}


def accept(bench, store, base: str, head: str, selection) -> hunk_merge.MergePlan:
    planned = hunk_merge.plan(store, base, head, selection, partial(read_entry, bench.repo))
    with FileTransaction(bench.repo, bench.state / "journal") as exchange:
        exchange.apply(planned.changes)
        exchange.commit()
    return planned


def test_one_accepted_and_edited_one_rejected_one_pending(bench):
    bench.init("seq 40 > n")
    store, base, tree = bench.tree()
    bench.sh("sed -i 's/^3$/H1/; s/^12$/H2/; s/^25$/H3/' n; echo x > new; chmod +x f1; git mv f2 g2", tree.path)
    head = tree.snapshot("work", base.commit).commit
    ids = ids_of(store, base.commit, head)
    accept(bench, store, base.commit, head, {b"n": {ids[b"n"][0]}, b"f1": None})
    bench.sh("sed -i 's/^H1$/H1 edited/; s/^35$/mine/' n; echo mine > f3")
    found = follow_up(
        store, bench.locate(), base.commit, head, {b"n": {ids[b"n"][2]}, b"new": None, b"g2": set(ids[b"g2"])}
    )
    assert not found.conflicts
    assert set(found.carried) == {b"n", b"new", b"g2"}
    shown = file_diffs(store, found.base.commit, found.start)
    assert [(each.path, each.status, len(each.hunks)) for each in shown] == [
        ("g2", "renamed", 1), ("n", "modified", 1), ("new", "added", 1),
    ]  # fmt: skip
    got = read_file(store, found.start, b"n")
    assert got is not None
    lines = got[0].split(b"\n")
    assert (lines[2], lines[11], lines[24], lines[34]) == (b"H1 edited", b"12", b"H3", b"mine")
    follow_tree = create_worktree(store, found.start, bench.state / "follow")
    assert (follow_tree.path / "f3").read_bytes() == b"mine\n"
    assert os.access(follow_tree.path / "f1", os.X_OK)


def test_a_pending_hunk_that_no_longer_fits_is_named(bench):
    bench.init("seq 40 > n")
    store, base, tree = bench.tree()
    bench.sh("sed -i 's/^3$/H1/; s/^25$/H3/' n", tree.path)
    head = tree.snapshot("work", base.commit).commit
    ids = ids_of(store, base.commit, head)[b"n"]
    bench.sh("sed -i 's/^25$/mine/' n")
    found = follow_up(store, bench.locate(), base.commit, head, {b"n": None})
    assert found.carried == {b"n": (ids[0],)}
    (conflict,) = found.conflicts
    assert (conflict.hunk, conflict.yours) == (ids[1], b"mine\n")


def test_nothing_pending_starts_from_the_base_alone(bench):
    bench.init()
    store, base, tree = bench.tree()
    bench.sh("echo x >> f1", tree.path)
    head = tree.snapshot("work", base.commit).commit
    found = follow_up(store, bench.locate(), base.commit, head, {}, buffers={"f2": b"unsaved"})
    assert found.start == found.base.commit
    assert reader(store, found.start)(b"f2") == changes.Entry("100644", b"unsaved")


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    decisions=st.lists(st.sampled_from(["accept", "reject", "leave"]), min_size=6, max_size=6),
    edits=st.sets(st.integers(0, 5)),
)
def test_after_any_partial_accept_the_follow_up_shows_what_was_left(bench, decisions, edits):
    if not (bench.repo / ".git").exists():
        bench.init("seq 60 > n")
    (bench.repo / "n").write_bytes(b"".join(b"%d\n" % (each + 1) for each in range(60)))
    store, base, tree = bench.tree()
    lines = (tree.path / "n").read_bytes().split(b"\n")
    for number in range(6):
        lines[number * 10 + 4] = b"hunk %d" % number
    (tree.path / "n").write_bytes(b"\n".join(lines))
    head = tree.snapshot("work", base.commit).commit
    ids = ids_of(store, base.commit, head)[b"n"]
    accepted = {each for each, what in zip(ids, decisions, strict=True) if what == "accept"}
    left = {each for each, what in zip(ids, decisions, strict=True) if what == "leave"}
    if accepted:
        assert set(accept(bench, store, base.commit, head, {b"n": accepted}).merged[b"n"]) == accepted
    place = Path(bench.repo / "n")
    mine = place.read_bytes().split(b"\n")
    for number in edits:
        mine[number * 10 + 9] = b"mine"
    place.write_bytes(b"\n".join(mine))
    found = follow_up(store, bench.locate(), base.commit, head, {b"n": left})
    assert not found.conflicts
    expected = list(mine)
    for number, what in enumerate(decisions):
        if what == "leave":
            expected[number * 10 + 4] = b"hunk %d" % number
    got = read_file(store, found.start, b"n")
    assert got is not None
    assert got[0] == b"\n".join(expected)
    assert sum(len(each.hunks) for each in file_diffs(store, found.base.commit, found.start)) == len(left)
