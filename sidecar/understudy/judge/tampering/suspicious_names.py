"""The names that test code needs to deceive a judge, each with what it is, per language."""

from __future__ import annotations

import re

PYTHON_MODULES = {
    "_pytest": "imports pytest's internals",
    "pluggy": "imports pytest's plugin manager",
    "unittest.runner": "imports unittest's internals",
    "unittest.result": "imports unittest's internals",
    "unittest.suite": "imports unittest's internals",
    "unittest.loader": "imports unittest's internals",
    "unittest.main": "imports unittest's internals",
    "xdist": "imports the internals of pytest-xdist",
    "execnet": "imports the internals of pytest-xdist",
    "ctypes": "imports ctypes, which can change the interpreter",
    "cffi": "imports cffi, which can change the interpreter",
    "dis": "imports dis, which reads compiled code",
    "linecache": "imports linecache, which reads source code",
    "tracemalloc": "imports tracemalloc, which inspects the process",
    "faulthandler": "imports faulthandler, which inspects the process",
    "bdb": "imports bdb, which traces code",
    "atexit": "imports atexit, which runs code after the tests",
    "sitecustomize": "imports start-up code of the interpreter",
}
"""Modules, with their submodules; a name that begins with ``understudy`` counts as well."""

PYTHON_NAMES = {
    "gc.get_objects": "searches the objects of the process",
    "gc.get_referrers": "searches the objects of the process",
    "gc.get_referents": "searches the objects of the process",
    "sys.modules": "inspects or replaces loaded modules",
    "sys.meta_path": "changes how modules are found",
    "sys.path_hooks": "changes how modules are found",
    "sys.settrace": "traces code",
    "sys.setprofile": "traces code",
    "sys.monitoring": "traces code",
    "sys.addaudithook": "watches the interpreter",
    "sys._getframe": "walks the call stack",
    "sys._current_frames": "walks the call stack",
    "sys.orig_argv": "reads how the test run was started",
    "sys.argv": "reads how the test run was started",
    "threading.settrace": "traces code",
    "threading.setprofile": "traces code",
    "inspect.stack": "walks the call stack",
    "inspect.currentframe": "walks the call stack",
    "inspect.getouterframes": "walks the call stack",
    "inspect.getsource": "reads source code",
    "inspect.getsourcelines": "reads source code",
    "inspect.getsourcefile": "reads source code",
    "inspect.getfile": "reads source code",
    "os._exit": "ends the process at once",
    "os.abort": "ends the process at once",
    "os.kill": "sends signals to processes",
    "os.killpg": "sends signals to processes",
    "os.getppid": "looks for the parent process",
    "signal.raise_signal": "sends signals to processes",
    "os.execv": "replaces the process",
    "os.execve": "replaces the process",
    "os.execvp": "replaces the process",
    "os.dup2": "redirects a descriptor of the process",
    "os.closerange": "closes descriptors of the process",
    "sys.exit": "ends the test run",
    "builtins.exit": "ends the test run",
    "pytest.exit": "ends the test run",
    "atexit.register": "runs code after the tests",
    "atexit._run_exitfuncs": "runs code after the tests",
    "pytest.main": "starts pytest in the test process",
    "pytest.TestReport": "makes or changes reports of pytest",
    "pytest.CallInfo": "makes or changes reports of pytest",
    "pytest.Session": "changes pytest's session",
    "unittest.TestResult": "makes or changes results of unittest",
    "unittest.TextTestResult": "makes or changes results of unittest",
    "unittest.TextTestRunner": "starts or changes the runner of unittest",
    "unittest.TestSuite": "chooses which tests of unittest run",
    "unittest.TestLoader": "chooses which tests of unittest run",
    "unittest.TestCase.run": "changes how unittest runs tests",
    "importlib.reload": "loads modules again",
}
"""Dotted names, resolved through imports; a longer name that begins with one counts as well."""

PYTHON_ATTRIBUTES = {
    "__closure__": "reads the variables of a function",
    "cell_contents": "reads the variables of a function",
    "__code__": "reads or replaces compiled code",
    "co_code": "reads compiled code",
    "f_back": "walks the call stack",
    "f_globals": "walks the call stack",
    "f_locals": "walks the call stack",
    "f_trace": "traces code",
    "tb_frame": "walks the call stack",
    "gi_frame": "walks the call stack",
    "cr_frame": "walks the call stack",
    "__subclasses__": "searches the classes of the process",
    "__file__": "reads where a module's source is",
    "__loader__": "reads where a module's source is",
    "__spec__": "reads where a module's source is",
    "pluginmanager": "reaches into pytest's plugins",
    "ihook": "calls hooks of pytest",
    "_excinfo": "changes what unittest reports to pytest",
    "_outcome": "changes what unittest reports",
    "_resultForDoCleanups": "changes what unittest reports",
    "wasxfail": "changes the outcome of a test",
    "rep_call": "reads the report of a test",
    "exitstatus": "changes how the test run ends",
    "testsfailed": "changes how the test run ends",
    "shouldstop": "ends the test run",
    "shouldfail": "ends the test run",
}
"""Attributes of any object. The bare name ``__file__`` is left out: tests find their data with it."""

PYTHON_FUNCTIONS = re.compile(
    r"pytest_(?:runtest_\w+|pyfunc_call|sessionfinish|sessionstart|unconfigure|cmdline_main|report_\w+|itemcollected|"
    r"collection\w*|deselected|make_collect_report|pycollect_\w+|exception_interact|assertrepr_compare|"
    r"plugin_registered|configure|load_initial_conftests|ignore_collect|collect_\w+|terminal_summary)|load_tests"
)
PYTHON_FUNCTION = "defines %s, which changes what runs or what is reported"

PYTHON_DYNAMIC = {
    "eval": "runs code from a text",
    "exec": "runs code from a text",
    "__import__": "imports a module whose name is computed",
    "importlib.import_module": "imports a module whose name is computed",
}
"""Calls that hide names; an import of a literal name is looked up like an import."""

TEXTS = (
    (re.compile(r"/proc/(?:self|\d+|thread-self|%|\{|$)|^/proc$"), "reads /proc, which shows processes"),
    (re.compile(r"/dev/fd\b"), "opens a descriptor of the process by its number"),
    (
        re.compile(
            r"\b(?:PYTEST_\w+|NODE_OPTIONS|JEST_WORKER_ID|VITEST\w*|PYTHONSTARTUP|COV_CORE_\w+|UNDERSTUDY\w*)\b"
        ),
        "names a variable of a test runner",
    ),
    (re.compile(r"(?:^|[^\w.])_pytest(?:\.|$)"), "names pytest's internals"),
    (re.compile(r"understudy", re.IGNORECASE), "names Understudy"),
    (re.compile(r"^(?:_exit|get_objects|_getframe|settrace|pluginmanager)$"), "names a function of the interpreter"),
)
"""What a string literal contains, in any language."""

SCRIPT_MODULES = (
    (re.compile(r"^(?:node:)?inspector(?:/|$)"), "imports the inspector, which inspects the process"),
    (re.compile(r"^(?:node:)?(?:v8|vm)$"), "imports a module that reaches into the engine"),
    (re.compile(r"^(?:node:)?module$"), "imports node:module, which changes how modules are loaded"),
    (re.compile(r"^(?:node:)?async_hooks$"), "imports node:async_hooks, which watches the process"),
    (re.compile(r"^(?:node:)?test/reporters$"), "imports reporters of node:test"),
    (re.compile(r"^(?:vitest/|@vitest/(?!expect$)|vite-node)"), "imports the internals of vitest"),
    (
        re.compile(r"^(?:@jest/(?!globals$)|jest-(?:circus|runner|runtime|jasmine2|worker|cli|environment))"),
        "imports the internals of jest",
    ),
    (re.compile(r"^(?:node:)?process$"), "reaches into the test process"),
    (re.compile(r"^mocha/"), "imports the internals of mocha"),
)
SCRIPT_NAMES = (
    (
        re.compile(r"process\.(?:exit|reallyExit|abort|kill|exitCode|_\w+|binding|dlopen)\b"),
        "ends or changes the test process",
    ),
    (re.compile(r"process\.(?:ppid|argv|execArgv)\b"), "reads how the test run was started"),
    (
        re.compile(r"process\.env(?!\.(?:NODE_ENV|TZ|HOME|PATH|CI|LANG|TMPDIR)\b)\b"),
        "reads the environment of the test run",
    ),
    (re.compile(r"process\.(?:on|once|prependListener|addListener)$"), "runs code at events of the test process"),
    (
        re.compile(r"(?:require\.(?:cache|extensions|main)|module\.(?:parent|children|constructor))\b"),
        "inspects or replaces loaded modules",
    ),
    (re.compile(r"Error\.(?:prepareStackTrace|captureStackTrace)\b"), "walks the call stack"),
    (
        re.compile(r"import\.meta\.(?:vitest|jest)\b|globalThis\.__(?:vitest|jest)\w*|__vitest_worker__"),
        "reaches into the test runner",
    ),
    (re.compile(r"(?:eval|Function)$"), "runs code from a text"),
)

OTHER_LANGUAGES = {
    ".go": (
        (re.compile(r"\bos\.Exit\b|\bsyscall\.(?:Exit|Kill)\b"), "ends the process at once"),
        (re.compile(r"\bruntime\.Callers?\b"), "walks the call stack"),
        (re.compile(r"\bfunc TestMain\("), "decides which tests run and how the run ends"),
        (re.compile(r"\bunsafe\.|\bgo:linkname\b"), "changes the runtime"),
    ),
    ".rs": (
        (re.compile(r"\bprocess::(?:exit|abort)\b"), "ends the process at once"),
        (re.compile(r"\bpanic::set_hook\b"), "changes what a failing test does"),
    ),
    ".java": (
        (re.compile(r"\bSystem\.exit\b|\bRuntime\.getRuntime\(\)\.halt\b"), "ends the process at once"),
        (re.compile(r"\bgetStackTrace\b|\bStackWalker\b"), "walks the call stack"),
    ),
}
"""Suffix → patterns of a line."""
