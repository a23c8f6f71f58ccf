"""Start a delegation when a slot is free; until then it is a row on disk, and no process waits.

The queue is in the ``store``. ``launcher`` starts the next worker and lends free slots to a running delegation.
``start_conditions`` are what a start needs: a slot, keys, a budget, earlier tasks that have succeeded, a delegator that
is not paused.
"""
