"""Deleting, updating and merging rows of an Iceberg table (Iceberg spec, "Row-level Deletes")."""
