"""Layer 6: the method table, one typed function per request of the API.

This package knows no transport: a frontend decodes a request, calls ``method_table.call`` with a ``Caller`` and
encodes the result. Handlers are synchronous and may block up to the limit in their parameters; an asynchronous
frontend runs them in threads. ``method_table`` is the contract, from which ``protocol/`` is generated; ``messages``
has its structures; ``caller`` is what a frontend offers to handlers.
"""
