"""A key that costs more to read than it can mean, and names that are given very often."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from understudy.config.loading.loader import load


def test_a_key_of_very_many_names_is_refused_before_it_costs_anything(user: Path, write: Callable[..., Path]):
    write(user / "config.toml", ".".join(["a"] * 60_000) + " = 1\n")
    before = time.process_time()
    (problem,) = load(None, trusted=False).problems
    assert time.process_time() - before < 5  # without the limit: gigabytes, and minutes
    assert problem.message == "The file cannot be read: nested too deeply."


def test_dots_in_strings_are_not_names(user: Path, write: Callable[..., Path]):
    dots = ".".join(["a"] * 500)
    write(user / "config.toml", f'[worktrees]\ncopy = ["{dots}", \'{dots}\']\n"{dots}".b = 1\n')
    assert [problem.message[:13] for problem in load(None, trusted=False).problems] == ["Unknown key `"]


def test_a_name_given_very_often_is_shown_everywhere_and_costs_little(user: Path, write: Callable[..., Path]):
    write(user / "config.toml", "[[checks]]\nname = 'a'\nargv = ['x']\n" * 1000)
    before = time.process_time()
    loaded = load(None, trusted=False)
    assert time.process_time() - before < 5
    assert len([problem for problem in loaded.problems if "also given" in problem.message]) == 2 * 999
    assert loaded.checks == {}


def test_entries_with_errors_are_not_reported_as_missing(user: Path, write: Callable[..., Path]):
    write(
        user / "config.toml",
        "[defaults]\ndelegator = 'quick'\nrecipes = { mine = 'slow' }\n"
        "[[delegators]]\nname = 'quick'\nmodle = 'x'\n"
        "[[delegators]]\nname = 'other'\nmodel_server = 'local'\nmodel = 'x'\n"
        "[[checks]]\nname = 'unit'\nargv = 'pytest'\n",
    )
    write(user / "delegators" / "slow.toml", "tool = \n")
    write(user / "model-servers" / "local.toml", "kind = 'ollama'\n")
    write(user / "recipes" / "mine.md", "no front matter\n")
    write(user / "recipes" / "good.md", "+++\ntitle = 'x'\nreturns = 'tree'\nchecks = ['unit']\n+++\nWrite.\n")
    said = {problem.message for problem in load(None, trusted=False).problems}
    assert not [message for message in said if message.startswith("There is no")]
    assert {
        "The delegator `quick` has errors.",
        "The delegator `slow` has errors.",
        "The model server `local` has errors.",
        "The check `unit` has errors.",
        "The recipe `mine` has errors.",
    } <= said
