"""Start a delegation when a slot is free; until then it is a row on disk, and no process waits.

The queue is in the ``store``. ``slots`` limit how many run, ``launcher`` starts the next worker and lends free slots to
a running delegation, ``key_holder`` keeps keys that exist only in an environment. ``dependencies`` holds tasks of a
group back until others have succeeded, ``group_budget`` holds what they may spend together.
"""
