"""Start a program: guarded, with an end that is always noticed, or detached from the process that starts it."""
