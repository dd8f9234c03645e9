"""Timestamps of ORC files that do not fit nanoseconds of 64 bits, to which pyarrow is limited.

An ORC file stores the seconds of a timestamp apart from its nanoseconds. pyarrow reads each part here: the seconds from
a small file in which timestamps are declared as integers, the nanoseconds from one in which all seconds are the same.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyarrow import orc

from deltaberg.errors import CorruptDataFileError, UnsupportedFeatureError
from deltaberg.expressions.time.zones import find_zone, to_local, to_micros
from deltaberg.files.formats.orc_layout import DATA, LONG, TIMESTAMP_INSTANT, TIMESTAMPS, OrcLayout
from deltaberg.schema.convert import floor_divide, list_with_values, struct_of

__all__ = ["has_timestamp", "read_timestamps"]

#: Seconds are counted from the start of the year 2015, in the zone of the writer.
_BASE = 1_420_070_400
_MILLION, _BILLION = 1_000_000, 1_000_000_000
#: Runs of equal integers in the two encodings of ORC, and how many integers they have: zero, again and again.
_RUNS = {False: (b"\x7f\x00\x00", 130), True: (b"\xc1\xff\x00\x00", 512)}
#: Writers round the seconds before 1970 up. Readers take one off if there are milliseconds.
_LESS_THAN_MILLIS = 999_999


def has_timestamp(found: pa.DataType) -> bool:
    """Return whether a type is or holds timestamps."""
    if pt.is_nested(found):
        return any(has_timestamp(found.field(number).type) for number in range(found.num_fields))
    return bool(pt.is_timestamp(found))


def read_timestamps(layout: OrcLayout, number: int, top: int, kind: pa.DataType) -> pa.Array:
    """Read a top-level column of a stripe; its timestamps have microseconds where nanoseconds do not hold them.

    Parameters
    ----------
    number, top
        The numbers of the stripe and of the column.
    kind
        The type of the column in the file.

    Raises
    ------
    CorruptDataFileError
        If the file is damaged.
    UnsupportedFeatureError
        If a timestamp does not fit microseconds, either.
    """
    stripe = layout.stripe(number)
    columns = layout.columns_of(top)
    stamps = [column for column in columns if layout.kinds[column] in TIMESTAMPS]
    whole = layout.with_streams(stripe, columns, dict.fromkeys(stamps, LONG), {})
    seconds = _column(whole, top)
    most = _most_values(seconds)
    zeros = {}
    for stream in stripe.streams:
        if stream.column in stamps and stream.kind == DATA:
            run, length = _RUNS[stripe.has_second_version(stream.column)]
            zeros[stream] = run * -(-most // length)
    nanos = _column(layout.with_streams(stripe, columns, dict.fromkeys(stamps, TIMESTAMP_INSTANT), zeros), top)
    return _combined(seconds, nanos, kind, stripe.zone)


def _column(file: pa.Buffer, top: int) -> pa.Array:
    found = orc.ORCFile(pa.BufferReader(file)).read_stripe(0, columns=[top])
    if found.num_columns != 1:
        raise CorruptDataFileError("the ORC file is damaged: a column has no type")
    return found.column(0)


def _most_values(array: pa.Array) -> int:
    """Return how many values the longest of the columns in a column has."""
    kind = array.type
    if pt.is_struct(kind):
        children = [array.field(number) for number in range(kind.num_fields)]
    elif pt.is_map(kind):
        children = [array.keys, array.items]
    else:
        children = [array.values] if pt.is_list(kind) else []
    return max(len(array), *map(_most_values, children), 0)


def _combined(seconds: pa.Array, nanos: pa.Array, kind: pa.DataType, zone: str) -> pa.Array:
    """Return a column in which both parts of timestamps are one; other columns are as in the first."""
    if pt.is_timestamp(kind):
        return _timestamps(seconds, nanos, kind, zone)
    if pt.is_struct(kind):
        children = [
            _combined(seconds.field(index), nanos.field(index), child.type, zone) for index, child in enumerate(kind)
        ]
        return struct_of(
            seconds, children, [pa.field(old.name, new.type) for old, new in zip(kind, children, strict=True)]
        )
    if pt.is_list(kind):
        values = _combined(seconds.values, nanos.values, kind.value_type, zone)
        return list_with_values(seconds, values, pa.list_(values.type), 0)
    if pt.is_map(kind):
        keys = _combined(seconds.keys, nanos.keys, kind.key_type, zone)
        items = _combined(seconds.items, nanos.items, kind.item_type, zone)
        target = pa.map_(keys.type, items.type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return list_with_values(seconds, entries, target, 0)
    return seconds


def _timestamps(seconds: pa.Int64Array, nanos: pa.TimestampArray, kind: pa.TimestampType, zone: str) -> pa.Array:
    # Those of Arrow's own writer are negative before 1970.
    fractions = pc.subtract(nanos.view(pa.int64()), _BASE * _BILLION)
    try:
        whole = _on_wall(seconds, zone) if kind.tz is None else pc.add_checked(seconds, _BASE)
        is_rounded_up = pc.and_(pc.less(whole, 0), pc.greater(fractions, _LESS_THAN_MILLIS))
        whole = pc.subtract_checked(whole, is_rounded_up.cast(pa.int64()))
        micros = pc.add_checked(pc.multiply_checked(whole, _MILLION), floor_divide(fractions, 1_000))
    except pa.ArrowInvalid as error:
        raise UnsupportedFeatureError(
            "a timestamp of an ORC file is over 290,000 years away, which microseconds of 64 bits do not hold",
            hint="leave the column out",
            feature="ORC timestamps beyond microseconds of 64 bits",
        ) from error
    try:
        exact = pc.add_checked(pc.multiply_checked(whole, _BILLION), fractions)
    except pa.ArrowInvalid:
        return micros.view(pa.timestamp("us", kind.tz))
    return exact.view(pa.timestamp("ns", kind.tz))


def _on_wall(seconds: pa.Int64Array, name: str) -> pa.Int64Array:
    """Return seconds since 1970 as clocks show them in the zone of the writer."""
    try:
        zone = find_zone(name)
    except ValueError as error:
        raise UnsupportedFeatureError(
            f"the zone of the writer of an ORC file is not known: {name!r}",
            hint="leave its timestamps out, or rewrite the file as Parquet with Spark",
            feature=f"the time zone {name!r}",
        ) from error
    micros = pc.multiply_checked(pc.add_checked(seconds, to_micros(zone, _BASE * _MILLION) // _MILLION), _MILLION)
    found = to_local(micros.view(pa.timestamp("us", "UTC")), zone)
    if found.failures:
        raise pa.ArrowInvalid(found.failures[0].message)
    return floor_divide(found.values.view(pa.int64()), _MILLION)
