"""Entries of manifests for new delete files (Iceberg spec, "Manifests" and "Delete Formats")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.deletes.write_puffin import WrittenVector
from deltaberg.iceberg.manifests.entries import added_entries, entry_columns
from deltaberg.iceberg.manifests.fields import ADDED, EQUALITY_DELETES, POSITION_DELETES
from deltaberg.iceberg.manifests.metrics_modes import MetricsMode
from deltaberg.schema.arrow import as_array, count_up, with_columns
from deltaberg.schema.types import Struct

__all__ = ["equality_delete_entries", "position_delete_entries", "vector_entries"]

_COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")
#: The metrics of position delete files are about both columns, and their bounds are whole.
_WHOLE = MetricsMode()
_NO_PARTITION = Struct(())


def vector_entries(
    vectors: Sequence[WrittenVector], path: str, size: int, partition: Struct, values: pa.StructArray
) -> pa.Table:
    """Return entries that add deletion vectors of one spec.

    Parameters
    ----------
    vectors
        The vectors.
    path, size
        The recorded path of the Puffin file, and its size.
    partition
        The partition struct of the spec that their data files have.
    values
        The partition values of the data files.
    """
    rows = len(vectors)
    own = {
        "status": pa.repeat(pa.scalar(ADDED, pa.int32()), rows),
        "content": pa.repeat(pa.scalar(POSITION_DELETES, pa.int32()), rows),
        "file_path": pa.repeat(path, rows),
        "file_format": pa.repeat("PUFFIN", rows),
        "partition": values,
        "record_count": pa.array([found.cardinality for found in vectors], pa.int64()),
        "file_size_in_bytes": pa.repeat(pa.scalar(size, pa.int64()), rows),
        "referenced_data_file": pa.array([found.data_file for found in vectors], pa.string()),
        "content_offset": pa.array([found.offset for found in vectors], pa.int64()),
        "content_size_in_bytes": pa.array([found.length for found in vectors], pa.int64()),
    }
    target = entry_columns(partition)
    columns = [own[child.name] if child.name in own else pa.nulls(rows, child.type) for child in target]
    return pa.Table.from_arrays(columns, names=target.names)


def position_delete_entries(files: pa.Table, columns: Struct, location: str, values: pa.StructArray) -> pa.Table:
    """Return entries that add position delete files of one spec.

    A file that names one data file has the bounds of its columns, and refers to the data file. Others have no bounds,
    as in the Java library, since those of the paths would say nothing that helps.

    Parameters
    ----------
    files
        The rows that describe the files.
    columns
        The columns of position delete files.
    location
        The recorded location that the paths of the files are relative to.
    values
        The partition values of the data files that each file is about.
    """
    modes = {child.id: _WHOLE for child in columns if child.id is not None}
    # The values in `files` say how the rows were divided, which is not the partitioning of the table.
    entries = added_entries(files, location, columns, _NO_PARTITION, modes)
    lower, upper = (pc.struct_field(as_array(files.column(side)), 0) for side in ("lower", "upper"))
    only = pc.if_else(pc.equal(lower, upper), lower, pa.scalar(None, pa.string()))
    found = {name: as_array(entries.column(name)) for name in _BOUNDS}
    # `if_else` takes maps only since pyarrow 18.
    rows = pc.if_else(only.is_valid(), count_up(0, len(only)), None)
    bounds = {name: one.take(rows) for name, one in found.items()}
    own = {"content": POSITION_DELETES, "partition": values, "referenced_data_file": only}
    return with_columns(entries, **own, **dict.fromkeys(_COUNTS), **bounds)


def equality_delete_entries(
    files: pa.Table,
    columns: Struct,
    location: str,
    partition: Struct,
    modes: Mapping[int, MetricsMode],
    equality_ids: Sequence[int],
) -> pa.Table:
    """Return entries that add equality delete files of one spec.

    Parameters
    ----------
    files
        The rows that describe the files, with their partition values.
    columns
        The columns that the files hold.
    location
        The recorded location that the paths of the files are relative to.
    partition
        The partition struct of their spec.
    modes
        Which metrics are recorded.
    equality_ids
        The ids of the columns that are compared.
    """
    entries = added_entries(files, location, columns, partition, modes)
    ids = pa.array([sorted(equality_ids)] * len(entries), pa.list_(pa.int32()))
    return with_columns(entries, content=EQUALITY_DELETES, equality_ids=ids)
