"""One module per protocol of model servers that our own loop supports, with its ``CAPABILITIES``.

Another folder ``understudy/model/backends`` on ``sys.path`` adds backends (see ``config.discovery.declarations``).
"""
