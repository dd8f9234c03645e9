"""The options of a vacuum, and for how long it keeps files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltaberg.delta.snapshot.retention import deleted_file_retention
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.table.arguments import check_flags, checked_flag, checked_function, checked_hours, checked_numbers
from deltaberg.table.maintain.cleanup import OnProgress

__all__ = ["VacuumOptions"]

_HOUR = 3_600_000
#: The columns of an inventory, as delta-spark takes them.
_INVENTORY = pa.schema(
    [("path", pa.string()), ("length", pa.int64()), ("isDir", pa.bool_()), ("modificationTime", pa.int64())]
)


@dataclass(frozen=True)
class VacuumOptions:
    """The request for a vacuum; see `DeltaTable.vacuum` for its arguments and their defaults.

    Parameters
    ----------
    even_if_empty
        Whether a run is recorded that finds nothing to delete.
    is_drop
        Whether the table goes as a whole, whatever its properties say of versions and files that are to stay.
    """

    retention_hours: float | None = None
    dry_run: bool = True
    enforce_retention_duration: bool = True
    full: bool | None = None
    keep_versions: Any = None
    inventory: Any = None
    untracked_hours: float = 24
    logging: bool | None = None
    progress: OnProgress | None = None
    even_if_empty: bool = True
    is_drop: bool = False

    def __post_init__(self) -> None:
        check_flags(self, "dry_run", "enforce_retention_duration")
        for name in ("full", "logging"):
            if getattr(self, name) is not None:
                checked_flag(name, getattr(self, name))
        if self.retention_hours is not None:
            object.__setattr__(self, "retention_hours", checked_hours("retention_hours", self.retention_hours))
        object.__setattr__(self, "untracked_hours", checked_hours("untracked_hours", self.untracked_hours))
        if self.progress is not None:
            checked_function("progress", self.progress, "CleanupProgress")
        if self.inventory is not None:
            if self.is_lite:
                raise InvalidArgumentError(Hint("an inventory replaces a listing, and ⟪full=False⟫ lists nothing"))
            object.__setattr__(self, "inventory", _inventory_table(self.inventory))
        if self.keep_versions is not None:
            hint = "pass a list of versions, such as [3, 17]"
            object.__setattr__(self, "keep_versions", checked_numbers("keep_versions", self.keep_versions, hint))

    @property
    def is_lite(self) -> bool:
        """Whether candidates come from the log alone."""
        return self.full is False

    def retention(self, properties: Mapping[str, str]) -> int:
        """Return for how many milliseconds removed files are kept.

        Raises
        ------
        InvalidArgumentError
            It is shorter than the table's own, and nobody has switched the check off.
        """
        own = deleted_file_retention(properties)
        if self.retention_hours is None:
            return own
        asked = int(self.retention_hours * _HOUR)
        if asked < own and self.enforce_retention_duration:
            raise InvalidArgumentError(
                f"files would be deleted {self.retention_hours:g} hours after their removal, and the table keeps them "
                f"for {own / _HOUR:g} hours (delta.deletedFileRetentionDuration)",
                hint="readers of older versions and running queries may need the files; use "
                "⟪enforce_retention_duration=False⟫ if you know that nobody does",
            )
        return asked

    @property
    def untracked(self) -> int:
        """For how many milliseconds files are kept that the log does not name."""
        return int(self.untracked_hours * _HOUR)


def _inventory_table(inventory: Any) -> pa.Table:
    """Return an inventory as a table of Arrow, with the columns that it must have."""
    hint = "pass a table, or a frame of pandas, polars or Spark, with path, length, isDir and modificationTime"
    try:
        if isinstance(inventory, pa.Table):
            table = inventory
        elif hasattr(inventory, "toArrow"):
            table = inventory.toArrow()
        else:
            table = pa.table(inventory)
        table = table.select(_INVENTORY.names)
        modified = table.column("modificationTime")
        if pa.types.is_timestamp(modified.type):
            table = table.set_column(3, "modificationTime", modified.cast(pa.timestamp("ms"), safe=False))
        table = table.cast(_INVENTORY)
    except Exception as error:
        # Frames of other libraries raise whatever they like.
        raise InvalidArgumentError(f"the inventory cannot be used: {error!s:.200}", hint=hint) from error
    if table.column("path").null_count:
        raise InvalidArgumentError("the inventory has a row without a path", hint=hint)
    return table
