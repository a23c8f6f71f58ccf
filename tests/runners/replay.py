"""A stand-in for an agent CLI: replays a recorded stream, and waits where the real program waited for input.

``REPLAY`` is the recording, in a folder with the tool's name. ``REPLAY_HEARD`` is the file that receives the arguments,
the environment and the input. ``REPLAY_END`` is how it ends, instead of as recorded: ``half`` (in the middle of the
line that announces the result), ``no_result`` (before that line), ``silent`` (it says nothing more from there, or
earlier where the tool says so), ``hang`` (it does not exit).
"""

import json
import os
import sys
import time
from pathlib import Path

SECONDS = 600


class OneWay:
    """A program that reads its input to the end, and then only prints."""

    def __init__(self, lines, hear, tool):
        self.hear, self.tool = hear, tool

    def begin(self):
        while self.hear():
            pass

    def before(self, value):
        pass

    def after(self, number, value):
        pass

    def finish(self):
        pass

    def is_result(self, value):
        """Return whether a line announces the end; for others, the last line does."""
        return value.get("type") in {"result", "agent_end", "failed"} or value.get("part", {}).get("reason") == "stop"

    def is_silent_from(self, number, value):
        return self.is_result(value)


class Claude(OneWay):
    """Two-way, with the prompt as the first message."""

    def __init__(self, lines, hear, tool):
        super().__init__(lines, hear, tool)
        self.kinds = [json.loads(line)["type"] for line in lines]

    def begin(self):
        self.hear()

    def before(self, value):
        if value["type"] == "control_response":
            self.hear()  # our interrupt

    def after(self, number, value):
        following = self.kinds[number + 1 : number + 2]
        if value["type"] == "control_request" and following != ["control_request"]:
            self.hear()

    def finish(self):
        while self.kinds and self.hear():
            pass

    def is_silent_from(self, number, value):
        return number == 4


class Qwen(Claude):
    """The same, after a request that says how long it waits for answers."""

    def begin(self):
        self.hear()
        self.hear()

    def before(self, value):
        if value["type"] == "control_response" and value["response"]["request_id"] == "interrupt":
            self.hear()


class Codex(OneWay):
    """JSON-RPC: each answer follows its request."""

    def begin(self):
        pass

    def before(self, value):
        if "method" not in value:
            while (line := self.hear()) and json.loads(line).get("id") != value["id"]:
                pass

    def after(self, number, value):
        if "method" in value and "id" in value:
            self.hear()

    def finish(self):
        while self.hear():
            pass

    def is_result(self, value):
        return value.get("method") == "turn/completed"


class Pi(OneWay):
    """Two-way: a question and the prompt come first, and a question after each end."""

    def __init__(self, lines, hear, tool):
        super().__init__(lines, hear if lines else str, tool)

    def begin(self):
        self.hear()
        self.hear()

    def before(self, value):
        if str(value.get("id")).startswith("end-"):
            self.hear()

    def finish(self):
        while self.hear():
            pass


class Acp(Codex):
    """The same, whatever the agent; what follows the start of the session waits for the prompt."""

    opened = prompted = False

    def before(self, value):
        if "method" not in value and value["id"] in {1, 2}:
            super().before(value)
            self.opened = value["id"] == 2
        elif self.opened and not self.prompted:
            self.prompted = True
            self.hear()

    def is_result(self, value):
        return "stopReason" in value.get("result", {})


TWO_WAY = {"claude": Claude, "codex": Codex, "pi": Pi, "qwen": Qwen, "acp": Acp}


def configured():
    """Yield the texts of configuration files to which variables lead, directly or in a folder of the run."""
    for value in os.environ.values():
        place = Path(value)
        if "/understudy-" not in value or not value.startswith("/") or "\n" in value or ":" in value:
            continue
        found = [place] if place.is_file() else [*place.glob("*.*"), *place.glob(".*/*.*")] if place.is_dir() else []
        yield from (one.read_text("utf-8") for one in found if one.suffix in {".json", ".toml"} and one.is_file())


def main() -> int:
    recording = Path(os.environ["REPLAY"])
    first, *lines = recording.read_text("utf-8").splitlines()
    end = os.environ.get("REPLAY_END", "")
    heard = Path(os.environ["REPLAY_HEARD"]).open("a", encoding="utf-8")  # noqa: SIM115 - until the end
    json.dump({"argv": sys.argv[1:], "env": dict(os.environ), "files": list(configured())}, heard)
    heard.write("\n")
    heard.flush()

    def hear() -> str:
        line = sys.stdin.readline()
        heard.write(line)
        heard.flush()
        return line

    facts = json.loads(first)
    tool = TWO_WAY.get(recording.parent.name, OneWay)(lines, hear, recording.parent.name)
    tool.begin()
    sys.stderr.write(facts["stderr"])
    for number, line in enumerate(lines):
        value = json.loads(line)
        shown = line.replace("/tree", os.getcwd())
        tool.before(value)
        if end == "silent" and tool.is_silent_from(number, value):
            hear()
            time.sleep(SECONDS)
        if tool.is_result(value) and end == "no_result":
            return 0
        if tool.is_result(value) and end == "half":
            sys.stdout.write(shown[: len(shown) // 2])
            sys.stdout.flush()
            return 0
        print(shown, flush=True)
        tool.after(number, value)
    tool.finish()
    if end == "hang":
        time.sleep(SECONDS)
    return facts["exit"]


if __name__ == "__main__":
    sys.exit(main())
