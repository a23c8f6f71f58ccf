"""Test the comparison of results: same lines together, equal changes once, what conflicts with an accepted one."""

from __future__ import annotations

import pytest

from understudy.model.hunks import HunkState

BASE = "".join(f"line {number}\n" for number in range(1, 13))
FIRST = BASE.replace("line 2\n", "two\n").replace("line 5\n", "five\n") + "end\n"
SECOND = BASE.replace("line 2\n", "two\n").replace("line 5\n", "FIVE\n").replace("line 6\n", "six\n")


@pytest.fixture
def compared(project, made_once):
    """A result of "first", and one of "second" for the same request; ``ids`` has both, ``group`` the group."""
    project.first = made_once("compared", lambda: write_first(project))
    write(project, "second", f'pathlib.Path("text.txt").write_text({SECOND!r})')
    project.second = project.call("delegations/retry", id=project.first, delegator="second", compare=True).id
    project.finish(project.second)
    project.group = project.call("delegations/get", id=project.first).group_id
    return project


def write(project, name, line):
    project.program(name, f'{line}\nsay(type="result", ok=True)')


def write_first(project):
    project.write("text.txt", BASE)
    project.commit()
    write(
        project, "first", f'pathlib.Path("text.txt").write_text({FIRST!r}); pathlib.Path("new.txt").write_text("n\\n")'
    )
    return project.run("implement", "text.txt", task="Name the numbers.", delegator="first").id


def places(project, path="text.txt"):
    files = {file.path: file.places for file in project.call("groups/compare", id=project.group).files}
    return files[path]


def test_another_try_makes_a_group_of_both(compared):
    first, second = (compared.call("delegations/get", id=one) for one in (compared.first, compared.second))
    assert first.group_id == second.group_id is not None
    group = compared.call("groups/get", id=compared.group)
    assert (group.kind, group.delegations) == ("compare", [compared.first, compared.second])
    assert second.base == first.base
    write(compared, "third", "pass")
    third = compared.call("delegations/retry", id=compared.second, delegator="third", compare=True).id
    assert compared.finish(third).group_id == compared.group, "a third joins them"


def test_equal_changes_are_one_and_others_are_side_by_side(compared):
    two, five, end = places(compared)
    assert [(place.start, place.lines) for place in (two, five, end)] == [(2, 1), (5, 2), (12, 0)]
    [both] = two.variants
    assert both.delegations == [compared.first, compared.second]
    assert (both.removed, both.added, two.unchanged) == (["line 2"], ["two"], [])
    assert {hunk.delegation for hunk in both.hunks} == {compared.first, compared.second}
    assert [(one.delegations, one.added) for one in five.variants] == [
        ([compared.first], ["five"]),
        ([compared.second], ["FIVE", "six"]),
    ]
    assert (end.variants[0].added, end.unchanged) == (["end"], [compared.second])
    [new] = places(compared, "new.txt")
    assert (new.variants[0].note, new.variants[0].added, new.unchanged) == ("New file.", ["n"], [compared.second])


def test_what_conflicts_with_an_accepted_change_says_so(compared):
    _, five, _ = places(compared)
    mine = five.variants[0].hunks[0]
    decision = {"path": "text.txt", "hunk": mine.hunk, "decision": "accept"}
    compared.call("delegations/decide", id=compared.first, decisions=[decision])
    two, five, _ = places(compared)
    assert [one.conflicts_with for one in five.variants] == [[], [compared.first]]
    assert five.variants[0].hunks[0].state is HunkState.ACCEPTED
    assert [one.conflicts_with for one in two.variants] == [[]]


def test_an_equal_change_is_accepted_once(compared):
    for hunk in places(compared)[0].variants[0].hunks:
        decision = {"path": hunk.path, "hunk": hunk.hunk, "decision": "accept"}
        outcome = compared.call("delegations/decide", id=hunk.delegation, decisions=[decision])
        assert not outcome.conflicts
    assert (compared.top / "text.txt").read_text().count("two\n") == 1


def test_a_result_that_is_not_there_is_a_column_that_says_why(compared):
    compared.call("delegations/discard", id=compared.second)
    found = compared.call("groups/compare", id=compared.group)
    assert [one.compared for one in found.results] == [True, False]
    assert found.results[1].problem
    assert all(place.unchanged == [] for file in found.files for place in file.places)
