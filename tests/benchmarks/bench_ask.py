"""Measure ``understudy ask``: the whole process against plain programs that send the same request.

agent-delegate 0.2.0 is measured, too, where its program is installed: name it in ``AGENT_DELEGATE``.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import msgspec

from understudy.api import method_table
from understudy.api.caller import TerminalCaller
from understudy.testing.model_server import ModelServer

ROUNDS = 15


def ask(row: Callable[..., None], scratch: Path, top: Path) -> None:
    """Run both alternately on the same server and files; compare the medians."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with ModelServer(answers={"scholar": "Because."}) as server:
        for kind, name, lines in (
            ("model-servers", "bench", f'kind = "custom"\nbase_url = "{server.base_url}"\n'),
            ("delegators", "scholar", 'model_server = "bench"\nmodel = "scholar"\n'),
        ):
            folder = scratch / "config" / kind
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.toml").write_text(f'name = "{name}"\n{lines}')
        profile = scratch / "profile.toml"
        profile.write_text('default = "scholar"\n')
        plain = [sys.executable, str(Path(__file__).with_name("plain_ask.py")), "--url", server.base_url]
        plain += ["--model", "scholar", "--question", "Why?", "--profile", str(profile), "--log", str(scratch / "log")]
        commands = {
            "ask": [sys.executable, "-m", "understudy", "ask", "-t", "Why?", "-d", "scholar", "d0"],
            "plain": [*plain, "d0"],
        }
        if other := os.environ.get("AGENT_DELEGATE"):
            (scratch / "profiles.toml").write_text(
                'default_profile = "scholar"\n[profiles.scholar]\nbackend = "openai-compat"\n'
                f'base_url = "{server.base_url}"\ndefault_model = "scholar"\napi_key = "none"\n'
            )
            environment |= {"AGENT_DELEGATE_HOME": str(scratch), "AGENT_DELEGATE_LOG_DIR": str(scratch)}
            commands["agent-delegate"] = [other, "ask", "--question", "Why?", "--paths", "d0"]
        wall: dict[str, list[float]] = {name: [] for name in commands}
        cpu: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(ROUNDS + 1):
            for name, argv in commands.items():
                before, began = _cpu(), time.perf_counter()
                subprocess.run(argv, cwd=top, env=environment, check=True, capture_output=True, timeout=120)
                if number:  # the first one compiles modules
                    wall[name].append(time.perf_counter() - began)
                    cpu[name].append(_cpu() - before)
    for name, title in (("plain", "a standard library program"), ("agent-delegate", "agent-delegate 0.2.0")):
        if name in commands:
            ratio, spent = (statistics.median(of["ask"]) / statistics.median(of[name]) for of in (wall, cpu))
            row("ask", f"ask, whole process / {title} (processor time {spent:.1f} x)", ratio, 1.5, "x")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


SERVE = """
import sys
from understudy.testing.model_server import ModelServer
with ModelServer(answers={"scholar": "Because."}) as server:
    print(server.base_url, flush=True)
    sys.stdin.read()
"""
FIRST_TOKENS = 60
PARALLEL = 50
BATCHES = 7


class _Listener(TerminalCaller):
    """A caller that notes when the first piece of an answer arrives."""

    first_at = 0.0

    def tell(self, name: str, params: msgspec.Struct) -> None:
        """Note the time."""
        self.first_at = self.first_at or time.perf_counter()


def requests(row: Callable[..., None], scratch: Path, top: Path) -> None:
    """Compare `text/run` in this process with bare httpx: time to the first token, and 50 requests at once."""
    server = subprocess.Popen([sys.executable, "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        base_url = server.stdout.readline().strip() if server.stdout else ""
        for kind, name, lines in (
            ("model-servers", "bare", f'kind = "custom"\nbase_url = "{base_url}"\n'),
            ("delegators", "plain-scholar", 'model_server = "bare"\nmodel = "scholar"\n'),
        ):
            folder = scratch / "config" / kind
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.toml").write_text(f'name = "{name}"\n{lines}')
        params = {"recipe": "ask", "task": "Why?", "delegator": "plain-scholar", "workspace": str(top), "stream": "one"}
        prompt = method_table.call("text/preview", params, TerminalCaller()).prompt
        body = {
            "model": "scholar",
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": prompt}],
        }

        def ours() -> float:
            listener, began = _Listener(), time.perf_counter()
            method_table.call("text/run", params, listener)
            return listener.first_at - began

        url = f"{base_url}/chat/completions"

        def bare() -> float:
            return asyncio.run(_bare(url, body, 1))

        def ours_at_once(pool: ThreadPoolExecutor) -> None:
            list(pool.map(lambda _: ours(), range(PARALLEL)))

        mine, plain, prepared = [], [], []
        for number in range(FIRST_TOKENS + 1):
            pair = ours(), bare()
            began = time.perf_counter()
            method_table.call("text/preview", params, TerminalCaller())
            if number:  # the first one imports modules
                mine.append(pair[0] * 1000)
                plain.append(pair[1] * 1000)
                prepared.append((time.perf_counter() - began) * 1000)
        over = statistics.quantiles(mine, n=20)[-1] - statistics.quantiles(plain, n=20)[-1]
        row("requests", "first token of ask over bare httpx, p95 of 60, each with a new connection", over, 5.0, "ms")
        medians = [f"{statistics.median(values):.1f} ms" for values in (mine, prepared, plain)]
        print("     medians: {}, of which preparing {}; bare {}".format(*medians), flush=True)
        ratios = []
        with ThreadPoolExecutor(PARALLEL) as pool:
            for number in range(BATCHES + 1):
                began = time.perf_counter()
                ours_at_once(pool)
                middle = time.perf_counter()
                asyncio.run(_bare(url, body, PARALLEL))
                times = middle - began, time.perf_counter() - middle
                if number:
                    ratios.append(times[0] / times[1])
        row(
            "requests",
            "50 asks at once / 50 with bare httpx, time, median of 7",
            statistics.median(ratios),
            1 / 0.9,
            "x",
        )
    finally:
        if server.stdin:
            server.stdin.close()
        server.wait(10)


async def _bare(url: str, body: dict[str, Any], count: int) -> float:
    """Send ``count`` requests at once and read the whole answers; return the seconds until the first text."""
    began, firsts = time.perf_counter(), []

    async def one(client: httpx.AsyncClient) -> None:
        first = 0.0
        async with client.stream("POST", url, json=body) as answer:
            async for line in answer.aiter_lines():
                if not first and '"content":"' in line.replace(": ", ":").replace('"content":""', ""):
                    first = time.perf_counter() - began
        firsts.append(first)

    # The server speaks HTTP: reading the certificates would only slow the plain client down.
    async with httpx.AsyncClient(timeout=60, verify=False) as client:  # noqa: S501
        await asyncio.gather(*(one(client) for _ in range(count)))
    return min(firsts)
