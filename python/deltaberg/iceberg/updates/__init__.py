"""Changes of table metadata, and what they require (Iceberg spec, "Table Metadata")."""
