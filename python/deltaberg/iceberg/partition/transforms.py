"""Partition transforms: from the values of a column to partition values (Iceberg spec, "Partition Transforms").

Every transform maps null to null. Dates and times are in UTC and are rounded down, also before 1970.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg import kernels
from deltaberg.errors import InvalidArgumentError, SchemaError, UnsupportedFeatureError
from deltaberg.iceberg.partition.partition_text import date_part_text, value_text
from deltaberg.iceberg.schema.type_names import shown_type
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.convert import floor_divide
from deltaberg.schema.rows.ordinals import months_and_days, of_ordinals, ordinals_of
from deltaberg.schema.types import DataType, Decimal, Fixed, Primitive

__all__ = ["Bucket", "DatePart", "Identity", "Transform", "Truncate", "Unknown", "Void", "parse_transform"]

_WITH_WIDTH = re.compile(r"(bucket|truncate)\[([0-9]{1,10})\]", re.IGNORECASE)
_MAX_WIDTH = (1 << 31) - 1
_INTEGER = Primitive("integer")
_TIMESTAMPS = ("timestamp", "timestamp_ntz", "timestamp_ns", "timestamp_ntz_ns")
_SECONDS_PER_DAY, _SECONDS_PER_HOUR = 86_400, 3600
_UNITS = {"us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True)
class Transform:
    """The base of all transforms."""

    def result_type(self, source: DataType) -> DataType:
        """Return the type of partition values.

        Raises
        ------
        SchemaError
            If the transform does not take columns of this type.
        """
        raise NotImplementedError

    def apply(self, array: pa.Array, source: DataType) -> pa.Array:
        """Return the partition value of each value of a column of type ``source``.

        Raises
        ------
        SchemaError
            If the transform does not take columns of this type.
        InvalidArgumentError
            If a partition value does not fit into the result type.
        """
        raise NotImplementedError

    def to_text(self, value: Any, source: DataType) -> str:
        """Return a partition value, an Arrow scalar or a Python value, as paths show it; ``null`` for null."""
        return value_text(value, self.result_type(source))

    def _check(self, source: DataType, names: Iterable[str], *kinds: type[DataType]) -> None:
        if not (isinstance(source, kinds) or (isinstance(source, Primitive) and source.name in names)):
            raise SchemaError(f"the transform {self} does not take a column of type {shown_type(source)}")


@dataclass(frozen=True)
class Identity(Transform):
    """The value itself."""

    def __str__(self) -> str:
        return "identity"

    def result_type(self, source: DataType) -> DataType:
        """Return the type of the column."""
        if source == Primitive("variant") or not isinstance(source, (Primitive, Decimal, Fixed)):
            raise SchemaError(f"the transform {self} does not take a column of type {shown_type(source)}")
        return source

    def apply(self, array: pa.Array, source: DataType) -> pa.Array:
        """Return the values themselves."""
        self.result_type(source)
        return array


@dataclass(frozen=True)
class Bucket(Transform):
    """The hash of the value, with its sign bit cleared, modulo the number of buckets."""

    buckets: int

    def __str__(self) -> str:
        return f"bucket[{self.buckets}]"

    def result_type(self, source: DataType) -> DataType:
        """Return integer; booleans and floating point numbers have no bucket."""
        names = ("integer", "long", "date", "time", *_TIMESTAMPS, "string", "uuid", "binary")
        self._check(source, names, Decimal, Fixed)
        return _INTEGER

    def apply(self, array: pa.Array, source: DataType) -> pa.Array:
        """Return the bucket of each value."""
        self.result_type(source)
        return kernels.bucket(array, self.buckets)


@dataclass(frozen=True)
class Truncate(Transform):
    """Numbers rounded down to a multiple of the width; strings and binary values cut to that many characters or bytes.

    Rounding down the smallest integers overflows and wraps around, as in the Java library.
    """

    width: int

    def __str__(self) -> str:
        return f"truncate[{self.width}]"

    def result_type(self, source: DataType) -> DataType:
        """Return the type of the column."""
        self._check(source, ("integer", "long", "string", "binary"), Decimal)
        return source

    def apply(self, array: pa.Array, source: DataType) -> pa.Array:
        """Truncate each value."""
        self.result_type(source)
        if source == Primitive("string"):
            # This function counts code points, in spite of its name.
            return pc.utf8_slice_codeunits(array, 0, self.width)
        if source == Primitive("binary"):
            return pc.binary_slice(array, 0, self.width)
        if isinstance(source, Decimal):
            encoded = array.dictionary_encode()
            numbers = [number - number % self.width for number in ordinals_of(encoded.dictionary)]
            return of_ordinals(numbers, array.type).take(encoded.indices)
        whole = floor_divide(array.cast(pa.int64()), self.width)
        return pc.multiply(whole, pa.scalar(self.width, pa.int64())).cast(array.type, safe=False)


@dataclass(frozen=True)
class DatePart(Transform):
    """Whole years, months, days or hours since the beginning of 1970."""

    unit: str

    def __str__(self) -> str:
        return self.unit

    def result_type(self, source: DataType) -> DataType:
        """Return date for days, and integer for all other units."""
        self._check(source, _TIMESTAMPS if self.unit == "hour" else ("date", *_TIMESTAMPS))
        return Primitive("date") if self.unit == "day" else _INTEGER

    def apply(self, array: pa.Array, source: DataType) -> pa.Array:
        """Return the number of whole units of each value."""
        result = arrow_type(self.result_type(source))
        seconds = _SECONDS_PER_HOUR if self.unit == "hour" else _SECONDS_PER_DAY
        if source == Primitive("date"):
            units = array.view(pa.int32()).cast(pa.int64())
        else:
            units = floor_divide(array.view(pa.int64()), seconds * _UNITS[array.type.unit])
        if self.unit in ("month", "year"):
            units, _ = months_and_days(units)
        if self.unit == "year":
            units = floor_divide(units, 12)
        try:
            return units.cast(pa.int32()).view(result)
        except pa.ArrowInvalid as error:
            raise InvalidArgumentError(f"a value is too far from 1970 for the transform {self}: {error}") from error

    def to_text(self, value: Any, source: DataType) -> str:
        """Return the year, month, day or hour that the number stands for."""
        self.result_type(source)
        return date_part_text(value, self.unit)


@dataclass(frozen=True)
class Void(Transform):
    """Always null: what remains of a partition field that was dropped from a spec in version 1."""

    def __str__(self) -> str:
        return "void"

    def result_type(self, source: DataType) -> DataType:
        """Return the type of the column."""
        return source

    def apply(self, array: pa.Array, source: DataType) -> pa.Array:
        """Return nulls."""
        return pa.nulls(len(array), arrow_type(source))


@dataclass(frozen=True)
class Unknown(Transform):
    """A transform that this release does not know: files are never pruned by it, and none are written with it."""

    text: str

    def __str__(self) -> str:
        return self.text

    def result_type(self, source: DataType) -> DataType:
        """Return string, because the type is unknown."""
        return Primitive("string")

    def apply(self, array: pa.Array, source: DataType) -> pa.Array:
        """Raise, since the values are not known."""
        raise UnsupportedFeatureError(
            f"the partition transform {self.text!r} is not known", hint="the table can be read, but not written"
        )


_PLAIN: dict[str, Transform] = {
    "identity": Identity(),
    "void": Void(),
    **{unit: DatePart(unit) for unit in ("year", "month", "day", "hour")},
}


def parse_transform(text: str) -> Transform:
    """Return the transform that metadata names; one that is not known keeps its name.

    Examples
    --------
    >>> parse_transform("bucket[16]")
    Bucket(buckets=16)
    >>> print(parse_transform("zorder"))
    zorder
    """
    plain = _PLAIN.get(text.lower())
    if plain is not None:
        return plain
    found = _WITH_WIDTH.fullmatch(text)
    if found is None or not 1 <= int(found[2]) <= _MAX_WIDTH:
        return Unknown(text)
    width = int(found[2])
    return Bucket(width) if found[1].lower() == "bucket" else Truncate(width)
