"""An agent's terminal interface in a tmux pane, where the user watches it and answers its questions.

``tmux_runner`` builds the command and the files of a run, ``terminal_source`` starts the agent, follows it and reads
its report. Nothing reads the screen: an attempt ends when the report appears.
"""
