"""Start a delegation when a slot is free; until then it is an entry on disk, and no process waits.

``queue_entries`` are the queue, ``slots`` limit how many run, ``spare_slots`` lend free ones to a running delegation,
``launcher`` starts the next worker, ``base_recorder`` records what the user saw for delegations that wait, from the
``base_snapshots`` that it captures for many at once, ``key_holder`` keeps keys that exist only in an environment.
``group_start`` starts many as one group, ``dependencies`` holds tasks of it back until others have succeeded,
``group_budget`` holds what they may spend together.
"""
