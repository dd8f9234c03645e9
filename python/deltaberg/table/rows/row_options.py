"""The options of rows that callers write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_args

import pyarrow as pa

from deltaberg.choices import Codec, Compression, SchemaMode
from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.hints import Hint, at_fault, shown_value
from deltaberg.schema.rows.conform import ConformOptions
from deltaberg.schema.rows.matched_fields import ADD_COLUMNS
from deltaberg.schema.types import Field
from deltaberg.table.arguments import check_flags, checked_memory, checked_number, fields_given, zone_of
from deltaberg.table.rows.ansi_cast import ansi_cast

__all__ = ["WAITING", "RowOptions", "naming_overwrite"]

#: Bytes of rows that wait to be written at most, unless the caller says otherwise.
WAITING = 512 << 20


@dataclass(frozen=True)
class RowOptions:
    """Options of the rows that are written.

    Parameters
    ----------
    schema_mode
        What becomes of columns that the table lacks: None refuses them, ``merge`` adds them, and ``overwrite`` replaces
        the columns of the table.
    timezone
        The zone of timestamps without one that go into a column of the type ``timestamp``.
    allow_truncation
        Whether digits below the microsecond are cut off.
    safe
        Whether values that do not fit their column are refused; else they are cast as Spark casts them in ANSI mode.
    target_file_size
        Bytes of a data file, approximately; None for what the table says.
    compression
        The codec of the data files; None for what the table says.
    writer_properties
        How Parquet files are written (`parquet_options`); None for what the table says.
    memory
        Bytes of rows that are held in memory, approximately; None for the default.

    Raises
    ------
    InvalidArgumentError
        An option is not valid.
    """

    schema_mode: str | None = None
    timezone: str | None = None
    allow_truncation: bool = False
    safe: bool = True
    target_file_size: int | None = None
    compression: str | None = None
    writer_properties: Any = None
    memory: int | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> RowOptions:
        """Return those of some arguments that are about rows."""
        return cls(**fields_given(cls, arguments))

    @property
    def waiting(self) -> int:
        """Bytes of rows that wait to be written at most: two thirds of all, beside those that are read."""
        return WAITING if self.memory is None else max(self.memory // 3 * 2, 1)

    @property
    def reading(self) -> int:
        """Bytes of rows that are read ahead at most; 0 for the default."""
        return 0 if self.memory is None else max(self.memory // 6, 1)

    def conform(self, defaults: Callable[[Field], pa.Scalar | None] | None = None) -> ConformOptions:
        """Return how rows are conformed to columns; see `ConformOptions` for the default values."""
        cast = None if self.safe else ansi_cast
        return ConformOptions(self.timezone, self.allow_truncation, defaults, cast=cast)

    def __post_init__(self) -> None:
        if self.schema_mode is not None:
            mode: object = self.schema_mode
            if not isinstance(mode, str) or mode not in get_args(SchemaMode):
                raise InvalidArgumentError(
                    at_fault("schema_mode", f"must be merge or overwrite, not {shown_value(mode)}"),
                    hint="leave it out to refuse columns that the table lacks",
                )
        check_flags(self, "allow_truncation", "safe")
        if self.timezone is not None:
            zone_of(self.timezone)
        if self.target_file_size is not None:
            size = checked_number("target_file_size", self.target_file_size, 1, "pass a number of bytes")
            object.__setattr__(self, "target_file_size", size)
        object.__setattr__(self, "memory", checked_memory(self.memory))
        if self.compression is not None and str(self.compression).lower() not in get_args(Compression):
            known = ", ".join(get_args(Codec))
            raise InvalidArgumentError(f"{shown_value(self.compression)} is not a codec", hint=f"known are {known}")


@contextmanager
def naming_overwrite(*, whole: bool) -> Iterator[None]:
    """Let the error of rows with other columns also say how the columns of the table are replaced.

    Parameters
    ----------
    whole
        Whether all rows of the table are replaced. Its columns can be replaced only then.
    """
    try:
        yield
    except SchemaError as error:
        if whole and error.hint == Hint(ADD_COLUMNS):
            error.hint = Hint(f'{ADD_COLUMNS}, or ⟪schema_mode="overwrite"⟫ to replace its columns')
        raise
