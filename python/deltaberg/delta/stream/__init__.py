"""Streams of Delta tables: positions in the log, and the files between two of them."""
