"""Floor 2: a delegation's folder.

One folder, one writer: whoever holds the flock of ``lock`` appends to ``events.jsonl``; everyone
else reads. Nothing here runs a delegation, knows a face, talks to a network or keeps anything in
memory that the files do not say; nothing is asynchronous, because quick commands use it too.

Start with ``store`` (where folders are and how one is born). ``writer`` appends, ``reader`` tails,
``summary`` folds events into a ``Delegation`` and lists many, ``locks`` says who is at work,
``control`` carries wishes to the worker, ``bell`` wakes whoever waits, ``recover`` ends what died.
"""
