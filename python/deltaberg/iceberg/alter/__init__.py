"""Changing the columns, properties, partitioning and references of an Iceberg table."""
