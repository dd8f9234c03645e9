"""Metadata tables: snapshots, manifests, files and partitions as Arrow tables."""
