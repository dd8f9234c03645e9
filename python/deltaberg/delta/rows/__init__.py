"""The rules of a Delta table for rows, and for the data files that they are written to."""
