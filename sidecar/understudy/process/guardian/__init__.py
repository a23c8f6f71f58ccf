"""The guardian: a small program that runs one process tree and ends it when its owner dies.

The call chain, from the process that wants to run a program (the *owner*) to that program:

1. In the owner, ``children.start`` calls ``owner.GuardianProcess.spawn``, which starts Python with ``program.main`` as
   a separate process, the guardian. They share a socket; the owner sends the call (``owner.encode_call``) through it.
2. In the guardian, ``program.main`` tries ``namespace.run``: it clones a child into a new PID namespace,
   the init. The init launches the program and supervises it; the guardian waits for the init, and kills it if the owner
   dies.
3. If there is no namespace, the guardian itself launches the program and supervises it.
4. In both cases ``process_tree.launch`` starts the program, and ``process_tree.supervise`` reaps children, follows the
   owner's commands and kills the rest of the tree at the end. ``linux`` wraps the system calls.
5. The owner reads the records ``started``, ``failed`` and ``ended`` from the socket and returns an ``owner.Exit``.

The modules that run in the guardian (all except ``owner``) import only the standard library and each other, by relative
imports, because the guardian runs outside the package ``understudy``.
"""

SIGN = "from guardian import program"
"""Part of the command line of every guardian, and of the first process of its namespace."""
MOUNT = "understudy:"
"""Begins the name of the source of ``/proc`` in a namespace (``/proc/self/mountinfo``); the mark of the run follows."""
