"""Changing the columns, properties, features and rules of a Delta table."""
