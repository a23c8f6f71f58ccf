"""The evidence page on a terminal: its text without the marks of Markdown."""

from __future__ import annotations

import pytest

from understudy.frontends.cli import app
from understudy.frontends.cli.delegate import evidence
from understudy.frontends.cli.output import markdown
from understudy.frontends.cli.terminal import terminal
from understudy.model.evidence.checks import CheckResult
from understudy.model.verdicts import Verdict
from understudy.reports.evidence_page import evidence_page

PAGE = """\
# Verified: add\\_all

- **few mutants**: the tests notice `a * b` of \\*two\\* small changes in all of the files

| Test | On the base |
|---|---:|
| test\\_add \\| it | passed |
| test | - |

<details><summary>2 tests</summary>

```sh
git checkout **main** | cat
```

</details>
"""


def test_marks_are_rendered() -> None:
    assert (
        markdown.rendered(PAGE, terminal.Paint(on=False), 50).rstrip()
        == """\
Verified: add_all

- few mutants: the tests notice a * b of *two*
  small changes in all of the files

Test           On the base
test_add | it  passed
test           -

2 tests

    git checkout **main** | cat"""
    )


def test_a_cell_with_a_bar_or_a_line_separator_makes_no_row() -> None:
    table = "| Test | On |\n|---|---|\n| a|b | one |\n| `c\u2028d` | two |\n\n| e |\n"
    shown = markdown.rendered(table, terminal.Paint(on=False), 50)
    assert [row.split() for row in shown.rstrip().split("\n")] == [
        ["Test", "On"],
        ["a", "b", "one"],
        ["c", "d", "two"],
        [],
        ["e"],
    ]


def test_a_name_wider_than_the_terminal_does_not_widen_the_other_rows() -> None:
    long = f"test_{'x' * 500}"
    rows = ("| Test | Base | Result |", "|---|---|---|", f"| {long} | failed | passed |", "| test_add | - | passed |")
    shown = markdown.rendered("\n".join(rows), terminal.Paint(on=False), 50).rstrip().split("\n")
    assert shown[:3] == [f"{'Test':36}Base    Result", long, f"{'':36}failed  passed"]
    assert shown[3] == f"{'test_add':36}-       passed"


def test_headings_and_emphasis_are_bold() -> None:
    assert (
        markdown.rendered("## Checks\n**no**", terminal.Paint(on=True), 50)
        == "\x1b[1mChecks\x1b[0m\n\x1b[1mno\x1b[0m\n"
    )


def test_evidence_is_rendered_only_on_a_terminal(delegation, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    checked = CheckResult(
        name="tests_unit",
        argv=["make"],
        exit_code=0,
        seconds=1.0,
        tree="0" * 40,
        output_tail="",
        flaky=False,
        fails_on_base=False,
        ok=True,
        required=True,
    )
    page = evidence_page(delegation(verdict=Verdict.VERIFIED, checks=[checked]), None)

    def call(method: str, **_: object) -> object:
        return type("Page", (), {"markdown": page})

    monkeypatch.setattr(evidence, "call", call)
    monkeypatch.setattr(evidence, "resolve", str)
    assert app.main(["evidence", "k3f9q"]) == 0
    assert "### tests\\_unit: passed" in capsys.readouterr().out
    monkeypatch.setattr(terminal, "is_terminal", lambda _: True)
    assert app.main(["evidence", "k3f9q"]) == 0
    shown = capsys.readouterr().out
    assert "tests_unit: passed" in shown
    assert "#" not in shown
