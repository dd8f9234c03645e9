"""Writing manifest lists (Iceberg spec, "Manifest Lists", "Sequence Number Inheritance", "First Row ID Assignment")."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError
from deltaberg.files.avro.encode import write_avro
from deltaberg.iceberg.manifests.fields import MANIFESTS
from deltaberg.iceberg.manifests.write_manifest import retyped, with_required_parts
from deltaberg.schema.arrow import as_array

__all__ = ["CompleteRows", "complete_rows", "encode_manifest_list"]

_COUNTS = [
    *("added_files_count", "existing_files_count", "deleted_files_count"),
    *("added_rows_count", "existing_rows_count", "deleted_rows_count"),
]
_NUMBERS = ["content", "sequence_number", "min_sequence_number"]
#: What version 1 does not have, and what version 2 does not have.
_LATER = {1: {*_NUMBERS, "first_row_id"}, 2: {"first_row_id"}, 3: set()}


class CompleteRows(NamedTuple):
    """Manifests with all that the commit assigns, and the table's next row id after it (version 3)."""

    rows: pa.Table
    next_row_id: int | None


def complete_rows(rows: pa.Table, *, sequence_number: int, first_row_id: int | None = None) -> CompleteRows:
    """Fill in what a commit assigns to manifests, and leave what they have already.

    Parameters
    ----------
    rows
        Manifests, with the columns of `MANIFESTS`.
    sequence_number
        The number of the snapshot: manifests without one are new.
    first_row_id
        The next row id of the table that is committed to. Data manifests without a first row id take the next ids, in
        the order of the list, as many as they have live rows. None in versions 1 and 2.

    Raises
    ------
    InvalidArgumentError
        If row ids are to be assigned, and a manifest does not say how many rows it has.
    """
    rows = rows.select(MANIFESTS.names).cast(MANIFESTS)
    for name in ("sequence_number", "min_sequence_number"):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, MANIFESTS.field(name), rows.column(name).fill_null(sequence_number))
    if first_row_id is None:
        return CompleteRows(rows, None)
    ids = []
    next_id = first_row_id
    columns = ("content", "first_row_id", "added_rows_count", "existing_rows_count")
    for content, given, added, existing in zip(*(rows.column(name).to_pylist() for name in columns), strict=True):
        if content or given is not None:
            ids.append(given)
            continue
        if added is None or existing is None:
            raise InvalidArgumentError(
                "row ids cannot be assigned to a manifest that does not say how many rows it has",
                hint="rewrite the manifests",
            )
        ids.append(next_id)
        next_id += added + existing
    at = rows.schema.get_field_index("first_row_id")
    return CompleteRows(rows.set_column(at, MANIFESTS.field("first_row_id"), pa.array(ids, pa.int64())), next_id)


def encode_manifest_list(
    rows: pa.Table,
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
    codec: str = "deflate",
    level: int | None = None,
) -> bytes:
    """Return the bytes of a manifest list.

    Parameters
    ----------
    rows
        The manifests of the snapshot, with the columns of `MANIFESTS`, as `manifest_row` and `read_manifest_list`
        return them. What a commit assigns may be null (`complete_rows`).
    format_version
        The version of the format, 1 to 3.
    snapshot_id, parent_snapshot_id, sequence_number
        The snapshot, its parent (None for the first one), and its sequence number.
    first_row_id
        The snapshot's first row id, in version 3.
    codec, level
        See `write_avro`.

    Raises
    ------
    InvalidArgumentError
        If a manifest lacks what the version requires, or holds delete files in version 1.
    """
    if format_version == 3 and first_row_id is None:
        raise InvalidArgumentError("a manifest list of version 3 needs the snapshot's first row id")
    complete = complete_rows(
        rows, sequence_number=sequence_number, first_row_id=first_row_id if format_version == 3 else None
    ).rows
    if format_version == 1 and pc.any(pc.equal(complete.column("content"), 1), min_count=0).as_py():
        raise InvalidArgumentError("a table of version 1 has no delete files")
    fields, columns = [], []
    for field in MANIFESTS:
        if field.name in _LATER[format_version]:
            continue
        is_required = field.name == "added_snapshot_id" or (format_version > 1 and field.name in {*_COUNTS, *_NUMBERS})
        column = as_array(complete.column(field.name))
        written = field.with_nullable(False) if is_required else with_required_parts(field)
        if column.null_count and not written.nullable:
            raise InvalidArgumentError(
                f"a manifest has no {field.name}, which version {format_version} requires",
                hint="rewrite the manifest",
                column=field.name,
            )
        fields.append(written)
        columns.append(retyped(column, written))
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
    }
    if format_version > 1:
        metadata["sequence-number"] = str(sequence_number)
    if format_version == 3:
        metadata["first-row-id"] = str(first_row_id)
    metadata["format-version"] = str(format_version)
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    return write_avro(table, name="manifest_file", metadata=metadata, codec=codec, level=level)
