"""Floor 1: start, watch and end a process tree.

This room is the only place of the product that starts a program. It knows nothing of delegations,
journals or configuration: it takes an argument vector, a folder, an environment and a mark, and
promises how the tree of processes ends. No shell is ever involved, and no environment is inherited.

What is promised, on Linux (`guardian` has the reasons):

================================  =======================================  ====================================
what happens                      with a PID namespace                     where namespaces are refused
================================  =======================================  ====================================
the program ends                  nothing outlives it                      nothing outlives it
the owner is killed               nothing is left                          nothing is left
the guardian is killed            nothing is left                          only what dropped its mark is left
both are killed at once           nothing is left                          the same, once ``sweep`` was called
================================  =======================================  ====================================

Not promised: that a guardian somebody *stopped* (SIGSTOP, with its namespace's init) notices its owner's death; ending
it by its identity ends the tree. A process which somebody else's server starts on the program's behalf (``docker run``,
``systemd-run``, an already running tmux server) is not its descendant. On macOS there is neither a
namespace nor a subreaper: descendants and the program's process group are ended, a daemon that left both is not found.

Where to go next: ``children`` starts a guarded child (asyncio), ``short`` runs a version probe,
``detach`` starts a worker that is nobody's child, ``identity`` names a process so that a reused pid is
never taken for it, ``sweep`` finds what a double kill left, ``environment`` builds what a child may see.
"""
