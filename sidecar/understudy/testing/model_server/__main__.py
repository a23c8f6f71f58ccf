"""Serve until interrupted: ``python -m understudy.testing.model_server``."""

from __future__ import annotations

import argparse
import json
import threading
from contextlib import suppress
from pathlib import Path

from understudy.testing.model_server.chat_scenarios import SCENARIOS
from understudy.testing.model_server.http_server import ModelServer


def main() -> None:
    """Serve until interrupted."""
    names: dict[str, list[str]] = {}
    for name, scenario in SCENARIOS.items():
        names.setdefault(str(scenario.__doc__), []).append(name)
    parser = argparse.ArgumentParser(
        prog="understudy.testing.model_server",
        description="A scripted model server on loopback. The model's name selects what it does (below).",
        epilog="\n\n".join(f"{', '.join(alike)}\n    {what}" for what, alike in names.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0: any free port")
    parser.add_argument("--port-file", type=Path, help="where to write the port once the server listens")
    parser.add_argument(
        "--answers",
        type=Path,
        help="JSON file: model name → its answer, a text or a table with text, thinking, usage, finish_reason, "
        "delta_characters and delay_seconds",
    )
    parser.add_argument("--key", help="the only key to accept")
    arguments = parser.parse_args()
    answers = json.loads(arguments.answers.read_text("utf-8")) if arguments.answers else {}
    with ModelServer(answers=answers, port=arguments.port, key=arguments.key) as server:
        if arguments.port_file:
            temporary = arguments.port_file.with_name(arguments.port_file.name + ".part")
            temporary.write_text(str(server.port))
            temporary.replace(arguments.port_file)
        print(f"Serving {len(SCENARIOS)} scripted models at {server.base_url}", flush=True)  # noqa: T201 - a command prints
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
