"""Clones of Delta tables: which files they name, and what their metadata keeps."""
