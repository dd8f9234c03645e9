"""Avro files: manifests, manifest lists and data files."""

from __future__ import annotations

from deltaberg.files.avro.container import AvroFile

__all__ = ["AvroFile"]
