"""A stand-in for Claude Code: replays a recorded stream, and waits where the real program waited for input.

``REPLAY`` is the recording, ``REPLAY_HEARD`` the file that receives its input, and ``REPLAY_END`` how it ends
(``hang``, ``silent``, ``half``, ``no_result``, or as recorded).
"""

import json
import os
import sys
import time
from pathlib import Path


def main() -> int:
    first, *lines = Path(os.environ["REPLAY"]).read_text("utf-8").splitlines()
    end = os.environ.get("REPLAY_END", "")
    heard = Path(os.environ["REPLAY_HEARD"]).open("a", encoding="utf-8")  # noqa: SIM115 - until the end
    json.dump({"argv": sys.argv[1:], "env": dict(os.environ)}, heard)
    heard.write("\n")
    heard.flush()

    def hear() -> bool:
        line = sys.stdin.readline()
        heard.write(line)
        heard.flush()
        return bool(line)

    hear()
    facts = json.loads(first)
    sys.stderr.write(facts["stderr"])
    for number, line in enumerate(lines):
        value = json.loads(line)
        kind = value["type"]
        if kind == "control_response":
            hear()  # our interrupt
        if kind == "result" and end == "no_result":
            return 0
        shown = line.replace("/tree", os.getcwd())
        if kind == "result" and end == "half":
            sys.stdout.write(shown[: len(shown) // 2])
            sys.stdout.flush()
            return 0
        print(shown, flush=True)
        if kind == "control_request" and not any(
            json.loads(later)["type"] == "control_request" for later in lines[number + 1 : number + 2]
        ):
            hear()
        if end == "silent" and number == 3:
            time.sleep(600)
    while lines and hear():
        pass
    if end == "hang":
        time.sleep(600)
    return facts["exit"]


if __name__ == "__main__":
    sys.exit(main())
