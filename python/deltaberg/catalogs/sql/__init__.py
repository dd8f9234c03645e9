"""Databases of SQL catalogs: their engines, and the tables that they lay out."""
