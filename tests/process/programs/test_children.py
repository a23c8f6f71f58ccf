"""Starting a guarded child, talking to it, and ending it."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from programs import program
from wait_until import LIMITS

from understudy.model.confinement import Confinement, Sandbox
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process import call_checks, identity
from understudy.process.call_checks import base_environment
from understudy.process.program_spec import AccessProfile, Cover, Role
from understudy.process.programs.children import Child, run, start, why_nothing_is_hidden

HERE = Path(__file__).parents[1]
LEVELS = pytest.mark.parametrize("confinement", [Confinement.NAMESPACE, Confinement.NONE])


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-c", code, *arguments]


async def begin(argv, tmp_path, **options) -> Child:
    return await start(program(argv, tmp_path, **options))


async def run_here(argv, tmp_path, *, timeout_seconds=20, output_limit=1024 * 1024, **options):
    return await run(program(argv, tmp_path, **options), timeout_seconds=timeout_seconds, output_limit=output_limit)


async def read_all(child: Child) -> bytes:
    parts = []
    while part := await child.read_stdout():
        parts.append(part)
    return b"".join(parts)


async def until_gone(child: Child) -> None:
    async with asyncio.timeout(60):
        while identity.alive(child.guardian):
            await asyncio.sleep(0.005)


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


@LEVELS
async def test_code_output_and_errors_come_back(tmp_path, confinement):
    code = "import sys, os; print(os.getcwd()); print('err', file=sys.stderr); sys.exit(3)"
    done = await run_here(python(code), tmp_path, confinement=confinement)
    assert (done.code, done.signal, done.timed_out, done.leftovers) == (3, None, False, 0)
    assert (done.stdout.decode(), done.stderr) == (f"{tmp_path}\n", b"err\n")


async def test_the_signal_that_killed_a_program_is_reported(tmp_path):
    done = await run_here(python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"), tmp_path)
    assert (done.code, done.signal) == (None, signal.SIGSEGV)


@LEVELS
async def test_what_a_program_leaves_running_is_killed_and_counted(tmp_path, tagged, confinement):
    argv = [sys.executable, str(HERE / "hostile_tree.py"), tagged.tag, "exits"]
    done = await run_here(argv, tmp_path, confinement=confinement)
    assert (done.code, done.leftovers) == (7, 6)
    assert tagged.roles() == []


@LEVELS
async def test_end_gives_everybody_the_chance_to_finish(tmp_path, confinement):
    # The parent ends at once, the way a JavaScript shim does; its child needs a moment to save its work.
    code = """
import os, signal, sys, time
ready, told = os.pipe()
if os.fork() == 0:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}); os.write(told, b'x')
    signal.sigwait({signal.SIGTERM})
    time.sleep(0.3); open('saved', 'w').close(); os._exit(0)
os.read(ready, 1)
print('ready', flush=True); signal.pause()
"""
    child = await begin(python(code), tmp_path, confinement=confinement)
    assert await anext(child.stdout_lines()) == b"ready"
    ended = await child.end(60)
    assert (ended.code, ended.signal, ended.leftovers) == (None, signal.SIGTERM, 0)
    assert (tmp_path / "saved").exists()
    assert await child.end(0) == ended == await child.wait() == child.ended


@LEVELS
async def test_who_ignores_the_request_is_killed_after_the_grace(tmp_path, tagged, confinement):
    argv = [sys.executable, str(HERE / "hostile_tree.py"), tagged.tag, "ignores"]
    child = await begin(argv, tmp_path, confinement=confinement)
    await anext(child.stdout_lines())
    began = time.monotonic()
    ended = await child.end(0.3)
    assert 0.3 <= time.monotonic() - began < 60
    assert (ended.signal, ended.leftovers, tagged.roles()) == (signal.SIGKILL, 1, [])


@LEVELS
async def test_a_stopped_program_still_gets_its_chance(tmp_path, tagged, until, confinement):
    code = "import os, signal; signal.signal(15, lambda *_: os._exit(5)); os.kill(os.getpid(), 19)\nwhile 1: signal.pause()"
    child = await begin(python(code, tagged.tag), tmp_path, confinement=confinement)
    until(lambda: any(" T " in Path(f"/proc/{pid}/stat").read_text() for pid in tagged.pids()))
    assert (await child.end(60)).code == 5


@LEVELS
async def test_a_fork_storm_is_over_within_a_second(tmp_path, tagged, confinement):
    argv = [sys.executable, str(HERE / "hostile_tree.py"), tagged.tag, "storm"]
    child = await begin(argv, tmp_path, confinement=confinement)
    await anext(child.stdout_lines())
    await child.end(0)
    assert tagged.roles() == []


async def test_a_guardian_that_does_not_answer_is_killed_with_the_tree(tmp_path, tagged):
    argv = [sys.executable, str(HERE / "hostile_tree.py"), tagged.tag, "tree"]
    child = await begin(argv, tmp_path)
    try:
        await anext(child.stdout_lines())
        for pid in Path(f"/proc/{child.guardian.pid}/task/{child.guardian.pid}/children").read_text().split():
            os.kill(int(pid), signal.SIGSTOP)  # the namespace's init
        os.kill(child.guardian.pid, signal.SIGSTOP)
        ended = await asyncio.wait_for(child.end(0.2), 60)
        assert (ended.code, ended.signal) == (None, None)
        assert tagged.gone() == []
    finally:  # a stopped guardian does not notice its owner's end
        identity.end(child.guardian, signal.SIGKILL)


async def test_ending_twenty_times_at_once_is_one_end(tmp_path):
    child = await begin(["sleep", "600"], tmp_path)
    assert len(set(map(str, await asyncio.gather(*(child.end(1) for _ in range(20)))))) == 1


async def test_cancelling_the_wait_ends_the_tree(tmp_path, tagged):
    child = await begin([sys.executable, str(HERE / "hostile_tree.py"), tagged.tag, "tree"], tmp_path)
    await anext(child.stdout_lines())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(child.wait(), 0.05)
    assert await asyncio.to_thread(tagged.gone) == []
    async with asyncio.timeout(10):
        await child.wait()
    child.close()


async def test_cancelling_the_wait_for_a_line_harms_nothing(tmp_path):
    async with await begin(["cat"], tmp_path, keep_stdin=True) as child:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(child.stdout_lines()), 0.05)
        await child.stdin.write(b"still here\n")
        assert await anext(child.stdout_lines()) == b"still here"


async def test_a_forgotten_child_is_ended(tmp_path):
    child = await begin(["sleep", "600"], tmp_path)
    guardian = child.guardian
    del child
    gc.collect()
    async with asyncio.timeout(60):
        while Path(f"/proc/{guardian.pid}").exists():  # until it is reaped
            await asyncio.sleep(0.005)


async def test_leaving_the_block_by_an_error_ends_the_tree(tmp_path):
    with pytest.raises(ZeroDivisionError):
        async with await begin(["sleep", "600"], tmp_path) as child:
            _ = 1 / 0
    assert not identity.alive(child.guardian)


async def test_cancelling_run_or_start_leaves_nothing(tmp_path, tagged):
    argv = [f"{tagged.tag}", "600"]
    (tmp_path / tagged.tag).symlink_to("/bin/sleep")
    for delay in (0, 0.001, 0.005, 0.02, 0.1):
        env = base_environment({"PATH": str(tmp_path)})
        task = asyncio.ensure_future(run(program(argv, tmp_path, env), timeout_seconds=30))
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(tagged.gone) == []


async def test_no_descriptor_is_left_behind(tmp_path):
    await run_here(["true"], tmp_path)
    before = fds()
    for _ in range(5):
        await run_here(["true"], tmp_path, stdin=b"x" * 100_000)
        with pytest.raises(UnderstudyError):
            await begin(["/etc/passwd/x"], tmp_path)
        (tmp_path / "bad").write_text("#!/no/such/interpreter\n")
        (tmp_path / "bad").chmod(0o700)
        with pytest.raises(UnderstudyError):
            await begin(["./bad"], tmp_path)
    async with asyncio.timeout(60):
        while fds() > before:
            await asyncio.sleep(0.01)


def test_a_child_outlives_the_thread_that_started_it(tmp_path):
    loop = asyncio.new_event_loop()
    children = []
    thread = threading.Thread(
        target=lambda: children.append(loop.run_until_complete(begin(["cat"], tmp_path, keep_stdin=True)))
    )
    thread.start()
    thread.join()

    async def talk() -> bytes:
        async with children[0] as child:
            await child.stdin.write(b"alive\n")
            return await anext(child.stdout_lines())

    assert loop.run_until_complete(talk()) == b"alive"
    loop.close()


async def test_a_limit_kills_the_tree_and_keeps_the_output(tmp_path, tagged):
    argv = [sys.executable, str(HERE / "hostile_tree.py"), tagged.tag, "tree"]
    for seconds in LIMITS:
        done = await run_here(argv, tmp_path, timeout_seconds=seconds)
        assert (done.timed_out, done.signal) == (True, signal.SIGTERM)
        assert tagged.roles() == []
        assert done.seconds < 60
        if done.stdout:
            break
    assert done.stdout == b"ready\n"


async def test_standard_input_is_empty_unless_given(tmp_path):
    assert (await run_here(["cat"], tmp_path)).stdout == b""
    prompt = os.urandom(1_000_000)
    assert (await run_here(["cat"], tmp_path, stdin=prompt)).stdout == prompt[-1024 * 1024 :]
    assert (await run_here(["true"], tmp_path, stdin=prompt)).code == 0, "a program that never reads is not waited for"


async def test_a_program_that_never_reads_does_not_block(tmp_path):
    async with await begin(["sleep", "600"], tmp_path, stdin=b"x" * 1_000_000) as child:
        assert (await child.end(0)).signal == signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="a pipe of another system has its own size")
async def test_a_program_that_does_not_wait_for_its_reader_loses_no_long_line(tmp_path):
    code = "import os; os.set_blocking(1, False); os._exit(os.write(1, b'x' * 400_000) == 400_000)"
    done = await run_here(python(code), tmp_path)
    assert (done.code, len(done.stdout)) == (1, 400_000)


async def test_a_writer_waits_for_a_slow_program_and_learns_of_its_end(tmp_path):
    async with await begin(["sleep", "0.2"], tmp_path, keep_stdin=True) as child:
        with pytest.raises(UnderstudyError) as caught:  # noqa: PT012 - the write that finds out is not known
            for _ in range(100):
                await child.stdin.write(b"x" * 100_000)
        assert caught.value.kind is ErrorKind.TOOL_CRASHED


async def test_closing_the_input_ends_it(tmp_path):
    async with await begin(["cat"], tmp_path, keep_stdin=True, stdin=b"first ") as child:
        await child.stdin.write(b"second")
        child.stdin.close()
        assert await read_all(child) == b"first second"
        assert (await child.wait()).code == 0


async def test_lines_are_bytes_and_the_last_may_lack_its_end(tmp_path):
    code = r"import sys; sys.stdout.buffer.write(b'a\n\xff\xfe\r\n\n{\"half\":')"
    async with await begin(python(code), tmp_path) as child:
        assert [line async for line in child.stdout_lines()] == [b"a", b"\xff\xfe\r", b"", b'{"half":']
        assert not child.last_line_complete


async def test_a_long_line_passes_below_the_bound_and_fails_above(tmp_path):
    code = "print('x' * 3_000_000)"
    async with await begin(python(code), tmp_path) as child:
        assert len(await anext(child.stdout_lines())) == 3_000_000
        assert child.last_line_complete
    async with await begin(python("import os\nwhile True: os.write(1, b'x' * 65536)"), tmp_path) as child:
        with pytest.raises(UnderstudyError) as caught:
            await anext(child.stdout_lines(max_line_bytes=100_000))
        assert caught.value.kind is ErrorKind.MALFORMED_OUTPUT


async def test_many_errors_do_not_block(tmp_path):
    code = "import os\nfor _ in range(160): os.write(2, b'e' * 65536)\nos.write(2, b'END')"
    log = tmp_path / "stderr.log"
    async with await begin(python(code), tmp_path, stderr_log=log, log_cap_bytes=100_000) as child:
        assert (await child.wait()).code == 0
        await read_all(child)
        async with asyncio.timeout(60):
            while not child.stderr_tail().endswith(b"END"):
                await asyncio.sleep(0.005)
        assert len(child.stderr_tail()) == 64 * 1024
    kept = log.read_bytes()
    assert kept[:100_000] == b"e" * 100_000
    assert kept[100_000:] == b"\n[understudy: output beyond 100000 bytes is not kept]\n"
    assert log.stat().st_mode & 0o777 == 0o600


async def test_unread_output_makes_the_program_wait_and_not_our_memory_grow(tmp_path):
    code = "import os\nfor _ in range(2000): os.write(1, b'o' * 65536)"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with await begin(python(code), tmp_path) as child:
        await asyncio.wait([asyncio.ensure_future(asyncio.shield(child._guard.exited))], timeout=0.3)
        assert child.ended is None
        size = 0
        while part := await child.read_stdout():
            size += len(part)
        assert size == 2000 * 65536
        assert (await child.wait()).code == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000, "kilobytes"


async def test_run_keeps_the_end_of_a_flood(tmp_path):
    code = "import os\nfor _ in range(500): os.write(1, b'o' * 65536)\nos.write(1, b'END')"
    done = await run_here(python(code), tmp_path, output_limit=1000)
    assert (done.stdout, done.stdout_bytes) == (b"o" * 997 + b"END", 500 * 65536 + 3)


async def test_output_goes_to_its_file_too(tmp_path):
    log = tmp_path / "stdout.log"
    async with await begin(["echo", "hello"], tmp_path, stdout_log=log) as child:
        assert await read_all(child) == b"hello\n"
    assert log.read_bytes() == b"hello\n"
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnderstudyError) as caught:
        await begin(["true"], tmp_path, stdout_log=tmp_path / "link")
    assert caught.value.kind is ErrorKind.STATE_UNAVAILABLE
    assert not (tmp_path / "elsewhere").exists()


@LEVELS
async def test_only_the_standard_descriptors_reach_the_program(tmp_path, confinement):
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    code = (
        "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')))"
    )
    for stdin in (None, b"x"):
        done = await run_here(python(code), tmp_path, stdin=stdin, confinement=confinement)
        assert done.stdout in {b"[0, 1, 2]\n", b"[0, 1, 2, 3]\n"}, "3 is the listing itself"
    os.close(read_end)
    os.close(write_end)


@LEVELS
async def test_a_program_starts_clean(tmp_path, confinement):
    code = """
import os, resource, signal
print(os.getsid(0) == os.getpid() == os.getpgid(0))
print(resource.getrlimit(resource.RLIMIT_CORE))
status = dict(line.split(':', 1) for line in open('/proc/self/status').read().splitlines())
internal = 3 << 31  # signals 32 and 33 are the C library's own; its posix_spawn, which make uses, ignores them
print(status['SigBlk'].strip(), format(int(status['SigIgn'], 16) & ~internal, '016x'))
"""
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        # -E -S -s keeps it a bare interpreter; Python itself ignores SIGPIPE and SIGXFSZ.
        done = await run_here(python(code), tmp_path, confinement=confinement)
    finally:
        signal.signal(signal.SIGHUP, ignored)
    assert done.stdout.split() == [b"True", b"(0,", b"0)", b"0" * 16, b"0000000001001000"]


async def test_the_environment_is_exactly_what_was_given_and_the_marks(tmp_path, monkeypatch):
    monkeypatch.setenv("CANARY_API_KEY", "canary-value")
    monkeypatch.setenv("CLAUDECODE", "1")
    environment = {"PATH": "/usr/bin:/bin", "A": "b=c"}
    done = await run(program(["env"], tmp_path, environment, mark="the-mark"), timeout_seconds=20)
    names = dict(line.split("=", 1) for line in done.stdout.decode().splitlines())
    assert len(names.pop("UNDERSTUDY_CHILD")) == 32
    assert names == {"PATH": "/usr/bin:/bin", "A": "b=c", "UNDERSTUDY_DELEGATION": "the-mark"}


async def test_secrets_of_the_child_are_not_in_its_guardian(tmp_path):
    env = base_environment({"THE_KEY": "canary-value"})
    async with await start(program(["sleep", "600"], tmp_path, env)) as child:
        for name in ("environ", "cmdline"):
            assert b"canary-value" not in Path(f"/proc/{child.guardian.pid}/{name}").read_bytes()


@pytest.mark.parametrize(
    ("argv", "kind", "words"),
    [
        (["no-such-program"], ErrorKind.TOOL_MISSING, "'no-such-program' was not found"),
        (["./no-such-program"], ErrorKind.TOOL_MISSING, "was not found"),
        (["./plain-file"], ErrorKind.PERMISSION_DENIED, "may not be executed"),
        (["./no-interpreter"], ErrorKind.TOOL_MISSING, "interpreter"),
        (["./not-a-program"], ErrorKind.TOOL_CRASHED, "could not be started"),
        (["."], ErrorKind.TOOL_MISSING, "was not found"),
        ([], ErrorKind.INVALID_PARAMS, "no program"),
        (["echo", "a\0b"], ErrorKind.INVALID_PARAMS, "NUL"),
        (["echo", "\ud800"], ErrorKind.INVALID_PARAMS, "surrogate"),
        (["echo", "x" * 200_000], ErrorKind.INVALID_PARAMS, "longer than this system allows"),
        (["echo", *["x" * 1000] * 8000], ErrorKind.INVALID_PARAMS, "longer than this system allows"),
    ],
)
async def test_a_delegation_that_cannot_be_started_reports_why(tmp_path, argv, kind, words):
    (tmp_path / "plain-file").write_text("x")
    (tmp_path / "no-interpreter").write_text("#!/no/such/interpreter\n")
    (tmp_path / "not-a-program").write_bytes(b"\x7fELF nonsense")
    for name in ("no-interpreter", "not-a-program"):
        (tmp_path / name).chmod(0o700)
    with pytest.raises(UnderstudyError) as caught:
        await begin(argv, tmp_path)
    assert caught.value.kind is kind
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("options", [{"keep_stdin": True}, {"stdin": b"x" * 1_000_000}], ids=["open", "full"])
@pytest.mark.parametrize("content", [b"#!/no/such/interpreter\n", b"\x7fELF nonsense"], ids=["interpreter", "format"])
async def test_a_program_with_an_input_that_cannot_be_started_reports_why(tmp_path, content, options):
    (tmp_path / "program").write_bytes(content)
    (tmp_path / "program").chmod(0o700)
    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
    for _ in range(5):
        with pytest.raises(UnderstudyError, match="could not be started"):
            await begin(["./program"], tmp_path, **options)
    await asyncio.sleep(0)
    assert not problems


async def test_a_program_may_be_named_by_its_place_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "program").chmod(0o700)
    assert call_checks.locate("~/program", tmp_path / "none", {}) == str(tmp_path / "program")


async def test_a_missing_folder_and_a_bad_variable_are_named(tmp_path):
    for cwd, env, words in [
        (tmp_path / "none", {}, "none"),
        (tmp_path, {"A=B": "c"}, "A=B"),
        (tmp_path, {"A": "\0"}, "'A'"),
    ]:
        with pytest.raises(UnderstudyError) as caught:
            await start(program(["/bin/true"], cwd, env))
        assert caught.value.kind is ErrorKind.INVALID_PARAMS
        assert words in caught.value.message


async def test_a_program_of_the_tree_is_not_found_through_a_relative_path_entry(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tool").write_text("#!/bin/sh\necho planted\n")
    (tmp_path / "tool").chmod(0o700)
    with pytest.raises(UnderstudyError):
        await start(program(["tool"], tmp_path, {"PATH": ".::bin"}))
    done = await run(program(["./tool"], tmp_path, {"PATH": "/usr/bin:/bin"}), timeout_seconds=9)
    assert done.stdout == b"planted\n"


async def test_when_descriptors_run_out_it_says_so_and_recovers(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    await run_here(["true"], tmp_path)
    before = fds()
    for spare in range(1, 12):
        # Descriptors are given out from the lowest free number, so the limit leaves at most this many.
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + spare, hard))
        try:
            with pytest.raises(UnderstudyError) as caught:  # noqa: PT012 - with the most descriptors it may succeed
                await begin(["true"], tmp_path)
                raise UnderstudyError(ErrorKind.OVERLOADED, "there were enough descriptors")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert caught.value.kind is ErrorKind.OVERLOADED
    assert (await run_here(["true"], tmp_path)).code == 0
    async with asyncio.timeout(60):
        while fds() > before:
            await asyncio.sleep(0.01)


async def test_the_namespace_is_where_a_program_cannot_see_us(tmp_path):
    async with await begin(["sleep", "600"], tmp_path) as child:
        if child.sandbox.reached is not Confinement.NAMESPACE:
            pytest.skip(child.refusal)
    code = "import os; print(os.getpid(), sorted(int(n) for n in os.listdir('/proc') if n.isdigit()))"
    done = await run_here(python(code), tmp_path)
    assert done.stdout == b"2 [1, 2]\n"
    assert "/proc" not in [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()].pop()


@LEVELS
async def test_the_level_that_was_reached_is_recorded(tmp_path, confinement):
    child = await begin(python(""), tmp_path, confinement=confinement)
    ended = await child.wait()
    reached = confinement if not child.refusal or confinement is Confinement.NONE else Confinement.NONE
    assert child.sandbox == ended.sandbox == Sandbox(confinement, reached)
    assert not child.sandbox.reached.restricts_access


@pytest.mark.parametrize("level", [Confinement.LANDLOCK, Confinement.BUBBLEWRAP, Confinement.CONTAINER])
async def test_a_level_that_does_not_exist_yet_is_refused(tmp_path, level):
    with pytest.raises(UnderstudyError) as caught:
        await begin(python(""), tmp_path, confinement=level)
    assert caught.value.kind is ErrorKind.ISOLATION_UNAVAILABLE


@pytest.mark.parametrize("restriction", [{"network": False}, {"writable": ()}, {"readable": ()}, {"hidden": (HERE,)}])
async def test_a_restriction_that_cannot_be_held_is_refused(tmp_path, restriction):
    access = AccessProfile(Role.AGENT, **restriction)
    restricted = msgspec.structs.replace(
        program(["touch", "made"], tmp_path), access=access, confinement=Confinement.NONE
    )
    with pytest.raises(UnderstudyError) as caught:
        await run(restricted, timeout_seconds=20)
    assert caught.value.kind is ErrorKind.ISOLATION_UNAVAILABLE
    assert not (tmp_path / "made").exists()


async def test_a_machine_without_user_namespaces_refuses_restrictions_and_runs_the_rest(tmp_path):
    inside = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    answers = {}
    for access in ("free", "restricted"):
        argv = [sys.executable, str(HERE / "owner_program.py"), "m", "namespace", "echo", "ran"]
        done = await run(
            program(
                ["unshare", "-Ur", "sh", "-c", inside, "sh", *argv], tmp_path, base_environment({"ACCESS": access})
            ),
            timeout_seconds=60,
        )
        if b"unshare failed" in done.stderr:
            pytest.skip("no user namespaces here")
        answers[access] = done
    assert b'"line": "ran"' in answers["free"].stdout, answers["free"].stderr
    assert b"isolation_unavailable" in answers["restricted"].stdout
    assert b"ran" not in answers["restricted"].stdout


LOOK = """
import ctypes, os, sys
for path in sys.argv[1:]:
    print(path, sorted(os.listdir(path)) if os.path.isdir(path) else open(path).read() if os.path.exists(path) else None)
    try:
        open(os.path.join(path, "written"), "w").close()
        print("written")
    except OSError:
        pass
print(os.getuid() == int(os.environ["ME"]), ctypes.CDLL(None).umount2(sys.argv[1].encode(), 2))
"""


async def test_hidden_folders_are_empty_but_for_what_is_shown_and_stay_so(tmp_path):
    if why := await why_nothing_is_hidden():
        pytest.skip(why)
    checkout, elsewhere, link = tmp_path / "checkout", tmp_path / "elsewhere", tmp_path / "link"
    for folder in (checkout / ".venv" / "lib", checkout / "src" / "deep", elsewhere):
        folder.mkdir(parents=True)
        (folder / "file").write_text("text")
    (checkout / ".env").write_text("A=1")
    (checkout / "packages").symlink_to(elsewhere)
    link.symlink_to(checkout)
    access = AccessProfile(
        Role.CHECK,
        # One that is in another, one by a link, and one that is not there.
        hidden=(checkout / "src", link, checkout / ".venv" / "lib", tmp_path / "missing"),
        shown=(checkout / ".venv", link / ".env", checkout / "packages", checkout, elsewhere, checkout / "missing"),
    )
    places = (checkout, checkout / ".venv", checkout / ".venv/lib", checkout / ".env", elsewhere)
    argv = python(LOOK, *map(str, places))
    look = program(argv, checkout / ".venv", base_environment({"ME": str(os.getuid())}))
    done = await run(msgspec.structs.replace(look, access=access), timeout_seconds=20)
    assert done.stdout.decode().splitlines() == [
        f"{checkout} ['.env', '.venv', 'packages']",
        f"{checkout / '.venv'} ['lib']",
        "written",
        f"{checkout / '.venv/lib'} []",
        f"{checkout / '.env'} A=1",
        f"{elsewhere} ['file']",
        "written",
        "True -1",
    ], done.stderr
    assert (checkout / "src" / "deep" / "file").is_file(), "what is hidden is still there"
    assert not (checkout / "written").exists()


async def test_what_a_program_writes_to_folders_of_its_own_is_gone_with_it(tmp_path):
    if why := await why_nothing_is_hidden():
        pytest.skip(why)
    own, environment = tmp_path / "own", tmp_path / "own" / "deep" / "environment"
    for folder in (environment, tmp_path / "own" / "secret"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("text")
    code = (
        "import os, sys, pathlib; own = pathlib.Path(sys.argv[1])\n"
        "print(sorted(map(str, (path.relative_to(own) for path in own.rglob('*')))))\n"
        "(own / 'snapshot').write_text('1'); (own / 'deep/environment/kept').write_text('1')\n"
        "space = os.statvfs(own); print(space.f_blocks * space.f_frsize, oct(own.stat().st_mode))\n"
    )
    access = AccessProfile(Role.CHECK, hidden=(own / "secret",), own=(own, tmp_path / "none"), shown=(environment, own))
    for kept in ([], ["deep/environment/kept"]):
        look = msgspec.structs.replace(program(python(code, str(own)), tmp_path), access=access)
        done = await run(look, timeout_seconds=20)
        assert done.stdout.decode().splitlines() == [
            str(sorted(["deep", "deep/environment", "deep/environment/file", *kept])),
            f"{1 << 30} 0o41777",
        ], done.stderr
    assert not (own / "snapshot").exists()


async def test_shared_memory_does_not_outlive_a_program_from_which_something_is_hidden(tmp_path):
    if why := await why_nothing_is_hidden():
        pytest.skip(why)
    code = "import ctypes; print(ctypes.CDLL(None).shmget(0x75AB1, 4096, 0o1600))"  # IPC_CREAT
    look = program(python(code), tmp_path)
    access = AccessProfile(Role.CHECK, hidden=(tmp_path / "none", HERE))
    done = await run(msgspec.structs.replace(look, access=access), timeout_seconds=20)
    assert int(done.stdout) >= 0
    after = await run_here(python(code.replace("0o1600", "0")), tmp_path)
    assert after.stdout == b"-1\n"


@pytest.mark.skipif(os.getuid() == 0, reason="root may look everywhere")
def test_what_the_user_may_not_look_at_is_neither_hidden_nor_shown(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    access = AccessProfile(Role.CHECK, hidden=(tmp_path, closed / "folder"), shown=(closed / "bin",))
    assert access.covers() == [(tmp_path.resolve(), Cover.HIDE)]


def test_an_argument_that_is_too_long_for_a_path_is_not_one(tmp_path):
    access = AccessProfile(Role.CHECK, hidden=(tmp_path, Path("/", "h" * 300)), shown=(Path("/", "s" * 300),))
    assert access.covers() == [(tmp_path.resolve(), Cover.HIDE)]


async def test_only_what_is_restricted_is_restricted(tmp_path):
    code = "import os, socket; open('x', 'w').close(); print(len(socket.if_nameindex()), os.path.exists('x'))"
    shown = {}
    for name, restriction in {"nothing": {}, "network": {"network": False}}.items():
        access = AccessProfile(Role.AGENT, **restriction)
        done = await run(msgspec.structs.replace(program(python(code), tmp_path), access=access), timeout_seconds=20)
        shown[name] = done.stdout.split()
    assert shown["nothing"][1] == shown["network"][1] == b"True"
    assert shown["network"][0] == b"1", "only a loopback of its own"
