"""Rewriting the delete files of Iceberg tables: equality deletes become positions, and small files are joined."""
