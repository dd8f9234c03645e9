"""Streams of Iceberg tables: positions in the history of a branch, and the files between two of them."""
