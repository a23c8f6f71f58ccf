"""Layer 1: start, watch and end process trees.

Only this package starts programs. It does not depend on delegations, journals or configuration: it takes a ``Program``
(argument vector, folder, environment, mark, limits, access), and guarantees that the whole process tree ends. It never
uses a shell, and children get only the environment that the caller passes.

Guarantees on Linux (``guardian.program`` explains how):

================================  =======================================  ====================================
what happens                      with a PID namespace                     without one
================================  =======================================  ====================================
the program ends                  nothing outlives it                      nothing outlives it
the owner is killed               nothing is left                          nothing is left
the guardian is killed            nothing is left                          only processes without their mark are left
both are killed at once           nothing is left                          the same, after ``kill_leftovers``
================================  =======================================  ====================================

Not guaranteed: a guardian that was *stopped* (SIGSTOP, together with the init of its namespace) does not notice that
its owner died; ending it by its identity ends the tree. A process that another server starts for the program (``docker
run``, ``systemd-run``, a running tmux server) is not its descendant. macOS has neither namespaces nor subreapers:
descendants and the program's process group are killed, but a daemon outside both is not found.

Limits: the kernel holds those of each process (setrlimit(2)), such as the size of files. The guardian looks at the
memory and the number of all processes of a tree, and kills a tree that exceeds them: RLIMIT_AS and RLIMIT_DATA would
end honest programs, because node, Go, Java and sanitisers reserve far more than they use, RLIMIT_NPROC counts what the
user runs elsewhere, and cgroups are delegated only by some service managers.

Start with ``program_spec`` and ``children`` (a guarded child, asyncio). ``terminals`` shows one in a tmux pane,
``unguarded`` runs a short trusted program, or starts a worker that outlives its parent, ``identity``
identifies a process across PID reuse, ``guardian.marked_processes`` finds its ancestors and the run that it
belongs to, and kills what survived its guardian, ``call_checks`` builds the environment of a child.
"""
