"""An agent that works until a file exists, so that a test decides how long: ``slow_agent.py RELEASE_FILE``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

MAX_SECONDS = 240.0
"""Seconds; a test that was interrupted must not leave it running forever."""
TEST = '''"""Prices as a customer reads them."""

from shop.prices import label


def test_a_label_shows_cents():
    assert label(1999) == "19.99"
'''


def main() -> int:
    """Print events until the file exists; then write a test."""
    release, began, number = Path(sys.argv[1]), time.monotonic(), 0
    say(type="phase", text="Reading shop/prices.py")
    while not release.exists() and time.monotonic() - began < MAX_SECONDS:
        number += 1
        say(type="text", text=f"Considering case {number}. ")
        if number % 10 == 0:
            say(type="usage", inputTokens=100 * number, outputTokens=20 * number, turns=number // 10)
        time.sleep(0.2)
    say(type="phase", text="Writing tests/test_label.py")
    Path("tests").mkdir(exist_ok=True)
    Path("tests/test_label.py").write_text(TEST, encoding="utf-8")
    say(type="file", path="tests/test_label.py", change="added")
    say(type="result", ok=True, text="Wrote one test.")
    return 0


def say(**line: object) -> None:
    """Print one event."""
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
