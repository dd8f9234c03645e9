"""The rules of an Iceberg table for rows, and for the data files that they are written to."""
