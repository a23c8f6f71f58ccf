"""Ask and work through a real nginx in front of the scripted model server: each request ends in exactly one outcome."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from agent_model_server import TEXT, ModelServer
from wait_until import until

from understudy.model.delegation.events import Event, File, Text

pytestmark = pytest.mark.heavy

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
FIXED = "def add(a, b):\n    return a + b\n"
EDIT = {
    "calls": [{"name": "edit_file", "arguments": {"path": "calc.py", "old_string": "a - b", "new_string": "a + b"}}]
}
FIXER = [{"calls": [{"name": "read_file", "arguments": {"path": "calc.py"}}]}, EDIT, {"text": "Done."}]
SCENARIOS = ("cut", "cut_clean", "cut_json", "reset", "stall", "gzip")
LONG = "word " * 4000
"""More than a buffer of nginx."""

# `proxy_buffering off` is what a model server needs; `on` is what people forget to change.
CONFIG = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; {user}
events {{ worker_connections 64; }}
http {{
  access_log off; default_type text/html; client_max_body_size 1m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m; limit_req_status 429;
  gzip_types *; gzip_min_length 1; gzip_proxied any;
  server {{
    listen 127.0.0.1:{port};
    location /buffered/ {{ proxy_pass http://127.0.0.1:{upstream}/; proxy_buffering on; }}
    location /live/ {{ proxy_pass http://127.0.0.1:{upstream}/; proxy_http_version 1.1; proxy_buffering off; }}
    location /unchunked/ {{ proxy_pass http://127.0.0.1:{upstream}/; chunked_transfer_encoding off; }}
    location /zipped/ {{ proxy_pass http://127.0.0.1:{upstream}/; gzip on; }}
    location /unzipped/ {{ proxy_pass http://127.0.0.1:{upstream}/; gunzip on; }}
    location /small/ {{ proxy_pass http://127.0.0.1:{upstream}/; client_max_body_size 100; }}
    location /dead/ {{ proxy_pass http://127.0.0.1:{dead}/; }}
    location /impatient/ {{ proxy_pass http://127.0.0.1:{upstream}/; proxy_read_timeout 100ms; }}
    location /hasty/ {{ proxy_pass http://127.0.0.1:{upstream}/; proxy_buffering off; proxy_read_timeout 3s; }}
    location /limited/ {{ limit_req zone=one; proxy_pass http://127.0.0.1:{upstream}/; }}
    location /moved/ {{ return 301 /live/; }}
    location /login/ {{ return 200 "<!doctype html><html><body>Please sign in to the proxy</body></html>"; }}
  }}
}}
"""


class Nginx:
    """A running nginx, and the scripted server behind it."""

    def __init__(self, port: int, process: psutil.Popen, upstream: ModelServer) -> None:
        self.port, self.process, self.upstream = port, process, upstream

    def url(self, location: str) -> str:
        """Return the base URL of a location."""
        return f"http://127.0.0.1:{self.port}/{location}/v1"

    def workers(self) -> list[psutil.Process]:
        """Return the processes that serve connections."""
        return [child for child in self.process.children() if child.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    if NGINX is None:
        pytest.skip("nginx is not installed (on Debian: apt-get install nginx-light)")
    folder = tmp_path_factory.mktemp("nginx")
    answers: dict[str, Any] = {name: {"loop": [EDIT, {"scenario": name}]} for name in SCENARIOS}
    answers = {f"late_{name}": script for name, script in answers.items()}
    answers |= {"fixer": {"loop": FIXER}, "long": {"text": LONG}, "slow": {"text": LONG, "delta_characters": 4000}}
    with (
        ModelServer(answers=answers) as upstream,
        # nginx takes over sockets that listen already, so that no other process can take the port, and no connection
        # is refused before it is ready. A bound socket that does not listen refuses every connection.
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.socket() as dead,
    ):
        dead.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        config = folder / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""  # other users cannot read the folder
        values = {"folder": folder, "user": user, "port": port, "upstream": upstream.port}
        config.write_text(CONFIG.format(**values, dead=dead.getsockname()[1]))
        log = folder / "error.log"
        process = psutil.Popen(
            [NGINX, "-p", str(folder), "-c", str(config), "-e", str(log)],
            env={"NGINX": f"{listening.fileno()};", "PATH": "/usr/bin:/bin"},
            pass_fds=(listening.fileno(),),
            stderr=subprocess.DEVNULL,
        )
        try:
            yield Nginx(port, process, upstream)
        finally:
            process.terminate()
            process.wait(20)
        assert "[emerg]" not in log.read_text()


@pytest.fixture
def nginx(running: Nginx) -> Nginx:
    running.upstream.times.clear()
    running.upstream.requests.clear()
    return running


@pytest.mark.parametrize("location", ["buffered", "live", "unchunked", "zipped", "unzipped"])
def test_an_answer_arrives_whole_through_each_kind_of_proxy(nginx, person, location):
    assert person.ask(nginx.url(location), "good").envelope["content"] == TEXT
    assert person.ask(nginx.url(location), "long").envelope["content"].split() == LONG.split()
    worked = person.work(nginx.url(location), "fixer")
    assert (worked.kind, worked.source, len(worked.of(File))) == ("finished", FIXED, 1)


@pytest.mark.parametrize(("location", "compressed"), [("live", True), ("unzipped", False)])
def test_compression_that_was_not_asked_for_is_named_unless_the_proxy_undoes_it(nginx, person, location, compressed):
    asked = person.ask(nginx.url(location), "gzip")  # a long line that is not an event
    assert asked.kind == "malformed_output"
    assert ("compressed" in asked.envelope["error"]["message"]) == compressed


@pytest.mark.parametrize("location", ["buffered", "live", "unchunked"])
@pytest.mark.parametrize("model", ["cut", "cut_clean", "cut_json", "reset"])
def test_an_answer_whose_server_went_away_is_truncated(nginx, person, location, model):
    # nginx may drop all of an answer that was reset: then nothing arrives, or a page of its own.
    kinds = {"stream_truncated"} | ({"connection_failed", "overloaded"} if model == "reset" else set())
    assert person.ask(nginx.url(location), model).kind in kinds
    worked = person.work(nginx.url(location), f"late_{model}")
    assert worked.kind in kinds
    assert worked.source == FIXED, "what was done before is kept, byte for byte"


@pytest.mark.parametrize(
    ("location", "kind", "requests"),
    [
        ("dead", "overloaded", 0),  # 502 in HTML
        ("impatient", "overloaded", 3),  # 504 in HTML, retried twice
        ("small", "context_too_long", 0),  # 413 in HTML
        ("moved", "connection_failed", 0),  # 301
        ("login", "malformed_output", 0),  # 200 in HTML
    ],
)
def test_a_page_of_the_proxy_is_one_failure_of_its_kind(nginx, person, location, kind, requests):
    asked = person.ask(nginx.url(location), "silent")
    assert (asked.kind, asked.code) == (kind, 1)
    assert "<" not in asked.envelope["error"]["message"], "the text of the page, without its tags"
    assert len(nginx.upstream.requests) == requests
    worked = person.work(nginx.url(location), "silent")
    assert (worked.kind, worked.of(File)) == (kind, [])


def test_a_proxy_that_limits_requests_is_rate_limiting(nginx, person):
    assert person.ask(nginx.url("limited"), "good").kind in {"answered", "rate_limited"}  # one request a minute
    assert person.ask(nginx.url("limited"), "good").kind == "rate_limited"
    assert (person.work(nginx.url("limited"), "good")).kind == "rate_limited"


def test_a_proxy_that_loses_patience_in_the_middle_truncates(nginx, person):
    worked = person.work(nginx.url("hasty"), "late_stall")
    assert (worked.kind, worked.source) == ("stream_truncated", FIXED)


def test_an_upstream_that_hangs_up_once_is_asked_again(nginx, person):
    assert person.ask(nginx.url("live"), "refuse_once").envelope["content"] == TEXT
    assert len(nginx.upstream.requests) == 2


def test_a_proxy_killed_in_the_middle_truncates_and_the_next_request_is_answered(nginx, person):
    until(nginx.workers)
    killed = []

    def kill(event: Event) -> None:
        if isinstance(event, Text) and not killed:
            for worker in nginx.workers():
                worker.send_signal(signal.SIGKILL)
                killed.append(worker.pid)

    worked = person.work(nginx.url("live"), "late_stall", watch=kill)
    assert killed
    assert (worked.kind, worked.source) == ("stream_truncated", FIXED)
    assert person.ask(nginx.url("live"), "good").kind == "answered", "nginx has started another worker"
