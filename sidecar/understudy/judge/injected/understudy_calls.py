"""Remember how tests call the code of a project, and call it again: in a plain program, and in a test.

Code that gives another result in a test than elsewhere knows that it is tested, however it finds out. Both processes
make the same calls in the same order and have none of the fixtures and mocks of the project's tests, so what else
differs between them is little. Nothing that a call does reaches anything outside of its process.

Calls are also made with similar arguments: code that gives another result than before for exactly those of a test, and
for nothing like them, answers that test only.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import hashlib
import importlib
import inspect
import io
import itertools
import json
import opcode
import os
import pickle
import signal
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional  # noqa: UP035 - Python 3.8

RESULTS = ".results"
"""Ends the name of the file that says, beside a file of calls, what the calls of tests gave: lines of JSON."""
_MOST_CALLS = 300
MOST_OF_MANY_TESTS = 5
"""Calls of one function that are kept where all tests run."""
MOST_OF_FEW_TESTS = 60
"""Calls of one function that are kept where only a few tests run."""
_MOST_BYTES = 32 * 1024
"""Most bytes of the arguments of one call."""
_MOST_ITEMS = 50
_MOST_CHARACTERS = 2000
_MOST_DEPTH = 5
_MOST_SIMILAR = 60
"""Most calls with similar arguments for one call."""
_MOST_PARTS = 6
"""Most characters of a text, items of a collection or fields of an object that are replaced by others."""
_SECONDS = 0.5
"""Time for a call with similar arguments, which can be much slower."""
_STEPS = (1, -1, 2, -2, 3, 5, 7, -7, 10, -10, 12, 60, 100, 400, 1000)
_PROTOCOL = 4
_SIDE_EFFECTS = (
    "socket.",
    "subprocess.",
    "shutil.",
    "ctypes.",
    "signal.",
    "winreg.",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.spawn",
    "os.symlink",
    "os.system",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.utime",
)
"""Beginnings of audit events that a repeated call may not cause."""
_RETURNS = opcode.opmap["RETURN_VALUE"]
_TEST_RUNNERS = frozenset({"pytest", "_pytest", "unittest"})

_EXACT: Any = (
    (int, lambda value: int.__add__(value, 0)),
    (float, lambda value: float.__add__(value, 0.0)),
    (str, str.__str__),
    (bytes, lambda value: bytes.__add__(value, b"")),
)
"""Types with a function that makes an exact one of a value of a subclass."""


class _Bounded(io.BytesIO):
    def write(self, data: Any) -> int:
        if self.tell() + len(data) > _MOST_BYTES:
            raise ValueError("too large")
        return super().write(data)


class CallRecorder:
    """Keeps the arguments of calls of functions below a folder."""

    def __init__(self, root: str, tests: List[str], per_function: int = MOST_OF_MANY_TESTS) -> None:  # noqa: UP006
        """Leave out the files ``tests``; all paths are absolute, with links resolved.

        ``per_function`` is how many calls of a function are kept.
        """
        self._per_function = per_function
        self._root = root + os.sep
        self._tests = frozenset(tests)
        self._ours: Dict[str, bool] = {}  # noqa: UP006
        self._counts: Dict[Any, int] = {}  # noqa: UP006
        self._calls: List[Any] = []  # noqa: UP006
        self._known: set[Any] = set()
        self._running: Dict[int, int] = {}  # noqa: UP006
        """The frame of a call that is kept → its number."""
        self._results: Dict[int, str] = {}  # noqa: UP006
        """The number of a call → a text that is the same for equal results."""
        self._busy = False

    def called(self, frame: Any) -> None:
        """Keep the call that ``frame`` begins, unless enough are kept, or it cannot be repeated."""
        code = frame.f_code
        if self._busy or len(self._calls) >= _MOST_CALLS or not self._is_ours(code.co_filename):
            return
        name, module = getattr(code, "co_qualname", code.co_name), frame.f_globals.get("__name__")
        is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)  # the code of a class is none
        if not is_function or "<" in name or name.rpartition(".")[2].startswith("__") or not isinstance(module, str):
            return
        if self._counts.get(code, 0) >= self._per_function or module == "__main__":
            return
        self._busy = True
        try:
            data = _pickled(_arguments(code, frame.f_locals))
        finally:
            self._busy = False
        if data is not None and (module, name, data) not in self._known:
            self._known.add((module, name, data))
            self._counts[code] = self._counts.get(code, 0) + 1
            self._running[id(frame)] = len(self._calls)
            self._calls.append((module, name, data))

    def returned(self, frame: Any, value: Any) -> None:
        """Keep what a call gave, if it is kept; nothing if it ends by what it raised."""
        number = self._running.pop(id(frame), None)
        ends_by_raising = value is None and number in self._results and _instruction(frame) != _RETURNS
        if number is not None and not ends_by_raising:
            self._keep(number, _described, value)

    def raised(self, frame: Any, error: BaseException) -> None:
        """Keep what is raised in a call, if it is kept, until it returns something."""
        number = self._running.get(id(frame))
        if number is not None:
            self._keep(number, _described_error, error)

    def _keep(self, number: int, describe: Callable[[Any], str], result: Any) -> None:
        self._busy = True
        try:
            self._results[number] = describe(result)
        finally:
            self._busy = False

    def _is_ours(self, file: str) -> bool:
        if file not in self._ours:
            path = os.path.realpath(file)
            inside = path.startswith(self._root) and "site-packages" not in path and not file.startswith("<")
            self._ours[file] = inside and path not in self._tests
        return self._ours[file]

    def save(self, path: str) -> None:
        """Write the calls to a file, with the places from which they import."""
        folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
        paths = [entry for entry in sys.path if not entry.startswith(folder)]
        with open(path, "wb") as stream:  # noqa: PTH123
            pickle.dump((paths, self._calls), stream, _PROTOCOL)
        with open(path + RESULTS, "w", encoding="utf-8") as stream:  # noqa: PTH123
            for number, result in self._results.items():
                module, name, data = self._calls[number]
                json.dump([module + "." + name, hashlib.sha256(data).hexdigest(), result], stream)
                stream.write("\n")


def _arguments(code: Any, values: Dict[str, Any]) -> Optional[Any]:  # noqa: UP006, UP045
    """Return the arguments of a call, by position and by name."""
    count, named = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    try:
        positional = [values[name] for name in names[:count]]
        by_name = {name: values[name] for name in names[count : count + named]}
        rest = count + named
        if code.co_flags & inspect.CO_VARARGS:
            positional += values[names[rest]]
            rest += 1
        if code.co_flags & inspect.CO_VARKEYWORDS:
            by_name.update(values[names[rest]])
    except KeyError:
        return None
    return positional, by_name


def _instruction(frame: Any) -> int:
    return int(frame.f_code.co_code[frame.f_lasti])


def _pickled(arguments: Any) -> Optional[bytes]:  # noqa: UP045
    stream = _Bounded()
    try:
        pickle.Pickler(stream, _PROTOCOL).dump(arguments)
    except BaseException:
        return None
    return stream.getvalue()


def similar(value: Any) -> Iterator[Any]:
    """Yield values like another one; nothing for one that is often special, such as 0 or an empty list."""
    if isinstance(value, (bool, type(None))):
        return
    if type(value) in (int, float):
        if value not in (0, 1, -1):
            yield from (value + step for step in _STEPS)
            yield from (value * 2, value * 3, -value)
    elif type(value) in (str, bytes) and len(value) > 1:
        yield from (value + value[-1:], value[1:], value[:-1], value + value)
        yield from (value.swapcase(), value[::-1])
        step = max(1, len(value) // _MOST_PARTS)
        for at in range(0, len(value), step):
            yield value[:at] + _another(value[at : at + 1]) + value[at + 1 :]
    elif type(value) in (list, tuple) and value:
        kind = type(value)
        for at in range(min(len(value), _MOST_PARTS)):
            for item in itertools.islice(similar(value[at]), _MOST_PARTS):
                yield kind([*value[:at], item, *value[at + 1 :]])
        if any(True for item in value for _ in similar(item)):
            yield from (kind([*value, value[-1]]), kind(value[1:]), kind(value[::-1]))
    elif type(value) is dict:
        for key in itertools.islice(value, _MOST_PARTS):
            for item in itertools.islice(similar(value[key]), _MOST_PARTS):
                yield {**value, key: item}
    elif isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, type):
        for name in itertools.islice(vars(value), _MOST_PARTS):
            for item in itertools.islice(similar(vars(value)[name]), _MOST_PARTS):
                other = copy.copy(value)
                other.__dict__[name] = item
                yield other


def _another(character: Any) -> Any:
    """Return another character of the same kind."""
    for first, last in ("09", "az", "AZ"):
        low, high = (first, last) if isinstance(character, str) else (first.encode(), last.encode())
        if low <= character < high:
            return chr(ord(character) + 1) if isinstance(character, str) else bytes([ord(character) + 1])
        if character == high:
            return low
    return character


class _Unpickler(pickle.Unpickler):
    """Loads no object whose class belongs to a test runner or to tests."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] in _TEST_RUNNERS or (
            module == "builtins" and name in {"eval", "exec", "__import__"}
        ):
            raise pickle.UnpicklingError(module)
        return super().find_class(module, name)


class _Quiet:
    """Lets nothing out of this process while a call runs."""

    def __init__(self) -> None:
        self.on = False
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: Any) -> None:
        if not self.on:
            return
        if event.startswith(_SIDE_EFFECTS):
            raise PermissionError(event)
        if event == "open" and (_writes(arguments[1], arguments[2])):
            raise PermissionError(event)


def _writes(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))


def repeat(calls_file: str, out_file: str, call: Callable[..., Any]) -> None:
    """Make the calls of a file, each through ``call``; write what each gave as one line of JSON."""
    with open(calls_file, "rb") as stream:  # noqa: PTH123
        sys.path[:], calls = pickle.load(stream)  # noqa: S301 - written by this program
    quiet = _Quiet()
    out = os.open(out_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    program = os.path.basename(sys.argv[0])  # noqa: PTH119
    for module, name, data in calls:
        quiet.on = True
        try:
            arguments, text = _repeated(module, name, data, call)
        finally:
            quiet.on = False
        text = text.replace(program, "PROGRAM")
        os.write(out, json.dumps([module + "." + name, arguments, text]).encode() + b"\n")


def vary(calls_file: str, out_file: str, call: Callable[..., Any]) -> None:
    """Make the calls of a file, and calls with similar arguments; write what each gave as one line of JSON.

    Each line has the function, its arguments, its result, pairs of other arguments and their results, and the results
    for the numbers next to those given. The order is always the same, and an empty list is the end.
    """
    with open(calls_file, "rb") as stream:  # noqa: PTH123
        sys.path[:], calls = pickle.load(stream)  # noqa: S301 - written by this program
    quiet = _Quiet()
    out = os.open(out_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for module, name, data in calls:
        changed: List[Any] = []  # noqa: UP006
        near: List[Any] = []  # noqa: UP006
        with contextlib.suppress(BaseException):
            _find(module, name)
            changed = list(itertools.islice(_changed(data, similar), _MOST_SIMILAR))
            near = list(_changed(data, next_to))
        results = []
        for other in [data, *changed, *near]:
            _limit(_SECONDS)
            quiet.on = True
            try:
                results.append(_repeated(module, name, other, call))
            finally:
                quiet.on = False
                _limit(0)
        arguments, result = results[0]
        pairs = results[1 : len(changed) + 1]
        near_results = [result for _, result in results[len(changed) + 1 :]]
        os.write(out, json.dumps([module + "." + name, arguments, result, pairs, near_results]).encode() + b"\n")
    os.write(out, b"[]\n")


def next_to(value: Any) -> Iterator[Any]:
    """Yield the numbers next to one."""
    if type(value) in (int, float):
        yield from (value + 1, value - 1)


def _changed(data: bytes, others_of: Callable[[Any], Iterator[Any]]) -> Iterator[bytes]:
    """Yield the arguments of calls in which one argument is another one, one of each argument after another."""
    positional, by_name = _Unpickler(io.BytesIO(data)).load()
    others: List[Any] = [((at, None), others_of(value)) for at, value in enumerate(positional)]  # noqa: UP006
    others += [((None, name), others_of(value)) for name, value in by_name.items()]
    while others:
        for place, values in list(others):
            try:
                value = next(values)
            except StopIteration:
                others.remove((place, values))
                continue
            at, name = place
            arguments = (
                ([*positional[:at], value, *positional[at + 1 :]], by_name)
                if at is not None
                else (positional, {**by_name, name: value})
            )
            changed = _pickled(arguments)
            if changed is not None and changed != data:
                yield changed


def _limit(seconds: float) -> None:
    """Raise ``TimeoutError`` after some seconds, where the system can; 0: do not."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _late)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _late(number: int, frame: Any) -> None:  # noqa: ARG001 - the interpreter's signature
    raise TimeoutError


def _find(module: str, name: str) -> Any:
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = inspect.getattr_static(function, part) if inspect.isclass(function) else getattr(function, part)
    if isinstance(function, property):
        return function.fget
    return function.__func__ if isinstance(function, (staticmethod, classmethod)) else function


def _repeated(module: str, name: str, data: bytes, call: Callable[..., Any]) -> Any:
    """Return what a call got and what it gave, as texts."""
    arguments = ""
    try:
        function = _find(module, name)
        positional, by_name = _Unpickler(io.BytesIO(data)).load()
        arguments = ", ".join(
            [_described(value)[:100] for value in positional]
            + [key + "=" + _described(value)[:100] for key, value in by_name.items()]
        )
        result = call(function, positional, by_name)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        if inspect.isgenerator(result):
            result = list(itertools.islice(result, _MOST_ITEMS))
        return arguments, _described(result)
    except BaseException as error:
        return arguments, _described_error(error)


def _described_error(error: BaseException) -> str:
    return "raises " + type(error).__name__ + ": " + _described(list(getattr(error, "args", ())))


def _described(value: Any, depth: int = 0) -> str:
    """Return a text that is the same for equal values, without calling its own methods."""
    kind = type(value)
    text = "..."
    if kind in (bool, int, float, complex, str, bytes, type(None)):
        text = repr(value)
    elif depth < _MOST_DEPTH:
        for plain, exact in _EXACT:
            if isinstance(value, plain):
                return (kind.__name__ + "(" + repr(exact(value)) + ")")[:_MOST_CHARACTERS]
        if isinstance(value, dict):
            pairs = itertools.islice(dict.items(value), _MOST_ITEMS)
            inner = [_described(key, depth + 1) + ": " + _described(item, depth + 1) for key, item in pairs]
        elif isinstance(value, (list, tuple)):
            items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
            inner = [_described(item, depth + 1) for item in itertools.islice(items, _MOST_ITEMS)]
        elif isinstance(value, (set, frozenset)):
            inner = sorted(_described(item, depth + 1) for item in itertools.islice(value, _MOST_ITEMS))
        else:
            state: Any = {}
            with contextlib.suppress(Exception):
                state = object.__getattribute__(value, "__dict__")
            fields = itertools.islice(state.items(), _MOST_ITEMS) if isinstance(state, dict) else ()
            inner = [str(name) + "=" + _described(item, depth + 1) for name, item in fields]
        text = kind.__name__ + "(" + ", ".join(inner) + ")"
    return text[:_MOST_CHARACTERS]
