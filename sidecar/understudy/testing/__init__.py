'''Workers that do what a script says: test your set-up without a key and without a network.

**The scripted agent** is an agent CLI. As a delegator (``~/.config/understudy/delegators/liar.toml``)::

    name = "liar"
    tool = "generic"

    [launch]
    command = ["python", "-m", "understudy.testing.agent", "liar"]
    output = "events"

``understudy.testing.agent`` lists the scenarios: agents that work, and agents that lie, hang, flood, crash and leave
processes behind. A scenario of your own is a file of ``[[steps]]``, in order (``understudy.testing.agent x.toml``)::

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

**The scripted model server** speaks chat completions on the loopback interface; the model's name chooses the scenario::

    understudy servers add scripted --kind custom --url http://127.0.0.1:8099/v1
    python -m understudy.testing.model_server --port 8099

In Python tests it is a context manager::

    with ModelServer(answers={"haiku": "Autumn evening…"}) as server:
        ...  # server.base_url, and afterwards server.requests

What is here must not import anything else of Understudy: it stands for programs of other people.
'''
