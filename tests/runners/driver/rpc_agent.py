"""A scripted agent of a third kind: newline-delimited JSON-RPC, with requests in both directions.

Started as ``rpc_agent.py SCENARIO``. It sends ``session/update`` notifications during a turn, answers
``session/prompt`` at its end, and sends ``session/request_permission`` as a request of its own.
"""

import json
import sys
import time


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(**fields):
    send(method="session/update", params=fields)


def receive():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def main(scenario):
    prompt = receive()
    update(text=f"You said: {prompt['params']['text']} ")
    if scenario == "crash":
        sys.stderr.write("the model went away\n")
        sys.exit(3)
    if scenario in {"stall", "stubborn"}:
        while scenario == "stubborn":
            time.sleep(60)
        receive()  # session/cancel
        update(text="Stopped. ")
        send(id=prompt["id"], result={"stopReason": "cancelled"})
        receive()
    if scenario == "question":
        ask = {"title": "Run rm", "command": "rm -rf build", "options": ["allow_once", "reject_once"]}
        send(id="q-7", method="session/request_permission", params=ask)
        update(text="Asked. ")
        answer = receive()
        update(text=f"{answer['id']}: {answer['result']['option']}. ")
    if scenario == "spend":
        while True:
            update(tokens=1000)
            time.sleep(0.01)
    if scenario == "steer":
        update(text=f"Then: {receive()['params']['text']}. ")
    if scenario == "refuse":
        send(id=prompt["id"], error={"code": -32000, "message": "Authentication required"})
    else:
        send(id=prompt["id"], result={"stopReason": "end_turn"})
    receive()


if __name__ == "__main__":
    main(sys.argv[1])
