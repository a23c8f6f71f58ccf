"""Show a program in a tmux pane, although it is not a child of the tmux server.

Whatever a tmux server starts is its child, gets its environment, and outlives the process that asked for it. So the
pane gets only ``pane_program``, which shows what it is told to show:

    owner ── guardian ── program ── terminal (``children.start`` with ``terminal``)
      └───── socket ──── pane_program ── pane ── tmux server

The program runs under a guardian like every other one: with the owner's environment, which no tmux command and no tmux
server sees, and with an end that does not depend on tmux. The owner copies between its terminal and the socket
(``pane_link``); when the owner ends in any way, the kernel closes the socket, and the pane closes. ``tmux`` opens
panes: beside one that exists, or on a server of its own, which carries the delegation's mark (``marked_processes``).
"""
