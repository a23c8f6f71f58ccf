"""A specification of an older version is migrated when it is read; one of a newer version is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from understudy.journal import delegation_folder
from understudy.journal.summaries import summary
from understudy.model.config.delegators import EnvReference
from understudy.model.errors import ErrorKind, UnderstudyError

RECORDINGS = Path(__file__).with_name("recordings")


@pytest.fixture
def stored(own_home):
    """Store a recorded specification as a delegation's; return its folder."""

    def store(name: str, **changes: object) -> delegation_folder.Folder:
        text = (RECORDINGS / name).read_text()
        spec = json.loads(text) | changes
        folder = delegation_folder.delegations_root() / spec["id"]
        folder.mkdir()
        (folder / "spec.json").write_text(json.dumps(spec))
        return delegation_folder.open_folder(spec["id"])

    yield store
    shutil.rmtree(delegation_folder.delegations_root())


def test_a_start_of_version_1(stored):
    folder = stored("spec_version_1_start.json")
    spec = delegation_folder.read_spec(folder)
    [candidate] = spec.candidates
    assert spec.version == 3
    assert (candidate.delegator.name, candidate.model_server) == ("scripted", None)
    assert candidate.delegator.env == {"MODE": "fast", "TOKEN": EnvReference(from_env="DEMO_TOKEN")}
    assert (candidate.limits.total_seconds, candidate.limits.idle_seconds, candidate.limits.max_tokens) == (
        900,
        60,
        5000,
    )
    assert spec.params.limits is None, "version 1 kept the limits in force where the requested ones belong"
    assert (spec.params.base, len(spec.params.context_files)) == ("current", 1)
    assert (spec.explain.delegator, spec.explain.candidates) == ("scripted", [])
    assert spec.explain.reason == "it was chosen for this"
    assert spec.recipe.applies_to.on == ["diagnostic", "selection", "file"]
    assert (spec.asked_by.frontend, spec.asked_by.depth) == ("unknown", 0)
    assert summary.load(folder).delegator == "scripted"


def test_a_reply_of_version_1(stored):
    spec = delegation_folder.read_spec(stored("spec_version_1_reply.json"))
    assert spec.origin is not None
    assert (spec.origin.kind, spec.origin.parent) == ("reply", spec.parent_id)
    assert spec.origin.sessions == {"generic:scripted": "s-1"}
    assert spec.origin.said == ["Once more, please."]


@pytest.mark.parametrize(
    ("name", "judged_by", "changes"),
    [("tests", "new_tests", "tests"), ("docs", "checks", "documentation"), ("fix", "checks", "code")],
)
def test_version_2_knew_recipes_by_their_names(stored, name, judged_by, changes):
    recipe = json.loads((RECORDINGS / "spec_version_1_start.json").read_text())["recipe"]
    spec = delegation_folder.read_spec(stored("spec_version_1_start.json", recipe=recipe | {"name": name}))
    assert (spec.recipe.judged_by, spec.recipe.changes) == (judged_by, changes)


def test_a_newer_version_is_refused_with_what_to_do(stored):
    folder = stored("spec_version_1_start.json", version=4, candidates="of some later form")
    with pytest.raises(UnderstudyError) as caught:
        delegation_folder.read_spec(folder)
    assert caught.value.kind is ErrorKind.STATE_UNAVAILABLE
    assert "version 4" in caught.value.message
    assert "Update Understudy" in (caught.value.hint or "")


@pytest.mark.parametrize("version", [0, -1, "2", None])
def test_a_version_that_never_was_is_a_damaged_file(stored, version):
    with pytest.raises(UnderstudyError) as caught:
        delegation_folder.read_spec(stored("spec_version_1_start.json", version=version))
    assert caught.value.kind is ErrorKind.STATE_UNAVAILABLE
