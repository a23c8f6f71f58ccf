"""Find the names that a result changed, and give them to tests of the base, which know only the earlier ones.

A test with other names checks the same expectations. It is never given a name that it has already, so that no two
things in it become one, and no text of it changes but the paths of modules in imports and patches.
"""

from __future__ import annotations

import difflib
import itertools
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from understudy.judge.project.command_lines import Read
from understudy.judge.runs.judged_tree import Change
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_BYTES = 512 * 1024
_MOST_FILES = 200
"""Most changed files that are read."""
_MOST_GONE = 50
"""Most names that are compared with each new one."""
_MOST_TOKENS = 2_000
"""Tokens of a definition that are compared."""
_ALIKE = 0.5
"""The least share of equal tokens, or lines, of what was renamed."""
_DEFINES_NOTHING = re.compile("argument|import|specifier|jsx|attribute")
"""Matches types of nodes whose field ``name`` names something that is defined elsewhere."""
_PARAMETER = "parameter"
_PARAMETERS = frozenset({"parameters", "formal_parameters", "parameter_list"})
_PATCHES = re.compile(r"(?:^|\.)(?:patch|setattr|delattr|import_module|importorskip)$")
"""Matches calls whose first argument is the path of something in a module."""
_LOADS = re.compile(r"(?:^|\.)(?:require|import|mock|doMock|unmock|importActual|requireActual)$")
"""The same for scripts."""
_MAKES_NAMES = re.compile(
    rb"(?:import|export)[ \t]*\*|__getattr|__dict__|sys\.modules|\b(?:globals|locals|vars|setattr|exec|eval)\("
)
"""Matches ways to give something a name that no text shows."""
_SCRIPT_SUFFIX = re.compile(r"\.[cm]?[jt]sx?$")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


@dataclass(frozen=True, kw_only=True)
class Renames:
    """What the earlier names became."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Functions, classes, methods, parameters, and modules that stay in their folder."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Paths of code."""

    def __bool__(self) -> bool:
        """Return whether anything was renamed."""
        return bool(self.names or self.files)


@dataclass(frozen=True, kw_only=True)
class _Defined:
    name: str
    kind: str
    tokens: Sequence[str]
    """Of its definition without the name; of a parameter, its function, position, and the number of parameters."""


def renames_of(
    changes: Iterable[Change],
    read_base: Read,
    read_result: Read,
    *,
    result_paths: Iterable[str],
    is_code: Callable[[str], bool],
) -> Renames:
    """Return what the changed code has under another name, as far as its text shows.

    A name counts only if the changed code no longer has it anywhere, and the new one is new in it. What the result has
    twice, as a module or by a way to make names that no text shows, was not renamed.
    """
    listed = list(itertools.islice((change for change in changes if is_code(change[1])), _MOST_FILES))
    before = _sources((path for letter, path in listed if letter[:1] != "A"), read_base)
    after = _sources((path for letter, path in listed if letter[:1] != "D"), read_result)
    if _makes_names(after) > _makes_names(before):
        return Renames()
    files = _without_doubles(_moved(before, after), result_paths)
    defined = {path: list(_definitions(path, source)) for path, source in before.items()}
    defined_now = {path: list(_definitions(path, source)) for path, source in after.items()}
    words, words_now = _all_words(before), _all_words(after)
    gone = [item for items in defined.values() for item in items if item.name not in words_now]
    new = [item for items in defined_now.values() for item in items if item.name not in words]
    names = _pairs(gone[:_MOST_GONE], new[:_MOST_GONE])
    for old, now in itertools.product(gone, new):
        if old.kind == now.kind == _PARAMETER and [names.get(token, token) for token in old.tokens] == now.tokens:
            names.setdefault(old.name, now.name)
    for path, path_now in files.items():
        stem, stem_now = _stem(path), _stem(path_now)
        if (
            posixpath.dirname(path) == posixpath.dirname(path_now)
            and stem != stem_now
            and "__init__" not in {stem, stem_now}
        ):
            names.setdefault(stem, stem_now)
    return Renames(names=names, files=files)


def renamed(path: str, source: bytes, renames: Renames) -> bytes:
    """Return a file of tests with the new names; unchanged if it has one of these already, or none of the earlier."""
    language = language_of(path)
    if language is None or len(source) > _MOST_BYTES:
        return source
    root = language.parse(source)
    identifiers = [node for node in _leaves(root) if "identifier" in node.type]
    used = {text_of(node) for node in identifiers}
    names = {old: new for old, new in renames.names.items() if old in used}
    if used & set(names.values()) or len(set(names.values())) < len(names):
        return source
    edits = {(node.start_byte, node.end_byte): names[text_of(node)] for node in identifiers if text_of(node) in names}
    modules = _modules(renames.files)
    for node, text in _paths(root, path, renames, modules):
        edits = {span: new for span, new in edits.items() if not node.start_byte <= span[0] < node.end_byte}
        edits[node.start_byte, node.end_byte] = text
    for (start, end), text in sorted(edits.items(), reverse=True):
        source = source[:start] + text.encode("utf-8", "surrogateescape") + source[end:]
    return source


def _makes_names(sources: Mapping[str, bytes]) -> int:
    return sum(len(_MAKES_NAMES.findall(source)) for source in sources.values())


def _without_doubles(files: Mapping[str, str], result_paths: Iterable[str]) -> dict[str, str]:
    """Leave out files of which the result has another with the same name: which of them a test imports is not clear."""
    places: dict[str, set[str]] = {}
    for path in result_paths:
        for part in _parts(path):
            places.setdefault(posixpath.splitext(part)[0], set()).add(path)
    return {old: new for old, new in files.items() if places.get(_parts(old)[-1], set()) <= {new}}


# -- what was renamed ----------------------------------------------------------------------------------------------


def _sources(paths: Iterable[str], read: Read) -> dict[str, bytes]:
    contents = ((path, read(path)) for path in paths)
    return {path: source for path, source in contents if source is not None and len(source) <= _MOST_BYTES}


def _moved(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, str]:
    """Return the files that have another path now, each with the most similar of the new ones."""
    gone = [path for path in before if path not in after][:_MOST_GONE]
    new = [path for path in after if path not in before][:_MOST_GONE]
    lines = {path: (before.get(path) or after[path]).splitlines() for path in (*gone, *new)}
    scored = [
        (_likeness(lines[old], lines[now]), old, now)
        for old in gone
        for now in new
        if PurePosixPath(old).suffix == PurePosixPath(now).suffix
    ]
    return _best(scored)


def _pairs(gone: Sequence[_Defined], new: Sequence[_Defined]) -> dict[str, str]:
    scored = [
        (_likeness(old.tokens, now.tokens), old.name, now.name)
        for old in gone
        for now in new
        if old.kind == now.kind != _PARAMETER
    ]
    return _best(scored)


def _likeness(earlier: Sequence[object], later: Sequence[object]) -> float:
    shortest, longest = sorted((len(earlier), len(later)))
    if 2 * shortest < _ALIKE * (shortest + longest):
        return 0.0
    return difflib.SequenceMatcher(None, earlier, later, autojunk=False).ratio()


def _best(scored: Iterable[tuple[float, str, str]]) -> dict[str, str]:
    paired: dict[str, str] = {}
    for likeness, old, new in sorted(scored, key=lambda entry: (-entry[0], *entry[1:])):
        if likeness >= _ALIKE and old not in paired and new not in paired.values():
            paired[old] = new
    return paired


def _definitions(path: str, source: bytes) -> Iterator[_Defined]:
    language = language_of(path)
    if language is None:
        return
    stack = [language.parse(source)]
    while stack:
        node = stack.pop()
        # Tests see nothing of what is inside a function.
        body = node.child_by_field_name("body") if node.type in language.functions else None
        stack.extend(child for child in node.named_children if child != body)
        name = node.child_by_field_name("name") or node.child_by_field_name("left")
        if node.type in _PARAMETERS:
            around = node.parent.child_by_field_name("name") if node.parent is not None else None
            count = str(node.named_child_count)
            for position, parameter in enumerate(node.named_children):
                leaf = next((leaf for leaf in _leaves(parameter) if "identifier" in leaf.type), None)
                if leaf is not None and around is not None:
                    tokens = [text_of(around), str(position), count]
                    yield _Defined(name=text_of(leaf), kind=_PARAMETER, tokens=tokens)
        elif (
            name is not None
            and "identifier" in name.type
            and not text_of(name).startswith("__")
            and not _DEFINES_NOTHING.search(node.type)
        ):
            tokens = [text_of(leaf) for leaf in itertools.islice(_leaves(node), _MOST_TOKENS) if leaf != name]
            yield _Defined(name=text_of(name), kind=node.type, tokens=tokens)


def _all_words(sources: Mapping[str, bytes]) -> frozenset[str]:
    """Return the names in some files, also those that are a whole text."""
    words: set[str] = set()
    for path, source in sources.items():
        language = language_of(path)
        leaves = _leaves(language.parse(source)) if language is not None else ()
        words.update(text_of(leaf) for leaf in leaves if "identifier" in leaf.type or "string" in leaf.type)
    return frozenset(words)


def _leaves(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.child_count:
            stack.extend(reversed(node.children))
        elif "comment" not in node.type:
            yield node


# -- paths of modules ----------------------------------------------------------------------------------------------


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]


def _modules(files: Mapping[str, str]) -> dict[str, str]:
    """Return Python's names of moved files, below each folder that both have and that may be on the import path."""
    modules: dict[str, str] = {}
    for old, new in files.items():
        if not (old.endswith(".py") and new.endswith(".py")):
            continue
        parts, parts_now = (_parts(path) for path in (old, new))
        pairs = zip(parts[:-1], parts_now[:-1], strict=False)
        shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        for start in range(shared + 1):
            modules[".".join(parts[start:])] = ".".join(parts_now[start:])
    return modules


def _parts(path: str) -> list[str]:
    return posixpath.splitext(path)[0].removesuffix("/__init__").removesuffix("/index").split("/")


def _paths(root: Node, path: str, renames: Renames, modules: Mapping[str, str]) -> Iterator[tuple[Node, str]]:
    """Yield what names a module or something in one by its path, with the new path."""
    stack = [root]
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        if node.type == "import_from_statement" and (module := node.child_by_field_name("module_name")) is not None:
            if text_of(module) in modules:
                yield module, modules[text_of(module)]
        elif node.type == "import_statement" and path.endswith(".py"):
            for imported in node.named_children:
                old = text_of(imported)
                if old in modules:
                    # The rest of the test has its name.
                    bound = renames.names.get(old, old)
                    alias = "" if modules[old] == bound else f" as {bound}"
                    if alias == "" or "." not in old:
                        yield imported, modules[old] + alias
                elif (name := imported.child_by_field_name("name")) is not None and text_of(name) in modules:
                    yield name, modules[text_of(name)]
        elif node.type == "string_content" and _is_first_argument(node, _PATCHES):
            yield node, _dotted(text_of(node), renames.names, modules)
        elif node.type == "string_fragment" and (_is_imported(node) or _is_first_argument(node, _LOADS)):
            yield node, _script(text_of(node), path, renames.files)


def _is_imported(fragment: Node) -> bool:
    statement = fragment.parent.parent if fragment.parent is not None else None
    return statement is not None and statement.type in {"import_statement", "export_statement"}


def _is_first_argument(content: Node, calls: re.Pattern[str]) -> bool:
    text = content.parent
    arguments = text.parent if text is not None else None
    call = arguments.parent if arguments is not None else None
    function = call.child_by_field_name("function") if call is not None else None
    is_first = arguments is not None and "argument" in arguments.type and arguments.named_children[0] == text
    return is_first and function is not None and calls.search(text_of(function)) is not None


def _dotted(text: str, names: Mapping[str, str], modules: Mapping[str, str]) -> str:
    if not _DOTTED.fullmatch(text):
        return text
    parts = text.split(".")
    for end in range(len(parts), 0, -1):
        if (module := modules.get(".".join(parts[:end]))) is not None:
            return ".".join([module, *(names.get(part, part) for part in parts[end:])])
    return ".".join([parts[0], *(names.get(part, part) for part in parts[1:])])


def _script(text: str, path: str, files: Mapping[str, str]) -> str:
    """Return the path of an imported script as it is now, relative to the one at ``path``, with as much of its name."""
    if not text.startswith("."):
        return text
    folder = posixpath.dirname(path)
    imported = posixpath.normpath(posixpath.join(folder, text))
    for old, new in files.items():
        if _SCRIPT_SUFFIX.sub("", imported) == _SCRIPT_SUFFIX.sub("", old):
            suffix = _SCRIPT_SUFFIX.search(text)
            now = _SCRIPT_SUFFIX.sub("", posixpath.relpath(new, folder or ".")) + (suffix[0] if suffix else "")
            return now if now.startswith(".") else f"./{now}"
    return text
