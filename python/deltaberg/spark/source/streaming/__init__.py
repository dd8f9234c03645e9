"""Streams of tables as sources of Spark's queries."""
