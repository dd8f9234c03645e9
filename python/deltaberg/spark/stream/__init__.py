"""Streams: the batch that Spark runs at the moment."""
