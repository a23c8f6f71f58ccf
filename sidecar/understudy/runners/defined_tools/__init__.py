"""Tools that users define in files (``tools/<name>.toml``): any agent CLI, without Python."""
