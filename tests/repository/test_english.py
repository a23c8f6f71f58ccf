"""The text of the project is plain English, as far as a list of phrases can tell (scripts/english.py)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).parents[2]
SCRIPT = TOP / "scripts" / "english.py"


def load() -> ModuleType:
    specification = importlib.util.spec_from_file_location("english_of_scripts", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


english = load()
RULES = english.load_rules()


def broken(text: str, path: str = "page.md") -> list[str]:
    return [finding.rule for finding in english.check(path, text, RULES)]


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.name)
def test_a_rule_finds_its_examples_and_leaves_look_alikes_alone(rule):
    assert rule.wrong
    assert rule.instead
    for text in rule.wrong:
        assert rule.name in broken(text), text
        for literal in (f"x = {text!r}\n", f'def f():\n    """{text}"""\n'):
            assert rule.name in broken(literal, "module.py"), literal
    for text in rule.right:
        assert rule.name not in broken(text), text


@pytest.mark.parametrize("old", RULES.renamed)
def test_an_old_name_is_found_in_prose_and_in_code(old: str):
    assert "renamed" in broken(f"call({old})", "module.py")
    assert "renamed" in broken(f"Use `{old}` here.")
    assert "renamed" not in broken(f"longer_{old}_name", "module.py")
    assert "renamed" not in broken(RULES.renamed[old])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "x = 1  # made anew\n"),
        ("a.py", '"""Made\n\n    anew."""\n'),
        ("a.py", 'raise Error(f"{path} is "\n    "no file")\n'),
        ("a.py", "# The rows are made\n# anew.\n"),
        ("a.ts", "// made anew\n"),
        ("a.ts", "/**\n * The file is\n * no folder.\n */\n"),
        ("a.ts", "const x = `${name} is no file`;"),
        ("a.ts", "const x = `${f({ a: `${b}` })} made anew`;"),
        ("a.ts", "const slash = /[/'\"]/g; say('made anew');"),
        ("a.mjs", "say('made anew');"),
        ("a.json", '{"text": "made\\nanew"}'),
        ("a.toml", 'x = "made anew"'),
        ("Makefile", "help: ## made anew"),
        ("run", "echo 'made anew'"),
        ("a.md", "| made anew | x |\n"),
        ("a.md", "> It is\n> no file.\n"),
        ("a.md", "```console\n$ understudy  # made anew\n```\n"),
    ],
)
def test_prose_is_found_wherever_it_is_written(path: str, text: str):
    assert len(broken(text, path)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "anew = floor(house)\n"),
        ("a.py", 'call("it is", "no file")\n'),
        ("a.py", 'x = "is"\ny = "no file"\n'),
        ("a.py", '"""Calls ``anew`` and `Floor`."""\n'),
        ("a.py", 'open("house/floors/anew.py")\n'),
        ("a.ts", "const anew = house.floors;"),
        ("a.ts", "const anew = a / b / whoever;"),
        ("a.json", '{"is": 1, "no": 2}'),
        ("a.md", "See [the page](anew/whoever.md)."),
        ("a.md", "- It is\n- no file\n"),
        ("a.md", "What it is\n\nno file is there.\n"),
        ("a.md", "| is | no file |\n"),
        ("a.md", "<!-- generated: lists -->\nmade anew\n<!-- end of lists -->\n"),
    ],
)
def test_code_is_left_alone(path: str, text: str):
    assert broken(text, path) == []


def test_a_finding_has_its_line_and_a_remedy():
    [found] = english.check("a.py", 'x = 1\n\n"""First.\n\nMade anew."""\n', RULES)
    assert (found.line, found.text) == (5, "anew")
    assert str(found).startswith("a.py:5: “anew” (anew): again")


@pytest.mark.parametrize(
    "text",
    [
        "x = 'anew'  # english: allow anew - a quotation\n",
        "# english: allow anew - a quotation\nx = 'anew'\n",
        "# english: allow anew - first, english: allow whoever - second\nx = 'anew whoever'\n",
    ],
)
def test_a_line_may_be_an_exception_with_a_reason(text: str):
    assert broken(text, "a.py") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 'anew'  # english: allow anew\n", "needs a reason"),
        ("x = 'again'  # english: allow anew - a quotation\n", "nothing here breaks"),
    ],
)
def test_an_exception_without_a_reason_or_a_use_is_an_error(text: str, message: str):
    with pytest.raises(english.RulesError, match=message):
        broken(text, "a.py")


def test_an_exception_holds_for_its_own_rule_only():
    assert broken("x = 'anew whoever'  # english: allow anew - a quotation\n", "a.py") == ["whoever"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_a_path_without_files_is_an_error():
    done = run(str(TOP / "nothing-of-this-name"))
    assert done.returncode == 2
    assert done.stderr.startswith("No tracked file below ")


def test_a_file_is_named_by_its_path(tmp_path: Path):
    assert run(str(SCRIPT)).returncode == 0
    outside = run(str(tmp_path))
    assert outside.returncode == 2


def test_every_exemption_has_a_reason():
    assert all(RULES.skipped.values())
    assert all(reason for rules in RULES.allowed.values() for reason in rules.values())
    assert RULES.names() >= {rule for rules in RULES.allowed.values() for rule in rules}
