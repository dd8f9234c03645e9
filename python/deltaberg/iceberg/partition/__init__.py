"""Partition transforms, projections of filters, and partition structs (Iceberg spec, "Partitioning")."""
