"""Upkeep of the data files of an Iceberg table."""
