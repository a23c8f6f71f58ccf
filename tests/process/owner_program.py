"""A program that owns one guarded child: owner_program.py MARK NAMESPACE(0|1) ARGV…; prints JSON lines about it."""

import asyncio
import json
import sys
from pathlib import Path

from understudy.process.children import start
from understudy.process.environment import base_environment


async def own():
    mark, namespace, *argv = sys.argv[1:]
    child = await start(argv, cwd=Path("/"), env=base_environment(), mark=mark, own_namespace=namespace == "1")
    line = await anext(child.stdout_lines())
    about = {"line": line.decode(), "namespaced": child.namespaced, "reason": child.why_not_namespaced}
    print(json.dumps({**about, "guardian": child.guardian.pid}), flush=True)
    ended = await child.wait()
    print(json.dumps({"code": ended.code, "signal": ended.signal, "leftovers": ended.leftovers}), flush=True)


asyncio.run(own())
