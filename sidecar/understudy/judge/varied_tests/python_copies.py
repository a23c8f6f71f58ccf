"""Copies of tests in Python, for runners other than pytest.

Every call in a test writes down what it gives. A statement that fails does not end the test: what it raised is written
down, unless only values were compared.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from understudy.judge.varied_tests.dialect import Dialect, Edit, NewSite, Render, Template, below
from understudy.mutants.languages.language import text_of
from understudy.mutants.test_code.definitions import DefinedTest

if TYPE_CHECKING:
    from tree_sitter import Node

_OF_RUNNERS = re.compile(
    r"(?:self|cls)\.(?:assert|fail|skip|subTest|add|id\b|enter|defaultTestResult)|super\b|mock\.|patch"
)
_NOT_IN_FUNCTION = re.compile(r"\b(?:await|yield)\b|:=")
_VALUES = frozenset({"identifier", "attribute", "subscript", "binary_operator", "comparison_operator", "not_operator"})
_FIRST = frozenset({"comment", "future_import_statement"})

_HELPER = """
%(q)s_seen = [False]


def %(q)s_write(copy, site, text):
    with open(%(out)r, "a", encoding="ascii") as stream:
        stream.write("%%d %%d %%s\\n" %% (copy, site, text[:2000].encode("utf-8", "replace").hex()))


def %(q)s_text(value, depth=0):
    inner = lambda item: %(q)s_text(item, depth + 1)
    if depth > 4:
        return "..."
    if isinstance(value, BaseException):
        return type(value).__name__ + ": " + str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(inner(key) + ": " + inner(item) for key, item in list(value.items())[:50]) + "}"
    if isinstance(value, (list, tuple)):
        return type(value).__name__ + "(" + ", ".join(map(inner, value[:50])) + ")"
    if isinstance(value, (set, frozenset)):
        return type(value).__name__ + "(" + ", ".join(sorted(map(inner, value))[:50]) + ")"
    if isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, type):
        return type(value).__name__ + " " + inner(vars(value))
    return repr(value)


def %(q)s_see(copy, site, value):
    text = "..."
    try:
        text = %(q)s_text(value)
    except Exception:
        pass
    %(q)s_write(copy, site, text)
    %(q)s_seen[0] = True
    return value


def %(q)s_call(copy, site, call):
    text, compared = "passed", True
    try:
        call()
    except Exception as error:
        text, compared = "raises " + %(q)s_text(error), isinstance(error, AssertionError)
    if not (%(q)s_seen[0] and compared):
        %(q)s_write(copy, site, text)
    %(q)s_seen[0] = False


"""


def _function(statement: Node) -> Node | None:
    return statement.child_by_field_name("definition") if statement.type == "decorated_definition" else statement


def _is_test(statement: Node, definition: DefinedTest) -> bool:
    function = _function(statement)
    is_function = function is not None and function.type == "function_definition"
    return is_function and definition.names[-1].startswith("test")


def _name_of(statement: Node) -> Node | None:
    function = _function(statement)
    return function.child_by_field_name("name") if function is not None else None


def _left_out(statement: Node, name: str) -> Edit | None:
    identifier = _name_of(statement)
    return (identifier.start_byte, identifier.start_byte, f"{name}_".encode()) if identifier is not None else None


def _recorded(node: Node, _: Node, render: Render, new_site: NewSite) -> Template | None:
    if node.type == "decorator":
        return [node.text or b""]
    if node.type == "assert_statement" and node.named_children:
        return _assertion(node.named_children[0], render, new_site)
    if node.type == "expression_statement" and node.named_child_count == 1:
        called = node.named_children[0]
        if called.type == "call" and not _NOT_IN_FUNCTION.search(text_of(called)):
            site = new_site()
            return [f"{site.name}_call(".encode(), *site.code(), b", lambda: ", *below(called, render), b")"]
    return _seen(node, below(node, render), new_site) if _gives_value(node) else None


def _assertion(condition: Node, render: Render, new_site: NewSite) -> Template:
    """Return a statement that writes down what is compared."""
    values = condition.named_children if condition.type == "comparison_operator" else [condition]
    pieces: Template = []
    for value in values:
        rendered = render(value)
        pieces += [*(rendered if _gives_value(value) else _seen(value, rendered, new_site)), b", "]
    return [b"(", *pieces, b")"]


def _seen(_: Node, inside: Template, new_site: NewSite) -> Template:
    site = new_site()
    return [f"{site.name}_see(".encode(), *site.code(), b", ", *inside, b")"]


def _gives_value(node: Node) -> bool:
    """Return whether a node is a call of the code, or what an assertion gets."""
    parent = node.parent
    if parent is None or parent.type in {"expression_statement", "await", "decorator"}:
        return False
    if node.type in {"call", "await"}:
        return not _OF_RUNNERS.match(text_of(node))
    call = parent.parent if parent.type == "argument_list" else None
    return node.type in _VALUES and call is not None and bool(_OF_RUNNERS.match(text_of(call)))


def _helper(root: Node, name: str, out: str) -> tuple[Edit, bytes]:
    some = [node for node in root.named_children if node.type not in _FIRST and not _is_text(node)]
    at = some[0].start_byte if some else root.end_byte
    return (at, at, (_HELPER % {"q": name, "out": out}).encode()), b""


def _is_text(node: Node) -> bool:
    return node.type == "expression_statement" and node.named_children[0].type == "string"


DIALECT = Dialect(
    languages=("python",),
    is_test=_is_test,
    name_of=_name_of,
    left_out=_left_out,
    recorded=_recorded,
    helper=_helper,
)
