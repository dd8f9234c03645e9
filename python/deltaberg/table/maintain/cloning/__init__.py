"""Clones of tables: what is asked for, and the copies of files."""
