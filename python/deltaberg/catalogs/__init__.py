"""Catalogs: directories, SQL databases, and the REST protocol."""
