"""The user's lines told without git: the same merge as with git's own difference, or no answer."""

from __future__ import annotations

import itertools
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.git import command, objects
from understudy.git.changes import Change, Entry
from understudy.git.diff import Split, line_splits
from understudy.git.merge import hunk_merge
from understudy.git.merge.line_edits import Edit, difference, disjoint_edits, edits_of, merge_edits, replace
from understudy.git.object_store import ObjectStore
from understudy.git.repository import locate

LINE = st.sampled_from([b"a\n", b"b\n", b"}\n", b"\n", b"c\r\n", b"d\n", b"\xff\n", b"e\n"])
BASE = st.lists(LINE, max_size=24)
CHANGE = st.tuples(st.integers(0, 24), st.integers(0, 3), st.lists(LINE, max_size=3))
CHANGES = st.lists(CHANGE, min_size=1, max_size=3)
TRIPLES = st.lists(st.tuples(BASE, CHANGES, CHANGES, st.booleans(), st.integers(0, 7)), min_size=12, max_size=12)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    root = tmp_path_factory.mktemp("apart")
    subprocess.run(["git", "init", "-q", str(root / "repo")], check=True)
    return ObjectStore.create(root / "store", locate(root / "repo"))


def changed(base: list[bytes], changes: list[tuple[int, int, list[bytes]]]) -> list[bytes]:
    lines = list(base)
    for at, gone, come in changes:
        lines[at : at + gone] = come
    return lines


def gits_edits(store: ObjectStore, pairs: list[tuple[list[bytes], list[bytes]]]) -> list[list[Edit]]:
    trees = []
    for side in (0, 1):
        blobs = [objects.write_blob(store, b"".join(pair[side])) for pair in pairs]
        trees.append(objects.write_flat_tree(store, [(b"%04d" % n, "100644", blob) for n, blob in enumerate(blobs)]))
    found: dict[bytes, Split] = line_splits(store, *trees)
    splits = [found.get(b"%04d" % number) for number in range(len(pairs))]
    return [edits_of(split.ranges, split.added) if split else [] for split in splits]


def merge_file(folder: Path, base: list[bytes], ours: list[bytes], theirs: bytes) -> bytes | None:
    """Git's own merge of whole files; None when it finds a conflict."""
    for name, content in (("ours", b"".join(ours)), ("base", b"".join(base)), ("theirs", theirs)):
        (folder / name).write_bytes(content)
    argv = ["git", "merge-file", "-p", "ours", "base", "theirs"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


@pytest.mark.hypothesis
def test_where_it_answers_the_merge_is_that_of_gits_own_difference(store: ObjectStore, tmp_path: Path) -> None:
    answered = []

    @settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
    @given(triples=TRIPLES)
    def check(triples) -> None:
        sides = []
        for base, ours, theirs, too, which in triples:
            # Often the user made the same change as well, beside others.
            now = changed(changed(base, ours), theirs) if too else changed(base, theirs)
            sides.append((base, changed(base, ours), now, which))
        results = gits_edits(store, [(base, result) for base, result, _, _ in sides])
        users = gits_edits(store, [(base, now) for base, _, now, _ in sides])
        for (base, _, now, which), edits, user in zip(sides, results, users, strict=True):
            chosen = [edit for number, edit in enumerate(edits) if not which & 1 << number]
            own = disjoint_edits(base, chosen, now)
            answered.append(own is not None)
            if own is None:
                continue
            merged = merge_edits(base, chosen, own)
            if merged != merge_edits(base, chosen, user):
                # Git tells the same difference in several ways; then its own merge of whole files decides.
                assert merged == (merge_file(tmp_path, base, now, replace(base, chosen)), {})

    check()
    assert sum(answered) > len(answered) / 5, "it has to be of use"


@settings(max_examples=examples(400), deadline=None)
@given(old=BASE, new=BASE)
def test_a_difference_leads_from_one_to_the_other_and_is_the_smallest(old: list[bytes], new: list[bytes]) -> None:
    edits = difference(old, new)
    assert edits is not None
    assert replace(old, edits) == b"".join(new)
    assert all(before.end < after.start for before, after in itertools.pairwise(edits))
    kept = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for x, a in enumerate(old):
        for y, b in enumerate(new):
            kept[x + 1][y + 1] = kept[x][y] + 1 if a == b else max(kept[x][y + 1], kept[x + 1][y])
    cost = sum(edit.end - edit.start + len(edit.lines) for edit in edits)
    assert cost == len(old) + len(new) - 2 * kept[-1][-1]


def test_what_would_take_longer_than_git_is_left_to_git() -> None:
    chance = random.Random(5)
    old, new = ([b"%d\n" % chance.randrange(50) for _ in range(20_000)] for _ in range(2))
    began = time.thread_time()
    assert difference(old, new) is None
    assert time.thread_time() - began < 2


@pytest.mark.parametrize(
    ("chosen", "now"),
    [
        (Edit(2, 2, (b"new\n",)), [b"1\n", b"2\n", b"mine\n", b"3\n", b"\n", b"\n", b"4\n"]),  # touches
        (Edit(5, 5, (b"\n",)), [b"1\n", b"2\n", b"3\n", b"\n", b"\n", b"\n", b"4\n"]),  # made already
        (Edit(4, 5, ()), [b"1\n", b"2\n", b"3\n", b"\n", b"4\n", b"4\n"]),  # perhaps made already
        (Edit(3, 4, ()), [b"1\n", b"2\n", b"3\n", b"\n", b"\n", b"y\n", b"4\n"]),  # could slide there
    ],
)
def test_where_there_are_two_ways_to_see_it_git_is_asked(chosen: Edit, now: list[bytes]) -> None:
    base = [b"1\n", b"2\n", b"3\n", b"\n", b"\n", b"4\n"]
    assert disjoint_edits(base, [chosen], now) is None


def test_a_hunk_beside_the_users_edits_is_merged_without_a_start_of_git(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [b"line %d\n" % number for number in range(40)]
    base, result, now, both = list(lines), list(lines), list(lines), list(lines)
    result[20] = both[20] = b"twenty\n"
    for side in (now, both):
        side[3], side[35] = b"mine\n", b""
    trees = [
        objects.write_flat_tree(store, [(b"f", "100644", objects.write_blob(store, b"".join(side)))])
        for side in (base, result)
    ]
    (split,) = line_splits(store, *trees).values()
    monkeypatch.setattr(hunk_merge, "splits", lambda *_: [split])
    started = []
    monkeypatch.setattr(command, "_run", lambda argv, *_args, **_more: started.append(argv))
    before = Entry("100644", b"".join(now))
    plan = hunk_merge.plan(store, *trees, {b"f": None}, lambda _: before)
    assert plan.changes == (Change(b"f", before, Entry("100644", b"".join(both))),)
    assert started == []


def test_a_loose_object_counts_only_with_its_own_contents(store: ObjectStore) -> None:
    identifier = objects.write_blob(store, b"good\n")
    other = objects.write_blob(store, b"other\n")
    place = Path(store.path, "objects", identifier[:2], identifier[2:])
    assert objects.read_loose(store.path, identifier, "sha1") == b"good\n"
    place.chmod(0o600)
    place.write_bytes(Path(store.path, "objects", other[:2], other[2:]).read_bytes())
    assert objects.read_loose(store.path, identifier, "sha1") is None
    place.write_bytes(b"no object")
    assert objects.read_loose(store.path, identifier, "sha1") is None
    place.unlink()
    assert objects.read_loose(store.path, identifier, "sha1") is None
