"""The verb of an Iceberg table that deletes rows by keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltaberg.iceberg.picking_table import PickingTable
from deltaberg.schema import ColumnName
from deltaberg.signatures import public
from deltaberg.table import CommitResult

__all__ = ["KeyedTable"]


@public
class KeyedTable(PickingTable):
    """A table whose rows can be deleted by keys."""

    def delete_by_keys(
        self,
        keys: Any,
        columns: ColumnName | Sequence[ColumnName] | None = None,
        *,
        branch: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Delete the rows that equal one of some keys, without reading the table.

        The keys are written to equality delete files, which every reader has to compare with all rows that are older.
        That makes the commit quick and reading slow, until `compact` leaves the rows out. Rows that others commit
        before this are also deleted. If the table is partitioned by a column that is not compared, the deletes belong
        to a partition spec without fields, and are compared with the rows of all partitions.

        Parameters
        ----------
        keys
            The keys, one in each row: an Arrow table or stream, a data frame, a `Scan` or a table. They are held in
            memory; Spark stores those of its DataFrames beside the table on their way. Null equals null, and a field
            of a struct that is null is null.
        columns
            The columns, or fields of structs, that are compared; by default all columns of the keys. The others are
            stored with the keys.
        branch, properties
            As for `transaction`.

        Returns
        -------
        CommitResult
            The snapshot. It is not known how many rows are deleted.

        Raises
        ------
        InvalidArgumentError
            There are no columns to compare, or one of them is a struct, list or map, or of the type float, double or
            variant.
        SchemaError
            The keys do not fit the columns.
        StorageError
            The keys cannot be stored.
        UnsupportedFeatureError
            The table has version 1, or needs what is not written.
        CommitConflictError
            Another commit came first that the deletes do not fit on.
        CommitUnknownError
            It is not known whether the commit took effect.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from deltaberg import create_table
        >>> table = create_table(f"{new_path}/keyed", {"id": pa.int64(), "name": pa.string()}, format="iceberg")
        >>> _ = table.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
        >>> table.delete_by_keys(pa.table({"id": [1, 3, 9]})).operation
        'delete'
        >>> table.scan().to_arrow()["name"].to_pylist()
        ['b']
        """
        transaction = self.transaction(branch=branch, properties=properties)
        with transaction:
            transaction.delete_by_keys(keys, columns)
            return transaction.commit()
