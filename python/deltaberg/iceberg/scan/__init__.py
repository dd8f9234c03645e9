"""Iceberg snapshots and changes as sources of scans (Iceberg spec, "Scan Planning")."""
