"""Builds trees from what callers pass: SQL text, `col`, tuples and expressions of pyiceberg."""
