"""The directory ``_delta_log``: listing, segments, bytes of entries (Delta protocol, "File Types")."""
