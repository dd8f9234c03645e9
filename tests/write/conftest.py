"""The stores of the storage tests."""

from __future__ import annotations

from tests.storage.conftest import s3, s3_endpoint

__all__ = ["s3", "s3_endpoint"]
