"""Appending rows to a Delta table, and replacing rows by others."""
