"""Avro files: manifests, manifest lists and data files."""

from __future__ import annotations

from deltaberg.files.avro.container import AvroFile
from deltaberg.files.avro.encode import write_avro
from deltaberg.files.avro.schema import AvroField, AvroType, arrow_field_of

__all__ = ["AvroField", "AvroFile", "AvroType", "arrow_field_of", "write_avro"]
