"""Refuse what code under test must not do while it is called with invented arguments, and find it in the source before.

An audit hook is not a sandbox: code can catch the refusal, and some functions raise no event. So refusals are counted,
functions without an event are replaced, and the whole process is confined where the machine allows it.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
from typing import Any

TICKS = {signal.ITIMER_PROF: (0.1, 3), signal.ITIMER_REAL: (1.0, 4)}
"""Limits of one evaluation: seconds of a tick, and the ticks that it may see. The first clock counts CPU time, so that
a busy machine does not look like an endless loop."""

REFUSED_EVENTS = tuple(
    "subprocess. os.system os.exec os.posix_spawn os.spawn os.startfile os.fork pty. os.kill os.remove os.rename "
    "os.rmdir os.mkdir os.chmod os.chown os.link os.symlink os.truncate os.putenv os.unsetenv os.utime os.chdir "
    "os.listdir os.scandir os.walk os.chflags os.setxattr os.removexattr os.lockf fcntl. socket. signal. shutil. "
    "tempfile. webbrowser. ctypes. urllib. http. ftplib. smtplib. imaplib. poplib. telnetlib. nntplib. syslog. "
    "sqlite3. dbm. mmap. glob.glob pathlib.Path.glob time.sleep builtins.input resource. _thread.start "
    "sys.addaudithook sys.settrace sys.setprofile".split()
)
WITHOUT_EVENT = {
    "os": ("_exit", "abort", "mkfifo", "mknod", "close", "dup2", "write", "fork", "kill", "killpg", "nice", "umask"),
    "signal": ("raise_signal", "pthread_kill", "alarm", "setitimer"),
    "time": ("sleep",),
}
"""Functions that raise no audit event, at least in some versions of Python."""
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


class Refused(BaseException):
    """Not an ``Exception``, so that ``except Exception`` in the code under test does not catch it."""


class TooSlow(BaseException):
    """The evaluation exceeded its limit."""


class Guard:
    """The state of the audit hook."""

    def __init__(self, readable: list[str]) -> None:
        """Allow reads below the folders ``readable`` only."""
        self.on = False
        self.count = 0
        self.events: set[str] = set()
        self.readable = tuple(os.path.join(os.path.realpath(path), "") for path in readable if path)
        self._setitimer = signal.setitimer
        self._serial = 0
        self._seen = {signal.SIGPROF: (0, 0), signal.SIGALRM: (0, 0)}

    def install(self) -> None:
        """Install the hook, the replacements and the signal handlers for good."""
        sys.addaudithook(self._hook)
        for module, names in WITHOUT_EVENT.items():
            loaded = sys.modules.get(module) or __import__(module)
            for name in names:
                if hasattr(loaded, name):
                    setattr(loaded, name, self._replacement(getattr(loaded, name), f"{module}.{name}"))
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, self._tick)

    def start_clocks(self) -> None:
        """Start the clocks of this process, once for all evaluations: a system call for each would cost more."""
        for clock, (seconds, _) in TICKS.items():
            self._setitimer(clock, seconds, seconds)

    def start(self) -> None:
        """Refuse from now on."""
        self._serial += 1
        self.on = True

    def stop(self) -> None:
        """Allow everything again."""
        self.on = False

    def _tick(self, number: int, _: Any) -> None:
        if not self.on:
            return
        serial, count = self._seen[signal.Signals(number)]
        count = count + 1 if serial == self._serial else 1
        self._seen[signal.Signals(number)] = (self._serial, count)
        clock = signal.ITIMER_PROF if number == signal.SIGPROF else signal.ITIMER_REAL
        if count >= TICKS[clock][1]:
            raise TooSlow

    def refuse(self, event: str) -> None:
        """Record the event and raise."""
        self.count += 1
        self.events.add(event)
        raise Refused(event)

    def _replacement(self, real: Any, name: str) -> Any:
        def guarded(*arguments: Any, **keywords: Any) -> Any:
            if self.on:
                self.refuse(name)
            return real(*arguments, **keywords)

        return guarded

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open":
            if not self._may_open(*arguments):
                self.refuse("open")
        elif event.startswith(REFUSED_EVENTS):
            self.refuse(event)

    def _may_open(self, path: Any, mode: Any, flags: Any) -> bool:
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        if (
            writes
            or (isinstance(mode, str) and set(mode) & set("wax+"))
            or not isinstance(path, (str, bytes, os.PathLike))
        ):
            return False
        return os.path.realpath(os.fsdecode(path)).startswith(self.readable)


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
