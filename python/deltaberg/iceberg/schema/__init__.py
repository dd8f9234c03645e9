"""Schemas of Iceberg tables, and their JSON (Iceberg spec, "Schemas and Data Types")."""
