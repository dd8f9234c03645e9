"""Vacuum: the files that nothing names any more."""
