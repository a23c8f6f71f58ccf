"""An agent that talks: COUNT text events, EVERY seconds apart, each holding the moment at which it was written."""

import json
import sys
import time

count, every = int(sys.argv[1]), float(sys.argv[2])
out = sys.stdout
for number in range(count):
    text = f"{number} {time.monotonic_ns()}\n"
    out.write(json.dumps({"type": "text", "text": text}) + "\n")
    out.flush()
    if every:
        time.sleep(every)
out.write(json.dumps({"type": "result", "ok": True, "text": "done"}) + "\n")
out.flush()
