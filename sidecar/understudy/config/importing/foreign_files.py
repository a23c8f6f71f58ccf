"""Read TOML, JSON and YAML files of other tools within limits, with the place of every value; write JSON exactly.

A file that cannot be read raises ``config_invalid`` with its place. No message contains a value, which may be a key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.config.findings import KeyPath, LocatedFinding
from understudy.config.parsing import file_syntax
from understudy.config.parsing.file_syntax import YAML_NULL, Refused, compose_yaml, point
from understudy.config.parsing.source_file import MAX_BYTES, MAX_DEPTH, Source, read, unusable_value
from understudy.model.errors import ErrorKind, Location, Range, UnderstudyError

MAX_EXACT_BYTES = 1024 * 1024
"""The largest agent profile; those that programs wrote have a few kilobytes."""
MAX_EXACT_DEPTH = 100
"""Deeper nesting is an accident or an attack; recursion within this stays below Python's own limit."""
Syntax = Literal["toml", "json", "yaml"]
MAX_NODES = 20_000
"""The most values of a YAML file; the largest that people wrote have a few hundred."""
MAX_PLACES = 100_000
"""The most values of a JSON file whose places are known."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_NOT_YAML = re.compile(r"(\\[^u]|\\u(?:[^dD]|.[0-7]))|\\|[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
"""What JSON has and YAML has not: the backslash of half a surrogate pair, control characters, other line ends."""
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,18}\.[0-9]{1,18}")


@dataclass(frozen=True)
class Number:
    """A number that only its text represents exactly."""

    text: str


def load_exact(text: str, *, parse_constant: Callable[[str], Any]) -> Any:
    """Parse ``text``; a number whose value would be written in another way is a ``Number``."""
    return json.loads(text, parse_int=_integer, parse_float=_decimal, parse_constant=parse_constant)


def dump_exact(value: Any, level: int = 0) -> str:
    """Return ``value`` as JSON, indented by two spaces; it must not be nested deeper than ``MAX_EXACT_DEPTH``."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, str):
        return _json_text(value)
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value)
    around, inside = "\n" + "  " * level, "\n" + "  " * (level + 1)
    if isinstance(value, list):
        return "[" + ",".join(inside + dump_exact(item, level + 1) for item in value) + around + "]"
    members = (f"{inside}{_json_text(key)}: {dump_exact(item, level + 1)}" for key, item in value.items())
    return "{" + ",".join(members) + around + "}"


def depth(value: Any) -> int:
    """Return how many levels of lists and objects ``value`` has, without recursion."""
    deepest, stack = 0, [(value, 0)]
    while stack:
        item, level = stack.pop()
        if isinstance(item, dict | list):
            deepest = max(deepest, level + 1)
            stack += [(inner, level + 1) for inner in (item.values() if isinstance(item, dict) else item)]
    return deepest


def _integer(text: str) -> int | Number:
    # Above 18 digits, another reader may not hold it, and Python refuses thousands of them.
    return int(text) if len(text) <= 18 and str(int(text)) == text else Number(text)


def _decimal(text: str) -> float | Number:
    value = float(text)
    return value if repr(value) == text else Number(text)


def _json_text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which is valid as an escape only
        return json.dumps(value)
    return json.dumps(value, ensure_ascii=False)


class Document:
    """The values of one file, and where each is."""

    def __init__(self, path: Path, values: dict[str, Any], places: dict[KeyPath, Range] | Source) -> None:
        """Take the parsed values; ``places`` maps the path of each value to its range, unless the file is TOML."""
        self.path = path
        self.values = values
        self._places = places

    def location(self, path: KeyPath) -> Location:
        """Return the place of a value, or of the nearest enclosing value that has one."""
        if isinstance(self._places, Source):
            return self._places.location(self._places.where(path, key=bool(path) and isinstance(path[-1], str)))
        while path and path not in self._places:
            path = path[:-1]
        return Location(self.path.as_uri(), self._places.get(path, file_syntax.START))

    def invalid(self, path: KeyPath, message: str, hint: str = "Correct the file.") -> UnderstudyError:
        """Return the error about a value of this file."""
        return UnderstudyError(ErrorKind.CONFIG_INVALID, message, hint=hint, location=self.location(path))


def setting(path: KeyPath) -> str:
    """Return a path as text: ``profiles.groq.timeout``, ``delegators[0].model``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            plain = step if _PLAIN_NAME.fullmatch(step) else json.dumps(step[:64])
            text += f".{plain}" if text else plain
    return text


def read_document(path: Path, syntax: Syntax, *, most: int = MAX_BYTES) -> Document | None:
    """Return a file of at most ``most`` bytes; None if it does not exist. Raises ``config_invalid`` with the place."""
    source, problems = read(path, inside=None, most=most)
    if source is None:
        if problems:
            raise _error(problems[0])
        return None
    if syntax == "toml":
        values, problems = source.parse()
        if values is None:
            raise _error(problems[0])
        document = Document(path, values, source)
    else:
        text = _text(source)
        document = _json(source, text) if syntax == "json" else _yaml(source, text)
    unusable = unusable_value(document.values)
    if unusable is not None:
        raise document.invalid(unusable[0], f"`{setting(unusable[0])[:200]}` {unusable[1]}.")
    return document


def parse_exact(text: str, path: Path) -> Document:
    """Return a JSON object whose numbers can be written again digit by digit; raises what ``read_document`` raises."""
    text = text.removeprefix("\ufeff")
    source = Source(path, text.encode(errors="surrogatepass"))
    document = _json(source, text, loads=load_exact)
    if depth(document.values) > MAX_EXACT_DEPTH:
        raise _error(source.problem(f"The JSON is nested more than {MAX_EXACT_DEPTH} levels deep."))
    return document


def read_exact(path: Path) -> tuple[str, Document] | None:
    """Return the text of a JSON file and what ``parse_exact`` returns for it; None if there is no such file."""
    source, problems = read(path, inside=None, most=MAX_EXACT_BYTES)
    if source is None:
        if problems:
            raise _error(problems[0])
        return None
    text = _text(source)
    return ("\ufeff" if source.data != source.toml else "") + text, parse_exact(text, path)


def _error(problem: LocatedFinding) -> UnderstudyError:
    return UnderstudyError(
        ErrorKind.CONFIG_INVALID,
        problem.message,
        hint=problem.hint or "Correct the file, or name another one.",
        location=problem.location,
    )


def _text(source: Source) -> str:
    try:
        return source.toml.decode()
    except UnicodeDecodeError as error:
        raise _error(source.not_utf8(error)) from None


def _json(source: Source, text: str, *, loads: Callable[..., Any] = json.loads) -> Document:
    try:
        values = loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise _error(source.problem(f"The JSON is nested more than {MAX_DEPTH} levels deep.")) from None
    except json.JSONDecodeError as error:
        at = point(error.lineno - 1, file_syntax.utf16(text[error.pos - error.colno + 1 : error.pos]))
        raise _error(source.problem(f"This is not JSON: {error.msg}.", at=at)) from None
    except ValueError:  # a constant, or an integer beyond Python's limit of digits
        raise _error(source.problem("The JSON has a number that is out of range.", at=_number(text))) from None
    if not isinstance(values, dict):
        raise _error(source.problem("The file is not a JSON object."))
    try:
        places = _json_places(text)
    except Refused as refused:
        raise _error(source.problem(refused.message, at=point(refused.line, refused.column))) from None
    return Document(source.path, values, places)


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _number(text: str) -> Range:
    """Return the place of the first token that no JSON number can be."""
    for token in _TOKEN.finditer(text):
        if token[0] in {"NaN", "Infinity", "-Infinity"} or (len(token[0].lstrip("-")) > 300 and token[0][-1].isdigit()):
            return point(text.count("\n", 0, token.start()), 0)
    return file_syntax.START


def _json_places(text: str) -> dict[KeyPath, Range]:
    """Return the places of the values of valid JSON, which is YAML; none, if it has too many or a name is too long.

    Raises ``Refused`` for a name that occurs twice in one object.
    """
    # Each becomes a private character, so names stay different; such a name gets the place of what is around it.
    text = _NOT_YAML.sub(lambda match: match[1] or chr(0xE000 + ord(match[0]) % 0x1000), text)
    try:
        root = compose_yaml(text, most_nodes=MAX_PLACES, most_levels=2 * MAX_EXACT_DEPTH)
    except Refused:
        json.loads(text, parse_int=str, object_pairs_hook=_refuse_twice)
        return {}
    places: dict[KeyPath, Range] = {}
    _plain(root, (), places)
    return places


def _refuse_twice(members: list[tuple[str, Any]]) -> None:
    if len(dict(members)) != len(members):
        raise Refused("A setting occurs twice.")


def _yaml(source: Source, text: str) -> Document:
    places: dict[KeyPath, Range] = {}
    try:
        root = compose_yaml(text, most_nodes=MAX_NODES, most_levels=MAX_DEPTH)
        values = _plain(root, (), places) if root is not None else {}
    except Refused as refused:
        hint = "Correct the YAML; put text with `: ` or ` #` in quotation marks."
        raise _error(source.problem(refused.message, hint=hint, at=point(refused.line, refused.column))) from None
    if not isinstance(values, dict):
        raise _error(source.problem("The file is not a list of `name: value`."))
    return Document(source.path, values, places)


def _plain(node: Any, path: KeyPath, places: dict[KeyPath, Range]) -> Any:
    """Return the value of a node, as the core schema of YAML 1.2 reads it; the depth is bounded by ``compose``."""
    import yaml

    places.setdefault(path, point(node.start_mark.line, node.start_mark.column))
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, number), places) for number, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        values: dict[str, Any] = {}
        for key, item in node.value:
            line, column = key.start_mark.line, key.start_mark.column
            if not isinstance(key, yaml.ScalarNode):
                raise Refused("The name of a setting is not a text.", line, column)
            if key.value in values:
                raise Refused("A setting occurs twice.", line, column)
            places[(*path, key.value)] = point(line, column)
            values[key.value] = _plain(item, (*path, key.value), places)
        return values
    text = str(node.value)
    if node.style:  # quoted, or a block
        return text
    if node.tag == YAML_NULL:
        return None
    if text in {"true", "false"}:
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text
