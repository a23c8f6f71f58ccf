"""A scripted agent with a terminal interface: what it does depends on its first argument."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

DONE = Path(".understudy-run/done.md")


def report(text):
    temporary = DONE.with_name("done.md.tmp")
    temporary.write_text(text)
    temporary.rename(DONE)


def main():
    what, *more = sys.argv[1:]
    facts = {
        "argv": sys.argv,
        "env": dict(os.environ),
        "task": Path(".understudy-run/task.md").read_text(),
        "terminals": [os.isatty(number) for number in (0, 1, 2)],
        "size": list(os.get_terminal_size()),
        "controlling": os.open("/dev/tty", os.O_RDWR) > 0,
        "more": more,
    }
    Path("facts.json").write_text(json.dumps(facts))
    Path("half.txt").write_text("half of the work\n")
    print("working …", flush=True)
    if what == "work":
        report("I wrote half.txt, and checked nothing.\n")
    elif what == "ask":
        answer = input("May I write more? ")
        Path("answer.txt").write_text(answer + "\n")
        report(f"You said {answer}.")
    elif what == "in-place":
        with DONE.open("w") as file:
            file.write("First line,")
            file.flush()
            time.sleep(0.1)
            file.write(" second line.")
    elif what == "link":
        Path("secret.txt").write_text("what it links to")
        DONE.symlink_to(Path("secret.txt").absolute())
    elif what == "pipe":
        os.mkfifo(DONE)
    elif what == "long":
        report("x" * 100_000)
    elif what == "empty":
        report("")
    elif what == "exit":
        print("\033[31mNo credit left.\033[0m")
        return int(more[0])
    elif what == "leak":
        token = os.environ["TOKEN"]
        print("my token:", token, f"{token[:9]}\033[1m{token[9:]}", flush=True)
        return 3
    elif what == "stubborn":
        import signal

        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        subprocess.Popen(["sleep", more[0]], start_new_session=True)
        Path("ready.txt").touch()
    time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit(main())
