"""Avro blocks to Arrow columns: the twin of ``rust/core/src/avro``."""

from __future__ import annotations

from deltaberg.kernels.pure.avro.decode import decode_avro

__all__ = ["decode_avro"]
