"""A program that does everything to outlive its owner. Run as: hostile_tree.py TAG SCENARIO.

Every process carries TAG and its role in argv[0], so a test counts survivors without trusting environments or groups.
"""

import ctypes
import os
import signal
import sys
import threading
from pathlib import Path

TAG, SCENARIO = sys.argv[1], sys.argv[2]


def become(role, env=None, seconds="600"):
    os.execve("/bin/sleep", [f"{TAG}:{role}", seconds], dict(os.environ) if env is None else env)  # noqa: S606


def fork(role, prepare=lambda: None, env=None):
    pid = os.fork()
    if pid == 0:
        prepare()
        become(role, env)
    return pid


def scrubbed():
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 256)
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # clear the parent-death signal


def ignoring():
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)


def tree():
    fork("plain")
    fork("setsid", os.setsid)
    os.waitpid(fork("scrubbed", scrubbed, env={}), 0)
    fork("ignoring", ignoring)
    stopped = fork("stopped")
    while not Path(f"/proc/{stopped}/cmdline").read_bytes().startswith(TAG.encode()):
        pass
    os.kill(stopped, signal.SIGSTOP)
    thread = threading.Thread(target=fork, args=("thread",))
    thread.start()
    thread.join()


def storm():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in range(20):
        if os.fork() == 0:
            while True:
                try:
                    if os.fork() == 0:
                        become("storm", seconds="0.05")
                except OSError:
                    pass


def comet():
    """One process that never has the same pid twice: it forks, and the parent ends."""
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork():
                os._exit(0)


if SCENARIO == "exits":
    tree()
    print("ready", flush=True)
    sys.exit(7)
if SCENARIO == "ignores":
    ignoring()
    fork("ignoring", ignoring)
    print("ready", flush=True)
    become("main")
{"tree": tree, "storm": storm, "comet": comet}[SCENARIO]()
print("ready", flush=True)
if SCENARIO != "tree":
    while True:
        signal.pause()
become("main")
