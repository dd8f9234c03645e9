"""Where a table's metadata is, and where the files that it records are (Iceberg spec, "File System Tables")."""
