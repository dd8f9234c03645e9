"""Directories of Parquet, ORC and Avro files that become Iceberg tables."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from deltaberg.choices import ConvertMode
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import Hint
from deltaberg.schema.types import Struct
from deltaberg.signatures import NEEDED, public, takes
from deltaberg.storage.location import parse_location
from deltaberg.table.arguments import checked_choice
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.open.opening import OpenOptions
from deltaberg.table.verbs.shared_arguments import NewTableArguments, SingleCommitArguments, arguments_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from deltaberg.catalogs.base import Catalog
    from deltaberg.catalogs.names import Identifier
    from deltaberg.iceberg.place import IcebergPlace
    from deltaberg.table.rows.progress import ProgressSum

__all__ = ["convert_to_iceberg"]


@public
@takes(NewTableArguments)
def convert_to_iceberg(
    source: str | os.PathLike[str] = NEEDED,
    target: str | os.PathLike[str] | Identifier | None = None,
    *,
    catalog: Catalog | None = None,
    location: str | os.PathLike[str] | None = None,
    partition_by: Struct | Any = None,
    mode: ConvertMode = "error",
    **arguments: Unpack[NewTableArguments],
) -> CommitResult:
    """Make an Iceberg table of the Parquet, ORC and Avro files below a directory, where they are, in one commit.

    No file is written but metadata, and no more than the footers of Parquet files is read. Without a target the
    directory itself becomes the table, which owns the files then: iceberg-spark calls that ``migrate``. With one, a new
    table elsewhere names the files, which others go on with: iceberg-spark calls that ``snapshot``. The property
    ``gc.enabled`` of that table is false, so that no clean-up deletes them. Files that are added to the directory later
    do not become part of either.

    Parameters
    ----------
    source
        The directory: a local path, or the URL of an object store. Names that begin with ``.`` or ``_`` are ignored.
        Symbolic links are followed, as by Spark.
    target
        Where the new table is: a directory, or with ``catalog`` its name.
    catalog
        The catalog that names the table.
    location
        In a catalog, the directory of the table; by default, where the catalog puts new tables. That of the source
        makes the directory itself the table.
    partition_by
        The names and types of the columns whose values are in the names of directories, as in ``year=2020``: an Arrow
        schema, or a mapping of names to Arrow types. The table is partitioned by them.
    mode
        What becomes of a table that is there already: ``error`` raises, and ``ignore`` leaves it as it is.
    **arguments
        ``properties``, ``description``, ``storage_options`` and how the commit is made, as for `create_table`.

    Returns
    -------
    CommitResult
        How many files and rows the table has. With ``mode="ignore"``, ``committed`` is False if there was a table.

    Raises
    ------
    TableExistsError
        There is a table already.
    TableNotFoundError
        There are no data files.
    CorruptDataFileError
        A file is empty or damaged, or none of these formats.
    SchemaError
        A column has no type that fits all files, or one that Iceberg tables cannot hold.
    InvalidArgumentError, InvalidPartitionValueError
        The directories do not fit ``partition_by``, or a file has one of these columns itself; the source is a table,
        or in one, or contains one; a symbolic link leads nowhere, or to files that are also found without it; or the
        target is in the source, or a Delta table.

    Examples
    --------
    >>> import pathlib
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> for day in (1, 2):
    ...     folder = pathlib.Path(new_path, "visits", f"day={day}")
    ...     folder.mkdir(parents=True)
    ...     pq.write_table(pa.table({"id": [day]}), folder / "a.parquet")
    >>> days = {"day": pa.int32()}
    >>> convert_to_iceberg(f"{new_path}/visits", f"{new_path}/copy", partition_by=days).added_rows
    2
    >>> convert_to_iceberg(f"{new_path}/visits", partition_by=days).added_rows
    2
    """
    from deltaberg.iceberg.updates.new_table import given_properties
    from deltaberg.iceberg.write.add_files import add_found_files
    from deltaberg.iceberg.write.trees import find_tree
    from deltaberg.schema.from_arrow import as_table_schema
    from deltaberg.table.maintain.cloning.clone_places import check_apart
    from deltaberg.table.open.new_table import NewTable
    from deltaberg.table.open.tables_there import check_format, formats_at
    from deltaberg.table.rows.progress import summed

    checked_choice("mode", mode, get_args(ConvertMode), "leave it out to have a table that is there reported")
    options = OpenOptions(storage_options=arguments.get("storage_options"))
    root, new = parse_location(source), NewTable.of(Struct(), arguments)
    place = _place(str(root), target, catalog, location, options)
    shared: dict[str, str] = {}
    # A server may choose the place, which is none that others use.
    own = parse_location(place.location) if place.location else None
    if own != root:
        if own is not None:
            check_format("iceberg", formats_at(own, options.store), str(own))
            check_apart(options.store, root, options.store, own)
        shared = {"gc.enabled": "false"}
    commit = place.commit_options(new, arguments_of(SingleCommitArguments, arguments))
    partition = Struct() if partition_by is None else as_table_schema(partition_by)

    def create() -> CommitResult:
        with summed(arguments.get("progress")) as total:
            return created(total)

    def created(total: ProgressSum) -> CommitResult:
        version, _ = given_properties(new.properties)
        tree = find_tree(options.store, root, partition, version, total.add)
        table = replace(
            new,
            schema=tree.columns,
            partition_by=[(name,) for name in partition.names],
            properties={**new.properties, **shared},
        )
        run = place.create(table, replace(commit, progress=total.next_write()))
        with run.transaction:
            add_found_files(run.transaction, tree.files, tree.footers, root)
            return replace(place.commit(run, "append"), ignored_files=tree.ignored)

    unchanged, instead = place.unchanged, 'use ⟪mode="ignore"⟫ to leave it as it is'
    return place.create_first(mode, create, unchanged, arguments, instead=instead)


def _place(source: str, target: Any, catalog: Any, location: Any, options: OpenOptions) -> IcebergPlace:
    """Return where the table goes."""
    from deltaberg.catalogs.base import Catalog, default_location, table_pointer
    from deltaberg.iceberg.location.pointer import FilePointer
    from deltaberg.iceberg.place import IcebergPlace

    if catalog is None:
        if location is not None:
            raise InvalidArgumentError(
                Hint("⟪location⟫ is that of a table in a catalog"), hint="pass the directory as ⟪target⟫"
            )
        return IcebergPlace.at(parse_location(source if target is None else target), options)
    if not isinstance(catalog, Catalog) or not isinstance(target, (str, tuple, list)):
        raise InvalidArgumentError(
            Hint("⟪catalog⟫ is a catalog of Iceberg tables, and ⟪target⟫ the name of one of them"),
            hint="pass what ⟪load_catalog(…)⟫ returns, and a name such as 'sales.orders'",
        )
    pointer = table_pointer(catalog, target)
    place = default_location(catalog, target) if location is None else str(parse_location(location))
    if isinstance(pointer, FilePointer) and str(pointer.location) != place:
        raise InvalidArgumentError(
            "the tables of this catalog are in directories of their names", hint=Hint("leave out ⟪location⟫")
        )
    return IcebergPlace(pointer, place, options)
