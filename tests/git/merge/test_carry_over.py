"""A follow-up shows exactly the pending hunks, on what the user sees now."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.git import changes
from understudy.git.apply.transaction import FileTransaction, read_entry
from understudy.git.commits import reader
from understudy.git.diff import file_diffs, read_file
from understudy.git.merge import hunk_merge
from understudy.git.merge.carry_over import follow_up
from understudy.git.worktree.worktree import create_worktree
from understudy.model.text.path_quoting import unquote


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
