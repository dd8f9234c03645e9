"""Maintenance of Iceberg tables: compaction, rewriting, statistics, expiry, orphans, clone, copy, verify, repair."""
