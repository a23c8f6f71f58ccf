"""Count tokens with a real tokenizer: o200k_base of OpenAI, which an npm package ships with its vocabulary."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

COUNT = Path(__file__).with_name("tokenizer") / "count.cjs"


def count_tokens(texts: list[str], modules: Path) -> list[int]:
    """Return how many tokens each text has; ``modules`` has the package."""
    node = shutil.which("node")
    assert node is not None
    done = subprocess.run(
        [node, str(COUNT)],
        input=json.dumps(texts),
        env={**os.environ, "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found: list[int] = json.loads(done.stdout)
    return found
