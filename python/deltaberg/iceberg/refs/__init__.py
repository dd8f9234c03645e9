"""Branches and tags (Iceberg spec, "Snapshot References")."""
