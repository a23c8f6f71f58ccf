"""What of a Python file does nothing when it runs, and what only looks like it."""

from __future__ import annotations

import pytest

from understudy.mutants.python_declarations import differs_in_annotations, only_abstract, unused_names

CODE = "def half(x):\n    return x / 2\n"
ALIAS = "import typing\n\nRows = typing.List[typing.Tuple[str, int]]\n\nROWS: Rows = []\n"
PROTOCOL = 'from typing import Protocol\n\n\nclass Priced(Protocol):\n    """Has a price."""\n\n    price: int\n\n    @property\n    def name(self) -> str: ...\n\n\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ROWS = []\n", ALIAS),
        (
            "@pytest.mark.parametrize('x', X)\n" + CODE,
            "@pytest.mark.parametrize('x', X)\n" + CODE.replace("(x)", "(x: int)"),
        ),
        (CODE, "from typing import overload\n\n\n@overload\ndef half(x: int) -> float: ...\n\n\n" + CODE),
        ("@overload\ndef half(x: int): ...\n\n\n" + CODE, "@overload\ndef half(x: str = ''): ...\n\n\n" + CODE),
        ("from __future__ import print_function, division\n" + CODE, "from __future__ import annotations\n" + CODE),
        (CODE, "from typing import TypeVar\n\nT = TypeVar('T', bound=int)\n" + CODE.replace("(x)", "(x: T) -> T")),
        (CODE, PROTOCOL + CODE.replace("(x)", "(x: Priced)")),
        (CODE, "from typing import List\n\nNumbers = List[int]\n" + CODE.replace("(x)", "(x: Numbers) -> float")),
    ],
)
def test_types_that_only_annotations_use(before: str, after: str) -> None:
    assert differs_in_annotations(before.encode(), after.encode())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ROWS = []\n", "ROWS: patch() = []\n"),
        ("ROWS = []\n", "Rows = data['x']\nROWS: Rows = []\n"),
        ("ROWS = []\n", ALIAS + "print(Rows)\n"),
        ("@patch\n" + CODE, "@patch\n" + CODE.replace("(x)", "(x: int)")),
        (CODE, CODE + "\n\n@overload\ndef half(x: int) -> float: ...\n"),
        (CODE, "@overload\ndef other(x: int) -> float: ...\n\n\n" + CODE),
        (CODE, "from __future__ import barry_as_FLUFL\n" + CODE),
        (CODE, "T = TypeVar('T', bound=patch())\n" + CODE),
        (CODE, PROTOCOL.replace("...", "patch()") + CODE),
        (CODE, PROTOCOL.replace("price: int", "price: int = patch()") + CODE),
        (CODE, PROTOCOL.replace("Protocol)", "Base)") + CODE),
        (CODE, PROTOCOL.replace("@property", "@patch") + CODE),
        (CODE, PROTOCOL.replace("(self)", "(self, x=patch())") + CODE),
        (CODE, PROTOCOL + CODE + "    \nhalf = Priced\n"),
    ],
)
def test_what_runs_is_no_type(before: str, after: str) -> None:
    assert not differs_in_annotations(before.encode(), after.encode())


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ("import os\n" + CODE, CODE, {"os"}),
        (
            "from os import path, sep\n" + CODE + "print(sep)\n",
            "from os import sep\n" + CODE + "print(sep)\n",
            {"path"},
        ),
        (CODE, "import os.path\n" + CODE, {"os"}),
        (CODE, '__all__ = ["half"]\n' + CODE, {"*"}),
        ('__all__ = ["a"]\n' + CODE, '__all__ = ["a", "half"]\n' + CODE, {"*"}),
        ('__all__ = ["a"]\n' + CODE, '__all__ = ["a", patch()]\n' + CODE, None),
        ("import os\n" + CODE + "os.x = 1\n", CODE + "os.x = 1\n", None),
        ("import calc\n" + CODE, CODE, None),
        ("import readline\n" + CODE, CODE, None),
        ("from os import *\n" + CODE, CODE, None),
        ('import os\n__all__ = ["os"]\n', '__all__ = ["os"]\n', None),
        ('__all__ = ["a"]\n' + CODE, '__all__ = ["half"]\n' + CODE, None),
        ("import os\n" + CODE, CODE.replace("2", "3"), None),
        (CODE, CODE, None),
    ],
)
def test_names_that_nothing_uses(before: str, after: str, names: set[str] | None) -> None:
    assert unused_names(before.encode(), after.encode()) == names


ABSTRACT = (
    "import abc\n\n\nclass Shape(abc.ABC):\n    sides = 0\n\n    @abc.abstractmethod\n    def area(self):\n        {}\n"
)


@pytest.mark.parametrize(
    ("source", "lines", "only"),
    [
        (ABSTRACT.format('"""Return it."""'), range(6, 10), True),
        (ABSTRACT.format("...").replace("abc.ABC", "metaclass=abc.ABCMeta"), range(7, 10), True),
        (ABSTRACT.format("pass"), range(5, 10), False),
        (ABSTRACT.format("return 0"), range(7, 10), False),
        (ABSTRACT.format("pass").replace("(abc.ABC)", ""), range(7, 10), False),
        (ABSTRACT.format("pass").replace("import abc", "import fake as abc"), range(7, 10), False),
        (ABSTRACT.format("pass").replace("    @abc.abstractmethod\n", ""), range(7, 9), False),
        (ABSTRACT.format("pass").replace("(self)", "(self, x=patch())"), range(7, 10), False),
    ],
)
def test_methods_that_subclasses_must_define(source: str, lines: range, only: bool) -> None:
    assert only_abstract(source.encode(), lines) is only
