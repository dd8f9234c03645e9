"""Streams of what is added to a table, or changes in it: positions in its history, and batches between two of them."""
