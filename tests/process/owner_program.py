"""A program that owns one guarded child: owner_program.py MARK CONFINEMENT ARGV…; prints JSON lines about it.

With ACCESS=restricted in its environment, the child may not use the network.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from understudy.model.confinement import Confinement
from understudy.model.errors import UnderstudyError
from understudy.process.call_checks import base_environment
from understudy.process.program_spec import AccessProfile, Program, Role
from understudy.process.programs.children import start


async def own():
    mark, level, *argv = sys.argv[1:]
    access = AccessProfile(Role.AGENT, network=os.environ.get("ACCESS") != "restricted")
    owned = Program(argv, Path("/"), base_environment(), access, mark=mark, confinement=Confinement(level))
    try:
        child = await start(owned)
    except UnderstudyError as error:
        print(json.dumps({"error": error.kind}), flush=True)
        return
    line = await anext(child.stdout_lines())
    about = {"line": line.decode(), "reached": child.sandbox.reached, "reason": child.refusal}
    print(json.dumps({**about, "guardian": child.guardian.pid}), flush=True)
    ended = await child.wait()
    print(json.dumps({"code": ended.code, "signal": ended.signal, "leftovers": ended.leftovers}), flush=True)


asyncio.run(own())
