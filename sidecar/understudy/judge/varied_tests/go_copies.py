"""Copies of tests in Go: a condition under which a test fails writes down what it compares, and is never true."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from understudy.judge.varied_tests.dialect import COPY, Dialect, Edit, NewSite, Render, Template, below
from understudy.mutants.languages.language import text_of
from understudy.mutants.test_code.definitions import DefinedTest

if TYPE_CHECKING:
    from tree_sitter import Node

_FAILS = re.compile(r"\.(?:Error|Fatal)f?\(|\.Fail(?:Now)?\(")
_SAYS = re.compile(r"\w+\.(?:Error|Fatal|Log|Skip)f?\(")
_ASSERTS = re.compile(r"(?:assert|require|is)\.\w+")
_COMPARES = frozenset({"==", "!=", "<", "<=", ">", ">="})
_JOINS = frozenset({"&&", "||"})

_IMPORTS = """
import %(q)s_fmt "fmt"
import %(q)s_json "encoding/json"
import %(q)s_os "os"
"""
_HELPER = """
func %(q)s_write(copy int, site int, text string) {
	file, err := %(q)s_os.OpenFile(%(out)s, %(q)s_os.O_APPEND|%(q)s_os.O_CREATE|%(q)s_os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer file.Close()
	if len(text) > 2000 {
		text = text[:2000]
	}
	%(q)s_fmt.Fprintf(file, "%%d %%d %%x\\n", copy, site, text)
}

func %(q)s_see(copy int, site int, values ...interface{}) bool {
	for _, value := range values {
		text := %(q)s_fmt.Sprintf("%%T %%+v", value, value)
		if data, err := %(q)s_json.Marshal(value); err == nil {
			text += " " + string(data)
		}
		%(q)s_write(copy, site, text)
	}
	return false
}

func %(q)s_end(copy int) {
	if reason := recover(); reason != nil {
		%(q)s_write(copy, -1, %(q)s_fmt.Sprint("raises ", reason))
	}
}
"""


def _is_test(statement: Node, definition: DefinedTest) -> bool:
    name = definition.names[-1]
    return len(definition.names) == 1 and statement.type == "function_declaration" and name.startswith("Test")


def _name_of(statement: Node) -> Node | None:
    return statement.child_by_field_name("name")


def _left_out(statement: Node, name: str) -> Edit | None:
    identifier = statement.child_by_field_name("name")
    return (identifier.start_byte, identifier.start_byte, f"{name}_".encode()) if identifier is not None else None


def _recorded(node: Node, statement: Node, render: Render, new_site: NewSite) -> Template | None:
    parent = node.parent
    if node.type == "block" and parent is not None and (parent == statement or _gets_test(parent)):
        inside = below(node, render)
        inside[inside.index(b"{")] = b"{ defer "
        at = inside.index(b"{ defer ") + 1
        return [*inside[:at], f"{new_site().name}_end(".encode(), COPY, b"); ", *inside[at:]]
    if parent is not None and parent.type == "if_statement" and node == parent.child_by_field_name("condition"):
        body = parent.child_by_field_name("consequence")
        return _condition(node, render, new_site) if body is not None and _FAILS.search(text_of(body)) else None
    if node.type == "call_expression" and parent is not None and parent.type == "expression_statement":
        if _SAYS.match(text_of(node)):
            return [node.text or b""]
        return _assertion(node, render, new_site)
    return None


def _gets_test(function: Node) -> bool:
    parameters = function.child_by_field_name("parameters")
    return function.type == "func_literal" and parameters is not None and "*testing.T" in text_of(parameters)


def _condition(node: Node, render: Render, new_site: NewSite) -> Template:
    """Return a condition whose parts write down what they compare."""
    operator = node.child_by_field_name("operator")
    kind = operator.type if node.type == "binary_expression" and operator is not None else ""
    if kind in _JOINS or node.type == "parenthesized_expression":
        parts = {child.id for child in node.named_children}

        def inner(child: Node) -> Template:
            return _condition(child, render, new_site) if child.id in parts else below(child, render)

        return below(node, inner)
    values = node.named_children if kind in _COMPARES else [*_arguments(node), node]
    return _seen(values, render, new_site)


def _arguments(node: Node) -> list[Node]:
    """Return what the call in a condition gets: whether a text contains another one says little about it."""
    while node.type == "unary_expression" and node.named_children:
        node = node.named_children[0]
    arguments = node.child_by_field_name("arguments") if node.type == "call_expression" else None
    return [child for child in arguments.named_children if _is_value(child)] if arguments is not None else []


def _is_value(node: Node) -> bool:
    return node.type != "comment" and not node.type.endswith("_type") and node.type != "variadic_argument"


def _assertion(node: Node, render: Render, new_site: NewSite) -> Template | None:
    """Return what takes the place of a call of an assertion's function, such as ``assert.Equal(t, 3, got)``."""
    function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if function is None or arguments is None or not _ASSERTS.fullmatch(text_of(function)):
        return None
    values = [child for child in arguments.named_children if _is_value(child)]
    if values and text_of(values[0]) in {"t", "s.T()"}:
        values = values[1:]
    return _seen(values, render, new_site) if values else None


def _seen(values: list[Node], render: Render, new_site: NewSite) -> Template:
    site = new_site()
    pieces: Template = [f"{site.name}_see(".encode(), *site.code()]
    for value in values:
        pieces += [b", ", *render(value)]
    return [*pieces, b")"]


def _helper(root: Node, name: str, out: str) -> tuple[Edit, bytes]:
    package = next((node for node in root.named_children if node.type == "package_clause"), root)
    words = {"q": name, "out": json.dumps(out)}
    at = package.end_byte
    return (at, at, (_IMPORTS % words).encode()), (_HELPER % words).encode()


DIALECT = Dialect(
    languages=("go",),
    is_test=_is_test,
    name_of=_name_of,
    left_out=_left_out,
    recorded=_recorded,
    helper=_helper,
)
