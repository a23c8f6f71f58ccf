"""Test the positions of hunks: in git's patch, and in a text that is being edited."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.frontends.lsp.editor import line_alignment
from understudy.frontends.lsp.review import hunk_positions
from understudy.frontends.lsp.review.review_document import ReviewTarget
from understudy.git import diff
from understudy.git.object_store import ObjectStore
from understudy.git.repository import locate
from understudy.model.hunks import FileDiff, Hunk, HunkState

WORDS = st.lists(
    st.sampled_from(["a\n", "b\n", "c\n", "x\ry\n", "diff --git a/x b/x\n", "@@ -1 +1 @@\n", "end"]), max_size=14
)
LINES = [f"line {number}\n" for number in range(30)]


def hunk(old_start: int, old_lines: int, new_start: int, new_lines: int, name: str = "h") -> Hunk:
    return Hunk(
        id=name, old_start=old_start, old_lines=old_lines, new_start=new_start, new_lines=new_lines,
        state=HunkState.PENDING, conflict=False, edited=False,
    )  # fmt: skip


def lsp_lines(text: str) -> list[str]:
    return re.split("\r\n|\n|\r", text)


class Pair:
    """Two states of a folder and their difference, by real git."""

    def __init__(self, top: Path) -> None:
        self.top = top
        (top / "repository").mkdir()
        self.git("init", "-q")
        self.number = 0

    def git(self, *args: str) -> str:
        return subprocess.run(
            ["git", "-c", "core.autocrlf=false", *args], cwd=self.top / "repository", capture_output=True, text=True, check=True
        ).stdout  # fmt: skip

    def difference(self, before: dict[str, str], after: dict[str, str]) -> tuple[str, list[FileDiff]]:
        """Return patch and files; a value ``link:x`` is a link, one that starts with ``#!`` is executable."""
        commits = []
        for state in (before, after):
            for old in (self.top / "repository").iterdir():
                if old.name != ".git":
                    old.unlink()
            for name, text in state.items():
                path = self.top / "repository" / name
                if text.startswith("link:"):
                    path.symlink_to(text[5:])
                else:
                    path.write_bytes(text.encode())
                    path.chmod(0o755 if text.startswith("#!") else 0o644)
            self.git("add", "-A")
            self.git("commit", "-q", "--allow-empty", "-m", "x")
            commits.append(self.git("rev-parse", "HEAD").strip())
        self.number += 1
        found = locate(self.top / "repository")
        objects = ObjectStore.create(self.top / f"store-{self.number}", found)
        return diff.unified(objects, *commits).decode(), diff.file_diffs(objects, *commits)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return Pair(tmp_path_factory.mktemp("pair"))


texts = WORDS.map("".join)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts, texts)
def test_the_hunks_of_a_patch_are_its_changed_lines(pair, before, after):
    text, files = pair.difference({"a": before, "b": "same\n"}, {"a": after, "b": "same\n"})
    lines = lsp_lines(text)
    found = hunk_positions.in_patch(text, files)
    assert [one.spot.hunk for one in found] == [hunk.id for file in files for hunk in file.hunks]
    for file in files:
        for one in file.hunks:
            [place] = [each for each in found if each.spot.hunk == one.id]
            # As text, single carriage returns and all: what the hunk removes and adds.
            printed = "\n".join(lines[place.first : place.last + 1])
            own = [line for line in printed.split("\n") if line[:1] in "+-"]
            assert sum(line.startswith("-") for line in own) >= one.old_lines
            assert sum(line.startswith("+") for line in own) >= one.new_lines
            assert lines[place.first][:1] in {"+", "-"}
            if one.old_lines:
                assert lines[place.first] == "-" + lsp_lines(before.split("\n")[one.old_start - 1])[0]
            else:
                assert lines[place.first] == "+" + lsp_lines(after.split("\n")[one.new_start - 1])[0]


def test_every_kind_of_change_has_a_position(pair):
    before = {
        "binary": "\0a", "gone": "x\n", "link": "x\n", "mode": "x\n", "moved": "".join(LINES), "same": "",
        "sides": "a\nb\n", "two": "".join(LINES), "won": "#!x\na\n",
    }  # fmt: skip
    after = {
        "binary": "\0b", "empty": "", "link": "link:x", "mode": "x\n", "new": "1\n2\n", "renamed": "".join(LINES),
        "same": "", "sides": "a\nc", "two": "".join([*LINES[:9], "ten\n", *LINES[10:12], "thirteen\n", *LINES[14:]]),
        "won": "x\na\n",
    }  # fmt: skip
    after["mode"] = "x\n"
    text, files = pair.difference(before, after)
    text = "# A title\n\n" + text
    lines = lsp_lines(text)
    found = hunk_positions.in_patch(text, files)
    assert [one.spot for one in found] == [ReviewTarget(file.path, one.id) for file in files for one in file.hunks]
    by_path: dict[str, list[str]] = {}
    for one in found:
        by_path.setdefault(str(one.spot.path), []).append("\n".join(lines[one.first : one.last + 1]))
    assert by_path["gone"] == ["-x"]
    assert by_path["new"] == ["+1\n+2"]
    assert by_path["sides"] == ["-b\n+c\n\\ No newline at end of file"]
    assert [place.split("\n")[0] for place in by_path["two"]] == ["-line 9", "-line 12"]
    assert by_path["link"][0].startswith("-x\n")
    assert by_path["link"][0].endswith("+x\n\\ No newline at end of file")
    assert by_path["binary"][0].startswith("diff --git ")
    assert "rename to renamed" in by_path["renamed"][0]
    assert by_path["won"] == ["old mode 100755\nnew mode 100644", "-#!x\n+x"]
    assert by_path["empty"][0].startswith("diff --git a/empty")


def test_a_truncated_patch_gives_the_positions_that_it_contains(pair):
    text, files = pair.difference({"a": "1\n", "b": "1\n"}, {"a": "2\n", "b": "2\n"})
    cut = text[: text.index("diff --git a/b")] + "# The rest of this difference is too large to be shown.\n"
    assert [one.spot.path for one in hunk_positions.in_patch(cut, files)] == ["a"]
    assert hunk_positions.in_patch("", files) == []
    assert hunk_positions.in_patch("something else", files) == []


# -- in an open text -----------------------------------------------------------------------------------------------

RANGES = st.tuples(st.integers(0, 29), st.integers(0, 4), st.integers(0, 3)).filter(lambda one: one[0] + one[1] <= 30)


def ranged(start: int, old: int, new: int) -> Hunk:
    return hunk(start + 1 if old else start, old, 1, max(new, 1 - min(old, 1)))


def landing(base: str, current: str, one: Hunk) -> tuple[int, int]:
    [found] = hunk_positions.landings(base, current, [one])
    return found


@given(RANGES)
def test_in_the_base_a_hunk_is_at_its_own_line_number(one):
    start, old, _ = one
    found = landing("".join(LINES), "".join(LINES), ranged(*one))
    expected = (start, start + old - 1) if old else (max(start - 1, 0), max(start - 1, 0))
    assert found == expected


@given(RANGES, st.integers(0, 30), st.lists(st.sampled_from(["new\n", "\n", "x\ry\n"]), max_size=5))
def test_lines_added_above_move_it_and_elsewhere_do_not(one, where, added):
    start, old, _ = one
    current = "".join([*LINES[:where], *added, *LINES[where:]])
    before = landing("".join(LINES), "".join(LINES), ranged(*one))
    found = landing("".join(LINES), current, ranged(*one))
    shift = sum(len(lsp_lines(line)) - 1 for line in added)
    if where < start or (where == start and old):
        assert found == (before[0] + shift, before[1] + shift) or (not old and where == 0 == start)
    elif where > start + old or (where == start + old and old):
        assert found == before


@given(RANGES, st.lists(st.tuples(st.integers(0, 29), st.sampled_from(["", "new\n", "a\nb\n"])), max_size=8))
def test_wherever_it_lands_is_a_line_and_its_own_lines_stay_its_own(one, edits):
    start, old, _ = one
    lines = list(LINES)
    for number, text in edits:
        lines[number] = text
    current = "".join(lines)
    first, last = landing("".join(LINES), current, ranged(*one))
    count = len(lsp_lines(current))
    assert 0 <= first <= last < count
    own = LINES[start : start + old]
    shown = [line + "\n" for line in lsp_lines(current)[first : last + 1]]
    left = [line for line in own if line in lines]
    assert not left or left == [line for line in shown if line in LINES]


@given(
    st.lists(st.sampled_from("abcdefghij"), max_size=25),
    st.lists(st.sampled_from("abcdefghij"), max_size=25),
)
def test_lines_are_aligned_with_the_same_lines_in_order(old, new):
    found = line_alignment.align(old, new)
    assert line_alignment.align(old, old) == list(range(len(old)))
    pairs = [(number, place) for number, place in enumerate(found) if place is not None]
    assert len(found) == len(old)
    assert all(old[number] == new[place] for number, place in pairs)
    places = [place for _, place in pairs]
    assert places == sorted(set(places))
    for number in range(min(len(old), len(new))):
        if old[number] != new[number]:
            break
        assert found[number] == number, "what both begin with"


@given(texts, texts, RANGES)
def test_every_hunk_has_a_position_in_any_text(base, current, one):
    first, last = landing(base, current, ranged(*one))
    assert 0 <= first <= last < len(lsp_lines(current))


def test_changes_without_lines_are_at_the_top():
    assert hunk_positions.landings("x\n", "y\nz\n", [hunk(0, 0, 0, 0)]) == [(0, 0)]


def test_other_line_breaks_are_not_an_edit():
    base = "".join(LINES)
    assert landing(base, base.replace("\n", "\r\n"), ranged(7, 2, 1)) == (7, 8)


def test_a_long_text_is_quick():
    base = [f"    value = {number // 2}\n" if number % 3 else "\n" for number in range(20_000)]
    current = "".join(["import os\n", *base[:10_000], "changed\n", *base[10_001:], "more\n"])
    before = time.thread_time()
    found = landing("".join(base), current, ranged(15_000, 2, 1))
    assert time.thread_time() - before < 5
    assert found[0] == 15_001
    alike = ["\n", "    return value\n"] * 10_000
    before = time.thread_time()
    landing(
        "".join(alike), "".join(["import os\n", *alike[:10_000], "changed\n", *alike[9_000:], "end\n"]), ranged(9, 2, 1)
    )
    assert time.thread_time() - before < 5
