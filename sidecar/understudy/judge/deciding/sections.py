"""Restore the parts of a file that decide a check, and keep the parts that honest changes touch.

``pyproject.toml`` carries dependencies and a version beside the options of pytest. ``restored`` returns the result's
file with the base's deciding parts: the result's bytes wherever nothing was restored.
"""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from understudy.judge.runs.runner_registry import RUNNERS

Keys = tuple[str, ...]

_KEPT = {name: kept for runner in RUNNERS for name, kept in runner.kept_sections.items()}
_DEPENDENCIES = {name: keys for runner in RUNNERS for name, keys in runner.dependencies.items()}


def splits(path: str) -> bool:
    """Return whether this file is restored by section."""
    return PurePosixPath(path).name in _KEPT


def restored(path: str, base: bytes, result: bytes) -> bytes:
    """Return ``result`` with the parts of ``base`` that decide a check; ``base`` if one of them cannot be parsed."""
    name = PurePosixPath(path).name
    rules = _KEPT[name]
    if base == result:
        return result
    try:
        if name.endswith(".toml"):
            return _toml(base, result, rules)
        if name.endswith(".json"):
            return _json(base, result, rules)
        if name.endswith(".mod"):
            return _go_mod(base, result, rules)
        return _ini(base, result, rules)
    except (ValueError, RecursionError, configparser.Error):
        return base


def dependencies_changed(path: str, base: bytes | None, result: bytes | None) -> bool:
    """Return whether a manifest declares other dependencies than before, so that its lock file has to change."""
    if base is None or result is None:
        return base != result
    keys = _DEPENDENCIES.get(PurePosixPath(path).name)
    if keys is None:
        return base != result
    read = json.loads if path.endswith(".json") else lambda data: tomllib.loads(data.decode())
    try:
        before, after = read(base), read(result)
    except (ValueError, RecursionError):
        return base != result
    return any(_at(before, key.split(".")) != _at(after, key.split(".")) for key in keys)


def merged_sums(base: bytes, result: bytes) -> bytes:
    """Return ``go.sum`` of the result, but the base's hash of every module version that the base knows."""
    base_lines = {tuple(line.split()[:2]): line for line in base.splitlines()}
    return b"".join(base_lines.get(tuple(line.split()[:2]), line) + b"\n" for line in result.splitlines())


def _at(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _kept(keys: Keys, rules: Iterable[str]) -> bool | None:
    """Return whether the value at ``keys`` stays as the result has it; None if only a part of it does."""
    best, kept, partly = -1, False, False
    for rule in rules:
        parts = tuple(rule.removeprefix("!").split("."))
        if keys[: len(parts)] == parts:
            if len(parts) > best:
                best, kept = len(parts), not rule.startswith("!")
        elif parts[: len(keys)] == keys:
            partly = True
    return None if partly else kept


def _merged(base: Mapping[str, Any], result: Mapping[str, Any], rules: Sequence[str], at: Keys = ()) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key in [*result, *(key for key in base if key not in result)]:
        path = (*at, key)
        kept = _kept(path, rules)
        if kept is None:
            old, new = base.get(key), result.get(key)
            if isinstance(old if old is not None else {}, dict) and isinstance(new if new is not None else {}, dict):
                inner = _merged(old or {}, new or {}, rules, path)
                if inner or new == {}:
                    merged[key] = inner
                continue
            kept = True  # it has another type than the rules expect, such as an array of tables
        source = result if kept else base
        if key in source:
            merged[key] = source[key]
    return merged


# -- TOML --------------------------------------------------------------------------------------------------------

_TABLE = re.compile(r"^[ \t]*\[{1,2}[^\[\]\n]+\]{1,2}[ \t]*(?:#[^\n]*)?$", re.MULTILINE)


def _toml(base: bytes, result: bytes, rules: Sequence[str]) -> bytes:
    old, new = base.decode(), result.decode()
    merged = _merged(tomllib.loads(old), tomllib.loads(new), rules)
    tables = _tables(new)
    spare: dict[Keys, str] = {}
    for keys, text in _tables(old):
        spare[keys] = spare.get(keys, "") + text
    texts = []
    for keys, text in tables:
        if not keys or _kept(keys, rules) is not False:
            texts.append(text)
        elif keys in spare:
            texts.append(spare.pop(keys))
    present = {keys for keys, _ in tables}
    texts += [text for keys, text in spare.items() if keys and keys not in present and _kept(keys, rules) is False]
    joined = "".join(text if text.endswith("\n") or not text else text + "\n" for text in texts)
    try:
        if tomllib.loads(joined) == merged:
            return joined.encode()
    except tomllib.TOMLDecodeError:
        pass
    import tomli_w

    return tomli_w.dumps(merged).encode()  # the tables cannot be exchanged as text: dotted keys, inline tables


def _tables(text: str) -> list[tuple[Keys, str]]:
    """Split a TOML file at its table headers; the first part has no header."""
    starts = [match.start() for match in _TABLE.finditer(text)]
    parts: list[tuple[Keys, str]] = [((), text[: starts[0] if starts else len(text)])]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=False):
        part = text[start:end]
        parts.append((_header(part.partition("\n")[0]), part))
    return parts


def _header(line: str) -> Keys:
    try:
        value: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ("",)  # a line of a multi-line string or array; the comparison with the parsed file notices
    keys = []
    while isinstance(value, dict | list) and value:
        if isinstance(value, list):
            value = value[0]
            continue
        key, value = next(iter(value.items()))
        keys.append(key)
    return tuple(keys)


# -- INI ---------------------------------------------------------------------------------------------------------

_SECTION = re.compile(r"^\[([^\]\n]+)\]", re.MULTILINE)
_OPTION = re.compile(r"^([^\s#;=:\[][^=:\n]*?)[ \t]*[=:]", re.MULTILINE)


def _ini(base: bytes, result: bytes, rules: Sequence[str]) -> bytes:
    old, new = base.decode(), result.decode()
    for text in (old, new):
        configparser.ConfigParser(interpolation=None, allow_no_value=True).read_string(text)
    before, after = dict(_split(old, _SECTION)), _split(new, _SECTION)
    texts = [before.get("", "")]
    for section, text in after:
        if section and (section in rules or section.partition(":")[0] in rules):
            texts.append(text)
        elif section:
            texts.append(_options(section, before.get(section, ""), text, rules))
    names = {section for section, _ in after}
    for section, text in before.items():
        if section not in names and section not in rules and section.partition(":")[0] not in rules:
            texts.append(text)
    return "".join(text if text.endswith("\n") or not text else text + "\n" for text in texts).encode()


def _options(section: str, base: str, result: str, rules: Sequence[str]) -> str:
    """Return the base's section with the options of the result that a rule ``section|option`` keeps."""
    shape = f"{section.partition(':')[0]}:*" if ":" in section else section
    kept = {rule.partition("|")[2] for rule in rules if rule.partition("|")[0] == shape}
    if not kept:
        return base
    before, after = _split(base, _OPTION), dict(_split(result, _OPTION))
    texts = [after.get("", "") if not base else before[0][1]]
    seen = set()
    for option, text in before[1:]:
        seen.add(option)
        texts.append(after.get(option, "") if option in kept else text)
    texts += [text for option, text in after.items() if option in kept and option not in seen]
    return "".join(texts)


def _split(text: str, head: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return (name, text) of each part that starts with ``head``; the first has no name."""
    heads = list(head.finditer(text))
    parts = [("", text[: heads[0].start() if heads else len(text)])]
    ends = [*(match.start() for match in heads[1:]), len(text)]
    parts += [(match.group(1).strip(), text[match.start() : end]) for match, end in zip(heads, ends, strict=False)]
    return parts


# -- JSON --------------------------------------------------------------------------------------------------------


def _json(base: bytes, result: bytes, rules: Sequence[str]) -> bytes:
    old, new = json.loads(base), json.loads(result)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return base
    merged = _merged(old, new, rules)
    if list(merged.items()) == list(new.items()):
        return result
    indent = re.search(rb"\n([ \t]+)\"", result)
    width: Any = indent.group(1).decode() if indent else None
    return (json.dumps(merged, indent=width, ensure_ascii=False) + "\n").encode()


# -- go.mod ------------------------------------------------------------------------------------------------------

_DIRECTIVE = re.compile(r"^([a-z]+)\b[ \t]*(\([^)]*\)[^\n]*|[^\n]*)(?:\n|\Z)", re.MULTILINE)


def _go_mod(base: bytes, result: bytes, rules: Sequence[str]) -> bytes:
    def directives(data: bytes, is_kept: Callable[[str], bool]) -> str:
        return "".join(
            match.group().rstrip("\n") + "\n" for match in _DIRECTIVE.finditer(data.decode()) if is_kept(match.group(1))
        )

    if directives(base, lambda name: name not in rules) == directives(result, lambda name: name not in rules):
        return result
    return (directives(result, rules.__contains__) + directives(base, lambda name: name not in rules)).encode()
