"""Change data files, which hold the rows that a version changed (Delta protocol, "Add CDC File")."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from deltaberg.delta.data.partition_values import partition_value_texts
from deltaberg.schema.arrow import as_array
from deltaberg.schema.types import Field, Primitive

__all__ = ["CHANGE_DATA", "CHANGE_TYPE", "CHANGE_TYPE_COLUMN", "change_file_texts"]

#: The column of a change data file that says what happened to a row.
CHANGE_TYPE = "_change_type"
CHANGE_TYPE_COLUMN = Field(CHANGE_TYPE, Primitive("string"))
#: The directory of change data files, relative to the table.
CHANGE_DATA = "_change_data"


def change_file_texts(paths: Sequence[str], files: pa.Table, partitioned_by: Sequence[Field]) -> list[str]:
    """Return the members of a ``cdc`` action for each change data file, as JSON without the braces.

    Parameters
    ----------
    paths
        The paths as the log records them.
    files
        A row for each file, with ``size`` and ``partition``, a struct of typed values.
    partitioned_by
        The partition columns.

    Raises
    ------
    InvalidPartitionValueError
        A partition value has no text.
    """
    if not len(files):
        return []
    partitions = partition_value_texts(as_array(files.column("partition")), partitioned_by).to_pylist()
    sizes = files.column("size").to_pylist()
    return [
        f'"path":"{path}","partitionValues":{values},"size":{size},"dataChange":false'
        for path, values, size in zip(paths, partitions, sizes, strict=True)
    ]
