"""Stores: local files, and buckets through obstore. What travels is the description of a store, never a client."""
