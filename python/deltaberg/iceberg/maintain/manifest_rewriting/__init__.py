"""Putting the entries of manifests into fewer ones, each for a range of partitions."""
