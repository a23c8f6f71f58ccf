"""Read agents and skills: Markdown files with YAML front matter, in the formats of Claude Code.

They are read when a request names or lists them, not with the rest of the configuration: few requests need them.
"""
