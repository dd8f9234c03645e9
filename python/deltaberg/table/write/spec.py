"""The rules of a table for the files that are written for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.files.write.statistics import CutBounds
from deltaberg.files.write.write_parquet import ParquetOptions
from deltaberg.files.write.written import leaf_paths, written_schema
from deltaberg.hints import shown_value
from deltaberg.schema.columns import ColumnName, find_column
from deltaberg.schema.file_schema import StoredType
from deltaberg.schema.rows.conform import Conformer, ConformOptions
from deltaberg.schema.types import Field, List, Map, Struct
from deltaberg.table.rows.row_options import WAITING
from deltaberg.table.rows.row_rules import RowRules
from deltaberg.table.sort.order import OrderTerm

__all__ = ["PartitionField", "WriteSpec", "partition_columns"]


@dataclass(frozen=True)
class PartitionField:
    """A partition field: its name and type, the column that it is made from, and how.

    Parameters
    ----------
    field
        The partition field. Its physical name is that of directories.
    source
        The names from the root of the schema to the column that values come from.
    transform
        Makes partition values from an array of the column; None takes them as they are. It must be picklable for
        writes on Spark.
    """

    field: Field
    source: tuple[str, ...]
    transform: Callable[[pa.Array], pa.Array] | None = None


@dataclass(frozen=True)
class WriteSpec:
    """The rules of a table for the files that are written for it. It is small, and pickles.

    Parameters
    ----------
    schema
        The columns of the table.
    partition
        The partition fields, in order.
    conform
        What the caller allows when rows are conformed to the columns.
    parquet
        How Parquet files are written. Files of other formats have its codec.
    format
        The format of the files: ``parquet``, ``orc`` or ``avro``.
    target_size
        Bytes of a file, approximately.
    most_rows
        How many rows a file has at most; None if its bytes alone count.
    is_sized
        Whether the table or the caller asks for that size, rather than taking what is usual.
    statistics
        The numbers of the leaves to take statistics of (see `leaf_paths`); None for all.
    cut
        How bounds of texts and bytes are shortened; None keeps them whole.
    stores_partition_columns
        Whether files hold the columns that partition values are taken from unchanged. Files whose directories cannot
        show the values always do.
    partition_columns_last
        Whether these come after the other columns in files.
    required
        Whether fields that are not nullable are required in the files.
    own_types
        Returns the types of fields that are written in another one than that of their type; it pickles.
    footers
        Whether the rows that describe files also hold what footers tell.
    sort
        Sorts the rows of a file; None leaves rows in the order in which they come. It must be picklable for writes on
        Spark.
    order
        What ``sort`` sorts by, as far as rows can be divided by it.
    distribution
        How the rows of a DataFrame come to the tasks of Spark: ``hash`` brings the rows of a partition together, and
        ``range`` those that are near to each other by partition and then by ``order``; ``none`` leaves rows in their
        tasks.
    balanced
        Whether the rows of a DataFrame go to as few tasks as their size asks for, where nothing else brings them
        together.
    place
        Makes the path of a file, relative to the table, from its partition values and its number in the write. None for
        what the next three members say. It must be picklable for writes on Spark.
    directory
        The directory of the files, relative to the table; empty for the table itself.
    prefix
        What the names of files begin with.
    random_prefix
        How many random characters name the directory of a file, so that the requests of a store are spread; 0 for
        directories that show partition values.
    open_files
        How many files are open at a time at most.
    memory
        Bytes of rows that wait to be written, approximately.
    rules
        What fills columns that the rows lack, and the conditions that every row must fulfil.
    spool_directory
        Where rows wait on disk that arrive in no order of their partitions; None for the system's choice.
    """

    schema: Struct
    partition: Sequence[PartitionField] = ()
    conform: ConformOptions = field(default_factory=ConformOptions)
    parquet: ParquetOptions = field(default_factory=ParquetOptions)
    format: str = "parquet"
    target_size: int = 128 << 20
    most_rows: int | None = None
    is_sized: bool = False
    statistics: frozenset[int] | None = None
    cut: CutBounds | None = None
    stores_partition_columns: bool = False
    partition_columns_last: bool = False
    required: bool = False
    own_types: StoredType | None = None
    footers: bool = False
    sort: Callable[[pa.Table], pa.Table] | None = None
    order: Sequence[OrderTerm] = ()
    distribution: str = "hash"
    balanced: bool = False
    place: Callable[[Sequence[pa.Scalar], int], str] | None = None
    directory: str = ""
    prefix: str = "part"
    random_prefix: int = 0
    open_files: int = 32
    memory: int = WAITING
    spool_directory: str | None = None
    rules: RowRules | None = None

    def __post_init__(self) -> None:
        for name in ("target_size", "open_files", "memory"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidArgumentError(f"{name} must be a positive number, not {shown_value(value)}")
        if not self.stored and len(self.schema):
            raise SchemaError(
                "every column is a partition column, so that files would hold none",
                hint="leave at least one column out of the partitioning",
            )

    def no_files(self) -> pa.Table:
        """Return the table of written files without rows."""
        fields = [part.field for part in self.partition]
        return written_schema(self.schema, fields, footers=self.footers).empty_table()

    def has_statistics(self, path: tuple[Field, ...]) -> bool:
        """Return whether statistics of a column are taken, by the path of its fields."""
        names = [part.name for part in path]
        leaves = (number for number, known in leaf_paths(self.schema).items() if [part.name for part in known] == names)
        return any(self.statistics is None or number in self.statistics for number in leaves)

    def for_kept_rows(self, schema: Struct) -> WriteSpec:
        """Return what files ask for that hold rows of the table itself, which are taken as they are.

        Parameters
        ----------
        schema
            The columns of the rows: those of the table, and others behind them.
        """
        return replace(self, schema=schema, conform=replace(self.conform, takes_repeated_keys=True))

    def conformer(self, schema: pa.Schema, beside: Struct | None = None) -> Conformer:
        """Return what conforms rows of an Arrow schema to the columns. Those that are filled in may be missing.

        Parameters
        ----------
        beside
            Further columns of the rows, which no file holds.

        Raises
        ------
        SchemaError
            The rows do not fit the columns, whatever their values are.
        """
        columns = self._taken(schema)
        return Conformer(schema, columns if beside is None else Struct((*columns, *beside)), self.conform)

    def _taken(self, found: pa.Schema) -> Struct:
        filled = self.rules.filled if self.rules else frozenset()
        names = {name.lower() for name in found.names}
        missing = {name for name in filled if name.lower() not in names}
        if not missing:
            return self.schema
        return Struct(tuple(replace(child, nullable=True) if child.name in missing else child for child in self.schema))

    @property
    def stored(self) -> Struct:
        """The columns that files hold."""
        constant = {part.source for part in self.partition if part.transform is None}
        if self.stores_partition_columns:
            if not self.partition_columns_last:
                return self.schema
            return Struct(tuple(sorted(self.schema, key=lambda child: (child.name,) in constant)))
        return Struct(tuple(child for child in self.schema if (child.name,) not in constant))


def partition_columns(schema: Struct, names: Sequence[ColumnName]) -> tuple[PartitionField, ...]:
    """Return partition fields that take the values of top-level columns as they are.

    Raises
    ------
    ColumnNotFoundError
        If the table has no such column.
    SchemaError
        If a column is nested, is named twice, or has a type that has no partition values.

    Examples
    --------
    >>> from deltaberg.schema.types import Primitive
    >>> schema = Struct((Field("day", Primitive("date")), Field("x", Primitive("long"))))
    >>> [part.source for part in partition_columns(schema, ["day"])]
    [('day',)]
    """
    fields: list[PartitionField] = []
    for name in names:
        path = find_column(schema, name)
        child = path[-1]
        if len(path) > 1 or isinstance(child.type, (Struct, List, Map)) or str(child.type) in ("variant", "void"):
            raise SchemaError(
                f"a column of the type {child.type} cannot be a partition column"
                if len(path) == 1
                else "a nested field cannot be a partition column",
                column=".".join(part.name for part in path),
            )
        if any(child == other.field for other in fields):
            raise SchemaError("a column is named twice in the partitioning", column=child.name)
        fields.append(PartitionField(child, (child.name,)))
    return tuple(fields)
