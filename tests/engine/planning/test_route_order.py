"""Test what is known about the candidates of a route."""

from __future__ import annotations

from understudy.config.loading import loader
from understudy.engine.planning import route_order
from understudy.journal import delegation_folder, ledger
from understudy.model.delegation.delegations import AskedBy, no_usage
from understudy.model.delegation.ledger import LedgerEntry
from understudy.model.wire import timestamp
from understudy.policy.route_ranking import Work

CONFIG = """
[[delegators]]
name = "slow"
tool = "claude"

[[delegators]]
name = "quick"
tool = "claude"

[[routes]]
name = "fast"
candidates = ["slow", "quick"]
order = "fastest"
"""


def ran(delegator: str, seconds: float) -> None:
    ledger.append(
        LedgerEntry(
            at=timestamp(),
            id=delegation_folder.new_id(),
            attempt=1,
            asked_by=AskedBy(frontend="cli", depth=0),
            recipe="tests",
            language="",
            workspace="/somewhere",
            delegator=delegator,
            model="",
            cost_source="unknown",
            usage=no_usage(),
            cost_usd=None,
            seconds=seconds,
            verdict="verified",
        )
    )


def test_a_ledger_that_is_as_long_as_before_is_not_read_again(own_home, monkeypatch) -> None:
    folder = own_home / "config" / "understudy"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(CONFIG)
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(folder))
    configuration = loader.load(None, trusted=False)
    read = []
    decoded = ledger.decoded
    monkeypatch.setattr(ledger, "decoded", lambda line: read.append(line) or decoded(line))

    def order(recipe: str = "tests") -> list[str]:
        return [place.name for place in route_order.route_candidates(configuration, "fast", Work(recipe=recipe))]

    ran("slow", 2.0)
    assert order() == ["slow", "quick"]
    ran("quick", 1.0)
    assert order() == ["quick", "slow"]
    assert len(read) == 3
    assert order("fix") == ["slow", "quick"]
    assert order() == ["quick", "slow"]
    assert len(read) == 3


def test_what_conditions_are_about_is_the_same_for_files_and_for_texts(tmp_path) -> None:
    (tmp_path / "a.py").write_text("A = 1\n")
    sizes = route_order.sizes_of(tmp_path, ["a.py", "gone.go", "README"])
    assert sizes == {"a.py": 6, "gone.go": 0, "README": 0}
    work = route_order.work_of("tests", sizes, ["small"])
    assert work == Work(recipe="tests", languages=frozenset({"python", "go"}), size=6, labels=frozenset({"small"}))
