"""Small deliberate changes of source code, which good tests notice: mutants.

This package makes mutants, chooses a sample of them and makes *sham* mutants, which change nothing that a program
does. It works on bytes alone: it reads no file, runs nothing and knows nothing of test runners. A mutant is one
byte-exact edit at a position of the syntax tree, so that nothing else in the file changes.

Start with ``generate.mutants_of``. A further language is a grammar of tree-sitter and a module in ``languages``.
"""
