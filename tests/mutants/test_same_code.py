"""What counts as a change of nothing but comments and documentation."""

from __future__ import annotations

import pytest

from understudy.mutants.same_code import runs_the_same

SAME = [
    ("a.py", "x = 1\n", "# why\nx = 1  # how\n"),
    ("a.py", "def f():\n    return 1\n", 'def f():\n    """Return one."""\n    return 1\n'),
    ("a.py", '"""Old."""\nx = 1\n', '# first\n"""New."""\nx  =  1\n'),
    ("a.py", 'class C:\n    """Old."""\n    x = 1\n', "class C:\n    x = 1\n"),
    ("a.py", "f(1,\n  2)\n", "f(1, 2)\n"),
    ("a.js", "f(1);\n", "/* why */\nf(1); // how\n"),
    ("a.ts", "const x: number = 1;\n", "// why\nconst x: number = 1;\n"),
    ("a.go", "package a\n\nvar X = 1\n", "package a\n\n// X is one.\nvar X = 1\n"),
    ("a.rs", "fn f() -> u8 { 1 }\n", "// why\nfn f() -> u8 {\n    1\n}\n"),
    ("A.java", "class A { int x = 1; }\n", "/** Why. */\nclass A {\n  int x = 1;\n}\n"),
]
OTHER = [
    ("a.py", "x = 1\n", "x = 2\n"),
    ("a.py", "if a:\n    b()\nc()\n", "if a:\n    b()\n    c()\n"),
    ("a.py", "x = 'a b'\n", "x = 'a  b'\n"),
    ("a.py", "x = f'{a} b'\n", "x = f'{a}  b'\n"),
    ("a.py", "x = 'a\\tb c'\n", "x = 'a\\tb d'\n"),
    ("a.py", "def f():\n    return 1\n", "def f():\n    pass\n    return 1\n"),
    ("a.py", "def f(x):\n    return x\n", "def f(x: int):\n    return x\n"),
    ("a.py", "import a\n", "import b\n"),
    ("a.py", "import a\nimport b\n", "import a\n"),
    ("a.py", "def f():\n    return 1\n", "@g\ndef f():\n    return 1\n"),
    ("a.py", '"""Usage: a"""\nprint(__doc__)\n', '"""Usage: b"""\nprint(__doc__)\n'),
    ("a.py", "def f():\n    x = 1\n    'text'\n", "def f():\n    x = 1\n    'other'\n"),
    ("a.py", "x = 1\n", "x = (\n"),
    ("a.js", "const x = `a b`;\n", "const x = `a  b`;\n"),
    ("a.js", "const x = /a b/;\n", "const x = /a  b/;\n"),
    ("a.js", "f();\n", "/** @jest-environment jsdom */\nf();\n"),
    ("a.ts", "const x: number = 1;\n", "const x: string = 1;\n"),
    ("a.go", "package a\n", "//go:build ignore\n\npackage a\n"),
    ("a.rs", "fn f() {}\n", "/// ```\n/// assert!(true);\n/// ```\nfn f() {}\n"),
    ("a.py", "def f():\n    return 1\n", "def f():\n    f'{g()}'\n    return 1\n"),
    ("a.py", "import a\nimport b\n", "import a\n import b\n"),
    ("a.py", "import a\n", "import a  # noqa: F401\n"),
    ("a.js", "f();\n", "/* eslint-disable */\nf();\n"),
    ("a.sh", "exit 1\n", "# why\nexit 1\n"),
    ("a.json", "{}\n", "{ }\n"),
]


@pytest.mark.parametrize(("path", "before", "after"), SAME)
def test_comments_docstrings_and_layout_run_the_same(path: str, before: str, after: str) -> None:
    assert runs_the_same(path, before.encode(), after.encode())
    assert runs_the_same(path, after.encode(), before.encode())


@pytest.mark.parametrize(("path", "before", "after"), OTHER)
def test_whatever_else_differs_is_a_change(path: str, before: str, after: str) -> None:
    assert not runs_the_same(path, before.encode(), after.encode())
    assert not runs_the_same(path, after.encode(), before.encode())


def test_a_file_that_appears_or_goes() -> None:
    assert runs_the_same("a/__init__.py", None, b"# nothing\n")
    assert not runs_the_same("a/__init__.py", b"", None)
    assert not runs_the_same("a.py", None, b"x = 1\n")
    assert not runs_the_same("a.py", b"x = 1\n", None)
    assert not runs_the_same("empty.json", None, b"")
    assert not runs_the_same("a.py", b"x = 1\n", b"x = 1\n" + b"#" * (2 << 20)), "too large to parse"
