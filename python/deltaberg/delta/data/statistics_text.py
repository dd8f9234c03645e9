"""The JSON text of files' statistics, as commits record it (Delta protocol, "Per-file Statistics").

Bounds hold for every row: timestamps, which are recorded in milliseconds, are rounded outward, and a file with a NaN
has no maximum, since NaN is the greatest number for other engines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.lossless_json import integer_of, read_json, write_json
from deltaberg.schema import DataType, List, Map, Struct, as_array

__all__ = ["loosened_statistics", "statistics_texts"]

#: Dates outside of the years 1 to 9999 have no text that every reader knows. In days since 1970.
_FIRST_DAY, _LAST_DAY = -719162, 2932896
_DAY_MILLIS = 86_400_000

#: What a leaf of the table has at its place in an object: an array of JSON texts, null if a file has none.
_LeafTexts = Callable[[int], "pa.StringArray | None"]


def statistics_texts(files: pa.Table, schema: Struct, *, tight: bool) -> pa.StringArray:
    """Return the statistics of written files as JSON text, one object for each file.

    Parameters
    ----------
    files
        A row for each file, with ``record_count`` (int64) and the structs ``lower``, ``upper``, ``null_count`` and
        ``nan_count``. The fields of these are named by the number of the leaf in the table's schema, depth first from
        0; a missing leaf and a null are unknown.
    schema
        The columns of the table. Names in the text are physical names.
    tight
        Whether to record that the bounds are exact (``tightBounds``), as tables with deletion vectors do.

    Examples
    --------
    >>> from deltaberg.schema import Field, Primitive
    >>> bounds = {"lower": [{"0": 1}], "upper": [{"0": 9}], "null_count": [{"0": 2}], "nan_count": [None]}
    >>> files = pa.table({"record_count": [5], **bounds})
    >>> statistics_texts(files, Struct((Field("x", Primitive("long")),)), tight=False)[0].as_py()
    '{"numRecords":5,"minValues":{"x":1},"maxValues":{"x":9},"nullCount":{"x":2}}'
    """
    nans = _leaves(files, "nan_count")

    def lower(leaf: int) -> pa.StringArray | None:
        bound = _leaves(files, "lower").get(leaf)
        return None if bound is None else _bound_texts(bound, upper=False)

    def upper(leaf: int) -> pa.StringArray | None:
        bound = _leaves(files, "upper").get(leaf)
        if bound is None:
            return None
        if pt.is_floating(bound.type):
            found = nans.get(leaf)
            none_is_nan = pa.nulls(len(files), pa.bool_()) if found is None else pc.equal(found, 0)
            bound = pc.if_else(pc.fill_null(none_is_nan, fill_value=False), bound, pa.scalar(None, bound.type))
        return _bound_texts(bound, upper=True)

    def nulls(leaf: int) -> pa.StringArray | None:
        counts = _leaves(files, "null_count").get(leaf)
        return None if counts is None else counts.cast(pa.string())

    members = [
        ("numRecords", as_array(files.column("record_count")).cast(pa.string())),
        ("minValues", _object(schema, lower, count())),
        ("maxValues", _object(schema, upper, count())),
        ("nullCount", _object(schema, nulls, count())),
    ]
    if tight:
        members.append(("tightBounds", pa.repeat(pa.scalar("true"), len(files))))
    return _joined([(name, texts) for name, texts in members if texts is not None]).fill_null("{}")


def _leaves(files: pa.Table, column: str) -> dict[int, pa.Array]:
    """Return the fields of one of the structs by the number of the leaf, null if the struct is."""
    structs = as_array(files.column(column))
    if not pt.is_struct(structs.type):
        return {}
    return {int(field.name): pc.struct_field(structs, index) for index, field in enumerate(structs.type)}


def _object(struct: Struct, texts: _LeafTexts, numbers: Iterator[int]) -> pa.StringArray | None:
    """Return an object with a member for each field that has texts; null for files where no field has one."""
    members = []
    for field in struct:
        found = _member(field.type, texts, numbers)
        if found is not None:
            members.append((field.physical_name, found))
    return _joined(members) if members else None


def _member(kind: DataType, texts: _LeafTexts, numbers: Iterator[int]) -> pa.StringArray | None:
    if isinstance(kind, Struct):
        return _object(kind, texts, numbers)
    if isinstance(kind, (List, Map)):
        # What is inside has a number, but no statistics.
        _skip(kind, numbers)
        return None
    return texts(next(numbers))


def _skip(kind: DataType, numbers: Iterator[int]) -> None:
    if isinstance(kind, Struct):
        for field in kind:
            _skip(field.type, numbers)
    elif isinstance(kind, List):
        _skip(kind.element.type, numbers)
    elif isinstance(kind, Map):
        _skip(kind.key.type, numbers)
        _skip(kind.value.type, numbers)
    else:
        next(numbers)


def _joined(members: list[tuple[str, pa.StringArray]]) -> pa.StringArray:
    """Return an object of members, without those that are null; null if all of them are."""
    parts = [
        pc.binary_join_element_wise(pa.scalar(f",{json.dumps(name, ensure_ascii=False)}:"), texts, "").fill_null("")
        for name, texts in members
    ]
    inside = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*parts, ""), 1)
    whole = pc.binary_join_element_wise(pa.scalar("{"), inside, pa.scalar("}"), "")
    return pc.if_else(pc.equal(inside, ""), pa.scalar(None, pa.string()), whole)


def _bound_texts(bound: pa.Array, *, upper: bool) -> pa.StringArray | None:
    """Return bounds as JSON; None for a type of which no bounds are recorded."""
    kind = bound.type
    if pt.is_string(kind) or pt.is_large_string(kind):
        return pa.array(
            [None if text is None else json.dumps(text, ensure_ascii=False) for text in bound.to_pylist()], pa.string()
        )
    if pt.is_integer(kind) or pt.is_decimal(kind):
        return bound.cast(pa.string())
    if pt.is_floating(kind):
        # A float is recorded as the double that it is, so that a reader may take it for one.
        numbers = bound.cast(pa.float64())
        finite = pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))
        return pc.replace_substring_regex(finite.cast(pa.string()), r"^(-?[0-9]+)$", r"\1.0")
    if pt.is_date32(kind):
        return _quoted(_in_range(bound.cast(pa.int32()), bound, 1).cast(pa.string()), "")
    if pt.is_timestamp(kind):
        local = bound.view(pa.timestamp(kind.unit))
        rounded = pc.ceil_temporal(local, unit="millisecond") if upper else pc.floor_temporal(local, unit="millisecond")
        millis = rounded.cast(pa.timestamp("ms"))
        texts = _in_range(millis.cast(pa.int64()), millis, _DAY_MILLIS).cast(pa.string())
        return _quoted(pc.replace_substring(texts, " ", "T"), "" if kind.tz is None else "Z")
    return None


def _in_range(numbers: pa.Array, bound: pa.Array, per_day: int) -> pa.Array:
    """Return bounds, with null for those outside of the years that have a text."""
    inside = pc.and_(pc.greater_equal(numbers, _FIRST_DAY * per_day), pc.less(numbers, (_LAST_DAY + 1) * per_day))
    return pc.if_else(inside, bound, pa.scalar(None, bound.type))


def _quoted(texts: pa.StringArray, suffix: str) -> pa.StringArray:
    return pc.binary_join_element_wise(pa.scalar('"'), texts, pa.scalar(f'{suffix}"'), "")


def loosened_statistics(text: str | None, rows: int | None = None) -> str:
    """Return the statistics of a file of which rows are deleted by a deletion vector.

    Bounds and counts stay as they are, but need not be those of the remaining rows (``tightBounds``).

    Parameters
    ----------
    text
        The statistics as they were recorded; None if there were none.
    rows
        The number of rows in the file, deleted ones included, where the text is not to be believed.

    Raises
    ------
    ValueError
        The number of rows is not given, and the text does not tell it.

    Examples
    --------
    >>> loosened_statistics('{"numRecords":3,"minValues":{"x":1.50}}')
    '{"numRecords":3,"minValues":{"x":1.50},"tightBounds":false}'
    >>> loosened_statistics(None, 3)
    '{"numRecords":3,"tightBounds":false}'
    """
    try:
        found = read_json(text or "{}")
    except (ValueError, RecursionError):
        found = {}
    members = found if isinstance(found, dict) else {}
    if rows is not None:
        members = {**members, "numRecords": rows}
    if integer_of(members.get("numRecords")) is None:
        raise ValueError("the number of rows is not known")
    return write_json({**members, "tightBounds": False})
