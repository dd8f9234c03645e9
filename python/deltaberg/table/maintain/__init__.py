"""Maintenance of tables of both formats: compaction, clean-up, restore, clone, verify and repair."""
