"""Copies of tests in JavaScript and TypeScript.

Every call in a test writes down what it gives, and so does what an assertion gets. A statement that fails does not end
the test: what it raised is written down, unless only values were compared.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from understudy.judge.varied_tests.dialect import Dialect, Edit, NewSite, Render, Template, below
from understudy.mutants.languages.language import text_of
from understudy.mutants.test_code.definitions import DefinedTest, defining_call

if TYPE_CHECKING:
    from tree_sitter import Node

_OF_RUNNERS = re.compile(
    r"(?:\w*[aA]ssert\w*|expect\w*|vi|jest|mock|sinon|t|test|it|describe|suite|before|after|beforeEach|afterEach|chai|should"
    r"|require|super|import|console|QUnit|tap)\b"
)
_LATER = re.compile(r"\.(?:resolves|rejects|eventually)\b")
_VALUES = frozenset(
    {"identifier", "member_expression", "subscript_expression", "binary_expression", "unary_expression"}
    | {"ternary_expression", "template_string"}
)
"""Types of arguments of assertions that can be a value of the code."""
_FUNCTIONS = frozenset({"arrow_function", "function_expression", "function_declaration", "method_definition", "class"})
_TITLES = frozenset({"test", "it"})
_MODULE = frozenset({"import_statement", "export_statement"})

_HELPER = """
// @ts-nocheck
%(load)s
let %(q)s_seen = false;
function %(q)s_write(copy, site, text) {
  %(q)s_fs.appendFileSync(%(out)s, `${copy} ${site} ${Buffer.from(text.slice(0, 2000)).toString("hex")}\\n`);
}
function %(q)s_text(value, depth = 0) {
  if (value === null || value === undefined) return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") return Object.is(value, -0) ? "-0" : String(value);
  if (typeof value !== "object") return typeof value === "function" ? "function" : `${typeof value} ${String(value)}`;
  if (typeof value.then === "function") return "promise";
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (value instanceof Date || value instanceof RegExp) return `${value.constructor.name} ${String(value)}`;
  if (depth > 4) return "...";
  const inner = (item) => %(q)s_text(item, depth + 1);
  if (Array.isArray(value)) return `[${value.slice(0, 50).map(inner).join(", ")}]`;
  if (value instanceof Map || value instanceof Set) return `${value.constructor.name} ${inner([...value])}`;
  const names = Object.keys(value).slice(0, 50);
  const kind = value.constructor === Object || !value.constructor ? "" : value.constructor.name;
  return `${kind}{${names.map((name) => `${name}: ${inner(value[name])}`).join(", ")}}`;
}
function %(q)s_see(copy, site, value) {
  let text = "...";
  try {
    text = %(q)s_text(value);
  } catch {}
  %(q)s_write(copy, site, text);
  %(q)s_seen = true;
  return value;
}
function %(q)s_end(copy, site, later, error) {
  const seen = %(q)s_seen;
  %(q)s_seen = false;
  const compared = !error || error.code === "ERR_ASSERTION" || error.name === "AssertionError" || error.matcherResult;
  if (seen && compared && !later) return;
  %(q)s_write(copy, site, error === undefined ? "passed" : `raises ${%(q)s_text(error)}`);
}
"""


def _is_test(statement: Node, definition: DefinedTest) -> bool:
    return not definition.group and _root_name(defining_call(statement)) in _TITLES


def _name_of(statement: Node) -> Node | None:
    arguments = defining_call(statement).child_by_field_name("arguments")
    title = arguments.named_children[0] if arguments is not None and arguments.named_children else None
    return title if title is not None and title.type in {"string", "template_string"} else None


def _left_out(statement: Node, _: str) -> Edit | None:
    root = _callee_root(defining_call(statement))
    return (root.end_byte, root.end_byte, b".skip") if root is not None else None


def _recorded(node: Node, statement: Node, render: Render, new_site: NewSite) -> Template | None:
    if node == statement:
        return None
    if node.type == "expression_statement":
        return _statement(node, render, new_site)
    if _is_expected(node):
        return [node.text or b""]
    if _gives_value(node):
        site = new_site()
        return [f"{site.name}_see(".encode(), *site.code(), b", ", *below(node, render), b")"]
    return None


def _statement(node: Node, render: Render, new_site: NewSite) -> Template | None:
    """Return a statement that goes on when it fails."""
    call = _awaited(node.named_children[0]) if node.named_children else None
    if call is None or call.type != "call_expression":
        return None
    site, inside = new_site(), below(node, render)
    is_later = b", true" if _is_later(call) else b", false"
    end = [f"{site.name}_end(".encode(), *site.code(), is_later]
    return [b"try { ", *inside, b" ", *end, b"); } catch (error) { ", *end, b", error); }"]


def _awaited(node: Node) -> Node | None:
    if node.type == "await_expression":
        return node.named_children[0] if node.named_children else None
    return node


def _is_later(call: Node) -> bool:
    """Return whether an assertion itself makes the call or waits for it, so that it says what that gives."""
    node: Node | None = call
    while node is not None and node.type in {"call_expression", "member_expression"}:
        arguments = node.child_by_field_name("arguments")
        if arguments is not None and any(child.type in _FUNCTIONS for child in arguments.named_children):
            return True
        node = node.child_by_field_name("function") or node.child_by_field_name("object")
    return bool(_LATER.search(text_of(call)))


def _is_expected(node: Node) -> bool:
    """Return whether a node is what an assertion expects that says more about it than a value."""
    call = node.parent.parent if node.parent is not None and node.parent.type == "arguments" else None
    around = call.parent if call is not None else None
    if call is None or around is None or around.type not in {"expression_statement", "await_expression"}:
        return False
    if not _OF_RUNNERS.match(_root_name(call)) or not _is_later(call):
        return False
    stack = [node]
    while stack:
        inner = stack.pop()
        if inner.type in _FUNCTIONS or inner.type in {"call_expression", "identifier"}:
            return False
        stack.extend(inner.children)
    return True


def _gives_value(node: Node) -> bool:
    """Return whether a node is a call of the code, or what an assertion gets."""
    parent = node.parent
    if parent is None or parent.type in {"expression_statement", "await_expression"}:
        return False
    called = _awaited(node)
    if called is not None and called.type == "call_expression":
        return not _OF_RUNNERS.match(_root_name(called))
    if node.type == "await_expression":
        return True
    call = parent.parent if parent.type == "arguments" else None
    return node.type in _VALUES and call is not None and bool(_OF_RUNNERS.match(_root_name(call)))


def _root_name(call: Node) -> str:
    root = _callee_root(call)
    return text_of(root) if root is not None else ""


def _callee_root(call: Node) -> Node | None:
    """Return the name that what is called begins with: ``expect`` of ``expect(1).not.toBe(2)``."""
    node: Node | None = call
    while node is not None and node.type in {"call_expression", "member_expression", "non_null_expression"}:
        function, of = node.child_by_field_name("function"), node.child_by_field_name("object")
        node = function or of or (node.named_children[0] if node.type == "non_null_expression" else None)
    return node if node is not None and node.type in {"identifier", "super", "import"} else None


def _helper(root: Node, name: str, out: str) -> tuple[Edit, bytes]:
    first = next((node for node in root.named_children if node.type not in {"comment", "hash_bang_line"}), root)
    is_module = any(node.type in _MODULE for node in root.named_children)
    load = f'import * as {name}_fs from "node:fs";' if is_module else f'const {name}_fs = require("node:fs");'
    text = _HELPER % {"q": name, "out": json.dumps(out), "load": load}
    return (first.start_byte, first.start_byte, text.encode()), b""


DIALECT = Dialect(
    languages=("javascript", "typescript"),
    is_test=_is_test,
    name_of=_name_of,
    left_out=_left_out,
    recorded=_recorded,
    helper=_helper,
)
