"""Layer 2: one SQLite file in the state folder, for what processes must agree on and may lose.

The journals are the truth about delegations: without the file, an order, a pause of the queue and the pauses of
delegators are lost, never a delegation. Nothing here knows what a delegation is; ``store`` has every statement.
"""
