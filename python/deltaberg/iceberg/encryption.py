"""Encrypted tables, which are not supported (Iceberg spec, "Encryption Keys")."""

from __future__ import annotations

from deltaberg.errors import UnsupportedFeatureError

__all__ = ["encrypted"]


def encrypted(what: str, table: str, file: str | None = None) -> UnsupportedFeatureError:
    """Return the error for a part of a table that is encrypted."""
    return UnsupportedFeatureError(
        f"{what} is encrypted",
        hint="encrypted tables cannot be read",
        table=table,
        file=file,
        feature="encryption",
    )
