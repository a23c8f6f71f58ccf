"""Layer 2: the state folder, and in it the folder of each delegation.

A delegation's folder has one writer: the process that holds the flock of ``lock`` appends to ``events.jsonl``; all
others read. Nothing here runs a delegation, depends on a frontend, uses a network or keeps state in memory that is not
in the files. Nothing is asynchronous, because short commands use it too.

Start with ``delegation_folder`` (create, find, open). ``writer`` appends events, ``reader`` reads
them, and turns them into a ``Delegation`` (``summaries.fold``). ``worker_files`` shows which process runs a delegation,
and carries cancels and answers to it, ``change_notifications`` wakes processes that wait,
``dead_workers`` finishes delegations whose worker died. ``groups`` and ``ledger`` are files beside the delegations.
"""
