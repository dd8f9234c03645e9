"""Partition transforms of Iceberg as columns, like the functions ``system.bucket`` and so on of iceberg-spark.

The kernels compute them from Arrow batches in Spark's Python workers, so that they are those of the tables, in every
session: bucket is not Spark's own hash, and times are in UTC.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt
import pyspark
from pyspark.sql import Column
from pyspark.sql import functions as sql

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.hints import shown_value
from deltaberg.iceberg.partition.of_arrow import partition_values
from deltaberg.iceberg.partition.transforms import Unknown, parse_transform

__all__ = ["bucket", "days", "hours", "months", "partition_values", "truncate", "years"]


def bucket(buckets: int, column: Column | str) -> Column:
    """Return a column of buckets, from 0 to ``buckets`` - 1.

    Parameters
    ----------
    buckets
        The number of buckets.
    column
        A column of integers, decimals, dates, timestamps, strings or binary values, or its name.

    Raises
    ------
    InvalidArgumentError
        The number of buckets is not between 1 and 2,147,483,647.
    UnsupportedFeatureError
        This version of Spark has no Arrow UDFs.

    Examples
    --------
    ``frame.repartition(16, bucket(16, "id"))`` brings the rows of each bucket together.
    """
    return _column("bucket", f"bucket[{_width(buckets)}]", "int", column)


def truncate(width: int, column: Column | str, type: str = "string") -> Column:
    """Return a column of truncated values: the first characters or bytes, or numbers rounded down to a multiple.

    Parameters
    ----------
    width
        How many characters or bytes stay, or of what numbers are multiples.
    column
        A column, or its name.
    type
        The type of the column, as Spark names it: ``int``, ``bigint``, ``string``, ``binary`` or ``decimal(9,2)``. The
        result has the same one.

    Raises
    ------
    InvalidArgumentError, UnsupportedFeatureError
        As for `bucket`.
    """
    return _column("truncate", f"truncate[{_width(width)}]", type, column)


def years(column: Column | str) -> Column:
    """Return a column of whole years since 1970, of dates or timestamps."""
    return _column("years", "year", "int", column)


def months(column: Column | str) -> Column:
    """Return a column of whole months since the beginning of 1970, of dates or timestamps."""
    return _column("months", "month", "int", column)


def days(column: Column | str) -> Column:
    """Return a column of dates, of dates or timestamps."""
    return _column("days", "day", "date", column)


def hours(column: Column | str) -> Column:
    """Return a column of whole hours since the beginning of 1970, of timestamps."""
    return _column("hours", "hour", "int", column)


def _width(number: Any) -> int:
    if type(number) is not int or isinstance(parse_transform(f"bucket[{number}]"), Unknown):
        raise InvalidArgumentError(f"the number of a transform is from 1 to 2147483647, not {shown_value(number)}")
    return number


def _column(name: str, transform: str, result: str, column: Column | str) -> Column:
    udf = getattr(sql, "arrow_udf", None)
    if udf is None:
        raise UnsupportedFeatureError(
            f"Spark {pyspark.__version__} has no Arrow UDFs",
            hint="use Spark 4.1 or newer, or partition_values inside mapInArrow",
            feature=name,
        )

    def values(batch: pa.Array) -> pa.Array:
        transformed = partition_values(transform, batch)
        if result == "string" and not (pt.is_string(transformed.type) or pt.is_large_string(transformed.type)):
            # Spark would turn the values into text.
            raise InvalidArgumentError(
                f"the column is of the type {transformed.type}, not string",
                hint='pass its type: truncate(10, "id", "bigint")',
            )
        return transformed

    values.__name__ = name
    found: Column = udf(values, result)(column)
    return found
