"""Avro files: manifests, manifest lists and data files."""

from __future__ import annotations

from deltaberg.files.avro.container import AvroFile
from deltaberg.files.avro.schema import AvroField, AvroType, parse_avro_schema

__all__ = ["AvroField", "AvroFile", "AvroType", "parse_avro_schema"]
