"""Avro files: their schemas, their blocks, and plans for decoding them."""
