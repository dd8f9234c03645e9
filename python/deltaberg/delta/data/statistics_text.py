"""The JSON text of files' statistics, as commits record it (Delta protocol, "Per-file Statistics").

Bounds hold for every row: timestamps, which are recorded in milliseconds, are rounded outward, and a file with a NaN
has no maximum, since NaN is the greatest number for other engines. Booleans have bounds, though delta-spark records
none: deltalake takes a bound that is missing for one that no row fulfils.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg import kernels
from deltaberg.files.write.written import leaf_paths, written_leaves
from deltaberg.lossless_json import integer_of, read_json, write_json
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Struct

__all__ = ["counted_statistics", "loosened_statistics", "statistics_texts"]


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
    >>> from deltaberg.schema.types import Field, Primitive
    >>> bounds = {"lower": [{"0": 1}], "upper": [{"0": 9}], "null_count": [{"0": 2}], "nan_count": [None]}
    >>> files = pa.table({"record_count": [5], **bounds})
    >>> statistics_texts(files, Struct((Field("x", Primitive("long")),)), tight=False)[0].as_py()
    '{"numRecords":5,"minValues":{"x":1},"maxValues":{"x":9},"nullCount":{"x":2}}'
    """
    sides = {
        side: written_leaves(files, name)
        for side, name in (("min", "lower"), ("max", "upper"), ("nullCount", "null_count"))
    }
    nans = written_leaves(files, "nan_count")
    columns = {"numRecords": as_array(files.column("record_count"))}
    paths: list[list[str]] = []
    for number, path in leaf_paths(schema).items():
        for side, leaves in sides.items():
            values = leaves.get(number)
            if values is not None:
                if side == "max" and pt.is_floating(values.type):
                    values = _without_nan(values, nans.get(number))
                columns[f"{side}.{len(paths)}"] = values
        paths.append([part.physical_name for part in path])
    return kernels.format_stats(pa.record_batch(columns), paths, tight)


def _without_nan(upper: pa.Array, nans: pa.Array | None) -> pa.Array:
    """Return upper bounds of files that surely have no NaN, and null for others."""
    if nans is None:
        return pa.nulls(len(upper), upper.type)
    none_is_nan = pc.fill_null(pc.equal(nans, 0), fill_value=False)
    return pc.if_else(none_is_nan, upper, pa.scalar(None, upper.type))


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
    members = _members(text)
    if rows is not None:
        members = {**members, "numRecords": rows}
    if integer_of(members.get("numRecords")) is None:
        raise ValueError("the number of rows is not known")
    return write_json({**members, "tightBounds": False})


def counted_statistics(text: str | None, rows: int) -> str:
    """Return the statistics of a file with the number of its rows, whatever they said of it before.

    Examples
    --------
    >>> counted_statistics('{"minValues":{"x":1.50}}', 3)
    '{"minValues":{"x":1.50},"numRecords":3}'
    """
    return write_json({**_members(text), "numRecords": rows})


def _members(text: str | None) -> dict[str, Any]:
    try:
        found = read_json(text or "{}")
    except (ValueError, RecursionError):
        found = {}
    return found if isinstance(found, dict) else {}
