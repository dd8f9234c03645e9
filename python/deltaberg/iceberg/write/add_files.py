"""Adding files that others have written, as they are (Iceberg spec, "Column Projection", name mapping)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import (
    InvalidArgumentError,
    InvalidPartitionValueError,
    ObjectNotFoundError,
    SchemaError,
    in_context,
)
from deltaberg.expressions.tree.tree import TRUE
from deltaberg.files.formats.footers import Footer, read_footers
from deltaberg.files.formats.layout import FileLayout
from deltaberg.files.formats.open_file import FORMATS
from deltaberg.files.read.reader import ReadSpec
from deltaberg.files.read.task import FileTask
from deltaberg.files.write.statistics import StatisticsPlan
from deltaberg.files.write.written import WrittenFile, leaf_paths, written_rows
from deltaberg.files.write.written_footers import FooterFacts
from deltaberg.hints import shown_value
from deltaberg.iceberg.alter.columns import extend_name_mapping
from deltaberg.iceberg.manifests.entries import added_entries, leaves_with_metrics
from deltaberg.iceberg.manifests.metrics_modes import metrics_modes
from deltaberg.iceberg.metadata.specs import PartitionField
from deltaberg.iceberg.partition.structs import partition_struct, path_to_id
from deltaberg.iceberg.partition.transforms import Bucket, Identity, Unknown, Void, parse_transform
from deltaberg.iceberg.transaction.pending import AddedFiles
from deltaberg.iceberg.transaction.transaction import Transaction
from deltaberg.iceberg.updates.new_columns import given_columns, iceberg_columns, own_types
from deltaberg.iceberg.write.file_columns import columns_without_nulls, named_by_ids
from deltaberg.lists import listed
from deltaberg.schema.arrow import arrow_type, with_columns
from deltaberg.schema.columns import join_name
from deltaberg.schema.name_mapping import NameMapping, field_id, has_field_ids
from deltaberg.schema.types import DataType, Decimal, Field, Primitive, Struct, nullable_field
from deltaberg.storage.base import ObjectMeta, Storage
from deltaberg.storage.location import Location, parse_location
from deltaberg.storage.stores import StoreSpec
from deltaberg.table.open.source_trees import files_below
from deltaberg.table.rows.progress import Told
from deltaberg.table.write.footers import FileStatistics, footer_statistics, row_statistics
from deltaberg.table.write.hive_names import named_values
from deltaberg.workers import map_in_order

__all__ = ["FoundFile", "add_existing_files", "add_found_files", "footers_of", "found_file"]

#: Files that are read whole at a time.
_FILES_AT_A_TIME = 4
_MAGIC_BYTES = 4
_MAGICS = {b"ORC": "orc", b"Obj\x01": "avro"}
_FLOATS = (Primitive("float"), Primitive("double"))
#: Types whose values in the names of directories mean the same everywhere, but for decimals.
_SHOWN = frozenset(
    Primitive(name) for name in ("string", "boolean", "integer", "long", "float", "double", "date", "timestamp_ntz")
)


class FoundFile(NamedTuple):
    """A file: its recorded path, where it is, and its format."""

    path: str
    place: Location
    meta: ObjectMeta
    format: str


def add_existing_files(transaction: Transaction, paths: Any, *, check_duplicates: bool = True) -> None:
    """Add Parquet, ORC and Avro files to a table, which become its data files where they are.

    Parameters
    ----------
    paths
        Files, or directories of which all files below are added, but for those whose names begin with ``_`` or ``.``.
    check_duplicates
        Refuse files that the table has already.

    Raises
    ------
    InvalidArgumentError
        The table has one of the files already, or there is no file, or the rows of one belong to several partitions; or
        a directory contains a table.
    InvalidPartitionValueError
        The name of a directory gives a partition column a value that is none of its type.
    SchemaError
        The columns of a file do not fit those of the table.
    CorruptDataFileError
        A file cannot be decoded.
    """
    with transaction.operation("add files") as operation:
        if transaction.is_done:
            return
        places = listed(paths)
        files = [one for path in places for one in _files_at(transaction.store, path)]
        if not files:
            shown = ", ".join(map(str, places))
            raise InvalidArgumentError(f"there are no files to add: {shown:.200}", hint="check the paths")
        if check_duplicates:
            _refuse_known(transaction, [one.path for one in files])
        footers = footers_of(transaction.store, files, transaction.metadata.format_version, transaction.tell)
        operation.rows.inserted = _add(transaction, files, footers)


def add_found_files(
    transaction: Transaction, files: Sequence[FoundFile], footers: Mapping[str, Footer], root: Location
) -> None:
    """Add the files of a directory to a table, as `add_existing_files` does, whose footers were read before.

    Parameters
    ----------
    footers
        The footers of Parquet files by their paths.
    root
        The directory. Only the names of directories below it show values, which no file has itself.

    Raises
    ------
    InvalidArgumentError
        A file has a column whose value the name of its directory shows: readers would take that of the file.
    """
    with transaction.operation("add files") as operation:
        operation.rows.inserted = _add(transaction, files, footers, root.path.rstrip("/"))


def _add(
    transaction: Transaction, files: Sequence[FoundFile], footers: Mapping[str, Footer], above: str | None = None
) -> int:
    """Add files, and return how many rows they have."""
    contents = _Contents(transaction, extend_name_mapping(transaction), above)
    entries = _entries(contents, contents.files(files, footers))
    transaction.add_entries(entries)
    return entries.rows


def _files_at(stores: StoreSpec, path: str) -> Iterator[FoundFile]:
    """Yield a file, or all files below a directory, but for those that Spark ignores."""
    place = parse_location(path)
    store = stores.open(place)
    try:
        meta = store.head(place.path)
    except ObjectNotFoundError:
        for inside, one in files_below(place, stores).files:
            yield found_file(place.join(inside), stores, one)
    else:
        yield found_file(place, stores, meta)


def found_file(place: Location, stores: StoreSpec, meta: ObjectMeta) -> FoundFile:
    """Return a file with its format, which is that of its name or else of its first bytes."""
    return FoundFile(str(place), place, meta, _format_of(place, stores.open(place), meta))


def footers_of(stores: StoreSpec, files: Sequence[FoundFile], version: int, told: Told) -> dict[str, Footer]:
    """Return the footers of the Parquet files among some files, by their paths, for tables of a format version.

    Parameters
    ----------
    told
        What is told how many footers were read.
    """

    def own_type(found: pa.DataType) -> DataType | None:
        """Return the type of a column that tables of other formats cannot hold."""
        # Iceberg spec, "Parquet": times have microseconds. Other engines read no others.
        return None if pt.is_time(found) and found.unit != "us" else own_types(version)(found)

    parquet = [one for one in files if one.format == "parquet"]
    footers = read_footers(((stores.open(one.place), one.meta) for one in parquet), own_type, told)
    return {one.path: footer for one, footer in zip(parquet, footers, strict=True)}


def _format_of(place: Location, store: Storage, meta: ObjectMeta) -> str:
    """Return the format of a file by its name, or by its first bytes: files of Hive have no suffix."""
    suffix = place.path.rpartition(".")[2].lower()
    if suffix in FORMATS:
        return suffix
    (start,) = store.get_ranges(meta.path, [(0, _MAGIC_BYTES)])
    return next((name for magic, name in _MAGICS.items() if start.startswith(magic)), "parquet")


def _refuse_known(transaction: Transaction, paths: Sequence[str]) -> None:
    known = set(transaction.source.select_files(TRUE).files.column("path").to_pylist())
    for files in transaction.pending.added:
        known.update(files.entries.column("file_path").to_pylist())
    places = {transaction.resolver.resolve(path) for path in known}
    for path in paths:
        place = transaction.resolver.resolve(path)
        if place in places:
            raise InvalidArgumentError(f"the table has the file {path} already", hint="pass every file once")
        places.add(place)


class _Contents:
    """The facts of files that are added, for the columns that the table has now."""

    def __init__(self, transaction: Transaction, names: NameMapping, above: str | None) -> None:
        self._above = above
        metadata = transaction.metadata
        self.metadata = metadata
        self.schema = metadata.current_schema.struct
        self.spec = metadata.specs[metadata.default_spec_id]
        self.modes = metrics_modes(self.schema, metadata.properties)
        self._names = names
        self._store = transaction.store
        self._tell = transaction.tell
        self._table = transaction.source.table
        self._paths = leaf_paths(self.schema)
        self._numbers = {path[-1].id: number for number, path in self._paths.items()}

    @cached_property
    def partition(self) -> Struct:
        """The partition fields."""
        return partition_struct(self.spec, self.metadata.known_columns)

    def files(self, files: Sequence[FoundFile], footers: Mapping[str, Footer]) -> list[WrittenFile]:
        """Describe files, in their order."""
        # Formats without footers are read whole, which takes the memory of as many files.
        return map_in_order(_FILES_AT_A_TIME, lambda one: self._file(one, footers.get(one.path)), files)

    def _file(self, one: FoundFile, footer: Footer | None) -> WrittenFile:
        with in_context(file=one.path):
            shown = self._shown_values(one)
            rows, held, stats = self._of_rows(one, shown) if footer is None else self._of_footer(footer, shown)
            # What a file holds itself is what readers read.
            held_by_file = {child.id for child in self.schema if held.get(child.name) is not None}
            if self._above is not None and held_by_file & shown.keys():
                raise InvalidArgumentError(
                    "the file has a column of which the name of its directory shows the value",
                    hint="write the rows to a new table",
                    column=next(child.name for child in self.schema if child.id in held_by_file & shown.keys()),
                )
            shown = {number: value for number, value in shown.items() if number not in held_by_file}
            stats = stats.without(self._numbers[number] for number in shown)
            values = {
                part.name: self._partition_value(part, rows, stats, shown).cast(arrow_type(target.type))
                for part, target in zip(self.spec.fields, self.partition, strict=True)
            }
        self._tell(0 if footer is not None else 1, rows=rows)
        facts = FooterFacts() if footer is None else FooterFacts(footer.split_offsets)
        return WrittenFile(one.path, one.meta.size, rows, one.meta.modified, values, *stats, facts, one.format)

    def _shown_values(self, one: FoundFile) -> dict[int, pa.Scalar]:
        """Return the values that the names of directories give to sources of identity fields, by the ids of columns."""
        columns_by_name: dict[str, dict[int, Field]] = {}
        for part in self.spec.fields:
            source = path_to_id(self.schema, part.source_id)
            if len(source) == 1 and isinstance(parse_transform(part.transform), Identity):
                column = {part.source_id: source[0]}
                columns_by_name.update({part.name.lower(): column, source[0].name.lower(): column})
        inside = one.place.path.removeprefix(self._above or "")
        directories = inside.split("/")[:-1] if columns_by_name else ()
        return {
            number: _shown_value(column, text)
            for _, name, text in named_values(one.path, directories)
            for number, column in columns_by_name.get(name.lower(), {}).items()
        }

    def _of_footer(self, footer: Footer, shown: Container[int]) -> tuple[int, Struct, FileStatistics]:
        held = iceberg_columns(footer.columns)
        if footer.has_ids:
            held = named_by_ids(self.metadata, held, footer.schema)
        required = columns_without_nulls(
            self.metadata, held, self._names, shown, has_ids=footer.has_ids, format="parquet"
        )
        names = _names_by_id(footer.schema, ()) if footer.has_ids else {}
        leaves = {
            number: (names.get(path[-1].id, tuple(part.name for part in path)), arrow_type(path[-1].type))
            for number, path in self._paths.items()
        }
        known = footer_statistics(footer, leaves)
        self._check_nulls(required, known)
        return footer.rows, held, known

    def _of_rows(self, one: FoundFile, shown: Container[int]) -> tuple[int, Struct, FileStatistics]:
        held, required = Struct(), list[tuple[Field, ...]]()

        def check(file_schema: pa.Schema) -> None:
            nonlocal held
            held = given_columns(file_schema, self.metadata.format_version)
            has_ids = has_field_ids(file_schema)
            if has_ids:
                held = named_by_ids(self.metadata, held, file_schema)
            required.extend(
                columns_without_nulls(self.metadata, held, self._names, shown, has_ids=has_ids, format=one.format)
            )

        columns = Struct(tuple(nullable_field(child) for child in self.schema if child.name in self._wanted))
        layout = FileLayout(by_id=True, name_mapping=self._names)
        spec = ReadSpec(self._table, self._store, columns, Struct(()), layout)
        task = FileTask(str(one.place), one.format, one.meta.size, None, 0, one.meta.size, None, False)
        rows, known = row_statistics(spec, task, StatisticsPlan(self.schema, self._wanted), check)
        self._check_nulls(required, known)
        return rows, held, known

    @cached_property
    def _wanted(self) -> frozenset[str]:
        """The columns that have to be read of files without footers."""
        sources = [path_to_id(self.schema, part.source_id) for part in self.spec.fields]
        measured = leaves_with_metrics(self.schema, self.modes)
        known = self._paths.items()
        paths = [path for number, path in known if number in measured or not all(part.nullable for part in path)]
        return frozenset(path[0].name for path in (*paths, *(path for path in sources if path)))

    def _partition_value(
        self, part: PartitionField, rows: int, stats: FileStatistics, shown: Mapping[int, pa.Scalar]
    ) -> pa.Scalar:
        """Return the partition value that all rows of a file have, as its statistics or its directories prove it.

        Raises
        ------
        InvalidArgumentError
            The rows may have several values.
        """
        transform, source = parse_transform(part.transform), path_to_id(self.schema, part.source_id)
        if isinstance(transform, Void) or not source:
            return pa.scalar(None)
        if part.source_id in shown:
            return transform.apply(pa.repeat(shown[part.source_id], 1), source[-1].type)[0]
        number, kind = self._numbers.get(part.source_id, -1), source[-1].type
        nulls, lower, upper = (facts.get(number) for facts in (stats.null_count, stats.lower, stats.upper))
        if rows and nulls == rows:
            return pa.scalar(None)
        has_nan = kind in _FLOATS and stats.nan_count.get(number) != 0
        if lower is not None and upper is not None and nulls == 0 and not has_nan:
            bounds = pa.concat_arrays([pa.repeat(bound, 1) for bound in (lower, upper)])
            if pc.equal(bounds[0], bounds[1]).as_py() or not isinstance(transform, (Bucket, Unknown, Identity)):
                first, last = transform.apply(bounds, kind)
                if pc.equal(first, last).as_py():
                    return first
        if nulls is None and lower is None and upper is None:
            name = join_name(tuple(step.name for step in source))
            raise InvalidArgumentError(
                f"the file has no statistics of the column {name}, from which the field {part.name!r} is made",
                hint="name the directory of the file by the column and its value, as Hive does, if the field takes the "
                "column as it is; otherwise append the rows of the file with the column",
            )
        raise InvalidArgumentError(
            f"the rows of the file may belong to several partitions of the field {part.name!r}",
            hint="read the file, and append its rows",
        )

    def _check_nulls(self, required: Sequence[tuple[Field, ...]], known: FileStatistics) -> None:
        for path in required:
            if known.null_count.get(self._numbers.get(path[-1].id, -1)) != 0:
                name = join_name(tuple(part.name for part in path))
                raise SchemaError("the column is required, but may hold nulls in the file", column=name)


def _shown_value(column: Field, text: str | None) -> pa.Scalar:
    """Return the value of a column that the name of a directory shows."""
    kind = arrow_type(column.type)
    if text is None:
        if not column.nullable:
            raise SchemaError("the column is required, but null by the name of the directory", column=column.name)
        return pa.scalar(None, kind)
    if not isinstance(column.type, Decimal) and column.type not in _SHOWN:
        raise InvalidArgumentError(
            f"values of the type {column.type} cannot be read from the names of directories, as of {column.name!r}",
            hint="append the rows of the file with the column",
        )
    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowInvalid as error:
        raise InvalidPartitionValueError(
            f"{shown_value(text)} in the name of the directory is not a value of the type {column.type}",
            column=column.name,
        ) from error


def _names_by_id(within: pa.Schema | pa.StructType, above: tuple[str, ...]) -> dict[int | None, tuple[str, ...]]:
    """Return the names that lead to the columns of a file outside of lists and maps, by their field ids."""
    names = {}
    for child in within:
        path = (*above, child.name)
        names[field_id(child)] = path
        if pt.is_struct(child.type):
            names.update(_names_by_id(child.type, path))
    return names


def _entries(contents: _Contents, files: Sequence[WrittenFile]) -> AddedFiles:
    rows = written_rows(files, contents.schema, list(contents.partition), footers=True)
    entries = added_entries(rows, "", contents.schema, contents.partition, contents.modes)
    return AddedFiles(contents.spec, contents.partition, with_columns(entries, file_path=rows.column("path")))
