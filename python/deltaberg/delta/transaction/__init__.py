"""Transactions of Delta tables: what changes a table, when it conflicts with other commits, and the commit itself."""
