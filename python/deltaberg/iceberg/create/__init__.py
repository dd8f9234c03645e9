"""Creating Iceberg tables, and checking their properties."""
