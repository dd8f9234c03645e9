"""Upkeep of the data files of tables of every format."""
