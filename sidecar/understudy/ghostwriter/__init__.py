"""The ghostwriter: an agent that needs no model and no key. It writes tests that record what a Python module does.

    python -I -m understudy.ghostwriter --python PROJECT_PYTHON -- FILE...

It works in the current folder and prints one JSON event per line (the format of ``agent_clis.streams.event_stream``).
It is a program of its own, driven like any other agent CLI. Of Understudy it imports ``mutants``, and ``process`` to
start programs.

``__main__`` is the program, ``module_tests`` writes the tests of one file: the module's own examples (``documented``)
and calls that tell its mutants from the original (``inside/``, in the project's interpreter). Each line is kept only if
it kills a mutant that the lines before it do not (``choose_examples``), and if it holds again in fresh processes at
other dates. Properties that hold for any argument (``inside/properties``) must kill something new, too.
``test_file`` writes what is left in the style of the project (``project_layout``).

Code under test runs with invented arguments, so ``confined_runs`` gives it limits and, where the machine has them,
namespaces without a network and with a read-only file system.
"""
