"""A program that owns one guarded child: owner_program.py MARK CONFINEMENT ARGV…; prints JSON lines about it."""

import asyncio
import json
import sys
from pathlib import Path

from understudy.model.confinement import Confinement
from understudy.process.environment import base_environment
from understudy.process.programs.children import start


async def own():
    mark, level, *argv = sys.argv[1:]
    child = await start(argv, cwd=Path("/"), env=base_environment(), mark=mark, confinement=Confinement(level))
    line = await anext(child.stdout_lines())
    about = {"line": line.decode(), "reached": child.sandbox.reached, "reason": child.refusal}
    print(json.dumps({**about, "guardian": child.guardian.pid}), flush=True)
    ended = await child.wait()
    print(json.dumps({"code": ended.code, "signal": ended.signal, "leftovers": ended.leftovers}), flush=True)


asyncio.run(own())
