"""The verbs that only Iceberg tables have, on a table or in a transaction."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from deltaberg.schema.columns import ColumnNames, column_names
from deltaberg.signatures import public, takes
from deltaberg.table.arguments import checked_flag
from deltaberg.table.verbs.shared_arguments import KeyArguments, RecordedArguments
from deltaberg.table.verbs.verbs import Verbs

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.iceberg.operations import IcebergOperations

__all__ = ["IcebergVerbs"]

_Done = TypeVar("_Done")


@public
class IcebergVerbs(Verbs[_Done]):
    """The verbs of `Verbs`, and those that only Iceberg tables have."""

    @takes(KeyArguments)
    def delete_by_keys(
        self,
        keys: Any,
        columns: ColumnNames | None = None,
        **arguments: Unpack[KeyArguments],
    ) -> _Done:
        """Delete the rows that equal one of some keys, without reading the table.

        The keys are written to equality delete files, which every reader has to compare with all rows that are older
        (Iceberg spec, "Equality Delete Files"). That makes the commit quick and reading slow, until `compact` leaves
        the rows out, or `convert_equality_deletes` turns the keys into positions. Rows that others commit before this
        are also deleted. If the table is partitioned by a column that is not compared, the deletes belong to a
        partition spec without fields, and are compared with the rows of all partitions. In a transaction this is
        refused after rows were added, which are not found, and before changes of rows.

        Parameters
        ----------
        keys
            The keys, one in each row: an Arrow table or stream, a data frame, a `Scan` or a table. They are held in
            memory; Spark stores those of its DataFrames beside the table on their way. Null equals null, and a field
            of a struct that is null is null.
        columns
            The columns, or fields of structs, that are compared; by default all columns of the keys. The others are
            stored with the keys.
        **arguments
            How delete files are written, the zone of timestamps without one in the keys, and how the commit is made:
            see `Verbs`. It is not known how many rows are deleted.

        Raises
        ------
        InvalidArgumentError
            There are no columns to compare, or one of them is a struct, list or map, or of the type float, double or
            variant.
        SchemaError
            The keys do not fit the columns.
        UnsupportedFeatureError
            The table has version 1, or needs what is not written.

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
        from deltaberg.table.rows.row_options import RowOptions

        names, rows = None if columns is None else column_names(columns, ordered=False), RowOptions.of(arguments)
        return self._run(lambda run: cast("IcebergOperations", run).delete_by_keys(keys, names, rows), arguments)

    @takes(RecordedArguments)
    def add_files(
        self,
        file_paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        check_duplicate_files: bool = True,
        **commit: Unpack[RecordedArguments],
    ) -> _Done:
        """Add Parquet, ORC and Avro files of others. They stay where they are, and become data files of the table.

        Only the footers of Parquet files are read; the rows of the other files are read for their metrics, once.
        Formats are known by the ends of names, or by the first bytes of files. Columns are found by field ids, or by
        their names: the property ``schema.name-mapping.default`` is set then, unless the table has it. The statistics
        of a file have to prove that all of its rows belong to one partition. Columns that a file lacks and a partition
        field takes as they are get the values of directories that are named as Hive names them, such as
        ``day=2024-01-01``.

        Parameters
        ----------
        file_paths
            A path or URL, or several: of files, or of directories, of which all files below are added, but for those
            whose names begin with ``_`` or ``.``.
        check_duplicate_files
            Refuse files that the table has already.
        **commit
            How the commit is made: see `Verbs`.

        Raises
        ------
        InvalidArgumentError
            The table has one of the files already, there is none, or the rows of one belong to several partitions.
        InvalidPartitionValueError
            The name of a directory gives a partition column a value that is none of its type.
        SchemaError
            The columns of a file do not fit those of the table.
        CorruptDataFileError
            A file cannot be decoded.

        Examples
        --------
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> from deltaberg import create_table
        >>> pq.write_table(pa.table({"id": [1, 2]}), f"{new_path}.parquet")
        >>> table = create_table(f"{new_path}/added", {"id": pa.int64()}, format="iceberg")
        >>> table.add_files([f"{new_path}.parquet"]).added_rows, table.scan("id > 1").to_arrow()["id"].to_pylist()
        (2, [2])
        """
        checked_flag("check_duplicate_files", check_duplicate_files)
        return self._run(
            lambda run: cast("IcebergOperations", run).add_files(file_paths, check_duplicates=check_duplicate_files),
            commit,
        )
