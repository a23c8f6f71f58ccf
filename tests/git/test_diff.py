"""Results split into hunks."""

from __future__ import annotations

import os
import re

import pytest

from understudy.git.diff import changed_paths, file_diffs, read_file, read_files, splits, stats_of, unified
from understudy.model.errors import ErrorKind, UnderstudyError


@pytest.fixture
def change(bench):
    """Run a command in a tree of the prepared repository and return the store and both commits."""

    def run(prepare: str, command: str):
        bench.init(prepare)
        store, base, tree = bench.tree()
        bench.sh(command, tree.path)
        return store, base.commit, tree.snapshot("m", base.commit).commit

    return run


def ranges(diff):
    return [(h.old_start, h.old_lines, h.new_start, h.new_lines) for h in diff.hunks]


def test_every_kind_of_change(change):
    store, base, head = change(
        "seq 20 > text; seq 30 > moved; seq 5 > gone; printf 'a\\0b' > binary; echo m > mode; ln -s f1 link; echo t > type; seq 9 > both",
        "sed -i -e 2d -e 's/^10$/ten/' -e '15a new' text; mv moved elsewhere; sed -i 3d elsewhere; rm gone; printf 'a\\0c' > binary;"
        "chmod +x mode; ln -sfn f2 link; ln -sfn x type; chmod +x both; sed -i 4d both; printf 'p\\nq\\nr\\n' > added; touch empty; printf 'x' > no-newline",
    )
    found = {each.path: each for each in file_diffs(store, base, head)}
    assert {path: each.status for path, each in found.items()} == {
        "text": "modified",
        "elsewhere": "renamed",
        "gone": "deleted",
        "binary": "modified",
        "mode": "mode",
        "link": "modified",
        "type": "type",
        "both": "modified",
        "added": "added",
        "empty": "added",
        "no-newline": "added",
    }
    assert ranges(found["text"]) == [(2, 1, 1, 0), (10, 1, 9, 1), (15, 0, 15, 1)]
    assert ranges(found["elsewhere"]) == [(3, 1, 2, 0)]
    assert found["elsewhere"].from_ == "moved"
    assert ranges(found["gone"]) == [(1, 5, 0, 0)]
    assert ranges(found["added"]) == [(0, 0, 1, 3)]
    assert ranges(found["empty"]) == [(0, 0, 0, 0)]
    assert ranges(found["binary"]) == [(0, 0, 0, 0)]
    assert found["binary"].binary
    assert ranges(found["mode"]) == [(0, 0, 0, 0)]
    assert ranges(found["link"]) == [(1, 1, 1, 1)]
    assert ranges(found["type"]) == [(1, 1, 1, 1)]
    assert ranges(found["both"]) == [(0, 0, 0, 0), (4, 1, 3, 0)]
    identifiers = [hunk.id for each in found.values() for hunk in each.hunks]
    assert len(set(identifiers)) == len(identifiers)
    assert all(re.fullmatch("[0-9a-f]{12}", each) for each in identifiers)
    assert file_diffs(store, base, head) == list(found.values())
    counted = {each.path: (each.status, each.additions, each.deletions) for each in stats_of(splits(store, base, head))}
    assert counted["text"] == ("modified", 2, 2)
    assert counted["elsewhere"] == ("renamed", 0, 1)
    assert counted["binary"] == ("modified", 0, 0)
    assert ("deleted", b"moved") in changed_paths(store, base, head)


def test_a_flagged_file_is_flagged_under_both_of_its_names(change):
    store, base, head = change(
        "mkdir .husky; seq 30 > .husky/pre-push; seq 31 60 > tools; echo p > plain",
        "mv .husky/pre-push innocent; mkdir .vscode; mv tools .vscode/tasks.json; echo q > plain",
    )
    assert {each.path: each.flag_reason for each in file_diffs(store, base, head)} == {
        "innocent": "runs as a git hook",
        ".vscode/tasks.json": "is read by an editor",
        "plain": None,
    }


def test_a_file_is_flagged_for_what_nobody_sees_in_it(change):
    store, base, head = change(
        "echo a > same; printf 'x\u3164\n' > before; echo c > plain; ln -s plain link",
        "printf 'a\n\u3164 = 1\n' > same; printf 'y\n' > before; ln -sfn .git/hooks/post-merge link; echo d > plain",
    )
    assert {each.path: each.flag_reason for each in file_diffs(store, base, head)} == {
        "same": "has a line with the invisible character U+3164",
        "before": None,
        "link": "is a link into a git directory",
        "plain": None,
    }


def test_a_file_is_flagged_if_another_one_has_its_name_on_some_file_systems(change):
    composed, decomposed = "caf\u00e9.py", "cafe\u0301.py"
    store, base, head = change(
        f"mkdir Lib; echo a > calc.py; echo b > Lib/a.py; echo c > {composed}; echo d > old.py; echo e > Same.py",
        f"mkdir lib; echo x > Calc.py; echo y > lib/b.py; echo z > {decomposed}; mv old.py Old.py; echo f > Same.py",
    )
    same = ", but for upper and lower case or the form of its letters"
    assert {each.path: each.flag_reason for each in file_diffs(store, base, head)} == {
        "Calc.py": f"has the name of calc.py{same}",
        decomposed: f"has the name of {composed}{same}",
        "lib/b.py": f"has the name of Lib{same}",
        "Old.py": None,
        "Same.py": None,
    }


def test_hostile_names_and_contents_do_not_confuse_the_parser(bench):
    bench.init()
    store, base, tree = bench.tree()
    lines = (
        b"diff --git a/x b/x\n@@ -1,9 +1,9 @@\nBinary files a and b differ\n--- a\n+++ b\n-- x\n\\ No newline\n\rx\n"
    )
    for name in (b"a\n@@ -1 +1 @@\ndiff --git a/q b/q", b"\xff", b'"q"', b" b/x", b"x => y"):
        with open(os.fsencode(tree.path) + b"/" + name.replace(b"/", b"_"), "wb") as stream:
            stream.write(lines)
    (tree.path / "f1").write_bytes(lines)
    head = tree.snapshot("m", base.commit).commit
    found = file_diffs(store, base.commit, head)
    assert len(found) == 6
    assert all(len(each.hunks) == 1 for each in found)
    assert [ranges(each)[0][3] for each in found] == [8] * 6
    assert '"\\377"' in [each.path for each in found]
    assert len(stats_of(splits(store, base.commit, head))) == 6


def test_attributes_of_the_agent_hide_nothing(change):
    store, base, head = change("", "echo '* -diff binary' > .gitattributes; echo hidden > f1; printf 'x\\r\\n' > f2")
    assert not any(each.binary for each in file_diffs(store, base, head))
    assert b"+hidden" in unified(store, base, head)
    assert read_file(store, head, b"f2") == (b"x\r\n", "100644")


def test_the_unified_diff_applies(bench, files):
    bench.init("seq 50 > n; printf 'a\\r\\nb\\r\\n' > dos")
    store, base, tree = bench.tree()
    bench.sh(
        "sed -i -e 3d -e 's/40/x/' n; printf 'c\\r\\n' >> dos; mkdir d; echo new > 'd/ü'; rm f3; chmod +x f2; mv f1 g1",
        tree.path,
    )
    head = tree.snapshot("m", base.commit).commit
    patch = bench.root / "p"
    patch.write_bytes(unified(store, base.commit, head))
    bench.sh(f"git apply {patch}")
    assert files(bench.repo) == files(tree.path)


def test_many_files_are_read_with_two_calls_and_within_bounds(change):
    store, _, head = change("ln -s /x l", "mkdir d; printf new > d/ü; head -c 3000 /dev/zero > big; printf 12345 > m")
    names = ["d/ü".encode(), b"l", b"big", b"missing", b"m"]
    assert read_files(store, head, names, limit=100, total=100) == {"d/ü".encode(): b"new", b"m": b"12345"}
    assert read_files(store, head, names, limit=100, total=7) == {"d/ü".encode(): b"new"}
    assert read_files(store, head, [], limit=100, total=7) == {}


def test_files_are_read_within_bounds(change):
    store, base, head = change("mkdir d; ln -s /x l", "head -c 3000 /dev/zero > big")
    assert read_file(store, head, b"l") == (b"/x", "120000")
    assert read_file(store, head, b"missing") is None
    assert read_file(store, head, b"d") is None
    assert read_file(store, base, b"big") is None
    with pytest.raises(UnderstudyError) as caught:
        read_file(store, head, b"big", limit=1000)
    assert caught.value.kind is ErrorKind.FILE_TOO_LARGE
    with pytest.raises(UnderstudyError) as caught:
        file_diffs(store, base, "0" * 40)
    assert caught.value.kind is ErrorKind.BASE_UNAVAILABLE


def test_a_large_difference_is_cut_at_a_file(change, monkeypatch):
    monkeypatch.setattr("understudy.git.diff.UNIFIED_BYTES", 10_000)
    store, base, head = change("", "for name in $(seq 200); do echo $name > $name; done")
    text = unified(store, base, head)
    assert b"b/100 b/100\n" not in text
    assert text.startswith(b"diff --git a/1 b/1\n")
    assert text.endswith(b"\n# The rest of this difference is too large to be shown.\n")
    assert len(text) < 10_100


def test_a_large_file_hides_no_other(change, monkeypatch):
    monkeypatch.setattr("understudy.git.diff.UNIFIED_BYTES", 20_000)
    store, base, head = change("seq 4000 > m", "seq 5000 > a; echo changed >> m; seq 10 > z")
    text = unified(store, base, head)
    assert [line.split()[2] for line in text.splitlines() if line.startswith(b"diff --git ")] == [
        b"a/a",
        b"a/m",
        b"a/z",
    ]
    assert b"+10\n" in text
    assert b"+5000\n" not in text
    assert b"Binary files /dev/null and b/a differ\n" in text
    assert text.endswith(b"\n# Files above 1250 bytes are too large to be shown.\n")


def test_a_repository_that_was_moved_away_is_named(change, bench):
    store, base, head = change("echo one > a", "echo two > a")
    bench.repo.rename(bench.repo.with_name("elsewhere"))
    with pytest.raises(UnderstudyError) as caught:
        file_diffs(store, base, head)
    assert caught.value.kind is ErrorKind.BASE_UNAVAILABLE
    assert str(bench.repo) in caught.value.message
    assert "Move it back" in (caught.value.hint or "")
