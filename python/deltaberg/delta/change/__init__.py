"""Deleting, updating and merging rows of a Delta table."""
