"""Changing rows of a table of any format: which rows, and what the files hold without them or with others."""
