"""Changes of a table that become one commit, or none."""
