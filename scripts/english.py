"""Find phrases that are not plain English in the tracked text of this project.

    scripts/english.py                 check every tracked file, except the folders that are not done yet
    scripts/english.py PATH...         check these files and folders, done or not
    scripts/english.py --count PATH... print one line per rule instead of one per finding

Checked are comments, docstrings and strings of Python, JavaScript and TypeScript, strings of JSON, and the whole text
of Markdown, TOML, shell scripts and the Makefile; generated files, recordings and lock files are not. The rules are
data: ``english.toml`` holds for each phrase what to write instead, and which folders and files are exempt.

A line may break one rule for a reason: write ``english: allow RULE - REASON`` in a comment on that line or on the line
above. The exit code is 1 when something was found and 2 when the rules, a path or an exception are wrong.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
RULES = Path(__file__).with_name("english.toml")
CODE = "\0"
"""Replaces what is not prose, so that no phrase spans it."""
SPAN = "\1"
"""Replaces code quoted inside prose: one opaque word of the sentence."""
RENAMED = "renamed"
"""The rule for names that have been replaced."""
GENERATED = re.compile(r"<!-- generated: (\w+) -->.*?<!-- end of \1 -->", re.DOTALL)
"""A part of a page that comes from docstrings, where the rules are checked."""
ALLOW = re.compile(r"english: allow (?P<rule>[a-z-]+)(?P<reason> - \S)?")


class RulesError(Exception):
    """The rules, a path or an exception cannot be used."""


@dataclass(frozen=True)
class Rule:
    """One phrase to avoid."""

    name: str
    pattern: re.Pattern[str]
    instead: str
    wrong: tuple[str, ...]
    right: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """One place where a rule is broken."""

    path: str
    line: int
    text: str
    rule: str
    instead: str

    def __str__(self) -> str:
        """Return the finding as compilers write theirs."""
        return f"{self.path}:{self.line}: “{self.text}” ({self.rule}): {self.instead}"


@dataclass(frozen=True)
class Rules:
    """Everything that ``english.toml`` holds."""

    rules: tuple[Rule, ...]
    renamed: dict[str, str]
    skipped: dict[str, str]
    not_done: tuple[str, ...]
    allowed: dict[str, dict[str, str]]

    def names(self) -> set[str]:
        """Return the names of all rules."""
        return {RENAMED, *(rule.name for rule in self.rules)}

    def old_names(self) -> re.Pattern[str]:
        """Return a pattern that finds every renamed thing."""
        return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, self.renamed))})(?![\w-])")


def load_rules(path: Path = RULES) -> Rules:
    """Read the rules; raise RulesError when they are incomplete."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    rules = []
    for name, entry in data["rules"].items():
        if not re.fullmatch(r"[a-z]+(-[a-z]+)*", name):
            raise RulesError(f"Rule {name!r}: a name consists of lowercase words joined by hyphens.")
        if unknown := entry.keys() - {"pattern", "instead", "wrong", "right"}:
            raise RulesError(f"Rule {name!r}: unknown keys {', '.join(sorted(unknown))}.")
        rules.append(
            Rule(
                name,
                compile_pattern(entry["pattern"]),
                entry["instead"],
                tuple(entry["wrong"]),
                tuple(entry.get("right", ())),
            )
        )
    return Rules(tuple(rules), data["renamed"], data["skipped"], tuple(data["not_done"]), data["allowed"])


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern: a space matches any white space, only whole words match, and upper case does not matter.

    Parts of paths and identifiers are not words.
    """
    spaced = pattern.replace(" ", r"\s+")
    return re.compile(rf"(?<![\w./@$-])(?:{spaced})(?![\w/@=(]|-\w|\.\w)", re.IGNORECASE)


def check(path: str, text: str, rules: Rules) -> Iterator[Finding]:
    """Yield what is wrong with the text of a file; raise RulesError for an exception without a reason or a use."""
    lines = text.split("\n")
    allowed = allowances(path, lines, rules)
    used: set[tuple[int, str]] = set()
    for rule, instead, start, end in matches(path, text, rules):
        line = text.count("\n", 0, start) + 1
        exception = next(((at, rule) for at in (line, line - 1) if (at, rule) in allowed), None)
        if exception:
            used.add(exception)
        else:
            yield Finding(path, line, " ".join(text[start:end].split()), rule, instead)
    for line, rule in sorted(allowed - used):
        raise RulesError(f"{path}:{line}: nothing here breaks the rule {rule}. Remove the exception.")


def matches(path: str, text: str, rules: Rules) -> Iterator[tuple[str, str, int, int]]:
    """Yield every match: the rule's name, what to write instead, and the offsets of the phrase."""
    exempt = rules.allowed.get(path, {})
    prose, offset_of = squeeze(ALLOW.sub(opaque, extract_prose(path, text)))
    for rule in rules.rules:
        if rule.name not in exempt:
            for match in rule.pattern.finditer(prose):
                yield rule.name, rule.instead, offset_of(match.start()), offset_of(match.end())
    if RENAMED not in exempt:
        for match in rules.old_names().finditer(GENERATED.sub(blocked, text)):
            yield RENAMED, f"now called {rules.renamed[match[0]]}", match.start(), match.end()


def allowances(path: str, lines: list[str], rules: Rules) -> set[tuple[int, str]]:
    """Return the exceptions in a file as line number and rule."""
    found = set()
    for number, line in enumerate(lines, 1):
        for match in ALLOW.finditer(line):
            if match["rule"] not in rules.names():
                continue  # a text about exceptions, such as this program's documentation
            if not match["reason"]:
                raise RulesError(f"{path}:{number}: an exception needs a reason: english: allow {match['rule']} - WHY")
            found.add((number, match["rule"]))
    return found


def extract_prose(path: str, text: str) -> str:
    """Return ``text`` with everything replaced that is not prose; every offset stays the same."""
    extract = EXTRACTORS.get(Path(path).suffix, prose_of_script)
    return extract(text)


def squeeze(prose: str) -> tuple[str, Callable[[int], int]]:
    """Return prose without long stretches of code, and a function that maps its offsets to those of ``prose``."""
    pieces, starts, squeezed = [], [], []
    length = 0
    for match in re.finditer(rf"[^{CODE}\s][^{CODE}]*", prose):
        squeezed.append(length)
        starts.append(match.start())
        pieces.append(match[0])
        length += len(match[0]) + 1

    def offset_of(at: int) -> int:
        piece = max(bisect_right(squeezed, at) - 1, 0)
        return starts[piece] + at - squeezed[piece]

    return CODE.join(pieces), offset_of


def prose_of_python(text: str) -> str:
    """Keep comments and strings of Python."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    masked = Mask(text)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            first, last = (starts[row - 1] + column for row, column in (token.start, token.end))
            if token.type == tokenize.COMMENT:
                masked.keep(first, last, text[first:last].replace("#", " "))
            elif token.type == tokenize.STRING:
                masked.keep(first, last, without_quotes(text[first:last]))
            elif tokenize.tok_name[token.type].startswith("FSTRING"):
                kept = text[first:last]
                masked.keep(first, last, kept if "MIDDLE" in tokenize.tok_name[token.type] else " " * len(kept))
    except (tokenize.TokenError, SyntaxError):
        return text
    return without_spans(masked.text())


def without_quotes(literal: str) -> str:
    """Return a Python string literal with its quotes, escapes and replacement fields blanked."""
    match = re.match(r"(?P<prefix>[A-Za-z]*)(?P<quote>\"{3}|'{3}|\"|')", literal)
    if match is None:
        return literal
    body = literal[match.end() : len(literal) - len(match["quote"])]
    if "f" in match["prefix"].lower():
        body = re.sub(r"\{[^{}]*\}", lambda found: SPAN * len(found[0]), body)
    body = re.sub(r"\\[nrt]", "  ", body)
    return " " * match.end() + body + " " * len(match["quote"])


SCRIPT_TOKEN = re.compile(
    r"""
      (?P<line>//[^\n]*) | (?P<block>/\*.*?\*/)
    | (?P<string>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*') | (?P<template>`)
    | (?P<regex>(?<=[(,=:\[!&|?{};])\s*/(?![*/])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*)
    | (?P<open>\{) | (?P<close>\})
    """,
    re.VERBOSE | re.DOTALL,
)
TEMPLATE_TEXT = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*", re.DOTALL)


def prose_of_typescript(text: str) -> str:
    """Keep comments, strings and the text of templates of JavaScript and TypeScript."""
    masked = Mask(text)
    depth: list[int] = []  # for each open template: how many braces are open in its replacement field
    at = 0
    while match := SCRIPT_TOKEN.search(text, at):
        at = match.end()
        kind, found = match.lastgroup, match[0]
        if kind in {"line", "block"}:
            masked.keep(match.start(), at, re.sub(r"^(\s*)(\*/|/?\*+|//+)|\*/$", blank, found, flags=re.MULTILINE))
        elif kind == "string":
            masked.keep(match.start(), at, f" {found[1:-1]} ".replace("\\n", "  "))
        elif kind == "open" and depth:
            depth[-1] += 1
        elif kind == "close" and depth and depth[-1]:
            depth[-1] -= 1
        elif kind == "template" or (kind == "close" and depth):
            if kind == "close":
                depth.pop()
            rest = TEMPLATE_TEXT.match(text, at)
            end = rest.end() if rest else at
            masked.keep(at, end, text[at:end].replace("\\n", "  "))
            if text.startswith("${", end):
                depth.append(0)
                end += 1
            at = end + 1
    return without_spans(masked.text())


def prose_of_json(text: str) -> str:
    """Keep the strings of JSON."""
    masked = Mask(text)
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"', text):
        masked.keep(match.start(), match.end(), f" {match[0][1:-1]} ".replace("\\n", "  "))
    return without_spans(masked.text())


def prose_of_markdown(text: str) -> str:
    """Keep the text of Markdown, except generated parts and the targets of links."""
    text = GENERATED.sub(blocked, text)
    text = re.sub(r"(?<=\])\([^()\s]*\)", opaque, text)
    text = re.sub(r"^[ \t]*(?:[-*#]+|\d+\.)[ \t]|\|", blocked, text, flags=re.MULTILINE)
    text = re.sub(r"^[ \t]*>", blank, text, flags=re.MULTILINE)
    return without_spans(re.sub(r"\n[ \t]*\n", blocked, text))


def prose_of_script(text: str) -> str:
    """Keep everything: code of shell scripts, of Makefiles and of TOML has few words of its own."""
    return re.sub(r"^[ \t]*#+", blank, text, flags=re.MULTILINE)


def without_spans(text: str) -> str:
    """Replace code in backticks."""
    return re.sub(r"(`+)(?!`)[^`\n]+\1(?!`)", opaque, text)


def blank(match: re.Match[str]) -> str:
    """Replace a match by spaces."""
    return " " * len(match[0])


def blocked(match: re.Match[str]) -> str:
    """Replace a match by what no phrase spans."""
    return CODE * len(match[0])


def opaque(match: re.Match[str]) -> str:
    """Replace a match by one unknown word."""
    return SPAN * len(match[0])


class Mask:
    """A text of which only the kept parts stay legible."""

    def __init__(self, text: str) -> None:
        """Keep the white space of ``text``."""
        self._characters = re.sub(r"\S", CODE, text)
        self._parts: list[tuple[int, int, str]] = []

    def keep(self, first: int, last: int, replacement: str) -> None:
        """Show ``replacement``, which is as long, between two offsets; parts come in order."""
        self._parts.append((first, last, replacement))

    def text(self) -> str:
        """Return the masked text."""
        pieces, at = [], 0
        for first, last, replacement in self._parts:
            pieces += [self._characters[at:first], replacement]
            at = last
        return "".join([*pieces, self._characters[at:]])


EXTRACTORS: dict[str, Callable[[str], str]] = {
    ".py": prose_of_python,
    ".ts": prose_of_typescript,
    ".mjs": prose_of_typescript,
    ".cjs": prose_of_typescript,
    ".js": prose_of_typescript,
    ".json": prose_of_json,
    ".md": prose_of_markdown,
}
LIST_FILES = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
CHECKED = {*EXTRACTORS, ".toml", ".sh", ".lua", ".vim", ".el", ".svg", ""}


def tracked(paths: Iterable[str], rules: Rules) -> list[str]:
    """Return the files to check below ``paths``, relative to the top of the project; raise RulesError for none."""
    resolved = [Path(path).resolve() for path in paths]
    if outside := [str(path) for path in resolved if not path.is_relative_to(TOP)]:
        raise RulesError(f"{outside[0]} is outside of {TOP}.")
    wanted = [path.relative_to(TOP).as_posix() for path in resolved]
    listed = subprocess.run(
        [*LIST_FILES, "--", *wanted],
        cwd=TOP,
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    names = sorted(name for name in listed.stdout.decode().split("\0") if name)
    if wanted and not names:
        raise RulesError(f"No tracked file below {', '.join(wanted)}.")
    return [
        name
        for name in names
        if Path(name).suffix in CHECKED
        and not any(fnmatch(name, pattern) for pattern in rules.skipped)
        and (TOP / name).is_file()
    ]


def find(names: Iterable[str], rules: Rules) -> list[Finding]:
    """Return what is wrong with these files, in order."""
    findings: list[Finding] = []
    for name in names:
        text = (TOP / name).read_text(encoding="utf-8", errors="replace")
        findings += sorted(check(name, text, rules), key=lambda finding: finding.line)
    return findings


def below(name: str, folders: Iterable[str]) -> bool:
    """Return whether a file is one of ``folders``, or below one."""
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)


def main(arguments: list[str] | None = None) -> int:
    """Print what is wrong; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file or folder (default: everything that is done)")
    parser.add_argument("--count", action="store_true", help="print how often each rule is broken")
    options = parser.parse_args(arguments)
    try:
        rules = load_rules()
        names = tracked(options.paths, rules)
        if not options.paths:
            if rules.not_done:
                print(f"not checked yet: {', '.join(rules.not_done)}")
            names = [name for name in names if not below(name, rules.not_done)]
        findings = find(names, rules)
    except RulesError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if options.count:
        for rule, number in Counter(finding.rule for finding in findings).most_common():
            print(f"{number:6} {rule}")
    else:
        print(*findings, sep="\n", end="\n" if findings else "")
    if findings:
        files = len({finding.path for finding in findings})
        print(f"{len(findings)} phrases to rewrite, in {files} {'file' if files == 1 else 'files'}.")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
