"""Merging rows of any source into a table, by a join in bounded memory."""
