"""Table metadata and what it holds: schemas, specs, snapshots, refs (Iceberg spec, "Table Metadata")."""
