"""The order of rows: by their columns or along a curve, in memory or on disk."""
