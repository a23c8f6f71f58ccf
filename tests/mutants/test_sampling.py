"""The sample of mutants, and the sham ones."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.mutants.generate import mutants_of
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.sampling import sample
from understudy.mutants.sham import sham_mutants

SOURCE = b"".join(
    b"def f%d(a):\n%s    return a + %d\n" % (index, b"    a = a * 2\n" * (1 + 20 * (index == 0)), index)
    for index in range(5)
)
ALL = [("a.py", one) for one in mutants_of("a.py", SOURCE)]


@given(st.integers(min_value=0, max_value=60), st.text(max_size=40))
def test_a_sample_is_even_over_functions_and_always_the_same(count: int, seed: str) -> None:
    chosen = sample(ALL, count, seed)
    assert len(chosen) == min(count, len(ALL)) == len(set(chosen))
    assert chosen == sample(reversed(ALL), count, seed)
    # Any beginning of it is even, too: no function is ahead of one that has mutants left.
    total = Counter(one.function for _, one in ALL)
    for end in range(len(chosen)):
        taken = Counter(one.function for _, one in chosen[:end])
        least = min((taken[name] for name in total if taken[name] < total[name]), default=0)
        assert all(taken[name] <= least + 1 for name in total if taken[name] < total[name] or taken[name] > least + 1)


def test_another_seed_gives_another_sample() -> None:
    assert len({tuple(sample(ALL, 8, str(seed))) for seed in range(20)}) > 15


@pytest.mark.parametrize("source", [b"", b"def f():\n    return 1", b"x = 1\n", b"x = 1\r\n"])
def test_sham_mutants_change_nothing_that_runs(source: bytes) -> None:
    same, comment, store = sham_mutants("a.py", source, "seed")
    assert same.apply(source) == source
    assert ast.dump(ast.parse(comment.apply(source))) == ast.dump(ast.parse(source))
    *rest, added = ast.parse(store.apply(source)).body
    assert isinstance(added, ast.Assign)
    assert [ast.dump(one) for one in rest] == [ast.dump(one) for one in ast.parse(source).body]


@pytest.mark.parametrize("path", ["a.js", "a.ts", "a.tsx", "a.go", "a.rs", "a.java"])
def test_sham_mutants_parse_in_every_language(path: str) -> None:
    language = language_of(path)
    assert language is not None
    shams = sham_mutants(path, b"", "seed")
    assert len(shams) == 3
    for one in shams:
        assert not language.parse(one.apply(b"")).has_error


def test_sham_mutants_depend_on_the_seed_and_have_no_common_name() -> None:
    texts = [one.text for seed in ("a", "b") for one in sham_mutants("a.py", b"", seed)[1:]]
    assert len(set(texts)) == 4
    assert not any(b"understudy" in text or b"sham" in text for text in texts)
    assert sham_mutants("a.json", b"", "seed") == []
