import textwrap

from understudy.ghostwriter.documented import (
    Documented,
    calls_in_tests,
    defined_names,
    documented_examples,
    names_to_import,
)


def examples(tmp_path, text, readme=None):
    if readme is not None:
        (tmp_path / "README.md").write_text(textwrap.dedent(readme))
    return documented_examples(tmp_path, textwrap.dedent(text), "shop.prices")


def test_docstrings(tmp_path):
    found = examples(
        tmp_path,
        '''
        def cents(amount):
            """Return cents.

            >>> from shop.prices import cents
            >>> cents("1.00")
            100
            >>> amount = "2.50"
            >>> unused = 3
            >>> print(cents(amount))
            250
            >>> cents("x")
            Traceback (most recent call last):
            ValueError: x
            >>> _private(1)
            2
            """
        ''',
    )
    assert found == [
        Documented([], "cents('1.00')", "100"),
        Documented(['amount = "2.50"'], "cents(amount)", "250"),
        Documented([], "cents('x')", None, "ValueError"),
        Documented([], "_private(1)", "2"),
    ]


def test_examples_call_the_module_by_its_own_names_and_keep_other_imports(tmp_path):
    found = examples(
        tmp_path,
        '''
        import shop as s

        def cents(amount):
            """Return cents.

            >>> s.cents(s.Amount(1))
            100
            >>> from shop.prices import cents as c
            >>> import math
            >>> c(math.floor(2.5))
            200
            >>> cents(skipped)  # doctest: +SKIP
            1
            """
        ''',
    )
    assert found == [
        Documented([], "cents(s.Amount(1))", "100"),
        Documented(["from shop.prices import cents as c", "import math"], "c(math.floor(2.5))", "200"),
    ]


def test_names_are_imported_as_the_module_imports_them():
    source = "import shop as s\nimport os.path\nfrom . import base\nfrom ..tax import rate as r\n"
    source += "try:\n    import fast as quick\nexcept ImportError:\n    import slow as quick\n"
    names = ["s", "os", "base", "r", "quick", "starred"]
    assert names_to_import(source, "shop.deep.prices", is_package=False, names=names) == {
        "s": "import shop as s",
        "os": "import os.path",
        "base": "from shop.deep import base",
        "r": "from shop.tax import rate as r",
        "quick": "from shop.deep.prices import quick",
        "starred": "from shop.deep.prices import starred",
    }
    assert names_to_import("from .a import b\n", "shop", is_package=True, names=["b"]) == {"b": "from shop.a import b"}


def test_readme_blocks_count_only_when_one_imports_the_module(tmp_path):
    page = """
        ```python
        import shop.prices as p
        assert p.cents("1") == 100
        ```
        ```python
        self.assertEqual(p.cents("2"), 200)
        ```
    """
    assert examples(tmp_path, "", page) == [Documented([], "cents('1')", "100"), Documented([], "cents('2')", "200")]
    assert examples(tmp_path, "", page.replace("shop.prices", "other")) == []


def test_what_cannot_be_parsed_costs_itself_only(tmp_path):
    text = '"""\n>>> f(1\n1\n>>> g(2)\n3\n"""\n'
    assert examples(tmp_path, text) == [Documented([], "g(2)", "3")]
    assert examples(tmp_path, "def f(:") == []


def test_calls_in_tests_with_parameters(tmp_path):
    (tmp_path / "test_prices.py").write_text(
        textwrap.dedent(
            """
            import pytest
            from shop import prices

            @pytest.mark.parametrize("text, wanted", [("1", 100), ("2", 200)])
            def test_cents(text, wanted):
                assert prices.cents(text) == wanted

            def test_other():
                assert other(3)
            """
        )
    )
    source = "def cents(text):\n    return text\n"
    assert calls_in_tests(tmp_path, source, "shop.prices") == ["cents(text)", "cents('1')", "cents('2')"]


def test_a_loop_that_changes_an_object_is_a_part_of_the_setup(tmp_path):
    found = examples(
        tmp_path,
        '''
        def cart(): ...
            """Return a cart.

            >>> c = cart()
            >>> for name in ["a", "b"]:
            ...     c.add(name)
            >>> total = 3
            >>> c.names
            ['a', 'b']
            """
        '''.replace(": ...\n", ":\n"),
    )
    assert found == [Documented(["c = cart()", 'for name in ["a", "b"]:\n    c.add(name)'], "c.names", "['a', 'b']")]


def test_what_runs_only_as_a_program_is_not_a_name_of_the_module(tmp_path):
    module = "def cents(x): ...\nif __name__ == '__main__':\n    console = 1\nif 1:\n    other = 2\n"
    assert defined_names(module) == {"cents", "other"}
    readme = """
        ```python
        >>> from shop import prices
        >>> console.print("hello")
        hello
        ```
        """
    assert examples(tmp_path, module, readme) == []


def test_examples_that_import_all_names_of_another_module_are_left_out(tmp_path):
    readme = """
        ```python
        >>> from shop.prices import *
        >>> cents(1)
        100
        ```
        ```python
        >>> from shop.other import *
        >>> cents(parse("1"))
        100
        ```
        """
    assert examples(tmp_path, "def cents(x): ...\n", readme) == [Documented([], "cents(1)", "100")]


def test_a_statement_that_raises_is_not_a_part_of_the_setup(tmp_path):
    found = examples(
        tmp_path,
        '''
        def strict():
            """Return an object.

            >>> foo = strict()
            >>> foo.show()
            Traceback (most recent call last):
            ValueError: no
            >>> foo.name
            'foo'
            """
        ''',
    )
    assert found[1:] == [Documented(["foo = strict()"], "foo.name", "'foo'")]
