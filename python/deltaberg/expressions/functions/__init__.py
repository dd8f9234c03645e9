"""The functions of SQL."""
