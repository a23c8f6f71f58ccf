"""Read command lines, and find the files of a tree that one names or starts, and what these start in turn.

Nothing is run and nothing is expanded but plain ``NAME = value`` variables of make: what cannot be read is left out.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

Argv = list[str]

_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "(", "time", "exec", "command"})
_SEPARATORS = frozenset(";&|()\n")
_VARIABLE = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.-]*)[ \t]*(?:::?|\?|\+)?=[ \t]*(.*)$")
_RULE = re.compile(r"^([^\s#:=][^#:=]*)::?(?!=)([^;#]*)(?:;(.*))?$")
_REFERENCE = re.compile(r"\$\(([\w.-]+)\)|\$\{([\w.-]+)\}")
_INCLUDE = re.compile(r"^[-s]?include[ \t]+(.+)$")
_DEEPEST_VARIABLE = 5
Read = Callable[[str], bytes | None]
"""Returns the content of a file, or None if there is none."""

_MOST_FILES = 300
_MOST_BYTES = 512 * 1024
_DEEPEST = 8

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"})
_INTERPRETERS = frozenset({"python", "pypy", "node", "nodejs", "ruby", "perl", "php", "deno", "bun", "tsx", "ts-node"})
_PACKAGE_MANAGERS = frozenset({"npm", "pnpm", "yarn"})
_SUBJECTS = frozenset(
    {
        *("ruff", "mypy", "pyright", "flake8", "pylint", "black", "isort", "pyflakes", "bandit", "pydocstyle"),
        *("vulture", "py_compile", "compileall", "doctest", "eslint", "tsc", "prettier", "biome", "oxlint"),
        *("standard", "xo", "gofmt", "goimports", "golangci-lint", "rustfmt", "clang-tidy", "clang-format"),
        *("shellcheck", "cppcheck", "gcc", "cc", "clang", "g++", "c++", "clang++", "rustc", "javac", "cat", "ls"),
        *("echo", "grep", "wc", "git"),
    }
)
"""Programs whose arguments are what they examine: naming a file does not make it decide the check."""
_SOURCES = (".py", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".go", ".rs", ".java", ".c", ".cc", ".cpp", ".h")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUST = ("justfile", "Justfile", ".justfile")
_SCRIPT_NAME = re.compile(r"\.(?:sh|bash|zsh|ksh|bats)$")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_STRING = re.compile(r"""["']([^"'\n]{1,300})["']""")
_TAKES_VALUE = frozenset({"-W", "-X", "-r", "--require", "--import", "--loader", "-I", "-e", "--eval", "--env-file"})


def shell_commands(text: str) -> Iterator[Argv]:
    """Yield the simple commands of a shell script; a line that cannot be split is skipped."""
    for line in text.replace("\\\n", " ").splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        for inner in re.findall(r"\$\(([^()]*)\)|`([^`]*)`", stripped):
            yield from shell_commands(" ".join(inner))
        lexer = shlex.shlex(stripped, posix=True, punctuation_chars=";&|()")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        try:
            words = list(lexer)
        except ValueError:
            continue
        command: Argv = []
        for word in [*words, ";"]:
            if word and set(word) <= _SEPARATORS:
                if command:
                    yield command
                command = []
            elif command or not (word in _KEYWORDS or _ASSIGNMENT.match(word)):
                command.append(word)


def make_commands(text: str, targets: Sequence[str]) -> tuple[list[Argv], list[str]]:
    """Return the commands of the targets (none: the first) with their prerequisites, and the included files.

    If a target has no rule of its own, the commands of all rules are returned.
    """
    variables: dict[str, str] = {}
    rules: dict[str, tuple[list[str], list[str]]] = {}
    included: list[str] = []
    current: list[tuple[list[str], list[str]]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("\t"):
            for _, recipe in current:
                recipe.append(line.strip().lstrip("@-+"))
            continue
        if match := _INCLUDE.match(line.strip()):
            included += match.group(1).split()
        elif match := _VARIABLE.match(line):
            variables[match.group(1)] = match.group(2).strip()
        elif match := _RULE.match(line):
            current = []
            for name in match.group(1).split():
                rule = rules.setdefault(name, ([], []))
                rule[0].extend(match.group(2).split())
                if match.group(3):
                    rule[1].append(match.group(3).strip())
                current.append(rule)
    waiting = list(targets) or [name for name in rules if not name.startswith(".")][:1]
    reached: list[str] = []
    if all(name in rules for name in waiting):
        while waiting:
            name = waiting.pop(0)
            if name in rules and name not in reached:
                reached.append(name)
                waiting += [_expanded(part, variables) for part in rules[name][0]]
    else:
        reached = list(rules)
    commands = [
        command for name in reached for line in rules[name][1] for command in shell_commands(_expanded(line, variables))
    ]
    return commands, [word for name in included for word in _expanded(name, variables).split()]


def _expanded(text: str, variables: dict[str, str]) -> str:
    for _ in range(_DEEPEST_VARIABLE):
        if "$" not in text:
            break
        text = _REFERENCE.sub(lambda match: variables.get(match.group(1) or match.group(2), ""), text)
    return text.replace("$$", "$").lstrip("@-+")


def package_commands(data: bytes, script: str) -> list[Argv]:
    """Return the commands of a script of ``package.json`` and of its ``pre`` and ``post`` scripts."""
    try:
        scripts = json.loads(data).get("scripts")
    except (ValueError, AttributeError, RecursionError):
        return []
    if not isinstance(scripts, dict):
        return []
    texts = [scripts.get(name) for name in (f"pre{script}", script, f"post{script}")]
    return [command for text in texts if isinstance(text, str) for command in shell_commands(text)]


def program_of(word: str) -> str:
    """Return the name of a program without its folder and version: ``python`` for ``/usr/bin/python3.12``."""
    name = PurePosixPath(word).name.removesuffix(".exe")
    return re.sub(r"(?<=[a-z])[\d.]+$", "", name) or name


def only_examines(argv: Sequence[str]) -> bool:
    """Return whether a command starts an analyser or a compiler, which runs no test."""
    words = [word for word in argv if not _ASSIGNMENT.match(word)]
    names = words[2:3] if words[1:2] == ["-m"] else words[:1]
    return any(program_of(name).rpartition(".")[2] in _SUBJECTS for name in names)


def started_files(argv: Sequence[str], folder: str, paths: Collection[str], read: Read) -> set[str]:
    """Return the files among ``paths`` that ``argv`` names or starts when it runs in ``folder``.

    ``folder`` is relative to the tree, empty for its top. ``read`` returns the content of a file. Files that
    analysers and compilers examine do not count, nor do those that test runners select as tests of code.
    """
    search = _Search(paths, read)
    search.command(list(argv), folder.strip("/"), 0)
    return search.found


class _Search:
    def __init__(self, paths: Collection[str], read: Read) -> None:
        self._paths = paths if isinstance(paths, set | frozenset) else set(paths)
        self._read = read
        self.found: set[str] = set()
        self._seen: set[tuple[str, ...]] = set()

    def command(self, argv: Argv, folder: str, depth: int) -> None:
        """Add what one command names or starts."""
        while argv and re.match(r"^[A-Za-z_]\w*=", argv[0]):
            argv = argv[1:]
        key = (folder, *argv)
        if not argv or depth > _DEEPEST or key in self._seen or len(self.found) > _MOST_FILES:
            return
        self._seen.add(key)
        program, arguments = program_of(argv[0]), argv[1:]
        self._start(argv[0], folder, depth)
        if program in _SHELLS:
            self._shell(arguments, folder, depth)
        elif program in _INTERPRETERS:
            self._interpreter(arguments, folder, depth)
        elif program in {"make", "gmake"}:
            self._make(arguments, folder, depth)
        elif program == "just":
            self._each_line([name for name in _JUST if self._path(name, folder)], folder, depth)
        elif program in _PACKAGE_MANAGERS:
            self._package(arguments, folder, depth)
        elif program in {"source", "."}:
            self._start(arguments[0] if arguments else "", folder, depth)
        elif program == "cd":
            return
        else:
            if program not in _SUBJECTS:
                self._inner_command(arguments, folder, depth)
            self._named(arguments, folder, sources=program not in _SUBJECTS)

    def _commands(self, commands: Iterable[Argv], folder: str, depth: int) -> None:
        for command in commands:
            if command[0] == "cd" and len(command) > 1:
                folder = posixpath.normpath(posixpath.join(folder, command[1])).removeprefix(".")
                continue
            self.command(command, folder, depth + 1)

    # -- programs --------------------------------------------------------------------------------------------

    def _shell(self, arguments: Argv, folder: str, depth: int) -> None:
        for index, argument in enumerate(arguments):
            if argument.startswith("-") and argument.endswith("c") and not argument.startswith("--"):
                self._commands(shell_commands(" ".join(arguments[index + 1 : index + 2])), folder, depth)
                self._named(arguments[index + 2 :], folder)
                return
            if not argument.startswith(("-", "+")):
                self._start(argument, folder, depth, by_shell=True)
                self._named(arguments[index + 1 :], folder)
                return

    def _interpreter(self, arguments: Argv, folder: str, depth: int) -> None:
        index = 0
        while index < len(arguments):
            argument = arguments[index]
            if argument == "-m" and index + 1 < len(arguments):
                self._module(arguments[index + 1], arguments[index + 2 :], folder, depth)
                return
            if argument == "-c":
                self._strings(" ".join(arguments[index + 1 : index + 2]), folder)
                return
            if argument in _TAKES_VALUE:
                self._named(arguments[index + 1 : index + 2], folder)
                index += 1
            elif argument.startswith("--") and "=" in argument:
                self._named([argument], folder)
            elif not argument.startswith("-"):
                self._start(argument, folder, depth)
                self._named(arguments[index + 1 :], folder)
                return
            index += 1

    def _module(self, name: str, arguments: Argv, folder: str, depth: int) -> None:
        if _MODULE.fullmatch(name):
            file = name.replace(".", "/")
            for root in (folder, posixpath.join(folder, "src")):
                for end in (".py", "/__main__.py"):
                    self._add(self._path(file + end, root), folder, depth)
        rest = name.rpartition(".")[2]
        if rest in {"coverage", "runpy", "trace", "cProfile", "pdb", "tox", "nox"}:
            self._inner_command(arguments, folder, depth)
        self._named(arguments, folder, sources=rest not in _SUBJECTS)

    def _make(self, arguments: Argv, folder: str, depth: int) -> None:
        files, targets = [], []
        index = 0
        while index < len(arguments):
            argument = arguments[index]
            value = arguments[index + 1] if index + 1 < len(arguments) else ""
            if argument in {"-C", "--directory"}:
                folder = posixpath.normpath(posixpath.join(folder, value)).removeprefix(".")
                index += 1
            elif argument in {"-f", "--file", "--makefile"}:
                files.append(value)
                index += 1
            elif argument.startswith("--file="):
                files.append(argument.partition("=")[2])
            elif not argument.startswith("-") and "=" not in argument:
                targets.append(argument)
            index += 1
        for name in files or [name for name in _MAKEFILES if self._path(name, folder)]:
            self._makefile(name, targets, folder, depth)

    def _makefile(self, name: str, targets: Argv, folder: str, depth: int) -> None:
        path = self._path(name, folder)
        if path is None or depth > _DEEPEST:
            return
        self.found.add(path)
        commands, included = make_commands(self._text(path), targets)
        for other in included:
            self._makefile(other, targets, folder, depth + 1)
        self._commands(commands, folder, depth)

    def _package(self, arguments: Argv, folder: str, depth: int) -> None:
        words = [argument for argument in arguments if not argument.startswith("-")]
        for option in ("--prefix", "-C", "--cwd", "--dir"):
            if option in arguments[:-1]:
                value = arguments[arguments.index(option) + 1]
                folder = posixpath.normpath(posixpath.join(folder, value)).removeprefix(".")
                words = [word for word in words if word != value]
        manifest = self._path("package.json", folder)
        if not words:
            return
        if words[0] in {"exec", "dlx", "x"}:
            self.command(words[1:], folder, depth + 1)
            return
        script = words[1] if words[0] in {"run", "run-script"} and len(words) > 1 else words[0]
        script = "test" if script in {"t", "tst"} else script
        if manifest is not None:
            self.found.add(manifest)
            self._commands(package_commands(self._bytes(manifest), script), folder, depth)

    def _inner_command(self, arguments: Argv, folder: str, depth: int) -> None:
        """Follow the command that a wrapper (``timeout``, ``xvfb-run``, ``uv run``) starts: the first known program."""
        programs = _SHELLS | _INTERPRETERS | _PACKAGE_MANAGERS | {"make", "gmake", "just"}
        for index, argument in enumerate(arguments):
            if program_of(argument) in programs or (self._path(argument, folder) and not argument.startswith("-")):
                self.command(arguments[index:], folder, depth + 1)
                return

    # -- files -----------------------------------------------------------------------------------------------

    def _start(self, name: str, folder: str, depth: int, *, by_shell: bool = False) -> None:
        self._add(self._path(name, folder), folder, depth, by_shell=by_shell)

    def _add(self, path: str | None, folder: str, depth: int, *, by_shell: bool = False) -> None:
        """Add a file that is started, and what its text starts or names."""
        if path is None or path in self.found or depth > _DEEPEST:
            return
        self.found.add(path)
        text = self._text(path)
        first = text.partition("\n")[0]
        interpreters = {program_of(word) for word in first[2:].split()} if first.startswith("#!") else set()
        if by_shell or interpreters & _SHELLS or _SCRIPT_NAME.search(path):
            self._commands(shell_commands(text), folder, depth)
        else:
            if interpreters & {"make", "gmake"}:
                self._makefile(path, [], folder, depth)
            self._strings(text, folder)

    def _each_line(self, names: Argv, folder: str, depth: int) -> None:
        for name in names:
            path = self._path(name, folder)
            if path is not None:
                self.found.add(path)
                lines = [line.strip().lstrip("@-") for line in self._text(path).splitlines()]
                self._commands(shell_commands("\n".join(lines)), folder, depth)

    def _named(self, arguments: Argv, folder: str, *, sources: bool = True) -> None:
        """Add the files that arguments name: ``FILE``, ``--option=FILE``, ``@FILE``, ``FILE::test``."""
        for argument in arguments:
            for word in {argument, argument.removeprefix("@"), argument.partition("=")[2], argument.partition("::")[0]}:
                path = self._path(word, folder)
                if path is not None and (sources or not path.endswith(_SOURCES)):
                    self.found.add(path)

    def _strings(self, text: str, folder: str) -> None:
        """Add the files that string literals of a program name; its own modules may be the code under change."""
        for word in _STRING.findall(text):
            path = self._path(word, folder)
            if path is not None and not path.endswith(_SOURCES):
                self.found.add(path)
                if _SCRIPT_NAME.search(path):
                    self._commands(shell_commands(self._text(path)), folder, _DEEPEST - 1)

    def _path(self, word: str, folder: str) -> str | None:
        if not word or word.startswith(("/", "~")) or "\n" in word:
            return None
        path = posixpath.normpath(posixpath.join(folder, word))
        return path if path in self._paths else None

    def _bytes(self, path: str) -> bytes:
        return (self._read(path) or b"")[:_MOST_BYTES]

    def _text(self, path: str) -> str:
        return self._bytes(path).decode("utf-8", "replace")
