"""Creating tables, in the words of delta-spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar, cast

from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from deltaberg.api.writing import create_table
from deltaberg.choices import IfExists
from deltaberg.delta.schema.schema import parse_schema
from deltaberg.delta.schema.text_types import TEXT_TYPE
from deltaberg.delta.table import DeltaTable as Table
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.lists import listed
from deltaberg.signatures import public
from deltaberg.spark.hints import in_delta_words
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.types import output_schema, quoted_name, table_type
from deltaberg.storage.options.options import StoreOptions

__all__ = ["DeltaTableBuilder", "IdentityGenerator"]

_Opened = TypeVar("_Opened")
_GENERATED = "delta.generationExpression"
_LENGTH = re.compile(r"\s*(var)?char\s*\(\s*([0-9]{1,9})\s*\)\s*", re.IGNORECASE)


@public
@dataclass(frozen=True)
class IdentityGenerator:
    """Which values an identity column gets: the first one, and the distance from one to the next."""

    start: int = 1
    step: int = 1


@public
class DeltaTableBuilder(Generic[_Opened]):
    """A table to be created, or to be replaced. Each method returns the object itself, until `execute`.

    Parameters
    ----------
    facts
        The session.
    if_exists
        What becomes of a table that is there already.
    opened
        What opens the table in the end.
    """

    def __init__(
        self, facts: SessionFacts, if_exists: str, opened: Callable[[str, StoreOptions | None], _Opened]
    ) -> None:
        self._facts = facts
        self._if_exists = if_exists
        self._opened = opened
        self._location: str | None = None
        self._store: StoreOptions | None = None
        self._comment: str | None = None
        self._fields: list[dict[str, Any]] = []
        self._partition_by: tuple[str, ...] = ()
        self._cluster_by: tuple[str, ...] = ()
        self._properties: dict[str, str] = {}

    def tableName(self, identifier: str) -> NoReturn:
        """Refuse: tables have no names without a catalog of Spark.

        Raises
        ------
        UnsupportedFeatureError
            Always.
        """
        raise UnsupportedFeatureError(
            f"the table cannot be named {identifier}, since this library does not write to catalogs of Spark",
            hint='say where the table is: location("/data/orders")',
        )

    def location(self, location: str, *, storage_options: StoreOptions | None = None) -> DeltaTableBuilder[_Opened]:
        """Say in which directory the table is.

        Parameters
        ----------
        storage_options
            Options of the store, as for `deltaberg.open_table`.
        """
        self._location, self._store = location, storage_options
        return self

    def comment(self, comment: str) -> DeltaTableBuilder[_Opened]:
        """Describe the table."""
        self._comment = comment
        return self

    def addColumn(
        self,
        colName: str,
        dataType: str | DataType,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder[_Opened]:
        """Add a column.

        Parameters
        ----------
        colName
            Its name.
        dataType
            Its type, as DDL text or as a type of PySpark.
        nullable
            Whether it may be null.
        generatedAlwaysAs
            The expression by which its value is computed of other columns, or the values of an identity column.
        generatedByDefaultAs
            The values of an identity column that rows may also have values for.
        comment
            What the schema says about it.

        Raises
        ------
        InvalidArgumentError
            The column is generated in two ways, or in none that there is, or an argument is of another type.
        UnsupportedFeatureError
            Tables have no such type.
        """
        _check(colName, str, "the name of a column")
        _check(dataType, (str, DataType), f"the type of the column {colName}")
        kind = self._parsed(colName, dataType) if isinstance(dataType, str) else dataType
        metadata: dict[str, Any] = {} if comment is None else {"comment": comment}
        if generatedAlwaysAs is not None and generatedByDefaultAs is not None:
            raise InvalidArgumentError("the column is generated in two ways", hint="pass one of them", column=colName)
        if isinstance(generatedAlwaysAs, str):
            metadata[_GENERATED] = generatedAlwaysAs
        elif generatedAlwaysAs is not None or generatedByDefaultAs is not None:
            given = generatedByDefaultAs if generatedAlwaysAs is None else generatedAlwaysAs
            metadata |= _identity(given, colName, kind, may_insert=generatedByDefaultAs is not None)
        return self._add(StructField(colName, kind, nullable), metadata)

    def addColumns(self, cols: StructType | Sequence[StructField]) -> DeltaTableBuilder[_Opened]:
        """Add columns of PySpark, with their metadata.

        Raises
        ------
        InvalidArgumentError
            They are neither a StructType nor StructFields.
        UnsupportedFeatureError
            Tables have no such type.
        """
        _check(cols, (StructType, list, tuple), "the columns")
        for field in cols:
            _check(field, StructField, "a column")
            self._add(field, {})
        return self

    def partitionedBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder[_Opened]:
        """Keep rows with different values of these columns in files of their own."""
        self._partition_by = _names(cols)
        return self

    def clusterBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder[_Opened]:
        """Record by which columns engines cluster the rows."""
        self._cluster_by = _names(cols)
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder[_Opened]:
        """Set a table property."""
        self._properties[key] = value
        return self

    @in_delta_words
    def execute(self) -> _Opened:
        """Create or replace the table; see `deltaberg.create_table` for errors.

        Raises
        ------
        InvalidArgumentError
            It was not said where the table is.
        TableNotFoundError
            There is no table to be replaced.
        """
        if self._location is None:
            raise InvalidArgumentError("it is not said where the table is", hint='call location("/data/orders")')
        if self._if_exists == "must replace":
            Table(self._location, storage_options=self._store)
        text = json.dumps({"type": "struct", "fields": self._fields})
        create_table(
            self._location,
            parse_schema(text),
            format="delta",
            partition_by=[(name,) for name in self._partition_by],
            cluster_by=list(self._cluster_by),
            properties=self._properties,
            description=self._comment,
            if_exists=cast("IfExists", self._if_exists.removeprefix("must ")),
            storage_options=self._store,
        )
        return self._opened(self._location, self._store)

    def _parsed(self, name: str, ddl: str) -> DataType:
        length = _LENGTH.fullmatch(ddl)
        if length is not None:
            # Spark makes no DataFrame with such a column, by which other types are parsed.
            return (CharType if length[1] is None else VarcharType)(int(length[2]))
        parsed = output_schema(self._facts.session, f"{quoted_name(name)} {ddl}")
        # What follows a type in DDL text would be lost.
        if len(parsed) != 1 or not parsed[0].nullable or parsed[0].metadata:
            raise InvalidArgumentError(
                f"{ddl!r} says more than the type of a column",
                hint="pass nullable=False and comment= by themselves",
                column=name,
            )
        return parsed[0].dataType

    def _add(self, field: StructField, metadata: dict[str, Any]) -> DeltaTableBuilder[_Opened]:
        stored = _without_lengths(field.dataType)
        if table_type(stored) is None:
            raise UnsupportedFeatureError(
                f"a column of Spark's type {field.dataType.simpleString()} cannot be created", column=field.name
            )
        # Delta's schemas have the form of Spark's.
        document = json.loads(StructField(field.name, stored, field.nullable, field.metadata).json())
        document["metadata"] |= metadata
        if stored != field.dataType:
            document["metadata"][TEXT_TYPE] = field.dataType.simpleString()
        self._fields.append(document)
        return self


def _without_lengths(kind: DataType) -> DataType:
    """Return a type in which all texts are strings."""
    if isinstance(kind, (CharType, VarcharType)):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(_without_lengths(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        key, value = _without_lengths(kind.keyType), _without_lengths(kind.valueType)
        return MapType(key, value, kind.valueContainsNull)
    if isinstance(kind, StructType):
        return StructType(
            [StructField(one.name, _without_lengths(one.dataType), one.nullable, one.metadata) for one in kind]
        )
    return kind


def _identity(generator: object, name: str, kind: DataType, *, may_insert: bool) -> dict[str, Any]:
    if not isinstance(generator, IdentityGenerator):
        raise InvalidArgumentError(
            f"the column {name} is generated by {type(generator).__name__}",
            hint="pass SQL text, or an IdentityGenerator",
            column=name,
        )
    if not isinstance(kind, LongType) or generator.step == 0:
        found = "has the step 0" if isinstance(kind, LongType) else f"is of the type {kind.simpleString()}"
        raise InvalidArgumentError(
            f"the identity column {name} {found}", hint="make it a bigint, with a step other than 0", column=name
        )
    return {
        "delta.identity.start": generator.start,
        "delta.identity.step": generator.step,
        "delta.identity.allowExplicitInsert": may_insert,
    }


def _names(given: Sequence[str | Sequence[str]]) -> tuple[str, ...]:
    """Return names that are given one by one, or as one list."""
    names = listed(given[0]) if len(given) == 1 else given
    for name in names:
        _check(name, str, "the name of a column")
    return tuple(cast("Sequence[str]", names))


def _check(given: object, kind: type | tuple[type, ...], what: str) -> None:
    if not isinstance(given, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise InvalidArgumentError(
            f"{what} must be of the type {' or '.join(one.__name__ for one in kinds)}, not {type(given).__name__}"
        )
