"""How deleted and replaced rows leave the files of a table, as its properties and the caller say."""

from __future__ import annotations

from collections.abc import Mapping

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import at_fault
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.property_values import choice_of
from deltaberg.table.change.strategies import COPY_ON_WRITE, MERGE_ON_READ, checked_strategy

__all__ = ["has_deletes_by_file", "rewrite_strategy", "strategy_of"]


def rewrite_strategy(metadata: TableMetadata, operation: str, requested: str | None) -> str:
    """Return how deleted and replaced rows leave the files of a table: by delete files, or with the old files.

    Parameters
    ----------
    operation
        ``delete``, ``update`` or ``merge``, for the property ``write.delete.mode`` and so on.
    requested
        What the caller asks for; None for what the property says. Tables of format version 1 have no delete files.

    Raises
    ------
    InvalidArgumentError
        There is no such strategy, or delete files are asked for that the format version does not have.
    """
    checked_strategy(requested)
    if metadata.format_version == 1:
        if requested == MERGE_ON_READ:
            raise InvalidArgumentError(
                at_fault("strategy", f"is {MERGE_ON_READ!r}, but format version 1 has no delete files"),
                hint='upgrade the table by ⟪alter().set({"format-version": "2"}).commit()⟫',
            )
        return COPY_ON_WRITE
    return strategy_of(metadata.properties, operation) if requested is None else requested


def strategy_of(properties: Mapping[str, str], operation: str) -> str:
    """Return the strategy that the property of an operation names.

    Raises
    ------
    InvalidArgumentError
        The property names no strategy.
    """
    return choice_of(properties, f"write.{operation}.mode", (COPY_ON_WRITE, MERGE_ON_READ))


def has_deletes_by_file(properties: Mapping[str, str]) -> bool:
    """Return whether each position delete file is about one data file, and not about a partition.

    Raises
    ------
    InvalidArgumentError
        The property says neither.
    """
    return choice_of(properties, "write.delete.granularity", ("file", "partition")) == "file"
