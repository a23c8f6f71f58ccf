"""Copies of tests in Rust: what the macros compare is written down, and they do not panic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from understudy.judge.varied_tests.dialect import Dialect, Edit, NewSite, Render, Template
from understudy.mutants.languages.language import text_of
from understudy.mutants.test_code.definitions import DefinedTest

if TYPE_CHECKING:
    from tree_sitter import Node

_TWO = frozenset({"assert_eq", "assert_ne"})
_COMPARES = frozenset({"==", "!=", "<=", ">="})
_JOINS = frozenset({"&&", "||"})
_PATH = frozenset({"identifier", "::", "self", "super", "crate"})

_HELPER = """
#[allow(dead_code)]
fn %(q)s_write(copy: i64, site: i64, text: String) {
    use std::io::Write;
    let hex: String = text.bytes().take(2000).map(|byte| format!("{:02x}", byte)).collect();
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(%(out)s) {
        let _ = file.write_all(format!("{} {} {}\\n", copy, site, hex).as_bytes());
    }
}
#[allow(unused_macros)]
macro_rules! %(q)s_two {
    ($copy:expr, $site:expr, $left:expr, $right:expr $(, $($rest:tt)*)?) => {
        match (&($left), &($right)) {
            (left, right) => {
                let _ = *left == *right;
                %(q)s_write($copy, $site, format!("{:?}", left));
                %(q)s_write($copy, $site, format!("{:?}", right));
            }
        }
    };
}
#[allow(unused_macros)]
macro_rules! %(q)s_one {
    ($copy:expr, $site:expr, $value:expr $(, $($rest:tt)*)?) => {
        %(q)s_write($copy, $site, format!("{:?}", $value))
    };
}
"""


def _is_test(statement: Node, definition: DefinedTest) -> bool:
    before = statement.prev_named_sibling
    while before is not None and before.type == "attribute_item":
        if text_of(before).strip("#[] ").endswith("test") and before.start_byte >= definition.start:
            return statement.type == "function_item" and not definition.group
        before = before.prev_named_sibling
    return False


def _name_of(statement: Node) -> Node | None:
    return statement.child_by_field_name("name")


def _left_out(statement: Node, _: str) -> Edit | None:
    return (statement.start_byte, statement.start_byte, b"#[ignore] ")


def _recorded(node: Node, _: Node, render: Render, new_site: NewSite) -> Template | None:
    macro = node.child_by_field_name("macro") if node.type == "macro_invocation" else None
    tokens = next((child for child in node.children if child.type == "token_tree"), None)
    if macro is None or tokens is None:
        return None
    name = text_of(macro).rpartition("::")[2]
    if name in _TWO:
        return _seen("two", tokens.children[1:-1], tokens, render, new_site)
    if name != "assert":
        return None
    first = _until_comma(tokens.children[1:-1])
    operators = [at for at, token in enumerate(first) if token.type in _COMPARES | _JOINS]
    if len(operators) == 1 and first[operators[0]].type in _COMPARES:
        return _compared(first, operators[0], tokens, render, new_site)
    is_call = not operators and first and first[-1].type == "token_tree" and {t.type for t in first[:-1]} <= _PATH
    return _seen("one", first, tokens, render, new_site) if is_call else None


def _until_comma(tokens: list[Node]) -> list[Node]:
    end = next((at for at, token in enumerate(tokens) if token.type == ","), len(tokens))
    return tokens[:end]


def _compared(first: list[Node], at: int, tokens: Node, render: Render, new_site: NewSite) -> Template | None:
    left, right = first[:at], first[at + 1 :]
    if not left or not right:
        return None
    site = new_site()
    sides = [*_text(left, tokens, render), b", ", *_text(right, tokens, render)]
    return [f"{site.name}_two!(".encode(), *site.code(), b", ", *sides, b")"]


def _seen(macro: str, some: list[Node], tokens: Node, render: Render, new_site: NewSite) -> Template:
    site = new_site()
    return [f"{site.name}_{macro}!(".encode(), *site.code(), b", ", *_text(some, tokens, render), b")"]


def _text(some: list[Node], tokens: Node, render: Render) -> Template:
    """Return the text of some of the tokens in a macro, with what is between them."""
    text, start = tokens.text or b"", tokens.start_byte
    pieces: Template = []
    at = some[0].start_byte if some else start
    for token in some:
        pieces += [text[at - start : token.start_byte - start], *render(token)]
        at = token.end_byte
    return pieces


def _helper(_: Node, name: str, out: str) -> tuple[Edit, bytes]:
    return (0, 0, b""), (_HELPER % {"q": name, "out": json.dumps(out)}).encode()


DIALECT = Dialect(
    languages=("rust",),
    is_test=_is_test,
    name_of=_name_of,
    left_out=_left_out,
    recorded=_recorded,
    helper=_helper,
)
