"""Programs of the ghostwriter that run in the *project's* interpreter, confined by ``..confined_runs``.

``start`` makes this folder importable as the package ``ghostwriter_inside`` without putting it on the path, so that no
module of the project is shadowed. The code uses the standard library of Python 3.8 and, where it is installed,
Hypothesis; it imports nothing from Understudy.

``search`` finds examples that tell mutants from the original, one process for each function. ``confirm`` evaluates the
chosen lines again in a fresh process. ``audit`` refuses dangerous calls, and finds them in the source.
"""
