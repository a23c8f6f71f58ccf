"""Start a delegation when a slot is free; until then it is a row on disk, and no process waits.

The queue is in the ``store``. ``launcher`` starts the next worker and lends free slots to a running delegation.
``start_conditions`` are what a start needs: a slot, keys, something left of a group's budget, a delegator that is not
paused. ``dependencies`` holds tasks of a group back until others have succeeded.
"""
