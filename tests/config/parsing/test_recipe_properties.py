"""The file of a recipe says what it is like: no code knows recipes by their names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from understudy.config.loading.loader import load
from understudy.config.validation.start_options import checks_to_run, fallback_checks
from understudy.model.delegation.delegations import StartParams
from understudy.model.evidence.checks import Check

TOP = Path(__file__).parents[3]
BUILT_IN = {path.stem for path in (TOP / "sidecar/understudy/config/builtin/recipes").glob("*.md")}
CHECK = Check(name="unit", argv=["true"])


def test_a_recipe_of_ones_own_can_be_judged_by_new_tests(user, write):
    front = 'title = "Contract"\nreturns = "tree"\njudged_by = "new_tests"\nchanges = "tests"\nneeds = ["file"]'
    write(user / "recipes" / "contract.md", f"+++\n{front}\n+++\nWrite contract tests.\n")
    recipes = load(None, trusted=False).recipes
    params = StartParams(recipe="contract")
    assert checks_to_run({"unit": CHECK}, recipes["contract"], params) == []
    assert fallback_checks({"unit": CHECK}, recipes["contract"], params) == [CHECK]
    assert checks_to_run({"unit": CHECK}, recipes["fix"], params) == [CHECK]
    assert fallback_checks({"unit": CHECK}, recipes["fix"], params) == []


def test_the_user_s_own_recipes_come_first_and_the_built_in_ones_in_their_order(user, write):
    write(user / "recipes" / "zeal.md", '+++\ntitle = "Zeal"\nreturns = "text"\n+++\nShow zeal.\n')
    recipes = sorted(load(None, trusted=False).recipes.values(), key=lambda recipe: recipe.order)
    assert [recipe.name for recipe in recipes][:3] == ["zeal", "tests", "implement"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('judged_by = "luck"', "new_tests"),
        ('needs = ["money"]', "file, task"),
        ('changes = "nothing"', "documentation"),
        ('action = { shouts = "x" }', "shouts"),
    ],
)
def test_an_unknown_property_is_a_problem_with_its_place(user, write, lines, line, problem):
    write(user / "recipes" / "odd.md", f'+++\ntitle = "Odd"\nreturns = "tree"\n{line}\n+++\nWork.\n')
    [found] = lines(load(None, trusted=False))
    assert found.startswith("odd.md:4:")
    assert problem in found


def compared_names(source: str) -> list[int]:
    """Return the lines that compare the name of a recipe with that of a built-in one, or look it up among some."""
    wrong = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare):
            continue
        text = ast.unparse(node)
        constants = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
        if re.search(r"\brecipe(\.name|_name)?\b(?!\.)", text) and constants & BUILT_IN:
            wrong.append(node.lineno)
    return wrong


def test_no_code_compares_recipes_by_name():
    python = [
        f"{path}:{line}"
        for path in (TOP / "sidecar/understudy").rglob("*.py")
        for line in compared_names(path.read_text(encoding="utf-8"))
    ]
    names = "|".join(BUILT_IN)
    pattern = re.compile(rf'recipe(\.name)? ?[=!]==? ?"({names})"|"({names})" ?[=!]==? ?recipe')
    typescript = [path for path in (TOP / "vscode-extension/src").rglob("*.ts") if pattern.search(path.read_text())]
    assert (python, typescript) == ([], [])


@pytest.mark.parametrize(
    ("source", "lines"),
    [('recipe.name == "tests"', [1]), ('x = recipe in {"docs", "tests"}', [1]), ('recipe.returns == "tests"', [])],
)
def test_comparisons_are_found(source, lines):
    assert compared_names(source) == lines
