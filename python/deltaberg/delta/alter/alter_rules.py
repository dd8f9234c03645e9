"""Changing the rules of a table for its rows: CHECK constraints, and the default values of columns.

Delta protocol, "CHECK Constraints" and "Default Columns".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any, TypeVar

from deltaberg.delta.properties.protocols import raised_protocol
from deltaberg.delta.scan.source import SnapshotSource
from deltaberg.delta.schema.enforce import columns_of, constraint_check, default_value
from deltaberg.delta.schema.new_columns import MAX_COLUMN_ID, ColumnNumbers
from deltaberg.delta.schema.schema_json import SchemaDocument, recorded_column
from deltaberg.delta.schema.writer_rules import (
    CURRENT_DEFAULT,
    check_constraints,
    column_invariants,
    generation_expressions,
    identity_columns,
)
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.delta.transaction.transaction import Transaction
from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.schema.columns import ColumnName, find_column, join_name
from deltaberg.schema.types import Field, Struct
from deltaberg.signatures import public
from deltaberg.table.arguments import checked_text
from deltaberg.table.commit.commit import CommitResult
from deltaberg.table.read.bound import BoundScan
from deltaberg.table.read.scan_options import scan_options
from deltaberg.table.transaction.operation import RowNumbers
from deltaberg.table.verbs.alteration import TableAlteration, one_step

__all__ = ["RuleAlteration", "constraint_property", "refuse_referenced"]

_CONSTRAINT = "delta.constraints."

_Alteration = TypeVar("_Alteration", bound="RuleAlteration")


def constraint_property(name: str) -> str:
    """Return the table property that holds a CHECK constraint. Other engines look for it in lower case."""
    return _CONSTRAINT + name.lower()


def _refuse_taken(name: str, properties: Mapping[str, str]) -> None:
    """Refuse the name of a constraint that is no text, empty or taken.

    Raises
    ------
    InvalidArgumentError
        It is.
    """
    checked_text("the name of a constraint", name, "name the constraint")
    if name.lower() in {known.lower() for known in check_constraints(properties)}:
        raise InvalidArgumentError(f"there is a constraint {name} already", hint="drop it first")


def _check_rows(table: Snapshot, name: str, text: str, timezone: str) -> None:
    """Refuse a CHECK constraint that a row of the table violates.

    Raises
    ------
    ConstraintViolationError
        A row violates it.
    ColumnNotFoundError, ExpressionError
        The condition is not valid, or cannot be evaluated exactly.
    """
    check = constraint_check(table.schema, name, text, timezone)
    if not len(table.live.table):
        return
    columns = list(check.columns) or [table.schema.fields[0].name]
    read = Struct(tuple(child for child in table.schema if child.name in columns))
    check = constraint_check(read, name, text, timezone)
    names = [(name,) for name in read.names]
    source = SnapshotSource(table, timezone)
    for batch in BoundScan.of(source, columns=names, options=scan_options(None, {}, timezone)).batches():
        check.apply(batch)


def refuse_referenced(table: Snapshot, path: Sequence[Field], what: str) -> None:
    """Refuse to change a column that an expression of a constraint or of another column names.

    Raises
    ------
    SchemaError
        One does, or an identity column or a generated column would get another type.
    """
    schema = table.schema
    column_path = tuple(field.name for field in path)
    shown = join_name(column_path)
    if what == "widened" and ".".join(column_path) in identity_columns(schema):
        raise SchemaError("an identity column has the type long, and cannot be widened", column=shown)
    if what == "widened" and ".".join(column_path) in generation_expressions(schema):
        raise SchemaError("a generated column has the type of its expression, and cannot be widened", column=shown)
    kinds = {
        "the CHECK constraint": check_constraints(table.metadata.configuration),
        "the generated column": generation_expressions(schema),
        "the invariant of": column_invariants(schema),
    }
    # An invariant goes with its column.
    own = ".".join(column_path) if what == "dropped" else None
    rules = {
        f"{kind} {name}": text
        for kind, found in kinds.items()
        for name, text in found.items()
        if own is None or not f"{name}.".startswith(f"{own}.") or kind == "the CHECK constraint"
    }
    for rule, named in columns_of(schema, rules):
        if named[: len(column_path)] == column_path[: len(named)]:
            raise SchemaError(
                f"the column cannot be {what}, because {rule} names it",
                hint="drop the rule first",
                column=shown,
            )


@public
class RuleAlteration(TableAlteration[Transaction]):
    """The part of `Alteration` that changes the rules of a table for its rows."""

    def __init__(self, transaction: Transaction, *, is_part: bool = False) -> None:
        super().__init__(transaction, is_part=is_part)
        #: What the history says of the step that is being made.
        self._parameters: dict[str, str] = {}
        #: How many rows the step writes.
        self._rows = RowNumbers()
        #: The columns that the same commit adds.
        self._added: set[str] = set()

    @contextmanager
    def _step(self, name: str, *, waits: bool = False) -> Iterator[None]:
        with self._transaction.operation(name) as made:
            self._parameters, self._rows = made.parameters, made.rows
            yield

    def _commit(self) -> CommitResult:
        return self._transaction.commit(self._steps[0] if len(set(self._steps)) == 1 else "ALTER TABLE")

    @property
    def _snapshot(self) -> Snapshot:
        """The table as the changes leave it, as far as they go."""
        return self._transaction.snapshot

    def _document(self) -> SchemaDocument:
        return SchemaDocument(self._snapshot.metadata.schema_string or "")

    def _raise_protocol(self, features: AbstractSet[str]) -> None:
        table = self._snapshot
        protocol = raised_protocol(features, table.protocol)
        if protocol is not table.protocol:
            self._transaction.set_protocol(protocol)

    def _set_schema(
        self,
        document: SchemaDocument,
        numbers: ColumnNumbers | None = None,
        members: Mapping[str, Any] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        metadata = self._snapshot.metadata.with_members({"schemaString": document.to_json(), **(members or {})})
        if properties:
            metadata = metadata.with_properties(properties)
        if numbers is not None:
            metadata = metadata.with_properties({MAX_COLUMN_ID: str(numbers.highest)})
        self._transaction.set_metadata(metadata)

    @one_step("ADD CONSTRAINT")
    def add_constraint(self: _Alteration, name: str, condition: str) -> None:  # noqa: PYI019 - the decorator binds it
        """Add a CHECK constraint, which every row must fulfil, after all rows that are there were checked.

        Parameters
        ----------
        name
            The name of the constraint, which is kept in lower case.
        condition
            A condition as SQL text in Spark's dialect, such as ``price > 0``. A row for which it is null is refused.

        Raises
        ------
        ConstraintViolationError
            A row of the table violates it.
        ColumnNotFoundError, ExpressionError
            The condition is not valid, or cannot be evaluated exactly.
        InvalidArgumentError
            There is such a constraint.

        Examples
        --------
        >>> table.alter().add_constraint("some", "id > 0").commit().committed
        True
        >>> table.check_constraints
        {'some': 'id > 0'}
        >>> import pyarrow as pa
        >>> table.append(pa.table({"id": [0]}))
        Traceback (most recent call last):
            ...
        deltaberg.errors.ConstraintViolationError: a row violates the CHECK constraint some: id=0 (...)
        hint: leave the row out, or change the rule of the table
        """
        self._add_constraint(name, condition)
        self._parameters |= {"name": name, "expr": condition}

    def _add_constraint(self, name: str, condition: str) -> None:
        checked_text("the condition of a constraint", condition, "pass SQL text, such as id > 0")
        table = self._snapshot
        _refuse_taken(name, table.metadata.configuration)
        _check_rows(table, name, condition, self._transaction.timezone)
        # Rows that others add meanwhile were not checked.
        self._transaction.read()
        self._raise_protocol({"checkConstraints"})
        metadata = self._snapshot.metadata.with_properties({constraint_property(name): condition})
        self._transaction.set_metadata(metadata)

    @one_step("DROP CONSTRAINT")
    def drop_constraint(self: _Alteration, name: str) -> None:  # noqa: PYI019 - the decorator binds it
        """Drop a CHECK constraint.

        Raises
        ------
        InvalidArgumentError
            There is none of this name.
        """
        checked_text("the name of a constraint", name, "name the constraint")
        known = self._snapshot.metadata.configuration
        wanted = [key for key in known if key.lower() == constraint_property(name)]
        if not wanted:
            raise InvalidArgumentError(f"the table has no constraint {name}")
        self._parameters |= {"name": name, "expr": known[wanted[0]], "existed": "true"}
        self._transaction.set_metadata(self._snapshot.metadata.with_properties(dict.fromkeys(wanted)))

    @one_step("CHANGE COLUMN")
    def set_default(self: _Alteration, name: ColumnName, value: str | None) -> None:  # noqa: PYI019 - the decorator binds it
        """Set the default value of a column, which rows get that do not have the column; None takes it away.

        Parameters
        ----------
        name
            The name of a column that earlier versions have.
        value
            An expression as SQL text in Spark's dialect, such as ``42`` or ``current_timestamp()``.

        Raises
        ------
        ColumnNotFoundError, ExpressionError
            The expression names a column, is not valid, or cannot be evaluated exactly.
        InvalidArgumentError
            The column is added by the same commit, or is a field of a struct.
        """
        path = find_column(self._snapshot.schema, name)
        shown = join_name([field.name for field in path])
        if len(path) > 1:
            raise InvalidArgumentError("only columns of the table have default values", column=shown)
        if shown in self._added:
            raise InvalidArgumentError(
                "a column gets no default value in the commit that adds it",
                hint="commit, and set it then",
                column=shown,
            )
        document = self._document()
        metadata = document.field(path[0].name)["metadata"]
        if value is None:
            metadata.pop(CURRENT_DEFAULT, None)
        else:
            checked_text("a default value", value, "pass SQL text, such as 42 in quotes, or None to take it away")
            default_value(self._snapshot.schema, path[0], value)
            self._raise_protocol({"allowColumnDefaults"})
            metadata[CURRENT_DEFAULT] = value
        self._parameters["column"] = recorded_column(document, path)
        self._set_schema(document)
