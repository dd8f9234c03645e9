"""Delta snapshots and changes as sources of scans."""
