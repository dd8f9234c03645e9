"""Rows to be written: taken from whatever holds them, and checked by the rules of a table."""
