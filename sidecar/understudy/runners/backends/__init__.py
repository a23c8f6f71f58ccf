"""Model servers over HTTP: one request, one streamed answer, no tool loop.

``exchange`` sends the request and blocks; ``direct`` waits for it in a thread, and ``openai`` (the runner) and our tool
loop in an event loop, through ``exchange_source``. ``dialects`` parse the answer (without I/O), ``http_errors`` maps
error responses, ``http_client`` decides which address may be reached and how, ``file_answers``
turns text into files, ``server_test`` tests a server. Nothing here follows a redirect, uses a shell, or sends a key
anywhere but in its header.
"""
