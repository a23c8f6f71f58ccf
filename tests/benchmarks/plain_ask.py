"""What ``understudy ask`` is measured against: the same request with the standard library only.

It does what agent-delegate 0.2.0 does: arguments, a profile in TOML, files as text, one request that is not streamed,
a line in a log. Run as ``plain_ask.py --url URL --model ID --question TEXT PATH...``.
"""

import argparse
import json
import os
import pathlib
import time
import tomllib
import urllib.error
import urllib.request


def main() -> None:
    """Send one request and print its answer."""
    parser = argparse.ArgumentParser()
    for name in ("url", "model", "question", "profile", "log"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("paths", nargs="+")
    given = parser.parse_args()
    profile = tomllib.loads(pathlib.Path(given.profile).read_text())
    files: list[pathlib.Path] = []
    for word in map(pathlib.Path, given.paths):
        files += sorted(path for path in word.rglob("*") if path.is_file()) if word.is_dir() else [word]
    corpus = "\n".join(f"<file path={json.dumps(str(path))}>\n{path.read_text()}\n</file>" for path in files)
    messages = [{"role": "user", "content": text} for text in (corpus, given.question)]
    request = urllib.request.Request(  # noqa: S310 - a server on loopback
        f"{given.url}/chat/completions",
        data=json.dumps({"model": given.model, "messages": messages, "stream": False}).encode(),
        headers={"Content-Type": "application/json", **profile.get("headers", {})},
    )
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 - the same
        answer = json.load(response)
    with pathlib.Path(given.log).open("a") as log:
        log.write(json.dumps({"ts": time.time(), "usage": answer.get("usage"), "cwd": os.getcwd()}) + "\n")
    print(answer["choices"][0]["message"]["content"])


main()
