"""Floor 5: the method table, one typed function per request of the contract.

No transport is in sight here: a face decodes a request, calls ``call`` (or the function itself) with
a ``Caller`` and encodes what comes back. Functions are synchronous and may block up to the limit that
their parameters name; an asynchronous face runs them in threads. ``table`` is the contract (and what
``protocol/`` is generated from), ``messages`` its structures, ``caller`` what a face must offer.
"""
