"""Delete files, deletion vectors, and the data files that they apply to (Iceberg spec, "Row-level Deletes")."""
