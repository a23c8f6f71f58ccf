"""Floor 4: one delegation from its start to its verdict.

``resolve`` decides who does what and says why; ``start`` makes the folder and a worker; ``worker`` is the
process that owns a run, ``run`` its life; ``queue`` hands out slots; ``checks`` judges the result. Nothing
here knows a transport, prints, or asks a person: a face does that, two floors up. To add an agent CLI go
to ``runners/``, to add a request go to ``api/``.
"""
