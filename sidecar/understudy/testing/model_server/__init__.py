"""A scripted model server: chat completions and messages on loopback; the model's name selects the scenario.

    python -m understudy.testing.model_server --port 0 --port-file /tmp/port [--answers answers.json]

``answers.json`` maps further model names to their answers: a text, or ``{"text", "thinking", "usage", "finish_reason",
"delta_characters", "delay_seconds"}``. The built-in scenarios:

good streamed text, usage on a last event without choices, ``[DONE]`` echo answers with the last user message reasoning,
thinking the same, after ``reasoning_content`` (``reasoning``) deltas usage_on_finish usage on the chunk with the finish
reason usage_on_delta usage beside an empty choice (litellm) no_usage never reports usage mad_usage negative, huge and
textual counts no_done a finish reason and no ``[DONE]`` done_only ``[DONE]`` and no finish reason hang_after_finish
keeps the connection open after the finish reason not_streamed one JSON answer although a stream was asked for
odd_chunks null choices, null deltas, numbers, an unnamed comment and a named event between the text crlf, bom, split
CRLF line ends; a byte order mark; one byte at a time, even inside characters slow ten deltas, one every tenth of a
second slow_headers nothing for half a second, then ``good`` no_stream_options 400 when ``stream_options`` is sent, else
``good`` empty a finish reason without a text zero_events 200 and an event stream that ends at once; the second request
is ``good`` zero_forever 200 and an event stream that ends at once cut breaks off in the middle of a chunked body
cut_json breaks off in the middle of an event cut_clean ends cleanly in the middle reset resets the connection in the
middle stall stops in the middle and keeps the connection comments stops in the middle and keeps sending comments silent
accepts and never answers silent_comments sends comments and never an event slow_loris events of a byte every 50 ms
error_midstream an error object after some text, then ``[DONE]`` error_first an overload reported as the first event;
the second request is ``good`` error_200 an error object as JSON with status 200 length stops at the output limit
content_filter stopped by a content filter refusal the model itself refuses tool_call calls a tool that was not offered
401 refuses the key and repeats it in the message echo_key sends the key back as its answer, two bytes at a time 403,
404, 400, 408, 409, 413, 422, 500, 503, 529
                    answer with that status
model_404           no such model
429                 always, asking to wait 0 seconds
429_once            once, ``Retry-After: 0``; then ``good``
429_ms              once, ``retry-after-ms: 10``; then ``good``
429_proxy           once, ``llm_provider-retry-after: 0``; then ``good``
429_long            asks to wait 99,999,999,999 seconds
429_no_retry        ``x-should-retry: false``
500_once            once; then ``good``
500_text            as plain text
refuse_once         closes the first connection unanswered; then ``good``
quota, context      no credit left; a prompt that is too long
html                a login page with status 200
redirect            307 to another host
gzip                a compressed answer that was not asked for
endless_line        one line without an end
endless_events      events without an end
endless_thinking    reasoning without an end
huge_header         four megabytes of header
bad_utf8            bytes that are not text
bad_json            an event that is not JSON
deep_json           an event nested 200,000 deep

For agent CLIs it serves the Anthropic Messages API too (``POST /v1/messages``, streamed or not, and
``/v1/messages/count_tokens``). Because they choose other models for side requests, a base URL with ``/s/<scenario>``
can select the scenario instead of the model. An entry of ``answers.json`` may be ``{"turns": [{"text", "thinking",
"tools": [{"name", "input"}]}, …]}``, one turn after each round of tool results; ``{cwd}`` is the client's folder.

good, reasoning a text; after a thinking block write, edits uses the tool Write; Write, Read and Edit shell, two_shells
uses the tool Bash; twice at once report writes the report of an agent in tmux long_shell a command that never ends
endless_tools a tool in every turn outside writes outside the client's folder empty a text block without text slow sixty
words, one every tenth of a second 400, 401, 403, 404, 413, 429, 500, 529
                    answer with that status, as Anthropic does
429_once            once, ``Retry-After: 0``; then ``good``
quota, credit, context
                    limits reached; no credit left; a prompt that is too long
cut, reset ends in the middle of a message; resets the connection there stall, silent stops in the middle; never answers
error_midstream an overload in the middle of a message late_500, late_context, late_cut
                    the same after a first round of ``write``

For Codex it serves the Responses API (``POST /v1/responses``, streamed), with the same ``/s/<scenario>``:

good                a text
edits               adds a file with ``apply_patch``, then changes it
shell, failing_shell, long_shell
                    runs a command; one that fails; one that never ends
report              writes the report that ends an agent in tmux
empty               a message without a text
400, 401, 404, 429, 500, 529, quota, context
                    refused, as OpenAI does; ``late_…``: after a first round of ``edits``
cut                 ends in the middle of a message

For the other agents, chat completions (``POST /s/<scenario>/v1/chat/completions``) play the same scripts with whatever
tools they offer for writing, editing, reading and running: good, reasoning, edits, shell, failing_shell, long_shell,
outside, environment (writes it to a file), report, endless_tools, empty, cut, and the statuses and ``late_…`` of the
Responses API. An agent without tools (aider) gets edits in its text.
An entry of ``answers.json`` may be such a script, ``{"script": [{"text", "tools": [[what, values], …]}, …]}``, which
``/s/<scenario>`` plays in chat completions and messages.
For our own tool loop, an entry of ``answers.json`` may be ``{"loop": [turn, …]}`` in every dialect (``tool_turns``).
The Gemini API (``POST /s/<scenario>/v1beta/models/<model>:streamGenerateContent``) plays these scripts too.
"""

from understudy.testing.model_server.chat_scenarios import SCENARIOS
from understudy.testing.model_server.http_server import ModelServer
from understudy.testing.model_server.responses import TEXT, USAGE, Request

__all__ = ["SCENARIOS", "TEXT", "USAGE", "ModelServer", "Request"]
