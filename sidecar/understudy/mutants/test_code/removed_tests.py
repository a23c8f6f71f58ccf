"""Remove tests from a file, or let them do nothing; everything else keeps its bytes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import Language, text_of
from understudy.mutants.test_code.definitions import DefinedTest, defining_call, definitions_of, node_of

if TYPE_CHECKING:
    from tree_sitter import Node

_GO_TEST = re.compile(
    rb"func\s+(?:(?:Test|Fuzz)(?![a-z])\w*\s*\(\s*\w+\s+\*testing\.[TF]\s*\)|Example(?![a-z])\w*\s*\(\s*\)"
    rb"|\([^)]*\)\s*Test\w*\s*\(\s*\))\s*\{"
)
"""Matches a test's beginning, also that of a method: suites, as those of ``testify``, call them by their names."""
_NO_PYTHON_TEST = re.compile(rb"^[ \t]*@.*(?:fixture|property)", re.MULTILINE)
_RUST_TEST = re.compile(rb"#\[(?!cfg)[^\]\n]*\b\w*test\w*\b")
_HOOK = re.compile(r"\.(?:before|after)\w*$|\.(?:use|step|extend)$")
_SCRIPT_FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function"})
_NO_FUNCTIONS = frozenset({"object", "number", "string", "template_string", "true", "false", "null", "undefined"})

_Edit = tuple[int, int, bytes]
"""Where it starts and ends, in bytes, and the text that takes the place."""
_SCRIPTS = frozenset({"javascript", "typescript"})
_SCRIPT_BLOCKS = frozenset({"program", "statement_block", "switch_case", "switch_default"})
_NOTES = re.compile(r"comment|^pass_statement$|attribute_item$")
"""Matches the types of nodes that are nothing by themselves."""
_SETUP = re.compile(r"^(?:import|future_import|use_|package_|const_|static_|var_|lexical_|variable_|extern_)")
"""Matches the types of statements that only prepare tests."""
_PATH_VERSION = re.compile(r"[/.]v\d+$")


def usual_tests(path: str, source: bytes) -> list[DefinedTest]:
    """Return the definitions in a file that are tests by the usual rules of their runner."""
    language = language_of(path)
    tests = [test for test in definitions_of(path, source) if not test.group]
    match language.name if language is not None else "":
        case "python":
            named = [test for test in tests if test.names[-1].startswith("test")]
            return [test for test in named if not _NO_PYTHON_TEST.search(source[test.start : test.end])]
        case "go":
            return [
                test for test in tests if path.endswith("_test.go") and _GO_TEST.search(source[test.start : test.end])
            ]
        case "rust":
            return [test for test in tests if _RUST_TEST.search(source[test.start : test.end].partition(b"{")[0])]
        case _:
            return tests


def emptied(path: str, source: bytes, tests: Collection[DefinedTest]) -> bytes:
    """Return a file in which these of its tests return at once; other code keeps its bytes.

    A test whose code is not in its definition stays as it is, and so does a Go test that another process runs by name.
    """
    language = language_of(path)
    if language is None or not tests:
        return source
    root = language.parse(source)
    pieces, last = [], 0
    for test in sorted(tests, key=lambda test: (test.start, -test.end)):
        edit = None if test.start < last else _edit(node_of(root, test), source)
        if edit is not None:
            pieces += [source[last : edit[0]], edit[2]]
            last = edit[1]
    return b"".join([*pieces, source[last:]])


def _edit(node: Node, source: bytes) -> _Edit | None:
    node = node.child_by_field_name("definition") or defining_call(node)
    match node.type:
        case "function_definition":
            body = node.child_by_field_name("body")
            return None if body is None else (body.start_byte, body.end_byte, b"return")
        case "function_declaration" | "method_declaration":
            return _go(node, source)
        case "function_item":
            return _rust(node)
        case "call_expression":
            return _script(node)
    return None


def _go(node: Node, source: bytes) -> _Edit | None:
    name = node.child_by_field_name("name")
    if name is None or node.child_by_field_name("result") is not None:
        return None
    if b"-test.run" in source and source.count(name.text or b"") > 1:
        return None
    return _after_brace(node, b"return;")


def _rust(node: Node) -> _Edit | None:
    result = node.child_by_field_name("return_type")
    value = b"" if result is None else b" Ok(())" if "<()" in text_of(result) else None
    # The compiler must not see that the rest is never reached: warnings can be errors.
    return None if value is None else _after_brace(node, b"if !::std::thread::panicking() { return%s; }" % value)


def _after_brace(node: Node, text: bytes) -> _Edit | None:
    body = node.child_by_field_name("body")
    return None if body is None else (body.start_byte + 1, body.start_byte + 1, b" " + text)


def _script(node: Node) -> _Edit | None:
    called, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    if called is None or arguments is None or _HOOK.search(text_of(called)):
        return None
    candidates = [
        argument
        for argument in arguments.named_children[1:]
        if argument.type not in _NO_FUNCTIONS and "comment" not in argument.type
    ]
    functions = [argument for argument in candidates if argument.type in _SCRIPT_FUNCTIONS]
    functions = functions or [argument for argument in candidates if not text_of(argument).isupper()][-1:]
    # Without parameters: a runner waits for a function that takes a callback.
    return (functions[0].start_byte, functions[0].end_byte, b"() => {}") if functions else None


def without_tests(
    path: str, source: bytes, dropped: Collection[DefinedTest], base: Collection[tuple[str, ...]] | None
) -> bytes | None:
    """Return a file without some of the definitions that ``definitions_of`` found in it.

    A group that has no test left is removed too, unless its names are in ``base``: those of the base's file, None if
    the base has no such file. Return None if nothing but imports and the like remains of a file that the base does not
    have. Go's imports that become unused are removed, because they do not compile.

    Raise ``ValueError`` if the definitions cannot be removed without breaking something else.
    """
    language = language_of(path)
    if language is None:
        raise ValueError(path)
    root, tests = language.parse(source), definitions_of(path, source)
    gone = [test for test in tests if test in dropped]
    for group in reversed(tests):  # inner groups come last
        inside = [test for test in tests if group.contains(test)]
        if (
            group.group
            and group not in gone
            and group.names not in (base or ())
            and any(test in gone for test in inside)
        ):
            left = [test for test in inside if not _covered(test.start, test.end, gone)]
            if not left and (language.name in _SCRIPTS or _is_bare(root, group, gone)):
                gone.append(group)
    outer = [test for test in gone if not any(other.contains(test) for other in gone)]
    if any(test.contains(other) and other.names[: len(test.names)] != test.names for test in outer for other in tests):
        message = f"another test in {path} begins when one of these ends"
        raise ValueError(message)
    kept = [test.names for test in tests if not _covered(test.start, test.end, outer)]
    rest = source
    for test in sorted(outer, key=lambda test: test.start, reverse=True):
        rest = _cut(language, rest, test.start, test.end, _filler(language, root, test, outer))
    if language.name == "go":
        rest = _without_unused_imports(language, source, rest)
    after = language.parse(rest)
    if (after.has_error and not root.has_error) or [test.names for test in definitions_of(path, rest)] != kept:
        message = f"what remains of {path} would not be the same code without these tests"
        raise ValueError(message)
    if base is None and _is_nothing(language, after, definitions_of(path, rest)):
        return None
    return rest


def _covered(start: int, end: int, ranges: Iterable[DefinedTest]) -> bool:
    return any(test.start <= start and end <= test.end for test in ranges)


def _is_bare(root: Node, group: DefinedTest, gone: Sequence[DefinedTest]) -> bool:
    """Return whether a class or module has nothing but a docstring and imports beside what is removed."""
    body = node_of(root, group).child_by_field_name("body")
    return body is not None and all(
        _covered(child.start_byte, child.end_byte, gone) or _is_note(child) or child.type == "use_declaration"
        for child in body.named_children
    )


def _is_nothing(language: Language, root: Node, tests: Iterable[DefinedTest]) -> bool:
    """Return whether a file has no test and nothing that another file could use."""
    if any(not test.group for test in tests):
        return False
    if language.name in _SCRIPTS:
        exports = (b"module.exports", b"exports.")
        return not any(
            child.type == "export_statement" or (child.text or b"").startswith(exports) for child in root.named_children
        )
    return all(_is_note(child) or _SETUP.search(child.type) or _is_setting(child) for child in root.named_children)


def _is_note(node: Node) -> bool:
    """Return whether a node is a comment, a docstring, or nothing else that does something."""
    if node.type == "expression_statement" and node.named_child_count == 1:
        return node.named_children[0].type in {"string", "concatenated_string", "ellipsis"}
    return _NOTES.search(node.type) is not None


def _is_setting(node: Node) -> bool:
    """Return whether a statement of Python assigns something, or starts the tests of the file as a program."""
    if node.type == "if_statement":
        return text_of(node).startswith("if __name__")
    return node.type == "expression_statement" and [child.type for child in node.named_children] == ["assignment"]


def _filler(language: Language, root: Node, definition: DefinedTest, gone: Sequence[DefinedTest]) -> bytes:
    """Return what must take the place of a definition, so that the code around it stays complete."""
    if language.name in _SCRIPTS:
        node = node_of(root, definition)
        around = node.parent.type if node.parent is not None else ""
        if node.type.endswith("_statement"):
            return b"" if not around or around in _SCRIPT_BLOCKS else b";"
        if around in {"arrow_function", "array"}:
            return b"undefined"
        message = f"the value of {definition.names[-1]} is used"
        raise ValueError(message)
    return b"pass" if language.name == "python" and _is_first_of_emptied(root, definition, gone) else b""


def _is_first_of_emptied(root: Node, definition: DefinedTest, gone: Sequence[DefinedTest]) -> bool:
    """Return whether a definition is the first statement of a block of which everything is removed."""
    block = node_of(root, definition).parent
    if block is None or block.type != "block":
        return False
    statements = [child for child in block.named_children if child.type != "comment"]
    return _covered(statements[0].start_byte, statements[0].end_byte, [definition]) and all(
        _covered(child.start_byte, child.end_byte, gone) for child in statements
    )


def _cut(language: Language, source: bytes, start: int, end: int, filler: bytes = b"") -> bytes:
    """Remove a range, with its lines and the empty lines above (or below, if there are none) where it has its own."""
    line = source.rfind(b"\n", 0, start) + 1
    stop = source.find(b"\n", end) + 1 or len(source)
    after = source[end:stop].strip().lstrip(b";")
    comment = language.comment.partition("%")[0].strip().encode()
    if filler or source[line:start].strip() or (after and not after.startswith(comment)):
        return source[:start] + filler + source[end:]
    first = line
    follows = source[stop : source.find(b"\n", stop) + 1 or len(source)]
    if follows.strip() and _indent(follows) == source[line:start]:
        return source[:line] + source[stop:]  # the empty lines above now separate what follows
    while first and not source[(above := source.rfind(b"\n", 0, first - 1) + 1) : first].strip():
        first = above
    while first == line and stop < len(source):
        below = source.find(b"\n", stop) + 1 or len(source)
        if source[stop:below].strip():
            break
        stop = below
    return source[:first] + source[stop:]


def _indent(line: bytes) -> bytes:
    return line[: len(line) - len(line.lstrip())]


def _without_unused_imports(language: Language, before: bytes, after: bytes) -> bytes:
    """Remove the imports that Go code used before and no longer uses."""
    root = language.parse(after)
    unused = _used_packages(language.parse(before)) - _used_packages(root)
    for node in reversed(list(_imports(root))):
        if _package_name(node) in unused:
            parent = node.parent
            whole = parent if parent is not None and parent.type == "import_declaration" else node
            after = _cut(language, after, whole.start_byte, whole.end_byte)
    return after


def _imports(root: Node) -> Iterator[Node]:
    for declaration in root.named_children:
        if declaration.type == "import_declaration":
            for child in declaration.named_children:
                yield from child.named_children if child.type == "import_spec_list" else [child]


def _package_name(spec: Node) -> str:
    """Return the name under which a package is imported, guessed from its path if none is given."""
    name, path = spec.child_by_field_name("name"), spec.child_by_field_name("path")
    if name is not None or path is None:
        return text_of(name) if name is not None else ""
    return _PATH_VERSION.sub("", text_of(path).strip('"`')).rpartition("/")[2]


def _used_packages(root: Node) -> set[str]:
    packages, stack = set(), [root]
    while stack:
        node = stack.pop()
        if node.type in {"selector_expression", "qualified_type"} and node.named_children:
            packages.add(text_of(node.named_children[0]))
        stack.extend(node.named_children)
    return packages
