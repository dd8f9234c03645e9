"""Manifests, manifest lists and metrics, in columns (Iceberg spec, "Manifests")."""
