"""Tests in JavaScript and TypeScript as a plain program, in a file of another name in another folder.

Code that gives what a test expects only where a runner runs it gives something else there, whatever it looks at.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.judge.varied_tests.copies import Copy, varied_file
from understudy.judge.varied_tests.dialect import Edit
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import text_of
from understudy.mutants.test_code.definitions import DefinedTest
from understudy.mutants.test_code.expectations import edited

if TYPE_CHECKING:
    from tree_sitter import Node

_REPLACES = re.compile(rb"\b(?:vi|jest|mock\w*|sinon|stub\w*|spy\w*|nock|msw|process|jsdom|happy-dom)\b")
"""Matches tests in JavaScript that need what only their runner has, or that change where the code runs."""
_RUNNERS = frozenset({"node:test", "vitest", "@jest/globals"})
_LOADS = frozenset({"require", "import"})

_KIT = """
const %(q)s_steps = [], %(q)s_before = [];
const %(q)s_any = new Proxy(function () {}, {
  get: (_, name) => (name === "then" ? undefined : name === Symbol.toPrimitive ? () => "" : %(q)s_any),
  apply: () => %(q)s_any,
});
const %(q)s_last = (items) => items.filter((item) => typeof item === "function").pop();
const %(q)s_test = (...items) => {
  if (String(items[0]).includes("%(q)s")) %(q)s_steps.push(...%(q)s_before, %(q)s_last(items));
};
const %(q)s_group = (...items) => %(q)s_last(items)?.();
const %(q)s_first = (step) => %(q)s_before.push(step);
const %(q)s_nothing = () => () => {};
const %(q)s_names = {
  ...{ test: %(q)s_test, it: %(q)s_test, describe: %(q)s_group, suite: %(q)s_group },
  ...{ before: %(q)s_first, beforeAll: %(q)s_first, beforeEach: %(q)s_first },
  ...{ after: %(q)s_nothing, afterAll: %(q)s_nothing, afterEach: %(q)s_nothing },
};
Object.assign(%(q)s_test, { skip() {}, todo() {}, only: %(q)s_test, each: %(q)s_nothing });
const %(q)s_kit = new Proxy(%(q)s_test, { get: (of, name) => %(q)s_names[name] ?? of[name] ?? %(q)s_any });
for (const name of ["expect", ...Object.keys(%(q)s_names)]) globalThis[name] ??= %(q)s_kit[name];
"""
_RUN = """
globalThis.done = (async () => {
  for (const step of %(q)s_steps) {
    try {
      await step({});
    } catch {}
  }
})();
"""


@dataclass(frozen=True, kw_only=True)
class PlainScript:
    """A program that runs one exact copy of each test."""

    path: str
    """Relative to the tree; its folder has nothing else."""
    content: bytes
    copies: Sequence[Copy]
    name: str
    """Begins all names that were added."""


def plain_script(path: str, source: bytes, tests: Mapping[str, DefinedTest], out: str) -> PlainScript | None:
    """Return a program that runs the tests of a file; None where they need what only their runner has."""
    language = language_of(path)
    varied = varied_file(path, source, tests, out, exact=True) if not _REPLACES.search(source) else None
    if language is None or varied is None:
        return None
    names, folder = {"q": varied.name}, f"{varied.name}a"
    edits: list[Edit] = []
    stack = [language.parse(varied.content)]
    while stack:
        node = stack.pop()
        edits += _loaded(node, varied.name, posixpath.dirname(path), folder)
        stack.extend(node.children)
    kit, run = (_KIT % names).encode(), (_RUN % names).encode()
    end = (
        ".mjs"
        if path.endswith(".js") and re.search(rb"^import\b", source, re.MULTILINE)
        else posixpath.splitext(path)[1]
    )
    content = kit + edited(varied.content, edits) + run
    return PlainScript(path=f"{folder}/main{end}", content=content, copies=varied.copies, name=varied.name)


def _loaded(node: Node, name: str, before: str, after: str) -> list[Edit]:
    """Return the edit of a part of a file that loads a runner, or a file by a path from its own folder."""
    if node.type == "import_statement":
        source = node.child_by_field_name("source")
        return _imported(node, source, name, before, after) if source is not None else []
    function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if node.type != "call_expression" or function is None or arguments is None or text_of(function) not in _LOADS:
        return []
    files = arguments.named_children[:1]
    if not files or files[0].type != "string":
        return []
    if _text(files[0]) in _RUNNERS:
        return [(node.start_byte, node.end_byte, f"{name}_kit".encode())]
    return _moved(files[0], before, after)


def _imported(node: Node, source: Node, name: str, before: str, after: str) -> list[Edit]:
    if _text(source) not in _RUNNERS:
        return _moved(source, before, after)
    clause = next((child for child in node.named_children if child.type == "import_clause"), None)
    lines = []
    for child in clause.named_children if clause is not None else ():
        match child.type:
            case "identifier":
                lines.append(f"const {text_of(child)} = {name}_kit;")
            case "namespace_import":
                lines.append(f"const {text_of(child.named_children[0])} = {name}_kit;")
            case _:
                words = [[text_of(part) for part in some.named_children] for some in child.named_children]
                lines.append(f"const {{ {', '.join(': '.join(parts) for parts in words)} }} = {name}_kit;")
    return [(node.start_byte, node.end_byte, " ".join(lines).encode())]


def _moved(source: Node, before: str, after: str) -> list[Edit]:
    text = _text(source)
    if not text.startswith("."):
        return []
    place = posixpath.relpath(posixpath.join(before, text), after)
    return [(source.start_byte, source.end_byte, json.dumps(place if place.startswith(".") else f"./{place}").encode())]


def _text(string: Node) -> str:
    return text_of(string)[1:-1]
