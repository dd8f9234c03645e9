"""Copies of tables under another prefix, with every path in their metadata rewritten."""
