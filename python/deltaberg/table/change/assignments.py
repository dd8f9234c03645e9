"""New values of columns, computed from the rows of one relation or of two."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from deltaberg.errors import ColumnNotFoundError, InvalidArgumentError
from deltaberg.expressions.bind.bind import BoundValue, Relation, bind_value
from deltaberg.schema.arrow import arrow_field, arrow_schema
from deltaberg.schema.columns import ColumnName, ColumnValues, find_column, join_name
from deltaberg.schema.types import DataType, Field, Primitive, Struct

__all__ = ["Assignments", "bind_assignments", "checked_values"]


class Assignments:
    """New values of columns, bound to the rows from which they are computed.

    Parameters
    ----------
    schema
        The columns of the table.
    values
        The value of each column or field of a struct that gets one, by its path.
    """

    def __init__(self, schema: Struct, values: Mapping[tuple[str, ...], BoundValue]) -> None:
        self._schema = schema
        #: The value of each path.
        self.values = values
        self._arrow = arrow_schema(schema)
        #: The columns that get a value, or of whose fields one does.
        self.columns = frozenset(path[0] for path in values)

    def apply(self, rows: pa.RecordBatch, scope: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the new values.

        Parameters
        ----------
        rows
            The rows as they are, with the columns of the table.
        scope
            The rows that values are computed from: as many, with all columns that the values were bound to.

        Raises
        ------
        EvaluationError
            The value of a row cannot be computed, or does not fit its column.
        """
        arrays = [
            self._column(field, rows.column(index), (field.name,), scope) for index, field in enumerate(self._schema)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)

    def _column(self, field: Field, old: pa.Array, path: tuple[str, ...], scope: pa.RecordBatch) -> pa.Array:
        value = self.values.get(path)
        if value is not None:
            return value.evaluate(scope)
        is_inside = any(other[: len(path)] == path for other in self.values)
        if not is_inside or not isinstance(field.type, Struct):
            return old
        # As for Spark, a struct that was null becomes one whose other fields are null.
        parts = old.flatten()
        children = [
            self._column(child, parts[index], (*path, child.name), scope) for index, child in enumerate(field.type)
        ]
        return pa.StructArray.from_arrays(children, fields=[arrow_field(child) for child in field.type])


def bind_assignments(
    schema: Struct,
    values: ColumnValues,
    relations: Sequence[Relation] | Struct,
    *,
    completes: bool = False,
    timezone: str = "UTC",
    now: dt.datetime | None = None,
    beside: Sequence[Relation] = (),
) -> Assignments:
    """Bind new values of columns. Fields of structs are matched by name at any depth, as in rows that are appended.

    Parameters
    ----------
    schema
        The columns of the table.
    values
        SQL text, an expression or a Python literal for each column, by its name. Dots lead into structs.
    relations
        The columns that the values may use, as `bind_value` takes them.
    completes
        Whether structs may lack fields, which become null.
    timezone
        The zone of dates and of timestamps without one.
    now
        The time that ``current_timestamp()`` returns.
    beside
        As for `bind_value`.

    Raises
    ------
    InvalidArgumentError
        A column has two values.
    ExpressionError, ColumnNotFoundError
        A value is not valid, or does not fit the type of its column.
    SchemaError
        A struct has a field that its column lacks, or lacks one that must not be null.
    """
    bound: dict[tuple[str, ...], BoundValue] = {}
    for name, value in values.items():
        fields = find_column(schema, name)
        path = tuple(field.name for field in fields)
        for other in bound:
            if other[: len(path)] == path or path[: len(other)] == other:
                raise InvalidArgumentError(f"the column {join_name(path)} is set twice", column=join_name(path))
        with _naming_quotes(value, fields[-1].type):
            bound[path] = bind_value(
                value,
                relations,
                target=fields[-1].type,
                by_name=True,
                completes=completes,
                timezone=timezone,
                now=now,
                column=join_name(path),
                beside=beside,
            )
    return Assignments(schema, bound)


@contextmanager
def _naming_quotes(value: Any, want: DataType) -> Iterator[None]:
    """Let the error of a text that names no column also say how a text is written: what is given is SQL."""
    try:
        yield
    except ColumnNotFoundError as error:
        if isinstance(value, str) and value.isidentifier() and want == Primitive("string"):
            columns = f"; {error.hint}" if error.hint else ""
            error.hint = f"quote a text twice, as in \"'{value}'\": what is given is SQL{columns}"
        raise


def checked_values(values: Any) -> dict[ColumnName, Any]:
    """Refuse new values that are no mapping of columns, or of none.

    Examples
    --------
    >>> checked_values({"price": "price * 2"})
    {'price': 'price * 2'}
    """
    hint = 'pass columns with SQL for their values, such as {"price": "price * 2"}'
    if not isinstance(values, Mapping):
        kind = type(values).__name__
        raise InvalidArgumentError(f"the new values are of the type {kind}, not a dict of columns", hint=hint)
    if not values:
        raise InvalidArgumentError("no column gets a new value", hint=hint)
    return dict(values)
