"""Lines of JSON as rows with the types of a table, and only with the columns that occur in the file."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["open_json_rows"]

_Path = tuple[str, ...]


def open_json_rows(path: str, columns: pa.Schema | None) -> pa.RecordBatchReader:
    """Return the rows of a file of JSON lines.

    Parameters
    ----------
    columns
        The columns of a table, as whose types those of the file are read. Columns, and fields of structs, that no row
        of the file names are none of its rows, so that a write does not take them for nulls. None to infer all types.
    """
    if columns is None:
        return _open(path, None)
    chosen = _named(path, _open(path, columns))
    return _with_columns(_open(path, columns), chosen)


def _open(path: str, columns: pa.Schema | None) -> pa.RecordBatchReader:
    import pyarrow as pa
    from pyarrow import json as pa_json

    # Arrow reads texts as instants, but not as dates.
    dates = {child.name: child for child in columns or () if pa.types.is_date(child.type)}
    explicit = columns
    if columns is not None:
        explicit = pa.schema(
            [child.with_type(pa.timestamp("s")) if child.name in dates else child for child in columns]
        )
    options = pa_json.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="infer")
    if hasattr(pa_json, "open_json"):
        reader = pa_json.open_json(path, parse_options=options)
    else:
        # Older releases of pyarrow read the whole file at once.
        reader = pa_json.read_json(path, parse_options=options).to_reader()
    return reader.cast(pa.schema([dates.get(child.name, child) for child in reader.schema])) if dates else reader


def _named(path: str, rows: pa.RecordBatchReader) -> pa.Schema:
    """Return the columns, and fields of structs, that have a value in some row, or whose name is in the file."""
    import pyarrow as pa

    valued: set[_Path] = set()
    for batch in rows:
        for child, column in zip(batch.schema, batch.columns, strict=True):
            _note(valued, (child.name,), column)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        kept = (_kept(child, (child.name,), valued, text) for child in rows.schema)
        return pa.schema([child for child in kept if child is not None])


def _note(valued: set[_Path], path: _Path, column: pa.Array) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count < len(column):
        valued.add(path)
    if pa.types.is_struct(column.type):
        for index, child in enumerate(column.type):
            _note(valued, (*path, child.name), pc.struct_field(column, index))


def _kept(child: pa.Field, path: _Path, valued: set[_Path], text: mmap.mmap) -> pa.Field | None:
    import pyarrow as pa

    if path not in valued and not _occurs(child.name, text):
        return None
    if not pa.types.is_struct(child.type):
        return child
    inner = [_kept(part, (*path, part.name), valued, text) for part in child.type]
    kept = [part for part in inner if part is not None]
    return child.with_type(pa.struct(kept)) if kept else child


def _occurs(name: str, text: mmap.mmap) -> bool:
    spellings = {json.dumps(name, ensure_ascii=escaped).encode() for escaped in (False, True)}
    return any(re.search(re.escape(spelling) + rb"\s*:", text) for spelling in spellings)


def _with_columns(rows: pa.RecordBatchReader, chosen: pa.Schema) -> pa.RecordBatchReader:
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            columns = [_narrowed(batch.column(child.name), child.type) for child in chosen]
            yield pa.RecordBatch.from_arrays(columns, schema=chosen)

    return pa.RecordBatchReader.from_batches(chosen, batches())


def _narrowed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column with those fields of structs that a type has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from deltaberg.schema.convert import struct_of

    if column.type.equals(kind) or not pa.types.is_struct(kind):
        return column
    parts = [_narrowed(pc.struct_field(column, child.name), child.type) for child in kind]
    return struct_of(column, parts, list(kind))
