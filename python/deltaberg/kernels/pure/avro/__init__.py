"""Avro blocks to Arrow columns and back: the twin of ``rust/core/src/avro``."""

from __future__ import annotations

from deltaberg.kernels.pure.avro.blocks import find_blocks
from deltaberg.kernels.pure.avro.chosen import decode_chosen
from deltaberg.kernels.pure.avro.decode import decode_avro
from deltaberg.kernels.pure.avro.encode import encode_avro

__all__ = ["decode_avro", "decode_chosen", "encode_avro", "find_blocks"]
