"""CAST in Spark's ANSI mode."""
