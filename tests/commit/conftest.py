"""The stores of the storage tests, and tables in them."""

from __future__ import annotations

from tests.storage.conftest import behind, s3, s3_endpoint, s3_gateway, s3_proxy

__all__ = ["behind", "s3", "s3_endpoint", "s3_gateway", "s3_proxy"]
