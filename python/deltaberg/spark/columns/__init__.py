"""Columns of PySpark as SQL text, which the library evaluates by itself."""
