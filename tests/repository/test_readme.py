"""What the README says is what the product does."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import click

from understudy.faces.cli import app, exits
from understudy.model.states import Reservation, Verdict

TOP = Path(__file__).resolve().parent.parent
README = (TOP / "README.md").read_text(encoding="utf-8")


def test_the_first_commands_are_the_demo_and_the_tests():
    [first, *_] = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    assert [shlex.split(line.removeprefix("$ "), comments=True) for line in first.splitlines()] == [
        ["make", "demo"],
        ["make", "test"],
    ]


def test_every_verdict_is_explained_with_its_exit_code():
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| [^|]+ \| (\d+) \|$", README, re.MULTILINE))
    assert {name: int(code) for name, code in rows.items()} == {
        verdict.value: int(exits.of_verdict(verdict.value)) for verdict in Verdict
    }


def test_every_reservation_is_explained():
    for reservation in Reservation:
        assert f"| `{reservation.value}` |" in README


def test_every_command_that_is_shown_is_understood():
    group = app.group
    for line in re.findall(r"^\$ (?:\.venv/bin/)?(understudy .*?)(?:\s+#.*)?$", README, re.MULTILINE):
        words = shlex.split(line)[1:]
        command: click.Command = group
        context = click.Context(group)
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(context, words[0])
            assert found is not None, line
            command, words = found, words[1:]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help", "--version"}
        for word in words[: words.index("--") if "--" in words else None]:
            if word.startswith("-"):
                assert word in known, f"{line}: {word}"


def test_the_example_configuration_has_no_problem(tmp_path, monkeypatch):
    from understudy import config
    from understudy.runners import registry

    [example] = re.findall(r"```toml\n(# ~/.config/understudy/.*?)```", README, re.DOTALL)
    tomllib.loads(example)
    monkeypatch.setenv("UNDERSTUDY_CONFIG", str(tmp_path))
    (tmp_path / "config.toml").write_text(example)
    for name in ("quick", "mine"):
        (tmp_path / "delegators").mkdir(exist_ok=True)
        (tmp_path / "delegators" / f"{name}.toml").write_text(
            f'name = "{name}"\ntool = "generic"\n\n[launch]\ncommand = ["true"]\n'
        )
    loaded = config.load(None, trusted=False, abilities=registry.ABILITIES)
    assert [problem.message for problem in loaded.problems if problem.severity == "error"] == []


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (TOP / target).exists(), target


def test_the_table_of_liars_names_its_test():
    assert (TOP / "tests/engine/test_engine_lies.py").exists()
    done = subprocess.run(
        ["make", "-n", "demo", "DELEGATOR=liar"], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert "liar" in done.stdout
