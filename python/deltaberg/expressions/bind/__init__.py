"""Binding a tree to the columns of one relation or of two."""
