"""Layer 2: files to one configuration, with the place of every value, and back.

``loading`` reads all layers and reports what is wrong; ``editing`` creates and changes generated files; ``trust``
records which workspaces the user trusts; ``discovery`` finds the declarations of tools and backends, installed agent
CLIs and running model servers; ``validation`` holds the rules; ``parsing`` reads files; ``reference`` describes their
fields.

What must not happen here: starting a program of a workspace, reading a file of an untrusted workspace as
configuration, rewriting a hand-written file, reading a key, raising an exception for the content of a file.
"""
