"""Merge all configuration files to one configuration, with the place of every value; agents and skills."""
