"""Maintenance of Delta tables: compaction, clustering, vacuum, restore, clone, verify, repair and dropped features."""
