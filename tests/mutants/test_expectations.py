"""What tests expect is found in every language, and changed to another value or to a failure."""

from __future__ import annotations

import pytest

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.test_code.expectations import edited, expectations_of


def changed(path: str, line: str, *, failing: bool = False) -> list[str]:
    """Return the line, in a test function of its language, with each of its expectations changed."""
    before, after = next(frame for suffix, frame in FRAMES.items() if path.endswith(suffix))
    source = f"{before}{line}{after}".encode()
    language = language_of(path)
    assert language is not None
    assert not language.parse(source).has_error
    texts = []
    for found in expectations_of(path, source):
        text = edited(source, [found.failing if failing else found.wrong])
        assert not language.parse(text).has_error, text
        texts.append(text.decode().removeprefix(before).removesuffix(f"{after}\n"))
    return texts


FRAMES = {
    ".py": ("def test_it():\n    ", "\n"),
    ".js": ("test('it', () => { ", " });\n"),
    ".ts": ("test('it', () => { ", " });\n"),
    ".go": ("package calc\n\nfunc TestIt(t *testing.T) {\n\t", "\n}\n"),
    ".rs": ("#[test]\nfn it() { ", " }\n"),
    ".java": ("class A { @Test void it() { ", " } }\n"),
}


@pytest.mark.parametrize(
    ("path", "line", "expected"),
    [
        ("test_a.py", "assert f(1) == 3", ["assert f(1) == 4"]),
        ("test_a.py", "assert 2.5 == f(1)", ["assert 3.5 == f(1)"]),
        ("test_a.py", 'assert f(1) == "a" and g(2) == -5', ['assert f(1) == "Xa" and g(2) == -5', 'assert f(1) == "a" and g(2) == -6']),
        ("test_a.py", "assert f() == [1, {'a': 2}]", ["assert f() == [2, {'a': 2}]"]),
        ("test_a.py", "assert f() == True", ["assert f() == False"]),
        ("test_a.py", "assert f() == None", ['assert f() == "X"']),
        ("test_a.py", "want = 3; assert f(1) == want", ["want = 4; assert f(1) == want"]),
        ("test_a.py", "self.assertEqual(f(1), 3)", ["self.assertEqual(f(1), 4)"]),
        ("test_a.py", "assert f(1) != 3", []),
        ("test_a.py", "assert not f(1) == 3", []),
        ("test_a.py", "assert f(1) == 3 or g()", []),
        ("test_a.py", "self.assertNotEqual(f(1), 3)", []),
        ("a.test.js", "assert.equal(f(1), 3);", ["assert.equal(f(1), 4);"]),
        ("a.test.js", "const want = 'a'; expect(f(1)).toBe(want);", ["const want = 'Xa'; expect(f(1)).toBe(want);"]),
        ("a.test.js", "expect(f(1)).toEqual({ a: 1 });", ["expect(f(1)).toEqual({ a: 2 });"]),
        ("a.test.js", "expect(f(1)).not.toBe(3);", []),
        ("a.test.js", "const same = Object.is(f(1), 3);", []),
        ("a.test.ts", "return expect(f(1)).resolves.toBe(undefined);", ['return expect(f(1)).resolves.toBe("X");']),
        ("a_test.go", 'if got := F(1); got != 3 { t.Errorf("%d", got) }', ['if got := F(1); got != 4 { t.Errorf("%d", got) }']),
        ("a_test.go", "if F(1) != 3 { return }", []),
        ("a_test.go", 'assert.Equal(t, "a", F(1))', ['assert.Equal(t, "Xa", F(1))']),
        ("a.rs", "assert_eq!(f(1), -3);", ["assert_eq!(f(1), -4);"]),
        ("a.rs", "assert_ne!(f(1), 3);", []),
        ("A.java", "assertEquals(3, f(1));", ["assertEquals(4, f(1));"]),
    ],
)  # fmt: skip
def test_another_value_is_expected(path: str, line: str, expected: list[str]) -> None:
    assert changed(path, line) == expected


@pytest.mark.parametrize(
    ("path", "line", "wrong"),
    [
        ("test_a.py", "assert f(1) == g(2)", "(g(2))"),
        ("test_a.py", "x = 3; assert f(x) == x", "(x)"),
        ("test_a.py", "assert f(1) == []", "([])"),
        ("a.test.js", "expect(f(1)).toBe(g(2));", "(g(2))"),
        ("a.test.ts", "const x = 3; expect(f(x)).toBe(x);", "(x)"),
    ],
)
def test_a_value_that_is_no_literal_is_changed_when_it_is_compared(path: str, line: str, wrong: str) -> None:
    (text,) = changed(path, line)
    assert text != line
    assert wrong in text
    assert text.startswith(line.partition("==" if path.endswith(".py") else ".toBe(")[0])


@pytest.mark.parametrize(
    "value", ["1", "-2.5", "float('inf')", "1e300", "''", "b'a'", "True", "None", "[]", "()", "{}", "{1}", "object()"]
)
def test_no_value_of_python_equals_what_it_is_changed_to(value: str) -> None:
    (text,) = changed("test_a.py", f"assert f() == identity({value})")
    before = eval(value)  # noqa: S307 - a literal above
    space = {"f": lambda: before, "identity": lambda _: before}
    with pytest.raises(AssertionError):
        exec(text, space)  # noqa: S102


@pytest.mark.parametrize(
    ("path", "line", "failing"),
    [
        ("test_a.py", "assert f(1) == 3, 'why'", "raise AssertionError"),
        ("test_a.py", "self.assertEqual(f(1), 3)", "raise AssertionError"),
        ("a.test.js", "assert.equal(f(1), 3);", '(() => { throw new Error("X") })();'),
        ("a_test.go", "if F(1) != 3 { t.Fail() }", "if F(1) != 3 || true { t.Fail() }"),
        ("a.rs", "assert_eq!(f(1), 3);", 'panic!("X");'),
        ("A.java", "assertEquals(3, f(1));", 'org.junit.jupiter.api.Assertions.fail("X");'),
    ],
)
def test_a_control_fails_whatever_is_compared(path: str, line: str, failing: str) -> None:
    assert changed(path, line, failing=True) == [failing]


def test_edits_that_overlap_are_made_once() -> None:
    assert edited(b"abc", [(1, 2, b"X"), (0, 2, b"Y"), (2, 3, b"Z")]) == b"YZ\n"
