"""Encrypted tables, which cannot be read (Iceberg spec, "Encryption Keys")."""

from __future__ import annotations

from deltaberg.errors import UnsupportedFeatureError

__all__ = ["encrypted"]


def encrypted(what: str, table: str, file: str | None = None) -> UnsupportedFeatureError:
    """Give the error that says what of a table is encrypted."""
    return UnsupportedFeatureError(
        f"{what} is encrypted",
        hint="encrypted tables cannot be read",
        table=table,
        file=file,
        feature="encryption",
    )
