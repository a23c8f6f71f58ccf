"""One module per agent CLI, with its ``CAPABILITIES`` and without the code that runs it.

Another folder ``understudy/model/tools`` on ``sys.path`` adds tools (see ``config.discovery.declarations``).
"""
