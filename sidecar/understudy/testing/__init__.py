'''Scripted agents and model servers: test your setup without a key and without a network.

**The scripted agent** is an agent CLI. As a delegator (``~/.config/understudy/delegators/liar.toml``)::

    name = "liar"
    tool = "generic"

    [launch]
    command = ["python", "-m", "understudy.testing.agent", "liar"]
    output = "events"

``understudy.testing.agent`` lists the scenarios: agents that work, and agents that lie, hang, flood, crash and leave
processes behind. To write your own scenario, list its ``[[steps]]`` in a file (``understudy.testing.agent x.toml``)::

    [[steps]]
    write = "tests/test_greeting.py"
    text = """
    from greeting import greet

    def test_greets():
        assert greet("Ada") == "Hello, Ada!"
    """

    [[steps]]
    say = "Wrote one test."

    [[steps]]
    result = true

**The scripted model server** serves chat completions on the loopback interface; the model's name selects the scenario::

    understudy servers add scripted --kind custom --url http://127.0.0.1:8099/v1
    python -m understudy.testing.model_server --port 8099

In Python tests it is a context manager::

    with ModelServer(answers={"haiku": "Autumn evening…"}) as server:
        ...  # server.base_url, and afterwards server.requests

This package must not import any other part of Understudy: it stands for third-party programs.
'''
