"""Upkeep of the data files of a Delta table."""
