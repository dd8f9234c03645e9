"""Work after a commit: checkpoints of snapshots, log compaction, and clean-up of old entries."""
