"""The numbers that Understudy promises, each as a ratio to something plain measured in the same run.

    python tests/benchmarks/bench.py [NAME ...]

Everything happens in a temporary folder. The exit code is 1 when a number is missed; the table says which.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SCRATCH = Path(tempfile.mkdtemp(prefix="understudy-bench-"))
HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy-tests"
"""Where the tests of the real agent CLIs install them; looked up before the home is redirected."""
TOOLS = {"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup", "npm_config_cache": ".npm"}
"""Where tool chains are, in the real home if they are not told another place."""
os.environ.update({name: os.environ.get(name) or str(Path.home() / folder) for name, folder in TOOLS.items()})
os.environ.update(
    HOME=str(SCRATCH / "home"),
    UNDERSTUDY_STATE=str(SCRATCH / "state"),
    UNDERSTUDY_CONFIG=str(SCRATCH / "config"),
    XDG_RUNTIME_DIR=str(SCRATCH / "run"),
    GIT_CONFIG_GLOBAL="/dev/null",
    GIT_CONFIG_NOSYSTEM="1",
    PYTHONDONTWRITEBYTECODE="1",
)
for name in ("home", "config/delegators", "run"):
    (SCRATCH / name).mkdir(parents=True, mode=0o700)

import msgspec  # noqa: E402 - the environment first

from understudy.api import method_table  # noqa: E402
from understudy.api.caller import TerminalCaller  # noqa: E402
from understudy.journal import change_notifications, delegation_folder, reader  # noqa: E402
from understudy.model.delegation.delegations import AskedBy, Usage  # noqa: E402
from understudy.model.delegation.ledger import LedgerEntry  # noqa: E402

sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import bench_ask  # noqa: E402 - beside this file
import bench_loop  # noqa: E402
import bench_lsp  # noqa: E402
import many_starts  # noqa: E402
from bench_lsp import percentile, pipe_delay  # noqa: E402

CALLER = TerminalCaller()
ROWS: list[tuple[str, str, float, float, str]] = []


def call(method: str, **params: object) -> object:
    """Call a method of the contract."""
    return method_table.call(method, params, CALLER)


def row(name: str, what: str, measured: float, limit: float, unit: str = "") -> None:
    """Record and print one number."""
    ROWS.append((name, what, measured, limit, unit))
    verdict = "ok  " if measured <= limit else "MISS"
    print(f"{verdict} {name:<10} {what:<78} {measured:9.2f} {unit:<3} (at most {limit:.2f})", flush=True)


def delegator(name: str, *command: str) -> None:
    """Write a generic delegator."""
    argv = json.dumps(list(command))
    text = f'name = "{name}"\ntool = "generic"\n\n[launch]\ncommand = {argv}\noutput = "events"\n'
    (SCRATCH / "config" / "delegators" / f"{name}.toml").write_text(text)


def git(*args: str, cwd: Path) -> None:
    """Run git plainly."""
    environment = dict(os.environ)
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "Bench", f"GIT_{role}_EMAIL": "bench@example.invalid"}
    subprocess.run(["git", *args], cwd=cwd, env=environment, check=True, capture_output=True)


def repository(name: str, files: int) -> Path:
    """Make a repository with so many files, fifty a folder."""
    top = SCRATCH / name
    top.mkdir()
    git("init", "-q", "-b", "main", cwd=top)
    for number in range(files):
        folder = top / f"d{number // 50}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}.txt").write_text(f"file {number}\n" * 20)
    git("add", "-A", cwd=top)
    git("commit", "-qm", "all", cwd=top)
    call("workspace/trust", workspace=str(top), trusted=True)
    return top


def start(top: Path, name: str) -> str:
    """Start a text delegation on a talker."""
    result = call("delegations/start", recipe="ask", task="talk", delegator=name, workspace=str(top))
    return result.id  # type: ignore[attr-defined, no-any-return]


def wait(identifier: str) -> object:
    """Wait for the end."""
    return call("delegations/wait", id=identifier, timeoutSeconds=600)


def plain_start(folder: Path) -> float:
    """Measure making a folder with a synced file and spawning ``true``."""
    began = time.perf_counter()
    folder.mkdir(mode=0o700)
    with (folder / "spec.json").open("wb") as file:
        file.write(b"x" * 3000)
        os.fsync(file.fileno())
    subprocess.run(["true"], check=True)
    return time.perf_counter() - began


def bench_start(top: Path) -> None:
    """``start`` while twenty delegations stream; then all of them end."""
    delegator("talker", sys.executable, str(HERE / "streaming_agent.py"), "600", "0.05")
    delegator("brief", sys.executable, str(HERE / "streaming_agent.py"), "1", "0")
    streaming = [start(top, "talker") for _ in range(20)]
    for identifier in streaming:
        follow(identifier, lambda events: any(event.type_name == "text" for event in events))
    mine, plain = [], []
    started = []
    for number in range(30):
        plain.append(plain_start(SCRATCH / f"plain{number}"))
        began = time.perf_counter()
        started.append(start(top, "brief"))
        mine.append(time.perf_counter() - began)
    row(
        "start",
        "start answered, p95, / (mkdir + fsync + spawn true), p95, 20 streaming",
        percentile(mine, 0.95) / percentile(plain, 0.95),
        3.0,
        "x",
    )
    rss = [worker_rss(identifier) for identifier in streaming]
    row("worker", "resident memory of a worker while it streams, largest of 20", max(rss), 40.0, "MB")
    for identifier in [*streaming, *started]:
        wait(identifier)
    lost = [i for i in [*streaming, *started] if call("delegations/get", id=i).verdict != "answered"]  # type: ignore[attr-defined]
    row("twenty", "delegations lost, of 50 started, with 20 or more at once on these cores", float(len(lost)), 0.0)


def bench_queue(top: Path) -> None:
    """A thousand starts at once, with a kill of everything in between; then the throughput without kills."""
    settings = SCRATCH / "config" / "config.toml"
    before, slots = settings.read_text(), 8
    settings.write_text(f'[environment]\npython = "{sys.executable}"\n[limits]\nslots = {slots}\n')
    result = json.dumps({"type": "result", "ok": True, "text": "done"})
    instant = f"echo x > new.txt; echo '{result}'"
    agents = {"second": f"sleep 1; {instant}", "instant": instant}
    for name, agent in agents.items():
        delegator(name, "/bin/sh", "-c", agent)
    params = {"recipe": "implement", "task": "x", "delegator": "second", "workspace": str(top)}
    state = SCRATCH / "state"

    def against_xargs(count: int, name: str) -> float:
        shutil.rmtree(state / "delegations")
        figures = many_starts.run(count, top, state, params | {"delegator": name})
        if figures.lost or figures.refused:
            raise AssertionError(figures)
        (folder := SCRATCH / "plain-worktrees").mkdir()
        return figures.seconds / many_starts.with_xargs(count, slots, agents[name], top, folder)

    try:
        figures = many_starts.run(1000, top, state, params, kill_after=900)
        lost = len(figures.lost) + len(figures.refused)
        what = (
            f"delegations lost of 1,000 started at once, all killed after 900 ({figures.ended_before_kill} had ended)"
        )
        row("queue", what, float(lost), 0.0)
        row("queue", "the same: memory of all processes, agents included", figures.most_bytes / 2**20, 1000.0, "MB")
        row("queue", "the same: places by which one overtook an earlier one", figures.largest_overtaking, 2.0 * slots)
        what = "delegations of an agent that takes 1 s / xargs -P slots with git worktree add"
        row("queue", f"200 {what}", against_xargs(200, "second"), 1.3, "x")
        row("queue", f"1,000 {what.replace('1 s', 'no time')}", against_xargs(1000, "instant"), 6.4, "x")
    finally:
        settings.write_text(before)


class Seen:
    """An event as the benchmark looks at it."""

    def __init__(self, event: object) -> None:
        self.event = event
        self.type_name = type(event).__struct_config__.tag  # type: ignore[attr-defined]


def follow(
    identifier: str, enough: Callable[[list[Seen]], bool], on_events: Callable[[list[Seen]], None] | None = None
) -> None:
    """Tail a journal as a watching process does, woken by change notifications."""
    tail = reader.Tail(delegation_folder.open_folder(identifier))
    seen: list[Seen] = []
    deadline = time.monotonic() + 300
    with change_notifications.ChangeListener() as bell:
        while time.monotonic() < deadline:
            events = [Seen(event) for event in tail.read(1000)]
            if on_events is not None and events:
                on_events(events)
            seen = events if on_events else seen + events
            if enough(seen):
                return
            if not events:
                bell.wait(1.0)
    raise TimeoutError(identifier)


def worker_rss(identifier: str) -> float:
    """Return the resident memory of a delegation's worker in MB."""
    holder = json.loads(delegation_folder.open_folder(identifier).lock.read_bytes() or b"{}")
    for line in Path(f"/proc/{holder['pid']}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("inf")


def bench_latency(top: Path) -> None:
    """From the agent's stdout to a watching process."""
    delegator("clock", sys.executable, str(HERE / "streaming_agent.py"), "300", "0.02")
    identifier = start(top, "clock")
    delays: list[float] = []

    def note(events: list[Seen]) -> None:
        now = time.monotonic_ns()
        for event in events:
            if event.type_name == "text":
                delays.extend((now - int(line.split()[1])) / 1e6 for line in event.event.text.splitlines())  # type: ignore[attr-defined]

    follow(identifier, lambda events: any(event.type_name == "finished" for event in events), note)
    pipe = pipe_delay(300, 0.02)
    limit = 33.0 + 3 * percentile(pipe, 0.95)
    row(
        "latency",
        f"stdout to watcher, p95 of {len(delays)} (p50 {statistics.median(delays):.1f} ms; pipe p95 {percentile(pipe, 0.95):.2f} ms)",
        percentile(delays, 0.95),
        limit,
        "ms",
    )


def bench_deltas(top: Path) -> None:
    """A hundred thousand deltas, in order, memory flat."""
    count = 100_000
    delegator("flood", sys.executable, str(HERE / "streaming_agent.py"), str(count), "0")
    identifier = start(top, "flood")
    numbers: list[int] = []
    memory: list[float] = []

    def note(events: list[Seen]) -> None:
        for event in events:
            if event.type_name == "text":
                numbers.extend(int(line.split()[0]) for line in event.event.text.splitlines())  # type: ignore[attr-defined]
        with contextlib.suppress(OSError):
            memory.append(worker_rss(identifier))

    began = time.perf_counter()
    follow(identifier, lambda events: any(event.type_name == "finished" for event in events), note)
    seconds = time.perf_counter() - began
    row(
        "deltas",
        f"deltas missing or out of order of {count} ({seconds:.1f} s)",
        float(sum(a != b for a, b in zip(numbers, range(count), strict=False)) + abs(count - len(numbers))),
        0.0,
    )
    third = max(1, len(memory) // 3)
    row(
        "memory",
        f"worker's memory, end / beginning of the flood ({max(memory):.0f} MB at most)",
        max(memory[-third:]) / max(memory[:third]),
        1.25,
        "x",
    )


def bench_worktree() -> None:
    """Base and worktree against a plain ``git worktree add``, ten thousand files."""
    top = repository("ten-thousand", 10_000)
    delegator("quiet", sys.executable, "-c", 'print(\'{"type":"result","ok":true,"text":"nothing"}\')')
    mine, plain = [], []

    def add_plainly(number: int) -> None:
        began = time.perf_counter()
        git("worktree", "add", "-q", "--detach", str(SCRATCH / f"plain-tree{number}"), cwd=top)
        plain.append(time.perf_counter() - began)

    def delegate(_: int) -> None:
        identifier = call("delegations/start", recipe="implement", task="x", delegator="quiet", workspace=str(top)).id  # type: ignore[attr-defined]
        wait(identifier)
        events = [Seen(event) for event in reader.read_events(delegation_folder.open_folder(identifier), 0, 1000)]
        moments = {event.type_name: event.event.at for event in reversed(events)}  # type: ignore[attr-defined]
        mine.append(seconds_between(events[0].event.at, moments["worktree"]))  # type: ignore[attr-defined]

    # The disk's own noise is larger than the difference, so the order changes and the medians are compared.
    for number in range(7):
        for step in (add_plainly, delegate) if number % 2 else (delegate, add_plainly):
            os.sync()
            step(number)
    ratio = statistics.median(mine) / statistics.median(plain)
    row(
        "worktree",
        f"base + worktree / git worktree add, 10,000 files, median of 7 ({statistics.median(plain):.2f} s plain)",
        ratio,
        1.2,
        "x",
    )


def seconds_between(first: str, last: str) -> float:
    """Return the seconds between two times of events."""
    from datetime import datetime

    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


def bench_accept() -> None:
    """Accept one hunk against ``git apply`` of the same patch, in a repository of ten thousand files."""
    top = SCRATCH / "ten-thousand"
    if not top.exists():
        top = repository("ten-thousand", 10_000)
    rounds = 11
    files = 2 * rounds
    change = (
        f"import pathlib\nfor n in range({files}):\n"
        "    p = pathlib.Path(f'd0/f{n}.txt'); p.write_text(p.read_text() + 'more\\n')\n"
    )
    delegator("editor", sys.executable, "-c", change + 'print(\'{"type":"result","ok":true,"text":"edited"}\')')
    identifier = call("delegations/start", recipe="implement", task="x", delegator="editor", workspace=str(top)).id  # type: ignore[attr-defined]
    wait(identifier)
    other = SCRATCH / "other"
    git("clone", "-q", str(top), str(other), cwd=SCRATCH)
    patch = (delegation_folder.open_folder(identifier).path / "review.diff").read_text()
    pieces = {piece.split(" ")[0][2:]: "diff --git " + piece for piece in patch.split("diff --git ")[1:]}
    mine: dict[bool, list[float]] = {False: [], True: []}
    plain: dict[bool, list[float]] = {False: [], True: []}
    for number in range(files):
        edited = bool(number % 2)
        path = f"d0/f{number}.txt"
        (SCRATCH / "one.patch").write_text(pieces[path])
        if edited:
            for tree in (top, other):
                lines = (tree / path).read_text()
                (tree / path).write_text(f"mine\n{lines.replace('file', 'mine', 4)}")
        os.sync()  # an accept is on the disk when it returns: what others wrote before is not its to wait for
        began = time.perf_counter()
        git("apply", str(SCRATCH / "one.patch"), cwd=other)
        plain[edited].append(time.perf_counter() - began)
        began = time.perf_counter()
        call("delegations/decide", id=identifier, decisions=[{"path": path, "decision": "accept"}])
        mine[edited].append(time.perf_counter() - began)
        assert (top / path).read_bytes() == (other / path).read_bytes()
    for edited, where in ((False, ""), (True, " in a file edited since")):
        median = statistics.median(mine[edited])
        row(
            "accept",
            f"accept of one hunk{where} / git apply, 10,000 files, median of {rounds} ({median * 1e3:.1f} ms)",
            median / statistics.median(plain[edited]),
            3.0,
            "x",
        )


def bench_accept_many() -> None:
    """Accept thirty thousand new files at once against ``git apply`` of the same patch."""
    count = 30_000
    top = repository("many", 20)
    code = (
        f"import pathlib\nfor n in range({count}):\n    p = pathlib.Path(f'new/e{{n // 100}}/f{{n}}.txt')\n"
        "    p.parent.mkdir(parents=True, exist_ok=True)\n    p.write_text(f'file {n}\\n' * 5)\n"
    )
    delegator("maker", sys.executable, "-c", code + 'print(\'{"type":"result","ok":true,"text":"made"}\')')
    identifier = call("delegations/start", recipe="implement", task="x", delegator="maker", workspace=str(top)).id  # type: ignore[attr-defined]
    wait(identifier)
    other = SCRATCH / "other-many"
    git("clone", "-q", str(top), str(other), cwd=SCRATCH)
    times = []
    for work in (
        lambda: git("apply", str(delegation_folder.open_folder(identifier).path / "review.diff"), cwd=other),
        lambda: call("delegations/decide", id=identifier, decisions=[{"decision": "accept"}]),
    ):
        os.sync()
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    assert (top / "new").is_dir()
    plain, mine = times
    row("many", f"accept of {count:,} new files / git apply ({plain:.1f} s plain)", mine / plain, 10.0, "x")


def bench_documents(top: Path) -> None:
    """Open documents while a result is pending: see ``bench_lsp.documents``."""
    change = "import pathlib\nfor p in pathlib.Path('d0').iterdir(): p.write_text(p.read_text() + 'more\\n')\n"
    delegator("editor", sys.executable, "-c", change + 'print(\'{"type":"result","ok":true,"text":"edited"}\')')
    wait(call("delegations/start", recipe="implement", task="x", delegator="editor", workspace=str(top)).id)  # type: ignore[attr-defined]
    bench_lsp.documents(row, top)


def bench_agent(name: str, top: Path) -> None:
    """Measure what has to do with agents that are talked to: see ``bench_agents``."""
    import bench_agents  # beside this file

    getattr(bench_agents, name)(sys.modules[__name__], top)


def bench_judging() -> None:
    """Measure what judging costs: see ``bench_judging``."""
    import bench_judging  # beside this file

    bench_judging.judging(sys.modules[__name__])


def bench_list(top: Path) -> None:
    """The first page of ten thousand delegations against listing the folder."""
    identifier = start(top, "brief")
    wait(identifier)
    model = delegation_folder.open_folder(identifier).path
    parent = model.parent
    for number in range(10_000):
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(1_700_000_000 + number * 60))
        folder = parent / f"{stamp}-0{number:04d}"
        folder.mkdir()
        for name in ("summary.json", "spec.json", "events.jsonl"):
            data = (model / name).read_bytes().replace(identifier.encode(), folder.name.encode())
            (folder / name).write_bytes(data)
    mine, plain = [], []
    for _ in range(15):
        began = time.perf_counter()
        sorted(entry.name for entry in os.scandir(parent))
        plain.append(time.perf_counter() - began)
        began = time.perf_counter()
        page = call("delegations/list", limit=100)
        mine.append(time.perf_counter() - began)
        assert len(page.delegations) == 100  # type: ignore[attr-defined]
    row(
        "list",
        f"first page of 10,000 / listing the folder, median ({statistics.median(mine) * 1e3:.1f} ms)",
        statistics.median(mine) / statistics.median(plain),
        3.0,
        "x",
    )


def bench_cli() -> None:
    """A command that needs no more against ``python -c "import click"``."""
    command = [sys.executable, "-m", "understudy", "--version"]
    plain_command = [sys.executable, "-c", "import click"]
    mine, plain = [], []
    for _ in range(25):
        for argv, into in ((plain_command, plain), (command, mine)):
            began = time.perf_counter()
            subprocess.run(argv, check=True, capture_output=True)
            into.append(time.perf_counter() - began)
    row(
        "cli",
        "understudy --version / python -c 'import click', median of 25",
        statistics.median(mine) / statistics.median(plain),
        1.5,
        "x",
    )


def bench_metrics() -> None:
    """Figures of 100,000 attempts by delegator, from the cache, and with all lines to be read first."""
    usage = Usage(**dict.fromkeys(Usage.__struct_fields__, 1234))
    folder = SCRATCH / "state" / "ledger"
    folder.mkdir(parents=True, exist_ok=True)
    for month in range(1, 11):
        lines = [
            LedgerEntry(
                at=f"2020-{month:02}-{1 + number % 28:02}T08:00:00.000Z",
                id=f"2020{month:02}01-080000-{number:05}",
                attempt=1,
                asked_by=AskedBy(frontend="cli", depth=0, pid=4100, cwd="/home/ada/greeting"),
                recipe=("tests", "fix", "docs")[number % 3],
                language="python",
                size=number,
                workspace="/home/ada/greeting",
                delegator=f"delegator-{number % 7}",
                tool="claude",
                model="large",
                usage=usage,
                cost_usd="0.0123",
                cost_source="reported",
                seconds=float(number % 600),
                verdict=("verified", "unverified")[number % 2],
            )
            for number in range(10_000)
        ]
        (folder / f"2020-{month:02}.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, lines)) + b"\n")
    spent = []
    for _ in range(6):
        began = time.perf_counter()
        call("metrics/read", until="2021-01-01", by="delegator")
        spent.append(time.perf_counter() - began)
    row("metrics", "100,000 attempts by delegator, median of 5", statistics.median(spent[1:]), 1.0, "s")
    row("metrics", "the same without a cache", spent[0], 10.0, "s")


def talkers() -> None:
    """Write the delegators that talk."""
    delegator("clock", sys.executable, str(HERE / "streaming_agent.py"), "300", "0.02")
    delegator("flood", sys.executable, str(HERE / "streaming_agent.py"), "100000", "0")


def main() -> int:
    """Run what is named, or everything."""
    wanted = set(sys.argv[1:])
    (SCRATCH / "config" / "config.toml").write_text("[limits]\nslots = 64\n")
    top = repository("small", 20)
    benches: dict[str, Callable[[], None]] = {
        "cli": bench_cli,
        "ask": lambda: bench_ask.ask(row, SCRATCH, top),
        "requests": lambda: bench_ask.requests(row, SCRATCH, top),
        "loop": lambda: bench_loop.prefix(row, SCRATCH),
        "start": lambda: bench_start(top),
        "queue": lambda: bench_queue(repository("queue", 20)),
        "latency": lambda: bench_latency(top),
        "deltas": lambda: bench_deltas(top),
        "worktree": bench_worktree,
        "accept": bench_accept,
        "many": bench_accept_many,
        "judging": bench_judging,
        "waiting": lambda: bench_agent("waiting", top),
        "claude": lambda: bench_agent("claude", top),
        "list": lambda: (
            delegator("brief", sys.executable, str(HERE / "streaming_agent.py"), "1", "0"),
            bench_list(top),
        )[-1],
    }
    benches |= {
        "hello": lambda: bench_lsp.hello(row),
        "request": lambda: bench_lsp.request(row),
        "documents": lambda: bench_documents(top),
        "streams": lambda: (talkers(), bench_lsp.streams(row, lambda name: start(top, name)))[-1],
        "editor": lambda: (talkers(), bench_lsp.flood(row, lambda name: start(top, name)))[-1],
        "idle": lambda: bench_lsp.idle(row),
        "metrics": bench_metrics,
    }
    for name, bench in benches.items():
        if not wanted or name in wanted:
            bench()
    shutil.rmtree(SCRATCH, ignore_errors=True)
    return int(any(measured > limit for _, _, measured, limit, _ in ROWS))


if __name__ == "__main__":
    sys.exit(main())
