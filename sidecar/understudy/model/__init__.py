"""Floor 0: what things are.

Data and nothing else: no file is opened here, no process started, no clock read. Every structure
is declared once and serves the wire, the journal and the configuration files alike. Start with
``errors`` (what can go wrong) and ``states`` (how a delegation moves); ``delegators`` and
``delegations`` are the nouns of the contract, ``events`` is what a journal holds.
"""
