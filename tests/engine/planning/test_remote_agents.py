"""Test delegators that stand for agents on other services: however one is chosen, a start on it is refused by kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.config.loading import loader
from understudy.engine.planning import delegator_choice
from understudy.model.errors import ErrorKind, UnderstudyError

REMOTE = 'name = "far"\ndisplay_name = "Far"\ntool = "claude"\n[remote_agent]\nplatform = "agnt"\nid = "R"\n'


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(tmp_path))
    (tmp_path / "delegators").mkdir()
    (tmp_path / "delegators" / "far.toml").write_text(REMOTE)
    return tmp_path


def chosen(explicit: str | None = None) -> str:
    found = loader.load(None, trusted=False)
    assert [one for one in found.problems if one.severity == "error"] == []
    return delegator_choice.choose(found, found.recipes["tests"], explicit)[0].delegator.name


@pytest.mark.parametrize("defaults", ["", '[defaults]\ndelegator = "far"\n', '[defaults.recipes]\ntests = "far"\n'])
def test_a_start_on_one_is_refused(user: Path, defaults: str) -> None:
    (user / "config.toml").write_text(defaults)
    with pytest.raises(UnderstudyError) as caught:
        chosen(None if defaults else "far")
    assert caught.value.kind is ErrorKind.REMOTE_ONLY_DELEGATOR
    assert "export far" in (caught.value.hint or "")


def test_one_is_not_the_only_delegator(user: Path) -> None:
    assert chosen() == "ghostwriter"
    (user / "delegators" / "near.toml").write_text('name = "near"\ntool = "claude"\n')
    assert chosen() == "near"


@pytest.mark.parametrize("line", ["[launch]\nyolo = true", 'mode = "acp"', 'env = { A = "b" }', 'fallback = ["x"]'])
def test_what_has_no_effect_on_one_is_an_error(user: Path, line: str) -> None:
    text = REMOTE + line if line.startswith("[") else line + "\n" + REMOTE
    (user / "delegators" / "far.toml").write_text(text)
    problems = loader.load(None, trusted=False).delegators["far"].state.problems
    assert any("the agent runs on another service" in one.message for one in problems)


def test_one_cannot_take_over(user: Path) -> None:
    (user / "delegators" / "near.toml").write_text('name = "near"\ntool = "claude"\nfallback = ["far"]\n')
    (problem,) = loader.load(None, trusted=False).delegators["near"].state.problems
    assert problem.severity == "error"
    assert "cannot take over" in problem.message
