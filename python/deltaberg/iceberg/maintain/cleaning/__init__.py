"""Clean-up of files: the expiry of snapshots, the removal of orphans, and the purge of a dropped table."""
