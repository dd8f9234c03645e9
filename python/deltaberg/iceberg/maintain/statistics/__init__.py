"""Statistics of snapshots that a table names beside its snapshots."""
