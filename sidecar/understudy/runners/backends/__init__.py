"""Model servers over HTTP: one request, one streamed answer, no tool loop.

``sse`` and ``chat`` parse (no I/O in them), ``failures`` names what a server refused, ``connection`` decides where
may be dialled and with what, ``openai`` is the runner, ``answers`` turns text into files, ``probe`` tests a server.
Nothing here follows a redirect, uses a shell, or lets a key out of its header.
"""
