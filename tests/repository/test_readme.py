"""The tables, links and sample files of the README agree with the product."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from understudy.frontends.cli.calls import exit_codes
from understudy.model.verdicts import Reservation, Verdict

TOP = Path(__file__).resolve().parents[2]
README = (TOP / "README.md").read_text(encoding="utf-8")
VERDICTS = (TOP / "docs" / "verdicts.md").read_text(encoding="utf-8")
CONFIGURATION = (TOP / "docs" / "configuration.md").read_text(encoding="utf-8")
PAGES = ["README.md", "protocol/README.md", "sidecar/README.md", "CHANGELOG.md"]
DOCS = [f"docs/{page.name}" for page in sorted((TOP / "docs").glob("*.md"))]


def test_the_first_commands_are_the_demo_and_the_tests():
    [first, *_] = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    assert [shlex.split(line.removeprefix("$ "), comments=True) for line in first.splitlines()] == [
        ["make", "demo"],
        ["make", "test"],
    ]


def test_every_verdict_is_explained_with_its_exit_code():
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| [^|]+ \| (\d+) \|$", VERDICTS, re.MULTILINE))
    assert {name: int(code) for name, code in rows.items()} == {
        verdict.value: int(exit_codes.of_verdict(verdict.value)) for verdict in Verdict
    }


def test_every_reservation_is_explained():
    for reservation in Reservation:
        assert f"| `{reservation.value}` |" in VERDICTS


def test_the_sample_configuration_loads(tmp_path, monkeypatch):
    from understudy.config.loading import loader

    [example] = re.findall(r"```toml\n(# ~/.config/understudy/.*?)```", CONFIGURATION, re.DOTALL)
    tomllib.loads(example)
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(tmp_path))
    (tmp_path / "config.toml").write_text(example)
    for name in ("quick", "mine"):
        (tmp_path / "delegators").mkdir(exist_ok=True)
        (tmp_path / "delegators" / f"{name}.toml").write_text(
            f'name = "{name}"\ntool = "generic"\n\n[launch]\ncommand = ["true"]\n'
        )
    loaded = loader.load(None, trusted=False)
    assert [problem.message for problem in loaded.problems] == []
    assert (loaded.defaults.delegator, loaded.defaults.recipes) == ("quick", {"tests": "mine"})
    assert (loaded.limits.slots, loaded.limits.total_seconds, loaded.limits.max_usd) == (4, 1800, "0.50")
    assert list(loaded.checks) == ["unit", "secret"]


@pytest.mark.parametrize("page", [*PAGES, *DOCS])
def test_every_link_leads_to_a_file(page: str):
    text = (TOP / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text)
    assert [target for target in targets if not ((TOP / page).parent / target).exists()] == []


def test_the_readme_links_to_every_page_of_the_documentation():
    assert [page for page in DOCS if f"]({page})" not in README] == []


def test_the_recording_plays_the_commands_of_its_script():
    recording = (TOP / "docs" / "recording.svg").read_text(encoding="utf-8")
    typed = re.findall(r">\$ (understudy [a-z]+|python -m pytest -q|cat shop/money.py)", recording)
    script = (TOP / "scripts" / "record.py").read_text(encoding="utf-8")
    story = re.findall(r'^    \("(understudy [a-z]+|python -m pytest -q|cat shop/money.py)', script, re.MULTILINE)
    assert set(typed) >= set(story)
    assert len(story) == 6
    assert "VERIFIED</tspan>" in recording
    assert "UNVERIFIED</tspan>" in recording
    assert str(TOP) not in recording


def test_the_table_of_lying_agents_names_its_test():
    assert (TOP / "tests/engine/test_lying_agents.py").exists()
    done = subprocess.run(
        ["make", "-n", "demo", "DELEGATOR=liar"], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert "liar" in done.stdout
