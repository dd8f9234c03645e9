"""A version of a table: its configuration, its files, and the history that leads to it."""
