"""Schemas: table types and their Arrow types, column names, and reading the columns of a file as those of a table."""
