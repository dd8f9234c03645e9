"""Avro blocks to Arrow columns and back: the twin of ``rust/core/src/avro``."""
