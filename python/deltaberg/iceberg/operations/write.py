"""Appending rows to a table, replacing rows by others, and deleting rows that metadata alone identifies."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.expressions import TRUE, Bound, Filter, as_expression, bind
from deltaberg.iceberg.manifests.fields import DATA, ManifestPart
from deltaberg.iceberg.manifests.metrics import manifests_of
from deltaberg.iceberg.operations.columns import merge_columns, replace_columns
from deltaberg.iceberg.operations.rows import write_rows
from deltaberg.iceberg.partition.structs import partition_keys
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.schema import as_array
from deltaberg.schema.from_arrow import table_schema
from deltaberg.table.read.plan import file_numbers, make_plan
from deltaberg.table.write import RowOptions, Rows, open_rows

__all__ = ["append_rows", "delete_rows", "overwrite_rows"]


def append_rows(transaction: Transaction, data: Any, options: RowOptions) -> None:
    """Write rows to new files that a transaction adds.

    Raises
    ------
    SchemaError
        The rows do not fit the columns of the table.
    InvalidArgumentError
        The data holds no rows of any kind, or the columns are to be replaced.
    """
    if options.schema_mode == "overwrite":
        raise InvalidArgumentError(
            'schema_mode is "overwrite", which would leave the rows of the table without their columns',
            hint='append with schema_mode="merge", or overwrite the table',
        )
    with transaction.operation("append"):
        rows = open_rows(data, transaction.progress)
        _fit(transaction, rows, options)
        transaction.add_files(write_rows(transaction, rows, options))


def overwrite_rows(
    transaction: Transaction,
    data: Any,
    options: RowOptions,
    *,
    where: Filter | None = None,
    dynamic: bool = False,
    check: bool = True,
) -> None:
    """Replace rows of a table by others: all of them, those that match a filter, or those of the new rows' partitions.

    Parameters
    ----------
    where
        A filter. Whole files are replaced, so metadata has to prove for each file that all or none of its rows match.
    dynamic
        Replace the partitions that the new rows are in, and leave the others.
    check
        Refuse new rows that do not match ``where``.

    Raises
    ------
    ConstraintViolationError
        A new row does not match ``where``.
    SchemaError
        The rows do not fit the columns of the table.
    UnsupportedFeatureError
        A file may hold both rows that match and others.
    """
    if where is not None and dynamic:
        raise InvalidArgumentError("where and dynamic exclude each other", hint="pass one of them")
    if options.schema_mode == "overwrite" and (where is not None or dynamic):
        raise InvalidArgumentError(
            'schema_mode is "overwrite", but some rows of the table stay', hint="leave out where and dynamic"
        )
    with transaction.operation("overwrite"):
        rows = open_rows(data, transaction.progress)
        bound = None if where is None else _bound(transaction, where)
        if not dynamic:
            _remove(transaction, TRUE if bound is None else bound, str(where))
        _fit(transaction, rows, options)
        checked = bound if check else None
        if dynamic and not transaction.metadata.specs[transaction.metadata.default_spec_id].is_partitioned:
            raise InvalidArgumentError("the table has no partitions", hint="leave out dynamic to replace all rows")
        files = write_rows(transaction, rows, options, checked, str(where))
        if dynamic and len(files.entries):
            _remove_partitions(transaction, files)
        transaction.add_files(files)


def delete_rows(transaction: Transaction, where: Filter | None) -> None:
    """Delete the rows that match a filter, or all rows, by removing whole files.

    Raises
    ------
    UnsupportedFeatureError
        A file may hold both rows that match and others.
    """
    with transaction.operation("delete"):
        _remove(transaction, TRUE if where is None else _bound(transaction, where), str(where))


def _bound(transaction: Transaction, where: Filter) -> Bound:
    return bind(as_expression(where), transaction.metadata.current_schema.struct, transaction.timezone)


def _fit(transaction: Transaction, rows: Rows, options: RowOptions) -> None:
    """Change the columns of the table as the rows need it, if the caller allows it."""
    if options.schema_mode == "merge":
        merge_columns(transaction, table_schema(rows.schema))
    elif options.schema_mode == "overwrite":
        replace_columns(transaction, table_schema(rows.schema))


def _remove(transaction: Transaction, condition: Bound, shown: str) -> None:
    """Remove the files in which every row matches, if there are no others with rows that match."""
    source = transaction.source
    plan = make_plan(source, condition)
    undecided = plan.files.filter(plan.filtered)
    if len(undecided) or (condition != TRUE and transaction.pending.added):
        where = undecided.column("path")[0].as_py() if len(undecided) else "one that the transaction adds"
        raise UnsupportedFeatureError(
            f"a data file may hold both rows that match {shown} and others, and single rows of Iceberg tables are not "
            "changed yet",
            hint="choose whole partitions, or overwrite the table",
            table=source.table,
            file=where,
            feature="row changes",
        )
    transaction.claims.conditions.append(condition)
    if condition == TRUE:
        for files in list(transaction.pending.added):
            transaction.pending.drop_added(files.entries.column("file_path").to_pylist())
        transaction.pending.removes_deletes = True
    numbers = file_numbers(plan.files)
    if len(numbers):
        transaction.remove_files(plan.files.column("path").to_pylist(), manifests_of(source.manifests, numbers))


def _remove_partitions(transaction: Transaction, files: AddedFiles) -> None:
    """Remove the files of the partitions that new files are in, those of other specs by what their rows show."""
    source = transaction.source
    data = source.manifests.filter(pc.equal(source.manifests.column("content"), DATA))
    new = set(partition_keys(as_array(files.entries.column("partition")), files.partition))
    transaction.claims.partitions.update((files.spec.spec_id, key) for key in new)
    paths: list[str] = []
    manifests: set[int] = set()
    for found in source.reader.read(data.to_pylist(), ManifestPart()) if len(data) else []:
        if found.spec.spec_id != files.spec.spec_id and len(found.table):
            raise UnsupportedFeatureError(
                "partitions cannot be replaced while the table has files of another partition spec",
                hint="overwrite the table, or rewrite its older files",
                table=source.table,
                feature="partition evolution",
            )
        keys = partition_keys(as_array(found.table.column("partition")), found.partition)
        columns = zip(
            keys,
            found.table.column("file_path").to_pylist(),
            found.table.column("manifest").to_pylist(),
            strict=True,
        )
        for key, path, manifest in columns:
            if key in new:
                paths.append(path)
                manifests.add(manifest)
    _drop_pending(transaction, files.spec.spec_id, new)
    if paths:
        chosen = pc.is_in(source.manifests.column("number"), value_set=pa.array(sorted(manifests), pa.int32()))
        transaction.remove_files(paths, source.manifests.filter(chosen))


def _drop_pending(transaction: Transaction, spec_id: int, keys: Collection[Hashable]) -> None:
    """Leave out files that the transaction has added to these partitions before."""
    for files in list(transaction.pending.added):
        if files.spec.spec_id == spec_id:
            own = partition_keys(as_array(files.entries.column("partition")), files.partition)
            paths = files.entries.column("file_path").to_pylist()
            transaction.pending.drop_added([path for path, key in zip(paths, own, strict=True) if key in keys])
