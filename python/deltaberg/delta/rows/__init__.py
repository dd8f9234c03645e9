"""What a Delta table asks of rows, and of the data files that they are written to."""
