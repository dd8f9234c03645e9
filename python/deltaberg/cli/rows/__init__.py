"""Rows and columns as they are written on the command line and in files beside it."""
