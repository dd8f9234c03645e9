"""Creating tables, in the words of delta-spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NoReturn, TypeVar, cast

from pyspark.sql.types import DataType, StructField, StructType

from deltaberg.api import create_table
from deltaberg.delta.schema.schema import parse_schema
from deltaberg.delta.table import DeltaTable as Table
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.spark.session import SessionFacts
from deltaberg.spark.types import output_schema, quoted_name
from deltaberg.storage import StoreOptions

__all__ = ["DeltaTableBuilder", "IdentityGenerator"]

_Opened = TypeVar("_Opened")
_GENERATED = "delta.generationExpression"


@dataclass(frozen=True)
class IdentityGenerator:
    """Which values an identity column gets: the first one, and the distance from one to the next."""

    start: int = 1
    step: int = 1


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
            The column is generated in two ways, or in none that there is.
        """
        ddl = f"{quoted_name(colName)} {dataType}"
        kind = output_schema(self._facts.session, ddl)[0].dataType if isinstance(dataType, str) else dataType
        metadata: dict[str, Any] = {} if comment is None else {"comment": comment}
        if generatedAlwaysAs is not None and generatedByDefaultAs is not None:
            raise InvalidArgumentError("the column is generated in two ways", hint="pass one of them", column=colName)
        if isinstance(generatedAlwaysAs, str):
            metadata[_GENERATED] = generatedAlwaysAs
        elif generatedAlwaysAs is not None or generatedByDefaultAs is not None:
            given = generatedByDefaultAs if generatedAlwaysAs is None else generatedAlwaysAs
            metadata |= _identity(given, colName, may_insert=generatedByDefaultAs is not None)
        return self._add(StructField(colName, kind, nullable), metadata)

    def addColumns(self, cols: StructType | Sequence[StructField]) -> DeltaTableBuilder[_Opened]:
        """Add columns of PySpark, with their metadata."""
        for field in cols:
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
            partition_by=[(name,) for name in self._partition_by],
            cluster_by=list(self._cluster_by),
            properties=self._properties,
            description=self._comment,
            if_exists=cast("Literal['error', 'ignore', 'replace']", self._if_exists.removeprefix("must ")),
            storage_options=self._store,
        )
        return self._opened(self._location, self._store)

    def _add(self, field: StructField, metadata: dict[str, Any]) -> DeltaTableBuilder[_Opened]:
        # Delta's schemas have the form of Spark's.
        document = json.loads(field.json())
        document["metadata"] |= metadata
        self._fields.append(document)
        return self


def _identity(given: object, name: str, *, may_insert: bool) -> dict[str, Any]:
    if not isinstance(given, IdentityGenerator):
        raise InvalidArgumentError(
            f"the column {name} is generated by {type(given).__name__}",
            hint="pass SQL text, or an IdentityGenerator",
            column=name,
        )
    return {
        "delta.identity.start": given.start,
        "delta.identity.step": given.step,
        "delta.identity.allowExplicitInsert": may_insert,
    }


def _names(given: Sequence[str | Sequence[str]]) -> tuple[str, ...]:
    """Return names that are given one by one, or as one list."""
    if len(given) == 1 and not isinstance(given[0], str):
        return tuple(given[0])
    return tuple(str(name) for name in given)
