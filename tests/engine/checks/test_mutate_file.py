"""Breaking code on purpose: every function raises, and everything else stays as it is."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.checks.interpreter import PROBE_FOLDER


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, PROBE_FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rewriter = load("understudy_mutate")
CALL = rewriter.CALL.encode()


def broken(source: str | bytes) -> bytes:
    data = source if isinstance(source, bytes) else source.encode()
    result, count = rewriter.rewrite(data)
    assert result.count(CALL) == count
    functions = [node for node in ast.walk(ast.parse(data)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert count == sum(function.name != "__del__" for function in functions)
    assert without_calls(result) == ast.dump(ast.parse(data)), "nothing else has changed"
    return bytes(result)


def without_calls(source: bytes) -> str:
    """Return the AST of a broken source without the inserted statements; each must be first in its body."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__del__":
            has_docstring = ast.get_docstring(node, clean=False) is not None
            call = node.body.pop(1 if has_docstring else 0)
            assert ast.unparse(call).replace("'", '"') == rewriter.CALL
    return ast.dump(tree)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f():\n    return 1\n", "def f():\n    @; return 1\n"),
        ("def f(): return 1\n", "def f(): @; return 1\n"),
        ("def f(): 'doc'; return 1\n", "def f(): 'doc'; @; return 1\n"),
        ('def f():\n    """doc"""\n', 'def f():\n    """doc"""; @\n'),
        (
            'def f():\n    """doc"""  # why\n    if 1:\n        pass\n',
            'def f():\n    """doc"""; @  # why\n    if 1:\n        pass\n',
        ),
        ('def f():\n    """doc\n    more"""\n    x = 1\n', 'def f():\n    """doc\n    more"""\n    @; x = 1\n'),
        ("def f():\n    if 1:\n        pass\n", "def f():\n    @\n    if 1:\n        pass\n"),
        ("def f():\n\tfor x in y: pass\n", "def f():\n\t@\n\tfor x in y: pass\n"),
        ("def f():\r\n    with x:\r\n        pass\r\n", "def f():\r\n    @\r\n    with x:\r\n        pass\r\n"),
        ("def f(): \\\n    return 1\n", "def f(): \\\n    @; return 1\n"),
        ("def f():\n    # first\n\n    (\n        1\n    )\n", "def f():\n    # first\n\n    @; (\n        1\n    )\n"),
        ("def f():\n    ('doc')\n", "def f():\n    ('doc'); @\n"),
        (
            "def f():\n    @d\n    def g(): ...\n    return g\n",
            "def f():\n    @@\n    @d\n    def g(): @; ...\n    return g\n",
        ),
        (
            "class C:\n    @property\n    def p(self): return 1\n",
            "class C:\n    @property\n    def p(self): @; return 1\n",
        ),
        ("async def f():\n    async with x: pass\n", "async def f():\n    @\n    async with x: pass\n"),
        ("def f():\n    match x:\n        case 1: pass\n", "def f():\n    @\n    match x:\n        case 1: pass\n"),
        ("def f():\n    global g\n    g = 1\n", "def f():\n    @; global g\n    g = 1\n"),
        ("x = lambda: 1\n", "x = lambda: 1\n"),
        ("class C:\n    def __del__(self): pass\n", "class C:\n    def __del__(self): pass\n"),
        ("é = 'ü'; \ndef f(ä='ö'): é = 'ü'; return é\n", "é = 'ü'; \ndef f(ä='ö'): @; é = 'ü'; return é\n"),
        ("\fdef f():\n    return 1\n", "\fdef f():\n    @; return 1\n"),
        ("x = 'a\x0cb\x1cc\x85d'\ndef f(): return 1\n", "x = 'a\x0cb\x1cc\x85d'\ndef f(): @; return 1\n"),
        (
            "from __future__ import annotations\ndef f(): yield 1",
            "from __future__ import annotations\ndef f(): @; yield 1",
        ),
    ],
)
def test_each_form(source: str, expected: str) -> None:
    wanted = expected.replace("@@", "@").replace("    @\n    @d", f"    {rewriter.CALL}\n    @d")
    if "@d" not in source and "@property" not in source:
        wanted = expected.replace("@", rewriter.CALL)
    else:
        wanted = wanted.replace(": @;", f": {rewriter.CALL};")
    assert broken(source).decode() == wanted


def test_bytes_around_stay_as_they_are() -> None:
    bom = b"\xef\xbb\xbfdef f(): return '\xc3\xa9'\n"
    assert broken(bom) == bom.replace(b"return", CALL + b"; return")
    latin = b"# -*- coding: latin-1 -*-\ndef f(x='\xe9\xe9'): return '\xe9'\n"
    assert broken(latin) == latin.replace(b"return", CALL + b"; return")
    mixed = b"def f():\r    x = 1\r\n    return x\n"
    assert broken(mixed) == mixed.replace(b"x = 1", CALL + b"; x = 1")


@pytest.mark.parametrize(
    "source", [b"def f(:\n", b"\x00", b"# coding: latin-1 \xe9\nx = (", b"# coding: nonsense\nx = 1\n"]
)
def test_what_does_not_parse_is_left_alone(source: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_bytes(source)
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(PROBE_FOLDER / "understudy_mutate.py"), str(file)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3
    assert file.read_bytes() == source
    assert b"Traceback" not in done.stderr


SIMPLE = st.sampled_from(
    ["pass", "x = 'é'", "return", "'text'", "raise E", "(yield)", "del x", "import os", "assert x, 'ü'"]
)
HEADS = st.sampled_from(
    [
        "if x:",
        "for x in y:",
        "while x:",
        "with x:",
        "class C:",
        "def f(self):",
        "@d\n@e\ndef g(a='ß'):",
        "async def h():",
    ]
)
BLANKS = st.sampled_from(["", "\n", "# é\n", "\f\n"])


def indented(text: str, indent: str) -> str:
    return "".join(f"{indent}{line}" if line.strip() else line for line in text.splitlines(keepends=True))


@st.composite
def blocks(draw: Any, depth: int = 3) -> str:
    indent = draw(st.sampled_from(["    ", "\t", " "]))
    lines = []
    if draw(st.booleans()):
        lines.append(draw(st.sampled_from(['"""doc"""\n', "'doc' ; x = 1\n", '"""a\nb"""\n', '"doc" # c\n'])))
    for _ in range(draw(st.integers(1, 3))):
        lines.append(draw(BLANKS))
        if depth and draw(st.booleans()):
            head, body = draw(HEADS), draw(blocks(depth=depth - 1))
            one_line = draw(st.booleans())
            lines.append(f"{head} {draw(SIMPLE)}\n" if one_line else f"{head}\n{indented(body, indent)}")
        else:
            lines.append("; ".join(draw(st.lists(SIMPLE, min_size=1, max_size=3))) + "\n")
    return "".join(lines)


@given(blocks(), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_program_is_broken_and_nothing_else_changes(text: str, ending: str, bom: bool) -> None:
    source = ("def top():\n" + indented(text, "    ")).replace("\n", ending).encode()
    try:
        compile(source, "x", "exec")
    except SyntaxError:
        return
    broken((b"\xef\xbb\xbf" if bom else b"") + source)


@pytest.mark.parametrize(
    "name", ["textwrap", "argparse", "dataclasses", "typing", "asyncio.base_events", "_pydecimal", "ast"]
)
def test_the_standard_library_can_be_mutated(name: str) -> None:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    broken(Path(spec.origin).read_bytes())


def answers(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13"])
def test_other_interpreters_break_their_own_grammar(version: str, tmp_path: Path) -> None:
    # A shim on PATH may refuse to run; the interpreter next to ours, as pyenv and uv lay them out, does not.
    candidates = [
        *map(str, Path(sys.base_prefix).parent.glob(f"*{version}.*/bin/python3")),
        shutil.which(f"python{version}"),
    ]
    python = next((found for found in candidates if found and answers(found)), None)
    if python is None:
        pytest.skip(f"no Python {version} here")
    file = tmp_path / "x.py"
    text = "def f(a, /, b):\n    '''doc'''\n    return a\n"
    if int(version[2:]) >= 12:
        text += "type X[T] = list[T]\ndef g[T](x: T) -> T:\n    type Y = T\n    return f'{f'{x}'}'\n"
    file.write_text(text)
    done = subprocess.run(
        [python, "-I", "-S", str(PROBE_FOLDER / "understudy_mutate.py"), str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "2" if int(version[2:]) >= 12 else "1"), done.stderr
    project = tmp_path / "p"
    project.mkdir()
    (project / "test_x.py").write_text("import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n")
    report = tmp_path / "report"
    report.mkdir()
    environment = {
        "PYTHONPATH": str(PROBE_FOLDER),
        "UNDERSTUDY_PROBE_FOLDER": str(report),
        "UNDERSTUDY_PROBE_ROOT": str(project),
    }
    done = subprocess.run(
        [python, "-m", "understudy_unittest", "test_x.py"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "test_x.T.test_it" in next(report.glob("*.jsonl")).read_text()


def control() -> Any:
    """Return a fresh copy of the module that broken code calls."""
    os.environ.pop("UNDERSTUDY_MUTANT_ARMED", None)
    return load("understudy_armed")


def test_broken_code_raises_only_when_armed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_MUTANT_ARMED", raising=False)
    module = control()
    module.raise_if_armed()
    assert not module.has_raised()
    module.arm(str(tmp_path / "killed"))
    assert not module.has_raised()
    with pytest.raises(module.MutantError):
        module.raise_if_armed()
    assert module.has_raised()
    assert (tmp_path / "killed").read_bytes() == b"x"
    monkeypatch.delenv("UNDERSTUDY_MUTANT_ARMED")


def test_watch_detects_a_raise_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_MUTANT_ARMED", raising=False)
    module = control()
    module.watch(str(tmp_path / "killed"))
    module.raise_if_armed()
    assert not module.has_raised()
    (tmp_path / "killed").write_bytes(b"x")
    assert module.has_raised()


def test_swallowing_is_possible() -> None:
    assert isinstance(control(), types.ModuleType)
    assert issubclass(control().MutantError, Exception)
