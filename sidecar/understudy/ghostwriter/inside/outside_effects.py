"""Find functions that act on the outside in the syntax tree: they are not called with invented arguments."""

from __future__ import annotations

import ast

OUTSIDE_MODULES = frozenset(
    "subprocess socket sqlite3 shutil signal ctypes multiprocessing threading asyncio webbrowser ftplib smtplib "
    "imaplib poplib telnetlib xmlrpc http urllib requests httpx aiohttp dbm shelve mmap fcntl pty tempfile select "
    "selectors socketserver ssl syslog logging.handlers resource termios tty curses readline winreg msvcrt _winapi "
    "concurrent runpy code pdb getpass glob fileinput paramiko boto3 psutil pexpect".split()
)
ALLOWED = frozenset(
    "os.path os.sep os.linesep os.altsep os.fspath os.PathLike os.pathsep os.curdir os.pardir os.extsep os.name "
    "os.devnull urllib.parse http.HTTPStatus threading.Lock threading.RLock threading.local "
    "asyncio.iscoroutine asyncio.iscoroutinefunction signal.Signals".split()
)
OUTSIDE_PATH = frozenset(
    "exists isfile isdir islink ismount getsize getmtime realpath abspath expanduser samefile".split()
)
OUTSIDE_CALLS = frozenset("open input exec eval compile __import__ breakpoint exit quit".split())
OUTSIDE_METHODS = frozenset(
    "write_text write_bytes unlink mkdir rmdir touch rename symlink_to hardlink_to chmod read_text read_bytes iterdir "
    "rglob open system popen".split()
)
SYSTEM = frozenset("os sys io pathlib socket subprocess sqlite3 shutil signal".split()) | OUTSIDE_MODULES


class Effects:
    """The functions of one module that act on the outside, directly or through another function of the module."""

    def __init__(self, tree: ast.Module) -> None:
        """Analyse the module's tree."""
        self.imports = _imports(tree)
        self.definitions = {node.name: node for node in tree.body if isinstance(node, _DEFINITIONS)}
        self._direct = {name: self._reason(node) for name, node in self.definitions.items()}
        self.names = {
            name: {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
            for name, node in self.definitions.items()
        }
        self.uses = {name: names & set(self.definitions) - {name} for name, names in self.names.items()}

    def reach(self, name: str) -> set[str]:
        """Return the names of all functions and classes of the module that ``name`` may reach, with itself."""
        reached, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            if current not in reached and current in self.uses:
                reached.add(current)
                waiting += self.uses[current]
        return reached

    def touched(self, name: str) -> set[str]:
        """Return the names that a function or class uses, with those that what it reaches uses."""
        return {used for reached in self.reach(name) for used in self.names[reached]} | {name}

    def touched_by(self, statement: ast.stmt | None) -> set[str]:
        """Return the names that a statement of the module may change."""
        names = (
            {item.id for item in ast.walk(statement) if isinstance(item, ast.Name)} if statement is not None else set()
        )
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            return {item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name)}
        if isinstance(statement, _DEFINITIONS):
            return {statement.name}
        return names | {used for name in names if name in self.names for used in self.touched(name)}

    def reason(self, name: str) -> str | None:
        """Return what ``name`` would do, for example ``calls os.remove``, or None when nothing was found."""
        for reached in sorted(self.reach(name), key=lambda other: other != name):
            if self._direct[reached]:
                return self._direct[reached] if reached == name else f"{self._direct[reached]}, through {reached}"
        return None

    def method_reason(self, definition: ast.ClassDef, method: str) -> str | None:
        """Return what one method of a class would do."""
        for node in definition.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == method:
                return self._reason(node)
        return None

    def outside_imports(self) -> list[str]:
        """Return the imported modules with which code can act on the outside."""
        tops = {target.split(".")[0] for target in self.imports.values() if target not in ALLOWED}
        return sorted(tops & (SYSTEM - {"sys", "io", "pathlib"}))

    def _reason(self, node: ast.AST) -> str | None:
        for item in ast.walk(node):
            called = item.func.id if isinstance(item, ast.Call) and isinstance(item.func, ast.Name) else ""
            if called in OUTSIDE_CALLS and called not in self.definitions and called not in self.imports:
                return f"calls {called}"
            if (
                isinstance(item, ast.Call)
                and isinstance(item.func, ast.Attribute)
                and item.func.attr in OUTSIDE_METHODS
            ):
                return f"calls .{item.func.attr}"
            dotted = _dotted(item)
            if dotted:
                head, _, rest = dotted.partition(".")
                target = self.imports.get(head)
                full = target + ("." + rest if rest else "") if target else ""
                if full and _outside(full):
                    return f"uses {full}"
        return None


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _outside(full: str) -> bool:
    if full.startswith(("os.path.", "posixpath.")):
        return full.rpartition(".")[2] in OUTSIDE_PATH
    if any(full == allowed or full.startswith(allowed + ".") for allowed in ALLOWED):
        return False
    head, _, rest = full.partition(".")
    if head == "os":
        return bool(rest)
    if head == "sys":
        return rest.split(".")[0] in {"exit", "stdin", "settrace", "setprofile", "setrecursionlimit", "path", "modules"}
    return (head in OUTSIDE_MODULES and bool(rest)) or full == "time.sleep"


def _imports(tree: ast.Module) -> dict[str, str]:
    """Return each imported name with the dotted name that it stands for."""
    imports = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                imports[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return imports


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        value = _dotted(node.value)
        return value + "." + node.attr if value else ""
    return ""
