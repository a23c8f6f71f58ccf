"""The commands ``ask``, ``write`` and ``summarize``: one request to a model server from this process."""
