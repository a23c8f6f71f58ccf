"""The numbers of the language server: each against a bare pygls server, or a pipe, in the same run."""

from __future__ import annotations

import compileall
import gc
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import understudy

HERE = Path(__file__).resolve().parent
OURS = [sys.executable, "-m", "understudy", "serve"]
BARE = [sys.executable, str(HERE / "bare_pygls.py")]
Row = Callable[[str, str, float, float, str], None]


class Client:
    """As little of an editor as will do."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout

    def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._in.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._in.flush()

    def read(self) -> Any:
        """Return the next message."""
        length = 0
        while (line := self._out.readline()).strip():
            name, _, value = line.partition(b":")
            if name == b"Content-Length":
                length = int(value)
        return json.loads(self._out.read(length))

    def ask(self, identifier: int, method: str, params: dict[str, Any]) -> Any:
        """Send a request and return its answer, skipping all else."""
        self.send({"id": identifier, "method": method, "params": params})
        while (message := self.read()).get("id") != identifier:
            pass
        return message["result"]

    def hello(self) -> None:
        """Initialize."""
        window = {"workDoneProgress": True, "showDocument": {"support": True}}
        capabilities = {"general": {"positionEncodings": ["utf-16"]}, "window": window}
        self.ask(0, "initialize", {"processId": os.getpid(), "rootUri": None, "capabilities": capabilities})
        self.send({"method": "initialized", "params": {}})

    def end(self) -> None:
        """Close the stream."""
        self._in.close()
        self._out.close()
        self.process.wait(10)

    def facts(self) -> tuple[float, int]:
        """Return resident memory in MB, and how often its threads went to sleep of themselves."""
        memory, sleeps = 0.0, 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            for line in (task / "status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    memory = int(line.split()[1]) / 1024
                if line.startswith("voluntary_ctxt_switches:"):
                    sleeps += int(line.split()[1])
        return memory, sleeps


def hello(row: Row) -> None:
    """Spawn until initialize is answered, both with compiled modules, as an installation has them."""
    compileall.compile_dir(str(Path(understudy.__file__).parent), quiet=1)
    ours, bare = [], []
    for _ in range(12):
        for command, into in ((BARE, bare), (OURS, ours)):
            began = time.perf_counter()
            client = Client(command)
            client.hello()
            into.append(time.perf_counter() - began)
            client.end()
    middle = statistics.median(ours)
    row(
        "hello",
        f"spawn to initialize answered / bare pygls, median of 12 ({middle * 1000:.0f} ms)",
        middle / statistics.median(bare),
        0.5,
        "x",
    )


def request(row: Row) -> None:
    """A typed request there and back."""
    ours, bare = Client(OURS), Client(BARE)
    times: dict[int, list[float]] = {0: [], 1: []}
    ours.hello()
    bare.hello()
    for number in range(1, 3001):
        for which, client, method, params in (
            (0, ours, "understudy/version", {}),
            (1, bare, "bench/get", {"id": "x"}),
        ):
            began = time.perf_counter()
            client.ask(number, method, params)
            times[which].append(time.perf_counter() - began)
    ours.end()
    bare.end()
    middle = statistics.median(times[0])
    row(
        "request",
        f"a typed request / the same on bare pygls, median of 3000 ({middle * 1e6:.0f} us)",
        middle / statistics.median(times[1]),
        1.0,
        "x",
    )


def pipe_delay(count: int, every: float) -> list[float]:
    """Return the milliseconds that a talker's lines take through a pipe."""
    delays = []
    with subprocess.Popen(
        [sys.executable, str(HERE / "streaming_agent.py"), str(count), str(every)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            now = time.monotonic_ns()
            data = json.loads(line)
            if data["type"] == "text":
                delays.append((now - int(data["text"].split()[1])) / 1e6)
    return delays


def percentile(values: list[float], share: float) -> float:
    """Return the value below which ``share`` of ``values`` lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def streams(row: Row, start: Callable[[str], str]) -> None:
    """Twenty agents talk at once; from each one's stdout to the client. ``start`` takes a delegator's name."""
    client = Client(OURS)
    client.hello()
    client.ask(1, "understudy/delegations/subscribe", {})
    running = {start("clock") for _ in range(20)}
    delays: list[float] = []
    while running:
        message = client.read()
        now = time.monotonic_ns()
        if message.get("method") != "understudy/event":
            continue
        for event in message["params"]["events"]:
            if event["type"] == "text":
                delays += [(now - int(line.split()[1])) / 1e6 for line in event["text"].splitlines()]
            elif event["type"] == "finished":
                running.discard(message["params"]["id"])
    client.end()
    pipes = [
        subprocess.Popen([sys.executable, str(HERE / "streaming_agent.py"), "300", "0.02"], stdout=subprocess.DEVNULL)
    ]
    pipes += [
        subprocess.Popen([sys.executable, str(HERE / "streaming_agent.py"), "300", "0.02"], stdout=subprocess.DEVNULL)
        for _ in range(18)
    ]
    plain = percentile(pipe_delay(300, 0.02), 0.95)
    for process in pipes:
        process.wait(60)
    row(
        "streams",
        f"agent's stdout to the editor, 20 at once, p95 of {len(delays)}"
        f" (p50 {statistics.median(delays):.1f} ms; pipe beside 19 others p95 {plain:.2f} ms)",
        percentile(delays, 0.95),
        33.0 + 3 * plain,
        "ms",
    )


def flood(row: Row, start: Callable[[str], str]) -> None:
    """A hundred thousand deltas to an editor that stops reading for ten seconds in the middle."""
    count = 100_000
    client = Client(OURS)
    client.hello()
    identifier = start("flood")
    client.ask(1, "understudy/delegations/subscribe", {"id": identifier})
    numbers: list[int] = []
    at: list[float] = []
    memory: list[float] = []
    stalled = finished = False
    while not finished:
        message = client.read()
        if message.get("method") != "understudy/event":
            continue
        at.append(time.monotonic())
        memory.append(client.facts()[0])
        for event in message["params"]["events"]:
            finished |= event["type"] == "finished"
            if event["type"] == "text":
                numbers += [int(line.split()[0]) for line in event["text"].splitlines()]
        if not stalled and len(numbers) > count // 4:
            stalled = True
            time.sleep(10)
            memory.append(client.facts()[0])
    client.end()
    wrong = sum(a != b for a, b in zip(numbers, range(count), strict=False)) + abs(count - len(numbers))
    row("editor", f"deltas missing or out of order of {count} at an editor that stalls for 10 s", float(wrong), 0.0, "")
    # After the stall what had been sent before it is read at once; a second is counted where nothing had piled up.
    fullest = max(sum(1 for other in at if 0 <= other - moment < 1.0) for moment in at[-60:])
    row("editor", "notifications in the fullest second", float(fullest), 31.0, "")
    row(
        "editor",
        f"server's memory, most / at the beginning ({max(memory):.0f} MB)",
        max(memory) / memory[0],
        1.25,
        "x",
    )


def opened(client: Client, top: Path, count: int, method: str, params: dict[str, Any]) -> tuple[float, list[float]]:
    """Open so many documents at once; return the seconds, and those of a request after each hundred of them."""
    asked: dict[int, float] = {}
    took: list[float] = []
    failures: list[Any] = []
    last = threading.Event()

    def listen() -> None:
        while not last.is_set():
            message = client.read()
            if message.get("id") in asked:
                took.append(time.perf_counter() - asked[message["id"]])
                if "error" in message:
                    failures.append(message["error"])
                if message["id"] == count:
                    last.set()

    listener = threading.Thread(target=listen)
    listener.start()
    began = time.perf_counter()
    for number in range(1, count + 1):
        uri = (top / f"d{number // 50}" / f"f{number}.txt").as_uri()
        document = {"uri": uri, "languageId": "plaintext", "version": 1, "text": f"file {number}\n" * 20}
        client.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        if number % 100 == 0:
            asked[number] = time.perf_counter()
            client.send({"id": number, "method": method, "params": params})
    assert last.wait(600)
    seconds = time.perf_counter() - began
    listener.join()
    assert not failures, failures[0]
    return seconds, took


def documents(row: Row, top: Path) -> None:
    """Open twenty thousand documents of a workspace with a pending result."""
    count = 20_000
    gc.freeze()  # a look for garbage in this process would be measured, too
    ours, bare = Client(OURS), Client(BARE)
    ours.hello()
    bare.hello()
    ours.ask(1, "textDocument/codeLens", {"textDocument": {"uri": top.as_uri()}})  # features load on the first use
    seconds, delays = opened(ours, top, count, "understudy/version", {})
    plain, plain_delays = opened(bare, top, count, "bench/get", {"id": "x"})
    ours.end()
    bare.end()
    row(
        "documents",
        f"{count:,} documents opened with a pending result / bare pygls ({seconds:.1f} s)",
        seconds / plain,
        1.0,
        "x",
    )
    slow = percentile(plain_delays, 0.95) * 1000
    row(
        "documents",
        f"a request while they are opened, p95 (bare pygls {slow:.0f} ms)",
        percentile(delays, 0.95) * 1000,
        max(50.0, slow),
        "ms",
    )


def idle(row: Row) -> None:
    """A server without requests."""
    client = Client(OURS)
    client.hello()
    client.ask(1, "understudy/delegations/list", {})
    time.sleep(3)
    memory, before = client.facts()
    time.sleep(10)
    _, after = client.facts()
    client.end()
    row("idle", "wake-ups a second of an idle server", (after - before) / 10, 1.1, "")
    row("idle", "memory of an idle server", memory, 60.0, "MB")
